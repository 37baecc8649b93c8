"""Discarding dead letters, one or many, and undoing it for a day."""
import pytest

from lib.client import Client, T0, at
from lib.jobs import Jobs, bury, counts, finish

DAY = 24 * 3600


@pytest.fixture
def jobs(client):
    j = Jobs(client)
    yield j
    j.cancel_all()


def terms(queue, now=T0):
    q = queue.info(now=now)
    return q["counts"]["dead"], q["counts"]["discarded"], q["conservation"]["discarded_total"]


# -- one -------------------------------------------------------------------------------------------------------------------


def test_discard(queue):
    a, b = bury(queue, 2, error_class="Timeout")
    d = queue.act(a, "discard", why="fixed", reason="shipped by hand", now=at(5))
    assert (d["status"], d["reason"], d["last_error"]) == ("discarded", "max_retries", "boom")
    assert d["discarded"] == {"reason": "fixed", "gone_at": at(5 + DAY)} and "death" in d
    assert queue.read(a, now=at(5)) == d
    assert terms(queue, at(5)) == (1, 1, 1)
    assert [m["id"] for m in queue.list(now=at(5))] == [b]
    line = queue.attempts(a, now=at(5))[-1]
    assert (line["event"], line["actor"], line["error_class"], line["error"]) == ("discarded", "anonymous", "fixed",
                                                                               "shipped by hand")


def test_undiscard(queue):
    a = bury(queue, 1)[0]
    before = queue.read(a)
    queue.act(a, "discard", why="test")
    u = queue.act(a, "undiscard", reason="oops", now=at(10))
    assert u["status"] == "dead" and u["death"]["dead_seq"] > before["death"]["dead_seq"]
    same = ("reason", "died_at", "last_error", "payload", "retry_count", "deliveries", "created_at")
    assert [u[k] for k in same] == [before[k] for k in same] and "discarded" not in u
    assert terms(queue, at(10)) == (1, 0, 0)
    assert [e["event"] for e in queue.attempts(a, now=at(10))][-2:] == ["discarded", "undiscarded"]
    queue.replay(a, now=at(10))
    assert finish(queue, now=at(10)) == [a]


def test_the_last_second_and_the_one_after(queue):
    a, b = bury(queue, 2)
    queue.act(a, "discard", why="obsolete")
    queue.act(b, "discard", why="obsolete")
    assert queue.act(a, "undiscard", now=at(DAY - 1))["status"] == "dead"
    queue.act(b, "undiscard", now=at(DAY), expect=404)
    queue.read(b, now=at(DAY), expect=404)
    assert terms(queue, at(DAY)) == (1, 0, 1)


@pytest.mark.parametrize("state", ["pending", "processing", "succeeded", "discarded"])
def test_only_dead_letters(queue, state):
    m = queue.enqueue("x", max_retries=1)
    if state == "discarded":
        queue.fail(queue.claim())
        queue.act(m, "discard", why="test")
    elif state != "pending":
        m = queue.claim()
        if state == "succeeded":
            queue.succeed(m)
    reply = queue.act(m["id"], "discard", why="test", expect=409)
    assert f"message {m['id']} is {state}" in reply["detail"]


def test_only_discarded_letters_come_back(queue):
    a = bury(queue, 1)[0]
    reply = queue.act(a, "undiscard", expect=409)
    assert reply["detail"] == f"message {a} is dead: only a discarded letter can be brought back"


@pytest.mark.parametrize("verb, body", [("replay", {}), ("edit", {"payload": "y"})])
def test_a_discarded_letter_is_not_sent(queue, verb, body):
    a = bury(queue, 1)[0]
    queue.act(a, "discard", why="test")
    reply = queue.act(a, verb, expect=409, **body)
    assert f"message {a} is discarded" in reply["detail"]
    assert terms(queue) == (0, 1, 1)


@pytest.mark.parametrize("why", ["fixed", "obsolete", "duplicate", "bad data", "test", "other"])
def test_every_reason(queue, why):
    a = bury(queue, 1)[0]
    assert queue.act(a, "discard", why=why)["discarded"]["reason"] == why


@pytest.mark.parametrize("body, field, code", [
    ({}, "why", "required"),
    ({"reason": "because"}, "why", "required"),
    ({"why": "bored"}, "why", "out_of_range"),
    ({"why": 7}, "why", "wrong_type"),
    ({"why": "fixed", "reason": "r" * 1025}, "reason", "too_long"),
    ({"why": "fixed", "lease": "1-1"}, "lease", "unknown_field"),
    ([], "body", "wrong_type"),
])
def test_wrong_requests(queue, body, field, code):
    a = bury(queue, 1)[0]
    reply = queue.client.post(f"{queue.path}/messages/{a}/discard", body)
    assert reply.status == 422 and reply.error() == (field, code), reply
    assert queue.read(a)["status"] == "dead"


def test_what_is_not_there(queue):
    queue.put()
    queue.act(999999999, "discard", why="test", expect=404)
    queue.act(999999999, "undiscard", expect=404)
    queue.client.queue("no such queue").act(1, "discard", why="test", expect=404)


