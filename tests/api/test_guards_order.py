"""The order of keys: block and park, whatever happens to the head of a key's line."""
import random

import pytest

from lib.guards import claim_ids, dies_alone, ids
from lib.jobs import Jobs

ORDERS = ("block", "park")


def ordered(world, order, keys="KKK", **policy):
    """A queue with one message for each letter; their ids."""
    queue = world.queue(order=order, max_retries=1, **policy)
    return queue, queue.batch([{"payload": k, "key": k} for k in keys])["ids"]


def status(queue, *wanted):
    return [queue.read(m)["status"] for m in wanted]


def parked(queue):
    i = queue.info()
    return i["counts"]["parked"], i["parked_keys"]


def run_through(queue, most=200):
    """Claims one after the other and lets each succeed; the ids in the order they went."""
    went = []
    while (m := queue.claim()) is not None and len(went) < most:
        queue.succeed(m)
        went.append(m["id"])
    return went


# -- one in flight a key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_one_in_flight_a_key_and_the_others_flow(world, order):
    queue, (a1, b1, a2, a3, b2, c1) = ordered(world, order, "ABAABC")
    n = queue.enqueue("no key")["id"]
    assert claim_ids(queue) == [a1, b1, c1, n]
    assert queue.claim() is None
    counts = queue.counts()
    assert (counts["pending"], counts["ready"], counts["held"], counts["parked"]) == (3, 0, 3, 0)
    assert status(queue, a2, a3, b2) == ["pending"] * 3
    queue.succeed(b1)
    assert claim_ids(queue) == [b2]
    queue.succeed(a1)
    assert claim_ids(queue) == [a2]
    queue.succeed(a2)
    assert claim_ids(queue) == [a3]


@pytest.mark.parametrize("order", ORDERS)
def test_a_failed_head_holds_its_key_until_it_is_through(world, order):
    queue = world.queue(order=order, max_retries=3, backoff={"kind": "fixed", "base_seconds": 10})
    a, b = queue.batch([{"payload": "x", "key": "K"}] * 2)["ids"]
    m = queue.claim()
    for _ in range(2):
        queue.fail(m)
        assert queue.claim() is None and status(queue, b) == ["pending"]
        world.wait(10)
        m = queue.claim()
        assert m["id"] == a
    queue.succeed(m)
    assert claim_ids(queue) == [b]


@pytest.mark.parametrize("order", ORDERS)
def test_a_released_head_and_one_whose_lease_ran_out_keep_their_place(world, order):
    queue = world.queue(order=order, max_retries=5)
    a, b = queue.batch([{"payload": "1", "key": "K"}, {"payload": "2", "key": "K"}])["ids"]
    queue.release(queue.claim(), delay_seconds=5)
    assert queue.claim() is None
    world.wait(5)
    assert queue.claim(lease_seconds=10)["id"] == a
    world.wait(10)
    assert queue.claim() is None
    world.wait(60)
    assert claim_ids(queue) == [a]
    queue.succeed(a)
    assert claim_ids(queue) == [b]


@pytest.mark.parametrize("order", ORDERS)
def test_a_head_with_a_delay_is_waited_for(world, order):
    queue = world.queue(order=order)
    a = queue.enqueue("1", key="K", delay_seconds=10)["id"]
    b = queue.enqueue("2", key="K")["id"]
    assert queue.claim() is None
    world.wait(10)
    assert run_through(queue) == [a, b]


@pytest.mark.parametrize("order", ORDERS)
def test_a_held_one_with_a_delay_waits_for_both(world, order):
    queue = world.queue(order=order)
    a = queue.enqueue("1", key="K")["id"]
    b = queue.enqueue("2", key="K", delay_seconds=10)["id"]
    c = queue.enqueue("3", key="K", delay_seconds=1)["id"]
    queue.succeed(queue.claim())
    assert queue.claim() is None
    world.wait(10)
    assert run_through(queue) == [b, c] and a


@pytest.mark.parametrize("order", ORDERS)
def test_arrival_goes_before_priority_within_a_key(world, order):
    queue = world.queue(order=order)
    low = queue.enqueue("1", key="K")["id"]
    high = queue.enqueue("2", key="K", priority=9)["id"]
    other = queue.enqueue("3", key="L", priority=5)["id"]
    assert claim_ids(queue) == [other, low]
    queue.succeed(low)
    assert claim_ids(queue) == [high]


def test_without_an_order_keys_mean_nothing(world):
    queue, made = ordered(world, "none", "KKK")
    assert claim_ids(queue) == made
    queue.fail(made[0])
    assert parked(queue) == (0, 0)


