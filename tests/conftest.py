"""What the API and crash tests share: servers, clients, and what a failure shows."""
import itertools
import os
import pathlib
import signal
import sys

import hypothesis.configuration
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import server as server_module  # noqa: E402
from lib.client import T0, Client  # noqa: E402
from lib.server import NIXIE, ROOT, Server  # noqa: E402

hypothesis.configuration.set_hypothesis_home_dir(str(ROOT / ".hypothesis"))
names = itertools.count(1)

# A run in the background, or under nohup, ignores these, and what it starts would, too: tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_sessionstart(session):
    if os.environ.get("PEER", "nixie") != "nixie":
        return  # the tests by foreign clients can run against another server
    if not session.config.option.collectonly and not os.access(NIXIE, os.X_OK):
        pytest.exit(f"{NIXIE} is not there: build it first, or set NIXIE", returncode=3)


def pytest_sessionfinish(session):
    """Whatever a failed test left running."""
    for s in list(server_module.alive):
        s.kill()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows the end of the log of every server that was running."""
    report = (yield).get_result()
    if report.failed:
        for s in server_module.alive:
            state = "running" if s.is_running() else f"ended with {s.process.poll()}"
            report.sections.append((f"server {s.data} ({state})", s.stderr()[-4000:]))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server under the test clock for every test that does not stop it."""
    s = Server(tmp_path_factory.mktemp("shared") / "data").start()
    yield s
    s.stop()


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """One server on the real clock for every test that does not stop it."""
    s = Server(tmp_path_factory.mktemp("live") / "data", test_clock=False).start()
    yield s
    s.stop()


@pytest.fixture
def client(server):
    """At T0, on the shared server. Afterwards the equation must hold for every queue that was touched."""
    c = Client(server, now=T0)
    yield c
    assert server.is_running(), f"the server ended by itself\n{server.stderr()}"
    c.check_conservation()
    c.close()


@pytest.fixture
def live_client(live):
    c = Client(live)
    yield c
    assert live.is_running(), f"the server ended by itself\n{live.stderr()}"
    c.check_conservation()
    c.close()


@pytest.fixture
def queue(client):
    """A queue nobody else uses, on the shared server."""
    return client.queue(f"q{next(names)}")


@pytest.fixture
def live_queue(live_client):
    return live_client.queue(f"q{next(names)}")


@pytest.fixture
def start(tmp_path):
    """Starts servers of one test: start(*flags, data=..., test_clock=True). They are stopped after it, and must end well."""
    started = []

    def factory(*flags, data=None, **options):
        s = Server(data or tmp_path / f"data{len(started)}", *flags, **options)
        started.append(s)
        return s.start()

    yield factory
    for s in started:
        if s.process is not None and s.process.poll() is not None:
            code = s.process.returncode
            s.kill()
            raise AssertionError(f"the server ended by itself with {code}\n{s.stderr()}")
        s.stop()
