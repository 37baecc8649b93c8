"""Foreign clients against a broker: Nixie, or the peer that the variable PEER names (rabbitmq).

    PEER=rabbitmq python3 -m pytest tests/conformance

At the end stands a table of clients and what they can do. A test that is known to come out otherwise on a peer carries @differs(rabbitmq="why"). It still runs there, and must fail: a
difference that has gone away is news, too. docs/amqp.md has the table of them (`pytest --differences tests/conformance` prints it).
"""
import itertools
import re

import pytest

from lib import brokers
from lib.brokers import PEER
from tools import Amqp

numbers = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption("--differences", action="store_true", help="list the recorded differences between peers, run nothing")


def pytest_configure(config):
    config.addinivalue_line("markers", "differs(peer=why): comes out otherwise on that peer, on purpose")
    config.addinivalue_line("markers", "heavy: too slow for every make test")
    config.addinivalue_line("markers", "only(*peers): about something the other peers do not have at all")


def differences(item):
    """Pairs of a peer and why it differs. kind="quorum" in the mark: only when the test runs with that queue type."""
    for mark in item.iter_markers("differs"):
        peers = dict(mark.kwargs)
        kind = peers.pop("kind", None)
        if kind is None or item.callspec.params.get("kind") == kind:
            yield from peers.items()


def pytest_collection_modifyitems(config, items):
    for item in items:
        for why in (why for peer, why in differences(item) if peer == PEER):
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))
    gone = [i for i in items if (mark := i.get_closest_marker("only")) and PEER not in mark.args]
    items[:] = [i for i in items if i not in gone]
    config.hook.pytest_deselected(items=gone)


def pytest_collection_finish(session):
    if not session.config.option.differences:
        return
    for item in session.items:
        for peer, why in differences(item):
            print(f"| `{item.name}` | {peer} | {why} |")
    pytest.exit("these are the differences", returncode=0)


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """One for all tests; one that kills it starts it again on the same port and data."""
    b = brokers.make(tmp_path_factory.mktemp("broker") / PEER)
    b.start()
    yield b
    if b.is_running():
        b.check_conservation()
    b.stop()


@pytest.fixture
def connect(broker):
    """Opens connections: connect() or connect(heartbeat=1). They are closed after the test."""
    if not broker.is_running():  # a test before this one ended it, and failed
        broker.kill()
        broker.start()
    opened = []

    def factory(**parameters):
        opened.append(Amqp(broker, **parameters))
        return opened[-1]

    yield factory
    for amqp in opened:
        amqp.close()
    assert broker.is_running(), "the server ended by itself"


@pytest.fixture
def amqp(connect):
    return connect()


@pytest.fixture
def name(request):
    """A name nobody else uses: name("q") is another one than name("r")."""
    number = next(numbers)
    return lambda what: f"{request.node.originalname.removeprefix('test_')}-{number}-{what}"


@pytest.fixture(params=["classic", "quorum"])
def kind(request):
    """The queue type of the source, for behaviours that both have."""
    return request.param


@pytest.fixture
def policy(broker):
    """Sets policies; they are gone after the test."""
    made = []

    def factory(name, *arguments, **options):
        broker.set_policy(name, *arguments, **options)
        made.append(name)

    yield factory
    for name in made:
        broker.clear_policy(name)


# -- the table ---------------------------------------------------------------------------------------------------------------

WORDS = {"passed": "yes", "failed": "NO", "error": "NO", "xfailed": "differs", "xpassed": "NO"}


def pytest_terminal_summary(terminalreporter):
    """Rows of the form `| ... |`, which scripts/test shows."""
    found = {}  # (client, behaviour): counts of outcomes
    for outcome in WORDS:
        for report in terminalreporter.stats.get(outcome, []):
            part = re.search(r"test_(\w+)\.py::test_\w+(?:\[(.*)\])?", report.nodeid)
            if part is None:
                continue
            client, behaviour = part[2].split(" ") if part[1] == "clients" else ("pika", part[1].replace("_", " "))
            counts = found.setdefault((client, behaviour), {})
            counts[WORDS[outcome]] = counts.get(WORDS[outcome], 0) + 1
    if not found:
        return
    columns = list(dict.fromkeys(behaviour for _, behaviour in sorted(found, key=lambda cell: cell[0] != "pika")))
    rows = [[f"client, {PEER}", *columns]]
    rows += [[client, *[cell(found.get((client, c))) for c in columns]] for client in dict.fromkeys(c for c, _ in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, ["-" * w for w in widths])
    terminalreporter.write_line("")
    for row in rows:
        terminalreporter.write_line("| " + " | ".join(text.ljust(w) for text, w in zip(row, widths)) + " |")


def cell(counts):
    if counts is None:
        return ""
    if sum(counts.values()) == 1:
        return next(iter(counts))
    return ", ".join(f"{n} {word}" for word, n in counts.items())