# -- a head that dies -----------------------------------------------------------------------------------------------------------


def test_block_lets_the_key_go_on(world):
    queue, (a, b, c) = ordered(world, "block")
    assert dies_alone(queue)["id"] == a
    assert parked(queue) == (0, 0)
    assert claim_ids(queue) == [b]
    queue.succeed(b)
    queue.replay(a)
    assert run_through(queue) == [a, c]


def test_park_parks_what_stands_behind(world):
    queue, (a, x, b, c, y) = ordered(world, "park", "KLKKL")
    assert dies_alone(queue)["id"] == a
    assert parked(queue) == (2, 1)
    assert status(queue, a, b, c, x, y) == ["dead", "parked", "parked", "pending", "pending"]
    d = queue.enqueue("later", key="K")
    assert d["status"] == "parked"
    assert ids(queue.list(status="parked")) == [b, c, d["id"]]
    assert ids(queue.list(status="pending")) == [x, y]
    assert ids(queue.list()) == [a, x, b, c, y, d["id"]]
    assert ids(queue.list(status="parked", limit=1, after=b)) == [c] and ids(queue.list(status="parked", offset=2)) == [d["id"]]
    counts = queue.counts()
    assert (counts["pending"], counts["ready"], counts["held"], counts["parked"], counts["dead"]) == (2, 1, 1, 3, 1)
    assert queue.client.get(f"/messages/{b}").json["status"] == "parked"
    assert run_through(queue) == [x, y]
    assert ids(queue.letters()) == [a], "a parked message is no dead letter"


@pytest.mark.parametrize("verb", ["succeed", "fail", "release", "extend"])
def test_a_parked_message_cannot_be_settled(world, verb):
    queue, (a, b) = ordered(world, "park", "KK")
    dies_alone(queue)
    assert "parked" in queue.act(b, verb, expect=409)["detail"]
    assert "parked" in queue.act(b, "discard", why="test", expect=409)["detail"]
    assert "parked" in queue.replay(b, expect=409)["detail"] and a


@pytest.mark.parametrize("restarts", [False, True])
def test_a_replay_of_the_head_lets_them_go_in_order(world, restarts):
    queue, (a, b, c) = ordered(world, "park")
    dies_alone(queue)
    if restarts:
        world.restart()
    queue.replay(a)
    assert parked(queue) == (0, 0) and status(queue, b) == ["pending"]
    if restarts:
        world.restart()
    m = queue.claim()
    assert m["id"] == a and queue.claim() is None
    queue.fail(m)
    assert parked(queue) == (2, 1)
    if restarts:
        world.restart()
    queue.replay(a)
    assert run_through(queue) == [a, b, c]


def test_a_redrive_of_the_heads(world):
    queue, made = ordered(world, "park", "KKLLKL")
    k1, k2, l1, l2, k3, l3 = made
    assert [dies_alone(queue)["id"], dies_alone(queue)["id"]] == [k1, l1]
    assert parked(queue) == (4, 2)
    job = Jobs(world.client).redrive(queue=queue.name, sample=0)
    assert parked(queue) == (0, 0)
    assert sorted(claim_ids(queue)) == [k1, l1]
    queue.succeed(k1)
    queue.succeed(l1)
    assert run_through(queue) == [k2, l2, k3, l3] and job


@pytest.mark.parametrize("restarts", [False, True])
def test_a_discard_of_the_head_lets_them_go_and_undiscard_parks_what_is_left(world, restarts):
    queue, (a, b, c) = ordered(world, "park")
    dies_alone(queue)
    queue.discard(a)
    assert parked(queue) == (0, 0)
    if restarts:
        world.restart()
    queue.succeed(queue.claim())
    queue.undiscard(a)
    assert parked(queue) == (1, 1) and status(queue, c) == ["parked"]
    if restarts:
        world.restart()
    assert queue.claim() is None
    queue.discard(a)
    assert run_through(queue) == [c] and b


def test_undiscard_while_another_is_in_flight(world):
    queue, (a, b, c) = ordered(world, "park")
    dies_alone(queue)
    queue.discard(a)
    m = queue.claim()
    queue.undiscard(a)
    queue.release(m)
    assert status(queue, b, c) == ["parked", "parked"] and queue.claim() is None
    queue.replay(a)
    assert run_through(queue) == [a, b, c]


