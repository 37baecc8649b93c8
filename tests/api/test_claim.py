"""POST /queues/{queue}/claim: order, count, the lease, waiting."""
import threading
import time

import pytest

from lib.client import Client, T0, at, strict_json
from lib.raw import Raw, request


def test_nothing_to_do(queue):
    assert queue.client.post(queue.path + "/claim").json == {"claimed": False, "message": None}
    assert queue.client.post(queue.path + "/claim", {"count": 5}).json == {"claimed": False, "messages": []}
    assert queue.client.get(queue.path).status == 404, "a claim that does not wait must not create the queue"


def test_a_claim_that_waits_creates_the_queue(live_queue):
    assert live_queue.claim(wait_seconds=1) is None
    assert live_queue.info()["counts"]["pending"] == 0


def test_the_message_in_a_claim(queue):
    m = queue.enqueue("x")
    c = queue.claim(now=at(5))
    lease = c.pop("lease")
    assert isinstance(lease, str)
    assert c == {**m, "status": "processing", "updated_at": at(5), "deliveries": 1, "attempt": 1, "lease_expires_at": at(305)}
    seen = queue.read(m)
    assert seen == {**m, "status": "processing", "updated_at": at(5), "deliveries": 1}


def test_the_body_is_optional_in_every_way(queue):
    queue.batch([{"payload": "x"}] * 3)
    headers = {"X-Now": T0}
    assert queue.client.raw("POST", queue.path + "/claim", None, headers).status == 200
    assert queue.client.raw("POST", queue.path + "/claim", b"", headers).status == 200
    assert queue.client.raw("POST", queue.path + "/claim", b"{}", headers).status == 200
    assert queue.counts()["processing"] == 3


def test_first_in_first_out(queue):
    ids = [queue.enqueue(str(i), now=at(i))["id"] for i in range(20)]
    assert [queue.claim(now=at(30))["id"] for _ in ids] == ids
    assert queue.claim(now=at(30)) is None


def test_priority_goes_first_then_creation(queue):
    wanted = []
    for i, p in enumerate([0, 9, 4, 9, 0, 1, 4, 8]):
        wanted.append((-p, queue.enqueue(str(i), priority=p)["id"]))
    assert [queue.claim()["id"] for _ in wanted] == [mid for _, mid in sorted(wanted)]


def test_a_failed_message_keeps_its_place(queue):
    a = queue.enqueue("a", max_retries=5)
    b = queue.enqueue("b")
    queue.fail(queue.claim(), error="x")
    assert queue.claim(now=at(1))["id"] == b["id"]
    c = queue.enqueue("c", now=at(1))
    assert queue.claim(now=at(2))["id"] == a["id"]
    assert queue.claim(now=at(2))["id"] == c["id"]


def test_a_failed_message_keeps_its_place_within_its_priority(queue):
    low = queue.enqueue("low")
    queue.fail(queue.claim(), retry_after_seconds=1)
    high = queue.enqueue("high", priority=5)
    assert [queue.claim(now=at(1))["id"] for _ in range(2)] == [high["id"], low["id"]]


def test_queues_are_apart(client):
    a, b = client.queue("apart-a"), client.queue("apart-b")
    a.enqueue("x")
    assert b.claim() is None
    assert a.claim()["queue"] == "apart-a"


def test_count(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(7)])["ids"]
    first = queue.claim_many(5)
    assert [m["id"] for m in first] == ids[:5]
    assert len({m["lease"] for m in first}) == 5
    assert [m["id"] for m in queue.claim_many(5)] == ids[5:]
    assert queue.claim_many(5) == []
    assert len(queue.list(status="processing")) == 7


def test_count_of_one_has_the_form_of_many(queue):
    queue.enqueue("x")
    assert len(queue.claim_many(1)) == 1


def test_a_thousand_at_once(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(1000)])["ids"]
    assert [m["id"] for m in queue.claim_many(1000)] == ids


def test_a_claim_ends_at_16_mib_of_payload(queue):
    for _ in range(3):
        queue.batch([{"payload": "x" * 1000000}] * 6)
    seen = 0
    while messages := queue.claim_many(1000):
        assert sum(len(m["payload"]) for m in messages) <= 16 * 1024 * 1024
        seen += len(messages)
        assert queue.counts()["processing"] == seen
    assert seen == 18
    queue.delete(discard=True)


RANGES = [("lease_seconds", 1, 43200), ("count", 1, 1000), ("wait_seconds", 0, 20)]


