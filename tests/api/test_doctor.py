"""GET /doctor: what is likely to hurt, by its code. The limits of each check are in tests/unit/test_doctor.c; here the facts come from
a server."""
import json
import urllib.parse

import pytest

from lib.client import T0, Client, at

GOOD = {"owner": "ann", "breaker": {}}  # a policy without a finding
FINDING = {"code", "severity", "queue", "fact", "fix"}


class World:
    """A server of its own, as only /doctor sees all of it."""

    def __init__(self, server):
        self.client = Client(server, now=T0)

    def call(self, method, path, body=None, now=T0):
        data = None if body is None else json.dumps(body).encode()
        return self.client.raw(method, path, data, {"X-Now": now, "Content-Type": "application/json"})

    def done(self, *args, **more):
        reply = self.call(*args, **more)
        assert reply.status in (200, 201, 202), reply
        return reply.json

    def put(self, queue, **policy):
        self.done("PUT", f"/queues/{urllib.parse.quote(queue, safe='')}", {**GOOD, **policy})

    def bury(self, queue, count, version="1.4.2", now=T0, **failure):
        path = f"/queues/{urllib.parse.quote(queue, safe='')}"
        for _ in range(count):
            id = self.done("POST", path + "/messages", {"payload": "x"}, now=now)["id"]
            self.done("POST", path + "/claim", {"worker": "w", "worker_version": version}, now=now)
            self.done("POST", f"{path}/messages/{id}/fail", {"permanent": True, "error": "no", **failure}, now=now)

    def findings(self, now=T0, **params):
        d = self.done("GET", "/doctor?" + urllib.parse.urlencode(params), now=now)
        assert set(d) == {"findings", "count", "next"} and d["count"] == len(d["findings"]), d
        for f in d["findings"]:
            assert set(f) == FINDING and f["severity"] in ("info", "warn", "critical") and f["fact"] and f["fix"], f
        return d["findings"]

    def codes(self, **more):
        return {(f["code"], f["queue"]) for f in self.findings(**more)}

    def fact(self, code, **more):
        [fact] = [f["fact"] for f in self.findings(**more) if f["code"] == code]
        return fact


@pytest.fixture
def world(start):
    w = World(start())
    yield w
    w.client.close()


def test_nothing(world):
    assert world.findings() == []
    world.put("a")
    assert world.findings() == [] == world.findings(queue="a")


def test_policies(world):
    world.put("a", max_retries=1, breaker=None, owner=None, retention={"dead_seconds": 60})
    assert world.codes() == {("D02", "a"), ("D03", "a"), ("D04", "a"), ("D11", "a")}
    world.put("b", owner=None, alerts=[{"kind": "new_group", "url": "https://example.org/"}])
    assert world.codes(queue="b") == {("D21", "b")}
    assert world.call("GET", "/doctor?queue=c").status == 404
    assert world.call("GET", "/doctor?after=c").status == 404
    assert world.call("GET", "/doctor?limit=101").status == 422
    assert world.call("GET", "/doctor?colour=red").status == 422


def test_pages(world):
    for i in range(5):
        world.put(f"q{i}", owner=None)
    seen, after, pages = [], {}, 0
    while True:
        d = world.done("GET", "/doctor?" + urllib.parse.urlencode({"limit": 2, **after}))
        seen += [f["queue"] for f in d["findings"]]
        pages += 1
        if d["next"] is None:
            break
        after = {"after": d["next"]}
    assert seen == [f"q{i}" for i in range(5)] and pages == 3


def test_no_worker(world):
    world.put("a")
    world.done("POST", "/queues/a/messages", {"payload": "x"})
    assert world.codes(now=at(600)) == set()
    assert world.codes(now=at(601)) == {("D06", "a")}
    world.done("POST", "/queues/a/pause", now=at(602))
    assert world.codes(now=at(700)) == set()
    world.done("POST", "/queues/a/resume", now=at(701))
    world.done("POST", "/queues/a/claim", now=at(702))
    world.done("POST", "/queues/a/messages", {"payload": "y"}, now=at(703))
    assert world.codes(now=at(1302)) == set()
    assert world.fact("D06", now=at(1303)) == "1 message ready, and no worker has asked for work for 10m01s"