def test_a_purge_lets_them_go(world):
    queue, (a, b, x, y) = ordered(world, "park", "KKLL")
    dies_alone(queue)
    dies_alone(queue)
    assert parked(queue) == (2, 2)
    Jobs(world.client).purge(queue)
    assert parked(queue) == (0, 0) and queue.counts()["dead"] == 0
    assert run_through(queue) == [b, y] and a and x


def test_retention_lets_them_go(world):
    queue, (a, b) = ordered(world, "park", "KK", retention={"dead_seconds": 100})
    dies_alone(queue)
    assert parked(queue) == (1, 1)
    world.wait(100)
    assert parked(queue) == (0, 0) and run_through(queue) == [b] and a


@pytest.mark.parametrize("restarts", [False, True])
def test_an_edited_copy_takes_its_originals_place(world, restarts):
    queue, (a, b, c) = ordered(world, "park")
    dies_alone(queue)
    copy = queue.edit(a, payload="better")
    assert copy["status"] == "pending" and copy["parent_id"] == a and copy["key"] == "K"
    assert parked(queue) == (0, 0)
    if restarts:
        world.restart()
    m = queue.claim()
    assert (m["id"], m["payload"]) == (copy["id"], "better") and queue.claim() is None
    assert queue.fail(m, permanent=True)["status"] == "dead"
    assert parked(queue) == (2, 1) and status(queue, b) == ["parked"]
    again = queue.edit(copy, payload="best")
    if restarts:
        world.restart()
    assert run_through(queue) == [again["id"], b, c]


def test_a_patched_redrive_takes_its_originals_place(world):
    queue = world.queue(order="park", max_retries=1)
    a, b = queue.batch([{"payload": '{"v": 1}', "key": "K"}, {"payload": '{"v": 2}', "key": "K"}])["ids"]
    dies_alone(queue)
    Jobs(world.client).redrive(queue=queue.name, patch=[{"op": "set", "path": "payload.v", "value": 3}], sample=0)
    m = queue.claim()
    assert m["parent_id"] == a and queue.claim() is None
    queue.succeed(m)
    assert run_through(queue) == [b]


@pytest.mark.parametrize("patch", [None, [{"op": "set", "path": "payload.v", "value": 3}]])
@pytest.mark.parametrize("order", ["none", *ORDERS])
def test_a_redrive_into_another_queue_follows_the_order_there(world, order, patch):
    queue = world.queue(order="park", max_retries=1)
    other = world.queue(order=order)
    first = other.enqueue('{"v": 0}', key="K")["id"]
    queue.batch([{"payload": '{"v": 1}', "key": "K"}] * 2)
    a = dies_alone(queue)["id"]
    more = {"patch": patch} if patch else {}
    Jobs(world.client).redrive(queue=queue.name, to=other.name, sample=0, **more)
    world.restart()
    assert len(other.claim_many(10)) == (2 if order == "none" else 1)
    flying = other.list(status="processing")[0]
    other.succeed(flying["id"])
    assert len(other.claim_many(10)) == (0 if order == "none" else 1) and first and a
    if not patch:
        assert claim_ids(queue) != [], "the key goes on where it was"


@pytest.mark.parametrize("order", ORDERS)
def test_held_ones_expire(world, order):
    queue = world.queue(order=order, max_retries=1)
    a = queue.enqueue("1", key="K")["id"]
    b = queue.enqueue("2", key="K", ttl_seconds=10)["id"]
    c = queue.enqueue("3", key="K")["id"]
    m = queue.claim()
    world.wait(10)
    assert queue.read(b)["reason"] == "expired"
    assert queue.counts()["held"] == 1
    queue.succeed(m)
    if order == "park":
        assert status(queue, c) == ["parked"]
        queue.discard(b)
    assert run_through(queue) == [c] and a


def test_parked_ones_expire(world):
    queue = world.queue(order="park", max_retries=1)
    a = queue.enqueue("1", key="K")["id"]
    b = queue.enqueue("2", key="K", ttl_seconds=10)["id"]
    c = queue.enqueue("3", key="K")["id"]
    dies_alone(queue)
    world.wait(10)
    assert status(queue, a, b, c) == ["dead", "dead", "parked"] and parked(queue) == (1, 1)
    queue.replay(a)
    assert run_through(queue) == [a] and status(queue, c) == ["parked"] and parked(queue) == (1, 1)
    world.restart()
    queue.replay(b)
    assert run_through(queue) == [b, c]


