"""Reading: one message, lists and their pages, payloads, the story."""
import urllib.parse

import pytest

from lib.client import T0, at


@pytest.fixture
def mixed(queue):
    """One message in each state: ids by state."""
    ids = {}
    for state in ("succeeded", "dead", "processing", "pending"):
        m = queue.enqueue(state)
        ids[state] = m["id"]
        if state != "pending":
            c = queue.claim()
            assert c["id"] == m["id"]
        if state == "succeeded":
            queue.succeed(c)
        if state == "dead":
            queue.fail(c, permanent=True)
    return ids


def test_list_by_status(queue, mixed):
    assert [m["id"] for m in queue.list()] == sorted(mixed.values())
    for state, mid in mixed.items():
        assert [(m["id"], m["status"], m["payload"]) for m in queue.list(status=state)] == [(mid, state, state)]


def test_a_listed_message_is_what_a_read_shows(queue, mixed):
    for m in queue.list():
        assert queue.read(m) == m


def test_pages(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(250)])["ids"]
    assert [m["id"] for m in queue.list()] == ids[:100]
    assert [m["id"] for m in queue.list(limit=7)] == ids[:7]
    assert [m["id"] for m in queue.list(limit=7, offset=240)] == ids[240:247]
    assert [m["id"] for m in queue.list(limit=1000)] == ids
    assert [m["id"] for m in queue.list(offset=245)] == ids[245:]
    assert queue.list(offset=250) == [] and queue.list(offset=1000000) == []
    assert [m["id"] for m in queue.list(after=ids[99], limit=1000)] == ids[100:]
    assert [m["id"] for m in queue.list(after=ids[99], limit=2, offset=3)] == ids[103:105]
    assert [m["id"] for m in queue.list(after=0, limit=1)] == ids[:1]
    assert queue.list(after=ids[-1]) == []
    assert [m["id"] for m in queue.all()] == ids


def test_pages_of_one_status(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(30)])["ids"]
    queue.claim_many(10)
    assert [m["id"] for m in queue.list(status="pending", limit=5, offset=5)] == ids[15:20]
    assert [m["id"] for m in queue.list(status="processing", after=ids[7])] == ids[8:10]
    assert [m["id"] for m in queue.list(status="pending", after=ids[7], limit=3)] == ids[10:13]


def test_creation_order_whatever_happened(queue):
    ids = queue.batch([{"payload": str(i), "priority": i % 10, "max_retries": 1} for i in range(30)])["ids"]
    for m in queue.claim_many(15):
        if m["id"] % 3 == 0:
            queue.release(m)
        elif m["id"] % 3 == 1:
            queue.fail(m)
    assert [m["id"] for m in queue.list()] == ids
    dead = [m["id"] for m in queue.list(status="dead")]
    assert dead == sorted(dead)
    for mid in reversed(dead):
        queue.replay(mid)
    assert [m["id"] for m in queue.list(status="pending")] == sorted(m["id"] for m in queue.list(status="pending"))


def test_dead_in_creation_order_though_they_died_in_another(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(5)])["ids"]
    for m in reversed(queue.claim_many(5)):
        queue.fail(m, permanent=True)
    assert [m["id"] for m in queue.list(status="dead")] == ids
    assert [m["id"] for m in queue.list(status="dead", after=ids[1], limit=2)] == ids[2:4]


@pytest.mark.parametrize("query", ["status=lost", "status=", "status=held", "status=Dead", "limit=0", "limit=1001", "limit=-1",
                                   "limit=x", "limit=", "limit=1.5", "limit=1e2", "limit=99999999999999999999", "offset=-1",
                                   "offset=1000001", "offset=x", "offset=", "after=x", "after=-1", "after=",
                                   "after=99999999999999999999"])
def test_bad_queries(queue, query):
    queue.enqueue("x")
    reply = queue.client.get(f"{queue.path}/messages?{query}")
    assert reply.status == 422, reply
    assert reply.error()[0] == query.split("=")[0], reply


def test_encoded_queries(queue):
    queue.enqueue("x")
    assert queue.client.get(queue.path + "/messages?st%61tus=pend%69ng&limit=%31").json["count"] == 1


def test_a_page_ends_at_16_mib_of_payload(queue):
    for _ in range(3):
        queue.batch([{"payload": "x" * 1000000}] * 7)
    first = queue.list(limit=1000)
    assert 1 <= len(first) <= 16
    assert len(queue.all()) == 21
    queue.delete(discard=True)


