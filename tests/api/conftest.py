import pytest

from lib.amqp_raw import AmqpRaw
from lib.client import Client
from lib.guards import HOUR, World
from lib.server import Server


@pytest.fixture(scope="module")
def guard_server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("guards") / "data").start()
    s.seconds = 0
    yield s
    s.stop()


@pytest.fixture
def world(guard_server):
    """A server that the test may restart, at a time that no test before it has seen."""
    w = World(guard_server, guard_server.seconds)
    yield w
    assert guard_server.is_running(), f"the server ended by itself\n{guard_server.stderr()}"
    w.client.check_conservation()
    guard_server.seconds = w.seconds + HOUR
    w.close()


@pytest.fixture(scope="module")
def amqp_server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("amqp") / "data", amqp="127.0.0.1:0", test_clock=False) as s:
        yield s


@pytest.fixture
def raw(amqp_server):
    """Opens bare connections. After the test the server is alive."""
    opened = []

    def connect():
        opened.append(AmqpRaw(amqp_server))
        return opened[-1]

    yield connect
    for r in opened:
        r.s.close()
    AmqpRaw(amqp_server).login().is_alive().s.close()
    assert Client(amqp_server).get("/healthz").status == 200


@pytest.fixture
def session(raw):
    return raw().login()