def test_a_restart_keeps_what_is_discarded(start):
    server = start()
    queue = Client(server, now=T0).queue("q")
    a, b = bury(queue, 2)
    d = queue.act(a, "discard", why="fixed", reason="r")
    queue.client.close()
    server.restart(kill=True)
    assert queue.read(a) == d and terms(queue) == (1, 1, 1)
    assert queue.act(a, "undiscard", now=at(DAY - 1))["status"] == "dead"
    queue.client.close()
    server.restart()
    assert terms(queue, at(DAY)) == (2, 0, 0)


# -- many ------------------------------------------------------------------------------------------------------------------


def test_by_filter(queue, jobs):
    a = bury(queue, 3, error_class="Timeout")
    b = bury(queue, 2, error_class="ParseError")
    j = jobs.discard(queue=queue.name, filter="error:ParseError", why="bad data", reason="garbage in", name="clean up")
    assert (j["kind"], j["why"], j["reason"], j["name"], j["rate"]) == ("discard", "bad data", "garbage in", "clean up", None)
    j = jobs.read(j)
    assert counts(j, "state", "selected", "discarded", "remaining") == ("done", 2, 2, 0)
    assert terms(queue) == (3, 2, 2)
    d = queue.read(b[0])
    assert d["discarded"]["reason"] == "bad data" and d["job"] == j["id"]
    # One by one they come back.
    assert queue.act(b[0], "undiscard")["status"] == "dead"
    assert counts(jobs.read(j), "state", "discarded") == ("done", 2)
    assert terms(queue) == (4, 1, 1)
    assert sorted(m["id"] for m in queue.list(status="dead")) == sorted(a + b[:1])


def test_what_dies_later_stays(queue, jobs):
    bury(queue, 3000)
    j = jobs.discard(queue=queue.name)
    late = bury(queue, 1)
    j = jobs.read(j)
    assert counts(j, "state", "discarded", "new_since") == ("done", 3000, 1)
    assert [m["id"] for m in queue.list(status="dead")] == late


def test_a_plan(queue, jobs):
    ids = bury(queue, 4)
    p = jobs.discard(queue=queue.name, filter=f"id:>={ids[2]}", dry_run=True, expect=200)
    assert (p["kind"], p["why"]) == ("discard", "obsolete") and counts(p, "selected", "remaining") == (2, 2)
    assert [m["id"] for m in p["examples"]] == ids[2:]
    assert terms(queue) == (4, 0, 0)


def test_of_all_queues(start):
    client = Client(start(), now=T0)
    jobs = Jobs(client)
    queues = [client.queue(name) for name in ("a", "b", "c")]
    for q in queues:
        bury(q, 5, error_class="Timeout")
        bury(q, 1)
    j = jobs.discard(filter="error:Timeout (queue:a OR queue:b)")
    assert j["queue"] is None
    assert counts(jobs.read(j), "state", "discarded") == ("done", 10)
    assert [q.counts()["dead"] for q in queues] == [1, 1, 6]
    j = jobs.discard(all=True, why="test")
    assert counts(jobs.read(j), "state", "discarded") == ("done", 8)
    assert [q.counts()["dead"] for q in queues] == [0, 0, 0]


def test_letters_that_another_job_has(queue, jobs):
    bury(queue, 20)
    a = jobs.read(jobs.redrive(queue=queue.name, sample=5))
    assert a["remaining"] == 15
    b = jobs.read(jobs.discard(queue=queue.name))
    assert b["state"] == "done" and b["discarded"] + b["skipped_by"].get("other_job", 0) == b["selected"]
    finish(queue)
    finish(queue)
    assert jobs.is_done(a)
    assert queue.counts()["dead"] == 0


def test_a_queue_that_is_not_there(queue, jobs):
    assert queue.name in jobs.discard(queue=queue.name, expect=404).json["detail"]


@pytest.mark.parametrize("body, field, code", [
    ({"all": True}, "why", "required"),
    ({"why": "test"}, "filter", "required"),
    ({"why": "test", "filter": ""}, "filter", "bad_filter"),
    ({"why": "test", "filter": "id:x"}, "filter", "bad_filter"),
    ({"why": "test", "all": True, "rate": 5}, "rate", "unknown_field"),
    ({"why": "test", "all": True, "queue": ""}, "queue", "out_of_range"),
])
def test_wrong_jobs(client, body, field, code):
    reply = client.post("/discards", body)
    assert reply.status == 422 and reply.error() == (field, code), reply


def test_a_discard_has_no_rate_to_change(queue, jobs):
    bury(queue, 1)
    j = jobs.discard(queue=queue.name)
    assert jobs.change(j, rate=5, expect=422).error() == ("rate", "unknown_field")
    jobs.read(j)
    reply = jobs.change(j, state="cancelled", expect=409)
    assert f"job {j['id']} is done" in reply.json["detail"]
