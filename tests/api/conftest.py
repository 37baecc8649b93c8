import pytest

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
