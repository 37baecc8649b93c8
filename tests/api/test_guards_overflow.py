"""Overflow: rejected with 429, or accepted and dead; never silent."""
import pytest

from lib.guards import claim_ids, fill, ids
from lib.jobs import Jobs


def test_reject_is_the_default(world):
    queue = world.queue(max_messages=2)
    fill(queue, 2)
    reply = world.client.post(queue.path + "/messages", {"payload": "x"})
    assert reply.status == 429 and int(reply.headers["Retry-After"]) > 0
    assert queue.info()["policy"]["overflow"] == "reject"


@pytest.mark.parametrize("restarts", [False, True])
def test_dead_by_number(world, restarts):
    queue = world.queue(max_messages=2, overflow="dead")
    fill(queue, 2)
    d = queue.enqueue("one too many", headers={"a": 1}, key="K")
    assert (d["status"], d["reason"], d["retry_count"]) == ("dead", "max_length", 0)
    assert d["death"]["by"] == "system" and d["death"]["first_failed_at"] is None and d["payload"] == "one too many"
    if restarts:
        world.restart()
    info = queue.info()
    assert info["counts"]["pending"] == 2 and info["dead_by_reason"] == {"max_length": 1}
    assert info["conservation"]["accepted"] == 3
    assert ids(queue.letters("reason:max_length")) == [d["id"]]
    group = queue.groups()[0]
    assert (group["reason"], group["count"]) == ("max_length", 1)


def test_dead_by_bytes(world):
    queue = world.queue(max_bytes=10, overflow="dead")
    assert queue.enqueue("12345678")["status"] == "pending"
    assert queue.enqueue("123")["status"] == "dead"
    assert queue.enqueue("12")["status"] == "pending"


def test_a_batch_fills_up_and_the_rest_dies(world):
    queue = world.queue(max_messages=5, overflow="dead")
    made = fill(queue, 12)
    assert ids(queue.list(status="pending")) == made[:5]
    assert sorted(ids(queue.letters())) == made[5:]
    world.restart()
    assert queue.counts()["dead"] == 7


def test_room_again(world):
    queue = world.queue(max_messages=1, overflow="dead")
    fill(queue, 1)
    queue.succeed(queue.claim())
    assert queue.enqueue("x")["status"] == "pending"


def test_what_is_in_processing_counts(world):
    queue = world.queue(max_messages=1, overflow="dead")
    fill(queue, 1)
    queue.claim()
    assert queue.enqueue("x")["status"] == "dead"


def test_it_is_redriven_like_any_letter(world):
    queue = world.queue(max_messages=1, overflow="dead")
    a, b, c = fill(queue, 3)
    queue.succeed(queue.claim())
    job = Jobs(world.client).redrive(queue=queue.name, filter="reason:max_length")
    assert job["selected"] in (0, 2) and claim_ids(queue) == [b, c] and a
    queue.succeed(b)
    queue.fail(c, permanent=True)
    queue.replay(c)
    assert claim_ids(queue) == [c]


def test_an_idempotent_enqueue_finds_the_dead_one(world):
    queue = world.queue(max_messages=1, overflow="dead")
    fill(queue, 1)
    d = queue.enqueue("x", idempotency_key="k")
    assert d["status"] == "dead"
    assert queue.enqueue("x", idempotency_key="k", expect=200)["id"] == d["id"]
    assert queue.counts()["dead"] == 1


def test_with_an_order_it_parks_nobody(world):
    """It never stood in line: what came before it and what comes after it go on."""
    queue = world.queue(max_messages=1, overflow="dead", order="park")
    a = queue.enqueue("x", key="K")["id"]
    d = queue.enqueue("y", key="K")
    assert d["status"] == "dead"
    queue.succeed(queue.claim())
    b = queue.enqueue("z", key="K")
    assert b["status"] == "pending" and claim_ids(queue) == [b["id"]] and a


@pytest.mark.parametrize("again", ["replay", "edit"])
def test_with_an_order_it_stands_in_line_when_it_is_sent_again(world, again):
    queue = world.queue(max_messages=1, overflow="dead", order="park")
    queue.enqueue("x", key="K")
    d = queue.enqueue("y", key="K")
    queue.put(order="park")
    later = queue.enqueue("z", key="K")
    mid = queue.replay(d)["id"] if again == "replay" else queue.edit(d, payload="better")["id"]
    queue.succeed(queue.claim())
    world.restart()
    expected = [mid, later["id"]] if again == "replay" else [later["id"], mid]
    assert claim_ids(queue) == expected[:1]
    queue.succeed(expected[0])
    assert claim_ids(queue) == expected[1:]


def test_delay_and_ttl_of_the_dead_are_theirs_again_when_sent_again(world):
    queue = world.queue(max_messages=1, overflow="dead")
    fill(queue, 1)
    d = queue.enqueue("y", ttl_seconds=50, delay_seconds=20)
    assert d["status"] == "dead" and "available_at" not in d
    world.wait(1000)
    assert queue.read(d)["status"] == "dead"
    queue.succeed(queue.claim())
    assert queue.replay(d)["expires_at"] == world.time(50)
    assert claim_ids(queue) == [d["id"]]


@pytest.mark.parametrize("value", ["drop", "", 1, None])
def test_its_name_is_checked(world, value):
    reply = world.client.put("/queues/checked", {"overflow": value})
    assert reply.status == 422 and reply.error()[0] == "overflow"
