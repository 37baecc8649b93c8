"""Replaying a dead message."""
import pytest

from lib.client import at


def test_replay(queue):
    d = queue.dead("x", error="boom")
    r = queue.replay(d, now=at(60))
    assert (r["status"], r["retry_count"], r["last_error"], r["retry_after"]) == ("pending", 0, None, None)
    assert (r["max_retries"], r["deliveries"], r["updated_at"], r["created_at"]) == (1, 1, at(60), d["created_at"])
    assert queue.read(d, now=at(60)) == r
    c = queue.claim(now=at(60))
    assert c["id"] == d["id"] and c["deliveries"] == 2


def test_replay_clears_class_detail_reason(queue):
    queue.enqueue("x")
    d = queue.fail(queue.claim(), error="e", error_class="C", detail="D", permanent=True)
    queue.replay(d)
    seen = queue.read(d)
    for field in ("error_class", "detail", "reason", "died_at"):
        assert field not in seen


@pytest.mark.parametrize("state", ["pending", "processing", "succeeded"])
def test_only_dead_messages(queue, state):
    m = queue.enqueue("x")
    if state != "pending":
        m = queue.claim()
    if state == "succeeded":
        queue.succeed(m)
    before = queue.read(m)
    queue.replay(m, expect=409)
    assert queue.read(m) == before


def test_the_retries_start_anew(queue):
    queue.enqueue("x", max_retries=2)
    for _ in range(3):
        f = queue.fail(queue.claim(now=at(0)), retry_after_seconds=0)
        assert (f["status"], f["retry_count"]) == ("pending", 1)
        d = queue.fail(queue.claim(), error="boom")
        assert (d["status"], d["retry_count"]) == ("dead", 2)
        queue.replay(d)
    assert queue.read(d)["deliveries"] == 6


def test_the_time_to_live_starts_anew(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    assert queue.read(m, now=at(10))["reason"] == "expired"
    r = queue.replay(m, now=at(100))
    assert r["expires_at"] == at(110)
    assert queue.read(m, now=at(109))["status"] == "pending"
    assert queue.read(m, now=at(110))["reason"] == "expired"


def test_a_replayed_message_keeps_its_place(queue):
    a = queue.dead("a")
    b = queue.enqueue("b")
    queue.replay(a)
    assert [queue.claim()["id"] for _ in range(2)] == [a["id"], b["id"]]


@pytest.mark.parametrize("how", ["max_retries", "permanent", "expired", "lease_expired"])
def test_every_reason_can_be_replayed(queue, how):
    m = queue.enqueue("x", max_retries=1, ttl_seconds=1000)
    if how == "expired":
        pass
    elif how == "lease_expired":
        queue.claim(lease_seconds=5)
    else:
        queue.fail(queue.claim(), permanent=how == "permanent")
    d = queue.read(m, now=at(1000))
    assert (d["status"], d["reason"]) == ("dead", how)
    assert queue.replay(d, now=at(1000))["status"] == "pending"
    queue.succeed(queue.claim(now=at(1000)), now=at(1000))


def test_a_body_is_optional_and_unknown_members_are_not_taken(queue):
    d = queue.dead()
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/replay", {"lease": "x"})
    assert reply.status == 422, reply
    assert queue.client.post(f"{queue.path}/messages/{d['id']}/replay", {}).status == 200


def test_a_replay_needs_no_room(queue):
    queue.put(max_messages=1)
    d = queue.dead()
    queue.enqueue("y")
    queue.replay(d)
    assert queue.counts()["pending"] == 2
