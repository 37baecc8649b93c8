"""Dead-letter targets: there, or still here; with its origin and story; no circles."""
import pytest

from lib.guards import claim_ids, dies_alone, fill, ids

AT_ONCE = {"kind": "fixed", "base_seconds": 0}


def pair(world, reasons=None, to=None, **policy):
    """A queue and its target."""
    target = world.queue()
    target.put(**(to or {}))
    queue = world.queue()
    queue.put(**{"max_retries": 1, **policy}, dead_target={"queue": target.name, **({"reasons": reasons} if reasons else {})})
    return queue, target


def kill(queue, reason, world):
    """Lets a new message die of it; its id."""
    if reason == "expired":
        m = queue.enqueue("x", ttl_seconds=5)
        world.wait(5)
        queue.counts()
        return m["id"]
    m = queue.enqueue("x")
    c = queue.claim(lease_seconds=5)
    if reason == "lease_expired":
        world.wait(5)
        queue.counts()
    elif reason == "permanent":
        queue.fail(c, permanent=True)
    else:
        queue.fail(c)
    return m["id"]


def where(world, mid):
    m = world.client.get(f"/messages/{mid}").json
    return m["queue"], m["status"]


# -- the move -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("reason", ["max_retries", "permanent", "expired", "lease_expired"])
def test_it_moves_with_its_story_and_origin(world, reason, restarts):
    queue, target = pair(world)
    mid = kill(queue, reason, world)
    if restarts:
        world.restart()
    assert where(world, mid) == (target.name, "pending")
    m = target.read(mid)
    assert m["origin_queue"] == queue.name and m["retry_count"] == 0 and m["payload"] == "x"
    events = [a["event"] for a in target.attempts(mid)]
    assert events[-1] == "dead_lettered" and events[0] in ("claimed", "expired")
    assert queue.read(mid, expect=404)
    here, there = queue.info(), target.info()
    assert (here["conservation"]["moved_out"], here["counts"]["dead"], here["groups"]) == (1, 0, 0)
    assert (there["conservation"]["moved_in"], there["counts"]["pending"]) == (1, 1)
    c = target.claim()
    assert c["id"] == mid
    assert target.succeed(c)["status"] == "succeeded"


def test_bytes_headers_key_and_counts_travel(world):
    queue, target = pair(world)
    m = queue.enqueue(None, payload_base64="/w==", headers={"a": [1]}, key="K", priority=7)
    queue.release(queue.claim(worker="w1"))
    queue.fail(queue.claim(worker="w2", worker_version="7"), error="bad", error_class="Odd", detail="stack")
    t = target.read(m)
    assert (t["payload_base64"], t["headers"], t["key"], t["priority"], t["deliveries"]) == ("/w==", {"a": [1]}, "K", 7, 2)
    assert (t["last_error"], t["error_class"], t["detail"], t["created_at"]) == ("bad", "Odd", "stack", m["created_at"])
    assert t["max_retries"] == 3, "there it has the limits of the target"
    story = target.attempts(m)
    assert [a["event"] for a in story] == ["claimed", "released", "claimed", "failed", "dead_lettered"]
    assert story[3]["worker"] == "w2" and f"from {queue.name} to {target.name}" == story[4]["error"]


def test_what_the_worker_is_told(world):
    queue, target = pair(world, max_retries=2, backoff=AT_ONCE)
    m = queue.enqueue("x", idempotency_key="k")
    assert queue.fail(queue.claim())["status"] == "pending"
    told = queue.fail(queue.claim(), error="bad")
    assert (told["id"], told["queue"], told["status"], told["last_error"]) == (m["id"], target.name, "pending", "bad")
    assert told == {k: v for k, v in target.read(m).items() if k != "detail"}
    queue.fail(m["id"], expect=404)
    known = queue.enqueue("x", idempotency_key="k", expect=200)
    assert (known["id"], known["queue"]) == (m["id"], target.name)
    made = fill(queue, 2)
    items = [{"id": c["id"], "lease": c["lease"], "action": "fail", "permanent": c["id"] == made[0]} for c in queue.claim_many(2)]
    assert [r["status"] for r in queue.settle(items)["results"]] == ["dead", "pending"]
    c = queue.claim()
    assert queue.settle([{"id": c["id"], "action": "fail"}])["results"] == [{"id": c["id"], "status": "dead"}]


