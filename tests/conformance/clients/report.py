"""What the programs in Python share: lines about behaviours."""
import contextlib
import os
import sys
import traceback

URL, PREFIX = os.environ["AMQP_URL"], os.environ["PREFIX"]


@contextlib.contextmanager
def behaviour(name):
    """Everything after one that fails would fail, too, and only hide why."""
    try:
        yield
    except BaseException as e:
        print(f"not ok {name}: {type(e).__name__}: {e}".replace("\n", " "), flush=True)
        traceback.print_exc()
        os._exit(1)
    print(f"ok {name}", flush=True)


def restart():
    print("restart", flush=True)
    sys.stdin.readline()
