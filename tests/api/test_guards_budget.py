"""The retry budget: over it fresh messages go first; a retry is never held back when nothing is fresh."""
import pytest

from lib.guards import fail_next, fill

AT_ONCE = {"kind": "fixed", "base_seconds": 0}


def budgeted(world, share, n, **policy):
    queue = world.queue(retry_budget=share, max_retries=200, backoff=AT_ONCE, **policy)
    fill(queue, n)
    return queue


def retries_of(queue, claims, per_second=None, world=None):
    """Fails so many claims; how many of them were retries."""
    retries = 0
    for n in range(claims):
        m = queue.claim()
        retries += m["retry_count"] > 0
        queue.fail(m)
        if per_second and n % per_second == 0:
            world.wait(1)
    return retries


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.5])
def test_no_more_than_its_share_while_there_are_fresh_ones(world, share):
    queue = budgeted(world, share, 400)
    first = retries_of(queue, 20)  # so few say nothing
    later = retries_of(queue, 180)
    assert first + later <= 200 * share + 21
    assert first + later >= 200 * share - 2


def test_without_it_a_retry_keeps_its_place(world):
    queue = world.queue(max_retries=200, backoff=AT_ONCE)
    fill(queue, 50)
    assert retries_of(queue, 40) == 39


def test_nothing_fresh_so_retries_go(world):
    queue = budgeted(world, 0.1, 10)
    assert retries_of(queue, 100) >= 90


def test_fresh_ones_go_first_when_it_is_spent(world):
    queue = budgeted(world, 0.01, 60)
    retries_of(queue, 40)
    fresh = queue.enqueue("fresh")
    m = queue.claim()
    assert m["retry_count"] == 0 and m["id"] <= fresh["id"]


def test_retries_wait_for_nobody_when_the_fresh_ones_are_gone(world):
    queue = budgeted(world, 0.05, 30)
    fail_next(queue, 60)
    assert queue.counts()["ready"] == 30
    while m := queue.claim():
        queue.succeed(m)
    assert queue.counts()["succeeded"] == 30


def test_the_share_is_of_the_last_minute(world):
    queue = budgeted(world, 0.2, 1000)
    for _ in range(5):
        assert retries_of(queue, 100, per_second=2, world=world) <= 20 + 21
        world.wait(61)


def test_a_claim_of_many_keeps_it_too(world):
    queue = budgeted(world, 0.2, 500)
    retries = claims = 0
    for _ in range(20):
        got = queue.claim_many(20)
        claims += len(got)
        retries += sum(m["retry_count"] > 0 for m in got)
        queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail"} for m in got])
    assert claims == 400 and retries <= 0.2 * claims + 21


def test_higher_priority_does_not_go_around_it(world):
    queue = world.queue(retry_budget=0.1, max_retries=200, backoff=AT_ONCE)
    queue.batch([{"payload": "x", "priority": 9}] * 30)
    fail_next(queue, 30)
    fill(queue, 30)
    retries = sum(m["retry_count"] > 0 for m in queue.claim_many(20))
    assert retries <= 6


def test_a_restart_keeps_nothing_of_the_window_and_loses_no_message(world):
    queue = budgeted(world, 0.1, 300)
    retries_of(queue, 60)
    world.restart()
    assert retries_of(queue, 100) <= 10 + 21
    assert queue.counts()["pending"] == 300


def test_a_budget_that_is_taken_away_leaves_nothing_behind(world):
    queue = budgeted(world, 0.05, 100)
    retries_of(queue, 40)
    queue.put(max_retries=200, backoff=AT_ONCE)
    assert queue.claim()["retry_count"] > 0, "the oldest goes first again"


def test_a_budget_that_comes_later_holds_for_what_fails_from_then_on(world):
    queue = world.queue(max_retries=200, backoff=AT_ONCE)
    fill(queue, 100)
    fail_next(queue, 20)
    queue.put(max_retries=200, backoff=AT_ONCE, retry_budget=0.1)
    assert retries_of(queue, 90) <= 9 + 21 + 1


@pytest.mark.parametrize("value", [0, 1.5, -1, "a lot", 0.0001])
def test_its_share_is_checked(world, value):
    reply = world.client.put("/queues/checked", {"retry_budget": value})
    assert reply.status == 422 and reply.error()[0] == "retry_budget"