def test_unknown_things_are_404(client, queue):
    for path in ("", "/messages/1", "/messages/1/payload", "/messages/1/attempts"):
        assert client.get(queue.path + path).status == 404, path
    m = queue.enqueue("x")
    other = client.queue(queue.name + "-other")
    other.enqueue("y")
    for mid in ("999999999", "0", "-1", "abc", "+1", "1x", "9007199254740992", "99999999999999999999", f"0{m['id']}x"):
        for path in ("", "/payload", "/attempts"):
            assert client.get(f"{queue.path}/messages/{mid}{path}").status == 404, (mid, path)
    for path in ("", "/payload", "/attempts"):
        assert client.get(f"{other.path}/messages/{m['id']}{path}").status == 404


def test_the_list_of_an_unknown_queue_is_empty(queue):
    reply = queue.client.get(queue.path + "/messages")
    assert (reply.status, reply.json) == (200, {"messages": [], "count": 0})


def test_payload_headers(queue):
    m = queue.enqueue("<script>")
    reply = queue.client.get(f"{queue.path}/messages/{m['id']}/payload")
    assert (reply.status, reply.type(), reply.body) == (200, "application/octet-stream", b"<script>")


# -- the story ---------------------------------------------------------------------------------------------------------------


def test_a_message_nobody_claimed_has_no_story(queue):
    assert queue.attempts(queue.enqueue("x")) == []


def test_claimed_and_failed_exactly_as_documented(queue):
    m = queue.enqueue("x")
    c = queue.claim(worker="w1")
    queue.fail(c, now=at(1), error="boom", error_class="Timeout", detail="D")
    assert queue.attempts(m, now=at(1)) == [
        {"attempt": 1, "event": "claimed", "at": T0, "worker": "w1", "next_at": at(300)},
        {"attempt": 1, "event": "failed", "at": at(1), "worker": "w1", "error_class": "Timeout", "error": "boom", "detail": "D",
         "duration_ms": 1000, "next_at": at(3)}]


def test_a_long_story(queue):
    m = queue.enqueue("x", max_retries=3, ttl_seconds=10000)
    queue.release(queue.claim(worker="w1", worker_version="v1"), now=at(1))
    queue.claim(now=at(2), lease_seconds=10)
    assert queue.read(m, now=at(12))["error_class"] == "lease_expired"
    queue.fail(queue.claim(now=at(20)), now=at(21), error="one")
    d = queue.fail(queue.claim(now=at(30)), now=at(31), error="two", error_class="C")
    assert d["status"] == "dead"
    queue.replay(m, now=at(40))
    assert queue.read(m, now=at(10040))["reason"] == "expired"
    queue.replay(m, now=at(10050))
    wanted = [("claimed", T0), ("released", at(1)), ("claimed", at(2)), ("lease_expired", at(12)), ("claimed", at(20)),
              ("failed", at(21)), ("claimed", at(30)), ("failed", at(31)), ("replayed", at(40)), ("expired", at(10040)),
              ("replayed", at(10050)), ("claimed", at(10060))]
    c = queue.claim(now=at(10060), worker="w2")
    assert [(a["event"], a["at"]) for a in queue.attempts(m, now=at(10060))] == wanted
    queue.succeed(c, now=at(10061))
    story = queue.attempts(m, now=at(10061))
    assert [(a["event"], a["at"]) for a in story] == wanted + [("succeeded", at(10061))]
    numbers = [a["attempt"] for a in story]
    assert numbers == sorted(numbers)
    assert [a["attempt"] for a in story if a["event"] == "claimed"] == [1, 2, 3, 4, 5]
    assert story[0]["worker"] == "w1" and story[0].get("worker_version") == "v1"
    assert story[-2]["worker"] == story[-1]["worker"] == "w2"
    assert all("worker" not in a for a in story if a["event"] == "claimed" and a["attempt"] in (2, 3, 4))


def test_a_renewal_is_no_part_of_the_story(queue):
    m = queue.enqueue("x")
    queue.extend(queue.claim(), now=at(5))
    assert [(a["event"], a["at"]) for a in queue.attempts(m)] == [("claimed", T0)]


def test_of_a_success_at_the_first_attempt_one_line_is_kept(queue):
    m = queue.enqueue("x")
    queue.succeed(queue.claim(worker="w1"), now=at(5))
    assert [(a["attempt"], a["event"], a["at"]) for a in queue.attempts(m)] == [(1, "succeeded", at(5))]


def test_the_story_survives_replays(queue):
    m = queue.enqueue("x", max_retries=1)
    for i in range(6):
        queue.fail(queue.claim(now=at(i)), now=at(i), error=f"e{i}")
        queue.replay(m, now=at(i), force=True)
    story = queue.attempts(m, now=at(6))
    assert [a["error"] for a in story if a["event"] == "failed"] == [f"e{i}" for i in range(6)]