@pytest.mark.parametrize("field,low,high", RANGES)
def test_ranges(queue, field, low, high):
    for bad, code in ((low - 1, "out_of_range"), (high + 1, "out_of_range"), ("1", "wrong_type"), (1.5, "wrong_type"),
                      (True, "wrong_type")):
        reply = queue.client.post(queue.path + "/claim", {field: bad})
        assert reply.status == 422 and reply.error() == (field, code), (bad, reply)
    for good in (low, high):
        queue.enqueue("x")
        assert queue.client.post(queue.path + "/claim", {field: good}).status == 200


@pytest.mark.parametrize("field", ["worker", "worker_version"])
def test_worker_names(queue, field):
    for good in ("w" * 128, "é" * 64, "a b\u0000"):
        queue.enqueue("x")
        assert queue.claim(**{field: good})
    for bad, code in (("w" * 129, "too_long"), ("é" * 65, "too_long"), (7, "wrong_type"), ([], "wrong_type")):
        reply = queue.client.post(queue.path + "/claim", {field: bad})
        assert reply.status == 422 and reply.error() == (field, code), (bad, reply)


def test_wrong_bodies(queue):
    queue.enqueue("x")
    assert queue.client.post(queue.path + "/claim", data=b"{").status == 400
    for body in ([], "x", 7):
        assert queue.client.post(queue.path + "/claim", body).status == 422
    reply = queue.client.post(queue.path + "/claim", {"lease": 5})
    assert reply.status == 422 and reply.error() == ("lease", "unknown_field")
    assert queue.counts()["pending"] == 1


def test_deliveries_grow_and_stay(queue):
    m = queue.enqueue("x", max_retries=10)
    for i in range(1, 6):
        c = queue.claim(now=at(i * 3600))
        assert c["deliveries"] == c["attempt"] == i
        seen = queue.fail(c, now=at(i * 3600))
        assert seen["deliveries"] == i
    assert queue.read(m)["deliveries"] == 5


def test_each_message_goes_to_exactly_one_claimer(server, queue):
    queue.batch([{"payload": str(i)} for i in range(500)])
    got, threads = [], []

    def work(count):
        q = Client(server, now=T0).queue(queue.name)
        mine = []
        while messages := q.claim_many(count):
            mine += [m["id"] for m in messages]
        got.extend(mine)
        q.client.close()

    for i in range(8):
        threads.append(threading.Thread(target=work, args=(1 + i % 3,)))
        threads[-1].start()
    for t in threads:
        t.join()
    assert len(got) == 500 and len(set(got)) == 500


# -- waiting ------------------------------------------------------------------------------------------------------------------


class Waiter(threading.Thread):
    """A claim that waits, on its own connection."""

    def __init__(self, server, name, now=None, **fields):
        super().__init__()
        self.client = Client(server, now=now)
        self.client.connect()
        self.q = self.client.queue(name)
        self.fields = {"wait_seconds": 20, **fields}
        self.reply = None
        self.start()

    def run(self):
        self.began = time.monotonic()
        self.reply = self.q.client.post(self.q.path + "/claim", self.fields)
        self.ended = time.monotonic()
        self.client.close()

    def message(self, timeout=15):
        self.join(timeout)
        assert not self.is_alive(), "still waiting"
        assert self.reply.status == 200, self.reply
        return self.reply.json["message"]


def waiting(queue, n=1):
    """Returns when the queue exists, which says that the first waiting claim has been read by the server."""
    deadline = time.monotonic() + 10
    while queue.client.get(queue.path).status != 200:
        assert time.monotonic() < deadline
    return n


def test_waiting_ends_by_itself(live_queue):
    began = time.monotonic()
    assert live_queue.claim(wait_seconds=1) is None
    assert 0.9 <= time.monotonic() - began < 3
    began = time.monotonic()
    assert live_queue.claim_many(5, wait_seconds=1) == []
    assert 0.9 <= time.monotonic() - began < 3


def test_no_waiting_when_there_is_something(live_queue):
    live_queue.enqueue("x")
    began = time.monotonic()
    assert live_queue.claim(wait_seconds=20)["payload"] == "x"
    assert time.monotonic() - began < 2


def test_an_enqueue_wakes_at_once(live, live_queue):
    w = Waiter(live, live_queue.name)
    waiting(live_queue)
    began = time.monotonic()
    m = live_queue.enqueue("x")
    assert w.message()["id"] == m["id"]
    assert w.ended - began < 1


def test_a_batch_wakes_as_many_as_it_feeds(live, live_queue):
    ws = [Waiter(live, live_queue.name) for _ in range(4)]
    waiting(live_queue)
    ids = live_queue.batch([{"payload": str(i)} for i in range(4)])["ids"]
    assert sorted(w.message()["id"] for w in ws) == ids