def test_only_the_reasons_that_go_there(world):
    queue, target = pair(world, reasons=["max_retries", "expired"])
    went = [kill(queue, r, world) for r in ("max_retries", "expired")]
    stayed = [kill(queue, r, world) for r in ("permanent", "lease_expired")]
    assert [where(world, m) for m in went] == [(target.name, "pending")] * 2
    assert [where(world, m) for m in stayed] == [(queue.name, "dead")] * 2
    assert queue.info()["dead_by_reason"] == {"permanent": 1, "lease_expired": 1}


def test_delivery_limit_goes_there_too(world):
    queue, target = pair(world, reasons=["delivery_limit"], max_retries=9, max_deliveries=1)
    m = queue.enqueue("x")
    queue.release(queue.claim())
    assert queue.claim() is None
    assert where(world, m["id"]) == (target.name, "pending")
    target.put(max_deliveries=1)
    assert target.claim() is not None, "its deliveries count from its arrival"


def test_what_dies_there_stays_there(world):
    queue, target = pair(world, to={"max_retries": 1})
    mid = kill(queue, "max_retries", world)
    d = target.fail(target.claim(), error="again")
    assert (d["status"], d["queue"], d["origin_queue"]) == ("dead", target.name, queue.name)
    assert ids(target.letters()) == [mid]
    assert d["death"]["origin"] == {"queue": queue.name, "id": mid}


# -- where it stays -------------------------------------------------------------------------------------------------------------


def test_without_a_target_that_is_there_it_stays(world):
    queue = world.queue()
    queue.put(max_retries=1, dead_target={"queue": "there is no such queue"})
    mid = kill(queue, "max_retries", world)
    assert where(world, mid) == (queue.name, "dead")
    world.restart()
    assert queue.info()["dead_by_reason"] == {"max_retries": 1}


def test_a_target_that_was_deleted(world):
    queue, target = pair(world)
    target.delete()
    mid = kill(queue, "max_retries", world)
    assert where(world, mid) == (queue.name, "dead")
    target.put()
    assert where(world, kill(queue, "max_retries", world)) == (target.name, "pending")
    assert where(world, mid) == (queue.name, "dead")


def test_a_target_names_who_may(world):
    target = world.queue()
    target.put(allow_from=["someone else", "g-friend"])
    queue = world.queue()
    reply = world.client.put(queue.path, {"dead_target": {"queue": target.name}})
    assert reply.status == 409
    friend = world.queue("g-friend", max_retries=1, dead_target={"queue": target.name})
    assert where(world, kill(friend, "max_retries", world)) == (target.name, "pending")


def test_a_target_that_takes_it_no_more(world):
    queue, target = pair(world)
    target.put(allow_from=["someone else"])
    mid = kill(queue, "max_retries", world)
    assert where(world, mid) == (queue.name, "dead")
    target.put(allow_from=[queue.name])
    assert where(world, kill(queue, "max_retries", world)) == (target.name, "pending")


# -- circles --------------------------------------------------------------------------------------------------------------------


def test_circles_are_refused_when_they_are_set(world):
    a, b, c = (world.queue() for _ in range(3))
    for q in (a, b, c):
        q.put()
    assert world.client.put(a.path, {"dead_target": {"queue": a.name}}).status == 409
    a.put(dead_target={"queue": b.name})
    assert world.client.put(b.path, {"dead_target": {"queue": a.name}}).status == 409
    b.put(dead_target={"queue": c.name})
    assert world.client.put(c.path, {"dead_target": {"queue": a.name}}).status == 409
    assert c.info()["policy"]["dead_target"] is None
    a.put()
    c.put(dead_target={"queue": a.name})


