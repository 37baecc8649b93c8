"""Replaying a dead message."""
import pytest

from lib.client import at


def test_replay(queue):
    d = queue.dead("x", error="boom")
    r = queue.replay(d, now=at(60))
    assert (r["status"], r["retry_count"], r["last_error"], r["retry_after"]) == ("pending", 0, None, None)
    assert (r["max_retries"], r["deliveries"], r["updated_at"], r["created_at"]) == (1, 1, at(60), d["created_at"])
    assert (r["redrive_count"], r["generation"]) == (1, 2) and "death" not in r
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
    reply = queue.replay(m, expect=409)
    assert reply["detail"] == f"message {m['id']} is {state}: only a dead letter can be replayed"
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


def replay(queue, d, body, **more):
    return queue.client.post(f"{queue.path}/messages/{d['id']}/replay", body, **more)


@pytest.mark.parametrize("body, field, code", [
    ({"lease": "x"}, "lease", "unknown_field"),
    ({"force": "yes"}, "force", "wrong_type"),
    ({"reason": 7}, "reason", "wrong_type"),
    ({"reason": "r" * 1025}, "reason", "too_long"),
    ([], "body", "wrong_type"),
])
def test_a_body_is_optional_and_unknown_members_are_not_taken(queue, body, field, code):
    d = queue.dead()
    reply = replay(queue, d, body)
    assert reply.status == 422 and reply.error() == (field, code), reply
    assert replay(queue, d, {}).status == 200


def test_who_and_why_are_in_the_story(queue):
    d = queue.dead()
    assert replay(queue, d, {"reason": "fix deployed"}, headers={"Nixie-Actor": "ünï".encode()}).status == 200
    line = queue.attempts(d)[-1]
    assert (line["event"], line["actor"]) == ("replayed", "ünï")


def test_the_redrive_limit_ends_a_loop(queue):
    d = queue.dead()  # the limit is 3 by default
    for n in range(3):
        assert queue.replay(d)["redrive_count"] == n + 1
        queue.fail(queue.claim())
    reply = queue.replay(d, expect=409)
    assert reply["title"] == "redrive limit"
    assert reply["detail"] == "it was sent again 3 times, which is the queue's redrive_limit: force to send it again"
    assert queue.read(d)["status"] == "dead"
    assert queue.replay(d, force=True)["redrive_count"] == 4
    queue.fail(queue.claim())
    reply = queue.replay(d, expect=409)
    assert reply["detail"] == "it was sent again 4 times, and the queue's redrive_limit is 3: force to send it again"
    queue.put(redrive_limit=5)
    assert queue.replay(d)["redrive_count"] == 5


def test_a_limit_of_zero_forbids_all_but_force(queue):
    queue.put(redrive_limit=0)
    d = queue.dead()
    reply = queue.replay(d, expect=409)
    assert reply["detail"] == "the queue's redrive_limit is 0: force to send it again"
    queue.replay(d, force=True)


def test_a_replay_needs_no_room(queue):
    queue.put(max_messages=1)
    d = queue.dead()
    queue.enqueue("y")
    queue.replay(d)
    assert queue.counts()["pending"] == 2
