"""Purging: all dead letters of a queue, gone for good."""
import pytest

from lib.client import Client, T0
from lib.jobs import Jobs, bury, counts, finish


@pytest.fixture
def jobs(client):
    j = Jobs(client)
    yield j
    j.cancel_all()


def test_purge(queue, jobs):
    ids = bury(queue, 2500)
    queue.enqueue("live")
    j = jobs.purge(queue, reason="GDPR", headers={"Nixie-Actor": "ann"})
    assert (j["kind"], j["queue"], j["filter"], j["reason"], j["actor"]) == ("purge", queue.name, None, "GDPR", "ann")
    j = jobs.read(j)
    assert counts(j, "state", "selected", "discarded", "remaining") == ("done", 2500, 2500, 0)
    q = queue.info()
    assert (q["counts"]["dead"], q["counts"]["discarded"], q["conservation"]["discarded_total"]) == (0, 0, 2500)
    assert q["counts"]["pending"] == 1 and q["groups"] == 0
    queue.read(ids[0], expect=404)
    queue.act(ids[0], "undiscard", expect=404)
    assert j["id"] in [d["id"] for d in jobs.list("discards")] and j["id"] not in [r["id"] for r in jobs.list()]


def test_letters_discarded_before_are_left_their_day(queue, jobs):
    a, b = bury(queue, 2)
    queue.act(a, "discard", why="test")
    assert counts(jobs.read(jobs.purge(queue)), "state", "discarded") == ("done", 1)
    assert queue.act(a, "undiscard")["status"] == "dead"


def test_what_dies_later_stays(queue, jobs):
    bury(queue, 2500)
    j = jobs.purge(queue)
    late = bury(queue, 1)
    assert jobs.is_done(j)
    assert [m["id"] for m in queue.list(status="dead")] == late


def test_letters_that_a_redrive_has(queue, jobs):
    bury(queue, 20)
    a = jobs.redrive(queue=queue.name, sample=5)
    jobs.read(a)
    b = jobs.read(jobs.purge(queue))
    assert b["state"] == "done"
    finish(queue)
    finish(queue)
    assert jobs.is_done(a)
    assert queue.counts()["dead"] == 0


@pytest.mark.parametrize("body, field, code", [
    ({}, "confirm", "required"),
    ({"confirm": "yes"}, "confirm", "conflict"),
    ({"confirm": ""}, "confirm", "conflict"),
    ({"confirm": True}, "confirm", "wrong_type"),
    ({"confirm": "NAME", "reason": "r" * 1025}, "reason", "too_long"),
    ({"confirm": "NAME", "filter": "id:1"}, "filter", "unknown_field"),
    ([], "body", "wrong_type"),
])
def test_wrong_requests(queue, body, field, code):
    bury(queue, 1)
    if isinstance(body, dict) and body.get("confirm") == "NAME":
        body = {**body, "confirm": queue.name}
    reply = queue.client.post(queue.path + "/purge", body)
    assert reply.status == 422 and reply.error() == (field, code), reply
    assert queue.counts()["dead"] == 1


def test_a_name_that_needs_encoding(client, jobs):
    queue = client.queue("ünï/purge me")
    bury(queue, 1)
    assert queue.client.post(queue.path + "/purge", {"confirm": "%C3%BCn%C3%AF/purge me"}).status == 422
    assert jobs.is_done(jobs.purge(queue))


def test_a_queue_that_is_not_there(queue, jobs):
    assert queue.name in jobs.purge(queue, expect=404).json["detail"]


def test_a_restart_in_the_middle(start):
    server = start()
    client = Client(server, now=T0)
    jobs, queue = Jobs(client), client.queue("q")
    bury(queue, 5000)
    j = client.post(queue.path + "/purge", {"confirm": "q"}).json
    jobs.made[j["id"]] = "discards"
    client.close()
    server.restart(kill=True)
    assert counts(jobs.read(j), "state", "discarded") == ("done", 5000)
    assert queue.counts()["dead"] == 0
