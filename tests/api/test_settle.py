"""POST /queues/{queue}/settle: many at once, and the next claim in the same call."""
import time

from lib.client import at


def test_every_action(queue):
    queue.batch([{"payload": str(i), "max_retries": 1 if i == 2 else 5} for i in range(6)])
    a, b, c, d, e, f = queue.claim_many(6)
    items = [{"id": a["id"], "lease": a["lease"], "action": "succeed"},
             {"id": b["id"], "lease": b["lease"], "action": "fail", "error": "boom", "error_class": "Timeout", "detail": "D"},
             {"id": c["id"], "lease": c["lease"], "action": "fail", "error": "last"},
             {"id": d["id"], "lease": d["lease"], "action": "release", "delay_seconds": 7},
             {"id": e["id"], "lease": e["lease"], "action": "extend", "lease_seconds": 1000},
             {"id": f["id"], "lease": f["lease"], "action": "fail", "permanent": True}]
    reply = queue.settle(items, now=at(1))
    assert reply == {"results": [{"id": a["id"], "status": "succeeded"}, {"id": b["id"], "status": "pending"},
                                 {"id": c["id"], "status": "dead"}, {"id": d["id"], "status": "pending"},
                                 {"id": e["id"], "status": "processing"}, {"id": f["id"], "status": "dead"}]}
    seen = queue.read(b, now=at(1))
    assert (seen["last_error"], seen["error_class"], seen["detail"], seen["retry_after"]) == ("boom", "Timeout", "D", at(3))
    assert queue.read(c)["reason"] == "max_retries" and queue.read(f)["reason"] == "permanent"
    assert queue.read(d, now=at(1))["available_at"] == at(8)
    assert queue.read(e, now=at(1000))["status"] == "processing"


def test_one_error_does_not_stop_the_others(client, queue):
    queue.batch([{"payload": str(i)} for i in range(3)])
    a, b, c = queue.claim_many(3)
    queue.succeed(b)
    other = client.queue(queue.name + "-other").enqueue("x")
    items = [{"id": a["id"], "lease": "stale", "action": "succeed"}, {"id": b["id"], "lease": b["lease"], "action": "succeed"},
             {"id": 999999999, "action": "fail"}, {"id": other["id"], "action": "succeed"},
             {"id": c["id"], "lease": c["lease"], "action": "succeed"}]
    results = queue.settle(items)["results"]
    assert [r["id"] for r in results] == [i["id"] for i in items]
    assert [r.get("error", {}).get("status") for r in results] == [409, 409, 404, 404, None]
    for r in results[:4]:
        assert set(r) == {"id", "error"} and {"status", "title", "detail"} <= set(r["error"]), r
    assert results[4] == {"id": c["id"], "status": "succeeded"}
    assert queue.read(a)["status"] == "processing"


def test_items_are_settled_in_order(queue):
    queue.enqueue("x")
    m = queue.claim()
    twice = [{"id": m["id"], "lease": m["lease"], "action": "succeed"}, {"id": m["id"], "lease": m["lease"], "action": "fail"}]
    first, second = queue.settle(twice)["results"]
    assert first["status"] == "succeeded" and second["error"]["status"] == 409


def test_without_a_lease_it_acts_on_the_holder(queue):
    queue.enqueue("x")
    m = queue.claim()
    assert queue.settle([{"id": m["id"], "action": "succeed"}])["results"] == [{"id": m["id"], "status": "succeeded"}]


