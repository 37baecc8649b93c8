"""Pausing a queue: its claims get nothing and say so, and all else goes on."""
import threading
import time

import pytest

from lib.client import T0, Client, at
from lib.raw import Raw, request


def claim(queue, body=None, **more):
    reply = queue.client.post(queue.path + "/claim", {} if body is None else body, **more)
    assert reply.status == 200, reply
    return reply.json


def test_pause_and_resume(queue):
    m = queue.enqueue("x")
    queue.client.actor = "ann"
    assert queue.info()["paused"] is None
    paused = {"since": at(5), "by": "ann", "reason": "payment is down"}
    assert queue.pause(now=at(5), reason="payment is down")["paused"] == paused
    assert queue.info(now=at(9))["paused"] == paused
    assert claim(queue) == {"claimed": False, "message": None, "paused": paused}
    assert claim(queue, {"count": 2}) == {"claimed": False, "messages": [], "paused": paused}
    assert "deliveries" not in queue.read(m)
    assert queue.resume(now=at(10))["paused"] is None
    assert claim(queue)["message"]["id"] == m["id"]
    assert claim(queue) == {"claimed": False, "message": None}


def test_all_else_goes_on(queue):
    for _ in range(3):
        queue.enqueue("x", max_retries=1)
    a, b, c = queue.claim_many(3)
    queue.pause()
    queue.enqueue("y")
    queue.succeed(a)
    d = queue.fail(b, error="boom")
    queue.extend(c)
    queue.release(c)
    queue.replay(d)
    assert queue.letters() == [] and len(queue.list()) == 4
    assert queue.counts() == {"pending": 3, "ready": 3, "processing": 0, "parked": 0, "dead": 0, "succeeded": 1, "discarded": 0, "held": 0}
    assert queue.claim_many(10) == []
    queue.resume()
    assert len(queue.claim_many(10)) == 3


def test_a_settle_that_claims_says_so_too(queue):
    queue.batch([{"payload": "x"}] * 2)
    c = queue.claim()
    paused = queue.pause()["paused"]
    d = queue.settle([{"id": c["id"], "lease": c["lease"], "action": "succeed"}], claim={})
    assert d == {"results": [{"id": c["id"], "status": "succeeded"}], "messages": [], "paused": paused}
    assert "paused" not in queue.settle([])


def test_pausing_again_takes_the_new_actor_and_reason(queue):
    queue.put()
    queue.client.actor = "ann"
    queue.pause(reason="one")
    queue.client.actor = "bob"
    p = queue.pause(now=at(5))["paused"]
    assert p == {"since": T0, "by": "bob", "reason": None}
    queue.resume()
    assert queue.resume()["paused"] is None, "resuming what is not paused is fine"


def test_leases_still_end_while_paused(queue):
    m = queue.enqueue("x")
    queue.claim(lease_seconds=10)
    queue.pause()
    assert queue.read(m, now=at(10))["error_class"] == "lease_expired"


def test_a_claim_that_waited_says_so(live_queue):
    live_queue.enqueue("x")
    paused = live_queue.pause()["paused"]
    began = time.monotonic()
    assert claim(live_queue, {"wait_seconds": 1}) == {"claimed": False, "message": None, "paused": paused}
    assert time.monotonic() - began >= 0.9


def test_resuming_wakes(live, live_queue):
    m = live_queue.enqueue("x")
    live_queue.pause()
    got = []

    def wait():
        c = Client(live)
        got.append(c.post(live_queue.path + "/claim", {"wait_seconds": 20}).json)
        c.close()

    t = threading.Thread(target=wait)
    t.start()
    # No reply says that the claim waits; the health check behind it on a new connection makes that very likely.
    live_queue.client.get("/healthz")
    live_queue.resume()
    t.join(15)
    assert not t.is_alive() and got[0]["message"]["id"] == m["id"]


def test_an_enqueue_wakes_nobody_while_paused(live, live_queue):
    live_queue.put()
    live_queue.pause()
    with Raw(live) as raw:
        raw.send(request("POST", live_queue.path + "/claim", b'{"wait_seconds": 1}'))
        m = live_queue.enqueue("x")
        assert b'"claimed":false' in raw.reply().body
    assert "deliveries" not in live_queue.read(m)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_bad_requests(queue, verb):
    path = f"{queue.path}/{verb}"
    assert queue.client.post(path).status == 404, "there is no such queue"
    queue.put()
    for body, field in (({"reason": 7}, "reason"), ({"reason": "x" * 1025}, "reason"), ({"nope": 1}, "nope"), ([], "body"),
                        ("x", "body")):
        reply = queue.client.post(path, body)
        assert reply.status == 422 and reply.error()[0] == field, (body, reply)
    assert queue.client.post(path, data=b"{").status == 400
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        reply = queue.client.call(method, path)
        assert reply.status == 405 and reply.headers["Allow"] == "POST", reply
    assert queue.info()["paused"] is None
    getattr(queue, verb)(reason="é" * 512)
    getattr(queue, verb)()


def test_both_are_on_the_audit(client, queue):
    queue.put()
    client.actor = "ann"
    queue.pause(reason="why")
    queue.resume(reason="because")
    entries = client.audit(queue=queue.name)[-2:]
    assert [(e["action"], e["actor"], e["reason"]) for e in entries] == [
        ("queue_paused", "ann", "why"), ("queue_resumed", "ann", "because")]


def test_a_pause_survives_a_restart(start):
    server = start()
    client = Client(server, now=T0, actor="ann")
    queue = client.queue("q")
    queue.enqueue("x")
    paused = queue.pause(reason="why")["paused"]
    client.close()
    server.restart(kill=True)
    assert queue.info()["paused"] == paused and queue.claim() is None
    queue.resume()
    client.close()
    server.restart(kill=True)
    assert queue.info()["paused"] is None and queue.claim() is not None
    client.close()


def test_a_deleted_queue_is_not_paused_when_it_comes_again(queue):
    queue.put()
    queue.pause()
    queue.delete()
    queue.enqueue("x")
    assert queue.info()["paused"] is None and queue.claim() is not None