def test_waiting_with_count_gets_what_is_there(live, live_queue):
    w = Waiter(live, live_queue.name, count=10)
    waiting(live_queue)
    ids = live_queue.batch([{"payload": str(i)} for i in range(3)])["ids"]
    w.join(15)
    assert [m["id"] for m in w.reply.json["messages"]] == ids


def test_a_due_retry_wakes(live, live_queue):
    live_queue.enqueue("x")
    live_queue.fail(live_queue.claim(), retry_after_seconds=1)
    began = time.monotonic()
    m = live_queue.claim(wait_seconds=20)
    assert m["retry_count"] == 1
    assert time.monotonic() - began < 3


def test_a_delay_that_ends_wakes(live_queue):
    live_queue.enqueue("x", delay_seconds=1)
    began = time.monotonic()
    assert live_queue.claim() is None
    assert live_queue.claim(wait_seconds=20)["payload"] == "x"
    assert 0.5 < time.monotonic() - began < 3


def test_an_expired_lease_wakes(live_queue):
    live_queue.put(backoff={"kind": "fixed", "base_seconds": 0})
    live_queue.enqueue("x")
    live_queue.claim(lease_seconds=1)
    began = time.monotonic()
    assert live_queue.claim(wait_seconds=20)["deliveries"] == 2
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("how", ["release", "replay", "retry", "settle"])
def test_everything_that_makes_a_message_ready_wakes(live, live_queue, how):
    m = live_queue.enqueue("x")
    c = live_queue.claim()
    if how == "replay":
        live_queue.fail(c, permanent=True)
    w = Waiter(live, live_queue.name)
    # No reply says that the claim waits; the health check behind it on a new connection makes that very likely.
    live_queue.client.get("/healthz")
    if how == "release":
        live_queue.release(c)
    elif how == "replay":
        live_queue.replay(m)
    elif how == "retry":
        live_queue.fail(c, retry_after_seconds=0)
    else:
        live_queue.settle([{"id": m["id"], "lease": c["lease"], "action": "release"}])
    assert w.message()["id"] == m["id"]
    assert w.ended - w.began < 5


def test_the_moving_test_clock_wakes(server, queue):
    queue.enqueue("x", delay_seconds=60)
    w = Waiter(server, queue.name, now=T0)
    queue.client.get("/healthz")
    assert w.is_alive()
    queue.info(now=at(60))
    assert w.message()["payload"] == "x"
    assert w.ended - w.began < 5


def test_a_waiter_that_left_loses_nothing(live, live_queue):
    """Its connection closes while it waits: the next message stays pending, its deliveries untouched."""
    for i in range(20):
        with Raw(live) as raw:
            raw.send(request("POST", live_queue.path + "/claim", b'{"wait_seconds": 20}'))
            if i == 0:
                waiting(live_queue)
            else:
                live_queue.client.get("/healthz")
    # A close is seen by the server in its own time, and nothing tells when; a claim that answers says it has seen the rest.
    with Raw(live) as raw:
        raw.send(request("POST", live_queue.path + "/claim", b'{"wait_seconds": 1}'))
        assert b'"claimed":false' in raw.reply().body.replace(b" ", b"")
    m = live_queue.enqueue("x")
    assert "deliveries" not in live_queue.read(m)
    c = live_queue.claim()
    assert c["id"] == m["id"] and c["deliveries"] == 1


def test_a_newcomer_does_not_overtake_who_waits(live, live_queue):
    """One whose claim is read between the enqueue and the moment when those who wait are served."""
    path = live_queue.path
    with Raw(live) as producer, Raw(live) as newcomer, Raw(live) as first:
        for _ in range(50):
            first.send(request("POST", path + "/claim", b'{"wait_seconds": 20}'))
            while live_queue.client.get(path).json.get("consumers") != 1:
                pass
            producer.send(request("POST", path + "/messages", b'{"payload": "a"}'))
            newcomer.send(request("POST", path + "/claim", b"{}"))
            a = strict_json(producer.reply().body)
            stolen = strict_json(newcomer.reply().body)["message"]
            assert stolen is None and strict_json(first.reply().body)["message"]["id"] == a["id"]


def test_waiters_are_served_in_turn(live, live_queue):
    first = Waiter(live, live_queue.name)
    waiting(live_queue)
    second = Waiter(live, live_queue.name)
    a = live_queue.enqueue("a")
    assert first.message()["id"] == a["id"]
    b = live_queue.enqueue("b")
    assert second.message()["id"] == b["id"]