def test_several_dead_of_one_key_are_decided_one_by_one(world):
    queue, made = ordered(world, "park", "KKKK")
    for k, m in enumerate(made[:3]):
        assert dies_alone(queue)["id"] == m
        queue.discard(m)
        assert parked(queue) == (0, 0), k
    for m in reversed(made[:3]):
        queue.undiscard(m)
    assert parked(queue) == (1, 1)
    world.restart()
    for m in made[:3]:
        assert queue.claim() is None
        queue.replay(m)
        assert run_through(queue) == ([m] if m != made[2] else made[2:])


# -- the queue ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pending", "processing", "dead", "discarded"])
def test_its_order_stays_while_it_holds_messages(world, state):
    queue = world.queue(order="park", max_retries=1)
    queue.enqueue("x", key="K")
    if state != "pending":
        m = queue.claim()
        if state != "processing":
            queue.fail(m)
        if state == "discarded":
            queue.discard(m)
    refused = queue.put(order="block", expect=409)
    assert "order" in refused["detail"]
    queue.put(order="park", max_retries=7)


def test_its_order_changes_when_all_is_done(world):
    queue = world.queue(order="park")
    queue.enqueue("x", key="K")
    queue.succeed(queue.claim())
    queue.put(order="none")
    assert claim_ids(queue) == [] and queue.batch([{"payload": "x", "key": "K"}] * 3)["count"] == 3
    assert len(claim_ids(queue)) == 3


@pytest.mark.parametrize("order", ORDERS)
def test_deleting_it_with_lines_of_all_kinds(world, order):
    queue, made = ordered(world, order, "AABBCCDD" * 50)
    for _ in range(2):
        dies_alone(queue)
    queue.claim_many(2)
    queue.delete(expect=409)
    queue.delete(discard=True)
    queue.info(expect=404)
    queue.put(order=order)
    a = queue.enqueue("new", key="A")
    assert a["status"] == "pending" and run_through(queue) == [a["id"]] and made
    world.restart()
    assert queue.counts()["pending"] == 0


def test_a_thousand_keys(world):
    queue = world.queue(order="park", max_retries=1)
    made = queue.batch([{"payload": "x", "key": f"k{n}"} for n in range(1000)])["ids"]
    behind = queue.batch([{"payload": "y", "key": f"k{n}"} for n in range(1000)])["ids"]
    got = queue.claim_many(1000)
    assert ids(got) == made
    items = [{"id": m["id"], "lease": m["lease"], "action": "fail" if n % 2 else "succeed"} for n, m in enumerate(got)]
    queue.settle(items)
    assert parked(queue) == (500, 500)
    world.restart()
    assert parked(queue) == (500, 500)
    assert claim_ids(queue, 1000) == behind[::2]
    queue.settle([{"id": m, "action": "succeed"} for m in behind[::2]])
    Jobs(world.client).discard(queue=queue.name)
    assert parked(queue) == (0, 0)
    assert claim_ids(queue, 1000) == behind[1::2]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(3))
def test_a_long_random_walk_keeps_every_keys_order(world, order, seed):
    """Of each key, one is in flight at most, and what succeeds at its first try does so in the order of arrival."""
    rng = random.Random(seed)
    queue = world.queue(order=order, max_retries=2, backoff={"kind": "fixed", "base_seconds": 3}, lease_seconds=20,
                        redrive_limit=1000)
    key, flying, gone = {}, {}, []
    for step in range(250):
        what = rng.randrange(10)
        if what < 3:
            k = f"k{rng.randrange(6)}"
            key[queue.enqueue("x", key=k)["id"]] = k
        elif what < 6:
            for m in queue.claim_many(rng.randrange(1, 4)):
                assert m["key"] not in [key[f] for f in flying], (step, m["id"], flying)
                if order == "park":
                    older = [i for i in key if key[i] == m["key"] and i < m["id"] and i not in gone]
                    assert not older, (step, m["id"], older)
                flying[m["id"]] = m
        elif what < 8 and flying:
            mid = rng.choice(sorted(flying))
            verb = rng.choice(["succeed", "succeed", "fail", "release"])
            queue.act(flying.pop(mid), verb)
            if verb == "succeed":
                gone.append(mid)
        elif what == 8:
            for d in queue.list(status="dead", limit=2):
                if rng.random() < 0.5:
                    queue.replay(d)
                else:
                    queue.discard(d)
                    gone.append(d["id"])
        else:
            world.wait(rng.randrange(1, 5))
            flying = {m["id"]: m for m in (flying.get(p["id"]) for p in queue.all(status="processing")) if m}
        if step % 60 == 59:
            world.restart()
    dead = queue.counts()["dead"]
    assert queue.counts()["parked"] == 0 or (order == "park" and dead > 0)