def test_a_circle_through_a_queue_that_is_not_there_yet(world):
    a, b = world.queue(), world.queue()
    a.put(dead_target={"queue": b.name})
    assert world.client.put(b.path, {"dead_target": {"queue": a.name}}).status == 409
    b.put()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_letter_that_would_come_back_for_the_same_reason_stays(world, restarts):
    """t1 -> t2, then, with the policies changed in between, t2 -> t1."""
    t1, t2 = world.queue(max_retries=1), world.queue(max_retries=1)
    t1.put(max_retries=1, dead_target={"queue": t2.name})
    mid = kill(t1, "max_retries", world)
    assert where(world, mid) == (t2.name, "pending")
    t1.put(max_retries=1)
    t2.put(max_retries=1, dead_target={"queue": t1.name})
    if restarts:
        world.restart()
    t2.fail(t2.claim(), error="again")
    assert where(world, mid) == (t2.name, "dead")
    t2.replay(mid)
    m = t2.claim(lease_seconds=5)
    world.wait(5)
    assert where(world, mid) == (t1.name, "pending"), "for another reason it may"
    m = t1.read(m)
    assert "origin_queue" not in m
    t2.put(max_retries=1)
    t1.put(max_retries=1, dead_target={"queue": t2.name})
    t1.claim(lease_seconds=5)
    world.wait(5)
    assert where(world, mid) == (t1.name, "dead")


def test_a_rejection_between_lets_it_come_back(world):
    t1, t2 = world.queue(max_retries=1), world.queue(max_retries=1)
    t1.put(max_retries=1, dead_target={"queue": t2.name})
    mid = kill(t1, "max_retries", world)
    t1.put(max_retries=1)
    t2.put(max_retries=1, dead_target={"queue": t1.name})
    t2.fail(t2.claim(), permanent=True)
    assert where(world, mid) == (t1.name, "pending")
    t2.put(max_retries=1)
    t1.put(max_retries=1, dead_target={"queue": t2.name})
    dead = t1.claim()
    t1.fail(dead)
    assert where(world, mid) == (t2.name, "pending")


def test_a_long_chain(world):
    chain = [world.queue(max_retries=1, backoff=AT_ONCE) for _ in range(6)]
    for a, b in zip(chain, chain[1:]):
        a.put(max_retries=1, dead_target={"queue": b.name})
    mid = chain[0].enqueue("x")["id"]
    for q in chain:
        q.fail(q.claim())
    world.restart()
    assert where(world, mid) == (chain[-1].name, "dead")
    d = chain[-1].read(mid)
    assert d["death"]["origin"]["queue"] == chain[0].name and d["deliveries"] == 6
    assert [a["event"] for a in chain[-1].attempts(mid)].count("dead_lettered") == 5


# -- with the other guards --------------------------------------------------------------------------------------------------------


def test_an_ordered_queue_goes_on_when_its_head_has_moved(world):
    queue, target = pair(world, order="park")
    a, b = queue.batch([{"payload": "1", "key": "K"}, {"payload": "2", "key": "K"}])["ids"]
    queue.fail(queue.claim())
    assert where(world, a) == (target.name, "pending")
    assert queue.info()["parked_keys"] == 0 and claim_ids(queue) == [b]
    queue.succeed(b)


def test_what_stays_in_an_ordered_queue_parks(world):
    queue, target = pair(world, order="park", reasons=["expired"])
    a, b = queue.batch([{"payload": "1", "key": "K"}, {"payload": "2", "key": "K"}])["ids"]
    assert dies_alone(queue)["id"] == a
    assert queue.info()["parked_keys"] == 1 and queue.read(b)["status"] == "parked"
    assert target.counts()["pending"] == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_in_an_ordered_target_they_stand_in_line(world, restarts):
    queue, target = pair(world, to={"order": "park", "max_retries": 1})
    made = queue.batch([{"payload": str(n), "key": "K"} for n in range(4)])["ids"]
    for mid in (made[1], made[0], made[2], made[3]):
        queue.claim_many(4)
        queue.fail(mid)
    if restarts:
        world.restart()
    assert claim_ids(target) == made[:1] and target.counts()["held"] == 3
    target.fail(made[0])
    assert (target.counts()["parked"], target.info()["parked_keys"]) == (3, 1)
    if restarts:
        world.restart()
    target.discard(made[0])
    for mid in made[1:]:
        assert claim_ids(target) == [mid]
        target.succeed(mid)


def test_a_thousand_at_once(world):
    queue, target = pair(world)
    made = fill(queue, 1000)
    results = queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail", "error": "boom"}
                            for m in queue.claim_many(1000)])["results"]
    assert len(results) == 1000
    world.restart()
    assert queue.counts()["pending"] + queue.counts()["dead"] == 0 and target.counts()["pending"] == 1000
    assert claim_ids(target, 1000) == made