def test_one_round_trip_a_cycle(queue):
    queue.batch([{"payload": str(i)} for i in range(5)])
    messages, seen = queue.claim_many(2), []
    while messages:
        seen += [m["payload"] for m in messages]
        reply = queue.settle([{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in messages], claim={"count": 2})
        assert all(r["status"] == "succeeded" for r in reply["results"])
        messages = reply["messages"]
    assert seen == ["0", "1", "2", "3", "4"]
    assert queue.counts()["succeeded"] == 5


def test_claim_takes_the_fields_of_a_claim(queue):
    queue.batch([{"payload": str(i)} for i in range(3)])
    (m,) = queue.settle([], claim={})["messages"]
    assert m["payload"] == "0" and m["lease_expires_at"] == at(300)
    (m,) = queue.settle([], claim={"lease_seconds": 5, "worker": "w", "worker_version": "1"})["messages"]
    assert m["payload"] == "1" and m["lease_expires_at"] == at(5)
    assert queue.attempts(m)[0]["worker"] == "w"
    assert "messages" not in queue.settle([])
    assert queue.settle([], claim={"count": 10})["messages"][0]["payload"] == "2"
    assert queue.settle([], claim={"count": 10})["messages"] == []


def test_the_claim_comes_after_the_items(queue):
    queue.enqueue("x")
    m = queue.claim()
    reply = queue.settle([{"id": m["id"], "lease": m["lease"], "action": "release"}], claim={})
    assert [x["id"] for x in reply["messages"]] == [m["id"]] and reply["messages"][0]["deliveries"] == 2


def test_settle_can_wait(live_queue):
    live_queue.enqueue("x")
    m = live_queue.claim()
    began = time.monotonic()
    reply = live_queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail", "retry_after_seconds": 1}],
                              claim={"wait_seconds": 20})
    assert [x["id"] for x in reply["messages"]] == [m["id"]]
    assert time.monotonic() - began < 4
    reply = live_queue.settle([{"id": m["id"], "action": "succeed"}], claim={"wait_seconds": 1})
    assert reply["messages"] == [] and reply["results"][0]["status"] == "succeeded"


def test_ill_formed_requests_change_nothing(queue):
    queue.enqueue("x")
    m = queue.claim()
    good = {"id": m["id"], "lease": m["lease"], "action": "succeed"}
    cases = [({"items": [good, {"id": m["id"], "action": "explode"}]}, "[1].action"),
             ({"items": [good, {"id": m["id"]}]}, "[1].action"), ({"items": [good, {"action": "succeed"}]}, "[1].id"),
             ({"items": [good, {"id": "7", "action": "succeed"}]}, "[1].id"),
             ({"items": [good, {"id": m["id"], "action": "succeed", "nope": 1}]}, "[1].nope"),
             ({"items": [good, {"id": m["id"], "action": "fail", "permanent": "yes"}]}, "[1].permanent"),
             ({"items": [good, {"id": m["id"], "action": "extend", "lease_seconds": 0}]}, "[1].lease_seconds"),
             ({"items": [good, {"id": m["id"], "action": "release", "delay_seconds": -1}]}, "[1].delay_seconds"),
             ({"items": [good, {"id": m["id"], "action": "fail", "lease": 7}]}, "[1].lease"),
             ({"items": [good, 7]}, "[1]"), ({"items": 7}, "items"), ({"items": {}}, "items"), ({"items": [good] * 1001}, "items"),
             ({"items": [good], "claim": {"count": 0}}, "count"), ({"items": [good], "claim": {"count": 1001}}, "count"),
             ({"items": [good], "claim": {"wait_seconds": 21}}, "wait_seconds"), ({"items": [good], "claim": 7}, "claim"),
             ({"items": [good], "claim": {"nope": 1}}, "nope"), ({"items": [good], "nope": 1}, "nope")]
    for body, field in cases:
        reply = queue.client.post(queue.path + "/settle", body)
        assert reply.status == 422, (body, reply)
        assert reply.error()[0].endswith(field), (body, reply)
    assert queue.client.post(queue.path + "/settle", data=b'{"items": [').status == 400
    for body in ([], 7, "x"):
        assert queue.client.post(queue.path + "/settle", body).status == 422
    assert queue.read(m)["status"] == "processing"


def test_a_thousand_items(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(1000)])["ids"]
    messages = queue.claim_many(1000)
    items = [{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in messages]
    reply = queue.settle(items, claim={})
    assert [r["id"] for r in reply["results"]] == ids and all(r["status"] == "succeeded" for r in reply["results"])
    assert reply["messages"] == []
    assert queue.counts() == {"pending": 0, "ready": 0, "processing": 0, "parked": 0, "dead": 0, "succeeded": 1000, "discarded": 0, "held": 0}
