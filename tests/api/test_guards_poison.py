"""Poison: what kills its worker dies, and nothing else does; deliveries have a limit of their own."""
import pytest

from lib.guards import claim_ids, fill, ids

LEASE = 10


def work(world, queue, poison, count, rounds=60):
    """Workers that claim `count`; one that gets poison dies with all it holds. Returns how many of them died."""
    deaths = 0
    for _ in range(rounds):
        got = queue.claim_many(count)
        if set(ids(got)) & poison:
            deaths += 1
            world.wait(LEASE)
        else:
            for m in got:
                queue.succeed(m)
        world.wait(2)
    return deaths


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("max_retries", [1, 2, 3])
@pytest.mark.parametrize("count, at", [(10, 0), (10, 4), (10, 9), (3, 1)])
def test_only_the_poison_of_a_claim_of_many_dies(world, max_retries, count, at, restarts):
    queue = world.queue(max_retries=max_retries, lease_seconds=LEASE, backoff={"kind": "fixed", "base_seconds": 1})
    made = fill(queue, 10)
    poison = {made[at]}
    if restarts:
        for _ in range(3):
            if set(claim_ids(queue, count)) & poison:
                world.restart()
                world.wait(LEASE + 2)
    deaths = work(world, queue, poison, count)
    info = queue.info()
    assert (info["counts"]["dead"], info["counts"]["succeeded"]) == (1, 9), info
    assert ids(queue.letters()) == [made[at]] and info["dead_by_reason"] == {"lease_expired": 1}
    assert info["alone_claims"] >= 1 and deaths <= max_retries + count
    for m in set(made) - poison:
        assert queue.read(m)["retry_count"] < max_retries


def test_two_poisonous_ones(world):
    queue = world.queue(max_retries=2, lease_seconds=LEASE, backoff={"kind": "fixed", "base_seconds": 1})
    made = fill(queue, 20)
    work(world, queue, {made[3], made[11]}, 20)
    assert sorted(ids(queue.letters())) == [made[3], made[11]] and queue.counts()["succeeded"] == 18


def test_a_message_that_goes_alone_has_no_company(world):
    queue = world.queue(max_retries=2, lease_seconds=LEASE, backoff={"kind": "fixed", "base_seconds": 0})
    made = fill(queue, 3)
    assert claim_ids(queue) == made
    world.wait(LEASE)
    assert all(queue.read(m)["retry_count"] == 1 for m in made)
    for m in made:
        assert claim_ids(queue) == [m]
    assert queue.info()["alone_claims"] == 3
    world.restart()
    queue.succeed(made[0])
    world.wait(LEASE)
    assert [queue.read(m)["status"] for m in made] == ["succeeded", "dead", "dead"]


def test_alone_lasts_for_one_attempt(world):
    queue = world.queue(max_retries=2, lease_seconds=LEASE, backoff={"kind": "fixed", "base_seconds": 0})
    a, b = fill(queue, 2)
    claim_ids(queue)
    world.wait(LEASE)
    assert claim_ids(queue) == [a]
    queue.release(a)
    assert claim_ids(queue) == [a], "a release says nothing of the message"
    queue.succeed(a)
    assert claim_ids(queue) == [b]
    assert queue.fail(b)["reason"] == "max_retries"


def test_an_expired_lease_of_one_alone_kills_at_the_limit(world):
    queue = world.queue(max_retries=1, lease_seconds=LEASE)
    m = queue.enqueue("x")
    assert claim_ids(queue, 10) == [m["id"]]
    world.wait(LEASE)
    d = queue.read(m)
    assert (d["status"], d["reason"], d["deliveries"]) == ("dead", "lease_expired", 1)


def test_a_failure_that_was_said_kills_whatever_the_company(world):
    queue = world.queue(max_retries=1, lease_seconds=LEASE)
    made = fill(queue, 3)
    claim_ids(queue)
    assert queue.fail(made[1])["reason"] == "max_retries"
    world.wait(LEASE)
    assert [queue.read(m)["status"] for m in made] == ["pending", "dead", "pending"]


# -- deliveries -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_releases_are_bounded(world, restarts):
    queue = world.queue(max_deliveries=3)
    m = queue.enqueue("x")
    for _ in range(3):
        queue.release(queue.claim())
        if restarts:
            world.restart()
    assert queue.read(m)["status"] == "pending"
    assert queue.claim() is None
    d = queue.read(m)
    assert (d["status"], d["reason"], d["deliveries"], d["retry_count"]) == ("dead", "delivery_limit", 3, 0)
    assert d["death"]["by"] == "system" and queue.info()["dead_by_reason"] == {"delivery_limit": 1}


def test_the_last_delivery_that_fails_is_the_end(world):
    queue = world.queue(max_deliveries=2, max_retries=50, backoff={"kind": "fixed", "base_seconds": 0})
    m = queue.enqueue("x")
    assert queue.fail(queue.claim())["status"] == "pending"
    assert queue.fail(queue.claim())["reason"] == "delivery_limit"
    assert queue.read(m)["deliveries"] == 2


def test_the_last_delivery_may_succeed(world):
    queue = world.queue(max_deliveries=1)
    queue.enqueue("x")
    assert queue.succeed(queue.claim())["status"] == "succeeded"


def test_max_retries_comes_first_when_it_is_less(world):
    queue = world.queue(max_deliveries=5, max_retries=2, backoff={"kind": "fixed", "base_seconds": 0})
    queue.enqueue("x")
    queue.fail(queue.claim())
    assert queue.fail(queue.claim())["reason"] == "max_retries"


@pytest.mark.parametrize("again", ["replay", "edit"])
def test_it_counts_since_it_was_sent_again(world, again):
    queue = world.queue(max_deliveries=2)
    m = queue.enqueue("x")
    for _ in range(2):
        queue.release(queue.claim())
    assert queue.claim() is None
    mid = m["id"]
    if again == "replay":
        queue.replay(m)
    else:
        mid = queue.edit(m, payload="y")["id"]
    for _ in range(2):
        c = queue.claim()
        assert c["id"] == mid
        queue.release(c)
    assert queue.claim() is None
    assert queue.read(mid)["reason"] == "delivery_limit"


def test_a_new_limit_holds_for_what_is_there(world):
    queue = world.queue()
    m = queue.enqueue("x")
    for _ in range(5):
        queue.release(queue.claim())
    queue.put(max_deliveries=3)
    assert queue.claim() is None and queue.read(m)["reason"] == "delivery_limit"


@pytest.mark.parametrize("limit", [2, 3])
def test_neighbours_of_poison_near_the_delivery_limit(world, limit):
    queue = world.queue(max_deliveries=limit, max_retries=50, lease_seconds=LEASE, backoff={"kind": "fixed", "base_seconds": 1})
    made = fill(queue, 5)
    work(world, queue, {made[2]}, 5)
    assert ids(queue.letters()) == [made[2]] and queue.counts()["succeeded"] == 4
    assert queue.info()["dead_by_reason"] == {"delivery_limit": 1}


def test_many_at_the_limit_die_in_one_claim(world):
    queue = world.queue(max_deliveries=1)
    made = fill(queue, 500)
    queue.settle([{"id": m["id"], "lease": m["lease"], "action": "release"} for m in queue.claim_many(500)])
    last = queue.enqueue("fresh")
    assert claim_ids(queue, 10) == [last["id"]]
    assert queue.counts()["dead"] == 500 and len(made) == 500
    world.restart()
    assert queue.counts()["dead"] == 500