def test_leases(world):
    world.put("a", lease_seconds=10)
    for _ in range(100):
        id = world.done("POST", "/queues/a/messages", {"payload": "x"})["id"]
        world.done("POST", "/queues/a/claim", {"lease_seconds": 600})
        world.done("POST", f"/queues/a/messages/{id}/succeed", now=T0)
    assert world.codes() == set()
    for _ in range(100):
        world.done("POST", "/queues/a/messages", {"payload": "x"})
    taken = world.done("POST", "/queues/a/claim", {"count": 100, "lease_seconds": 600})["messages"]
    items = [{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in taken]
    world.done("POST", "/queues/a/settle", {"items": items}, now=at(20))
    assert world.fact("D05", now=at(20)).startswith("the lease is 10s, and the slowest hundredth of 200 attempts took more than 16.4s")


def test_targets(world):
    world.put("a", dead_target={"queue": "t"})
    assert "is not there" in world.fact("D07")
    world.put("t")
    assert world.codes() == set()
    world.put("t", dead_target={"queue": "u"})
    world.put("u")
    assert world.codes() == {("D07", "a")}
    assert "of its own" in world.fact("D07")
    world.put("t", allow_from=["b"])
    assert "allow_from" in world.fact("D07")
    world.put("t")
    world.put("b", owner="bob", dead_target={"queue": "t"})
    assert world.codes() == {("D22", "a"), ("D22", "b")}
    assert world.codes(queue="b") == {("D22", "b")}


def test_a_target_that_is_paused(world):
    world.put("t")
    world.put("a", dead_target={"queue": "t"})
    world.done("POST", "/queues/t/pause")
    assert world.fact("D15") == "its dead_target t is paused: letters pile up there"
    assert world.codes() == {("D15", "a")}
    world.done("POST", "/queues/t/resume")
    assert world.codes() == set()


def test_a_redrive_to_nobody(world):
    for q in ("a", "b", "c"):
        world.put(q)
    world.bury("a", 9, error_class="Timeout")
    world.done("POST", "/redrives", {"queue": "b", "all": True})  # of no letters: it is over at once
    job = world.done("POST", "/redrives", {"queue": "a", "all": True, "to": "c", "rate": 1})
    assert world.codes() == set()
    world.done("POST", "/queues/c/pause")
    assert world.fact("D15") == f"redrive {job['id']} sends its letters to c, which is paused"
    assert world.codes(queue="a") == {("D15", "a")} and world.codes(queue="c") == set()
    assert world.call("DELETE", "/queues/c?discard=true").status == 204
    assert world.fact("D15") == f"redrive {job['id']} sends its letters to c, which is not there"
    world.done("PATCH", f"/redrives/{job['id']}", {"state": "cancelled"})
    assert world.codes() == set()


def test_rules_that_never_end_a_message(world):
    world.put("a", rules=[{"error": "Http429", "action": "dead"}, {"action": "release", "delay_seconds": 1}])
    assert world.fact("D23").startswith("rules[1] (release) lets every failure go")
    world.put("a", rules=[{"action": "release"}], max_deliveries=50)
    assert world.codes() == set()
    world.put("a", retention={"dead_seconds": 59})
    assert world.codes() == {("D01", "a")}


def test_one_key(world):
    """Its letters are the newest; how large they are does not matter, up to a limit of what one reply reads."""
    world.put("a")
    for i in range(10):
        world.done("POST", "/queues/a/messages", {"payload": "x", "key": f"account {i}"})
    for _ in range(22):
        world.done("POST", "/queues/a/messages", {"payload": "x", "key": "account 7"})
    taken = world.done("POST", "/queues/a/claim", {"count": 32})["messages"]
    for m in taken:
        world.done("POST", f"/queues/a/messages/{m['id']}/fail", {"permanent": True, "error": "no", "error_class": "Timeout"})
    assert world.fact("D13") == "23 of the newest 32 letters have the key account 7"
    assert world.codes() == {("D13", "a")}
    big = "x" * 400_000
    for i in range(32):
        world.done("POST", "/queues/a/messages", {"payload": big, "key": "account 7"})
        world.done("POST", "/queues/a/claim")
        world.done("POST", f"/queues/a/messages/{taken[-1]['id'] + 1 + i}/fail", {"permanent": True, "error": "no", "error_class": "Timeout"})
    assert world.codes() == set(), "more than a reply reads for this"


def test_a_clock_that_went_back(start, tmp_path):
    """By a day, over a restart: what the log says is later than now."""
    server = start(data=tmp_path / "data")
    w = World(server)
    w.done("PUT", "/queues/a", GOOD, now=at(86400))
    w.client.close()
    server.restart()
    w = World(server)
    w.call("GET", "/healthz", now=T0)
    [found] = [f for f in w.findings(now=T0) if f["code"] == "D18"]
    assert found["queue"] == "a" and "lies 1d00h ahead of the server's clock" in found["fact"]
    w.client.close()


def test_a_server_that_is_open_to_all(start):
    w = World(start("--insecure", http="0.0.0.0:0"))
    assert w.codes() == {("D19", None)}
    w.client.close()


def test_letters(world):
    name = 'na"me\\ *'  # as a filter would not like it
    world.put(name, retention={"dead_seconds": 30 * 86400}, redrive_limit=1)
    world.put("other")
    world.bury("other", 30, error_class="Elsewhere", version="9")
    world.bury(name, 10)
    assert world.codes(queue=name) == {("D14", name), ("D16", name)}
    assert world.fact("D14", queue=name) == "10 of 10 letters were failed by workers of version 1.4.2"
    assert world.fact("D16", queue=name) == "10 of 10 letters that workers failed have no error class"
    assert ("D10", name) in world.codes(now=at(4 * 3600 + 1))
    later = at(29 * 86400 + 1)
    assert world.fact("D09", queue=name, now=later) == "retention discards the next dead letter in 23h59m"


def test_letters_at_their_limit(world):
    world.put("a", redrive_limit=1)
    world.bury("a", 1, error_class="Timeout")
    assert world.codes() == set()
    [letter] = world.done("GET", "/dead?queue=a")["letters"]
    world.done("POST", f"/queues/a/messages/{letter['id']}/replay")
    world.done("POST", "/queues/a/claim")
    world.done("POST", f"/queues/a/messages/{letter['id']}/fail", {"permanent": True, "error_class": "Timeout"})
    assert world.fact("D08") == "1 letter died again and reached the redrive_limit of 1"


def test_too_many_causes(world):
    world.put("a")
    for i in range(30):
        world.bury("a", 1, error_class=f"E{i}", version=f"v{i}")
    assert world.codes() == {("D17", "a")}
