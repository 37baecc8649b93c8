"""Leases: expiry, stale tokens, extend, release, succeed."""
import pytest

from lib.client import T0, at

VERBS = ["succeed", "fail", "extend", "release"]


def test_expiry_counts_as_a_failure(queue):
    m = queue.enqueue("x")
    queue.claim(lease_seconds=10)
    assert queue.read(m, now=at(9))["status"] == "processing"
    seen = queue.read(m, now=at(10))
    assert (seen["status"], seen["retry_count"], seen["error_class"], seen["deliveries"]) == ("pending", 1, "lease_expired", 1)
    assert isinstance(seen["last_error"], str) and seen["last_error"]
    assert seen["retry_after"] == at(12) and seen["updated_at"] == at(10)
    assert queue.claim(now=at(11)) is None
    assert queue.claim(now=at(12))["deliveries"] == 2


def test_the_default_lease_is_300_seconds_and_the_queue_can_say_another(queue):
    queue.enqueue("x")
    assert queue.claim()["lease_expires_at"] == at(300)
    queue.put(lease_seconds=7)
    queue.enqueue("x")
    assert queue.claim()["lease_expires_at"] == at(7)
    queue.enqueue("x")
    assert queue.claim(lease_seconds=43200)["lease_expires_at"] == at(43200)


def test_the_last_expired_lease_kills(queue):
    m = queue.enqueue("x", max_retries=2)
    queue.claim(lease_seconds=10)
    assert queue.read(m, now=at(10))["status"] == "pending"
    queue.claim(now=at(20), lease_seconds=10)
    d = queue.read(m, now=at(30))
    assert (d["status"], d["reason"], d["retry_count"], d["error_class"]) == ("dead", "lease_expired", 2, "lease_expired")
    assert d["died_at"] == at(30)


def test_a_failure_after_an_expiry_dies_of_max_retries(queue):
    m = queue.enqueue("x", max_retries=2)
    queue.claim(lease_seconds=10)
    assert queue.read(m, now=at(10))["retry_count"] == 1
    c = queue.claim(now=at(12))
    assert c["id"] == m["id"]
    assert queue.fail(c, now=at(20), error="boom")["reason"] == "max_retries"


def test_an_expired_lease_is_stale_at_once(queue):
    for verb in VERBS:
        m = queue.enqueue("x", max_retries=10)
        c = queue.claim(lease_seconds=10)
        queue.act(c, verb, now=at(10), expect=409)
        seen = queue.read(m, now=at(10))
        assert (seen["status"], seen["retry_count"]) == ("pending", 1)
        queue.succeed(queue.claim(now=at(100)), now=at(100))


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_token_changes_nothing(queue, verb):
    m = queue.enqueue("x")
    old = queue.claim(lease_seconds=10)
    assert queue.read(m, now=at(10))["status"] == "pending"
    new = queue.claim(now=at(100))
    assert new["id"] == old["id"] and new["lease"] != old["lease"]
    before = queue.read(m, now=at(100))
    for token in (old["lease"], "", "nonsense", old["lease"] + "0", new["lease"] + " ", "x" * 1000):
        queue.act(m["id"], verb, now=at(100), lease=token, expect=409)
    assert queue.read(m, now=at(100)) == before
    queue.act(new, verb, now=at(100))


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_token_the_verb_acts_on_the_holder(queue, verb):
    m = queue.enqueue("x")
    queue.claim()
    assert queue.act(m["id"], verb)["id"] == m["id"]


@pytest.mark.parametrize("verb", VERBS)
def test_wrong_states(queue, verb):
    m = queue.enqueue("x", max_retries=1)
    queue.act(m["id"], verb, expect=409)
    queue.fail(queue.claim())
    queue.act(m["id"], verb, expect=409)
    s = queue.enqueue("y")
    queue.succeed(queue.claim())
    queue.act(s["id"], verb, expect=409)


@pytest.mark.parametrize("verb", VERBS + ["replay"])
def test_ids_that_are_not_there(client, queue, verb):
    for mid in ("999999999", "0", "-1", "abc", "9007199254740991", "9007199254740992", "18446744073709551616", "1.0", "1e3", "%20",
                "0x1"):
        queue.act(mid, verb, expect=404)
    m = queue.enqueue("x")
    queue.claim()
    other = client.queue(queue.name + "-other")
    other.act(m["id"], verb, expect=404)
    other.enqueue("y")
    other.act(m["id"], verb, expect=404)
    assert queue.read(m)["status"] == "processing"


@pytest.mark.parametrize("verb", VERBS)
def test_bodies(queue, verb):
    m = queue.enqueue("x")
    queue.claim()
    path = f"{queue.path}/messages/{m['id']}/{verb}"
    assert queue.client.post(path, data=b"{]").status == 400
    for body in ([], "x", 7):
        assert queue.client.post(path, body).status == 422
    for body, field, code in (({"lease": 7}, "lease", "wrong_type"), ({"nope": 7}, "nope", "unknown_field")):
        reply = queue.client.post(path, body)
        assert reply.status == 422 and reply.error() == (field, code), (body, reply)
    assert queue.read(m)["status"] == "processing"


def test_succeed(queue):
    m = queue.enqueue("x")
    c = queue.claim(now=at(1))
    s = queue.succeed(c, now=at(2))
    assert s == {**m, "status": "succeeded", "updated_at": at(2), "deliveries": 1}
    assert queue.read(m, now=at(3)) == s
    assert queue.claim(now=at(1000)) is None


def test_succeed_after_failures_keeps_the_story_in_the_message(queue):
    queue.enqueue("x")
    queue.fail(queue.claim(), error="boom", error_class="C")
    s = queue.succeed(queue.claim(now=at(2)), now=at(2))
    assert (s["status"], s["retry_count"], s["retry_after"]) == ("succeeded", 1, None)
    assert (s["last_error"], s["error_class"]) == ("boom", "C")


def test_extend(queue):
    m = queue.enqueue("x")
    c = queue.claim(lease_seconds=10)
    e = queue.extend(c, now=at(5), lease_seconds=100)
    assert e["status"] == "processing" and e["deliveries"] == 1
    assert queue.read(m, now=at(104))["status"] == "processing"
    e = queue.extend(c, now=at(104), lease_seconds=1)
    assert queue.read(m, now=at(105))["status"] == "pending"


def test_extend_can_shorten_and_the_token_stays(queue):
    m = queue.enqueue("x")
    c = queue.claim(lease_seconds=1000)
    queue.extend(c, lease_seconds=5)
    queue.extend(c, now=at(4), lease_seconds=5)
    queue.succeed(c, now=at(8))
    assert queue.read(m)["status"] == "succeeded"


def test_extend_without_seconds_takes_the_lease_of_the_queue(queue):
    queue.put(lease_seconds=50)
    m = queue.enqueue("x")
    c = queue.claim(lease_seconds=10)
    queue.extend(c, now=at(9))
    assert queue.read(m, now=at(58))["status"] == "processing"
    assert queue.read(m, now=at(59))["status"] == "pending"


def test_extend_ranges(queue):
    queue.enqueue("x")
    c = queue.claim()
    path = f"{queue.path}/messages/{c['id']}/extend"
    for bad, code in ((0, "out_of_range"), (43201, "out_of_range"), ("1", "wrong_type"), (1.5, "wrong_type")):
        reply = queue.client.post(path, {"lease_seconds": bad})
        assert reply.status == 422 and reply.error() == ("lease_seconds", code), (bad, reply)
    for good in (1, 43200):
        queue.extend(c, lease_seconds=good)


def test_release(queue):
    m = queue.enqueue("x")
    c = queue.claim(now=at(1))
    r = queue.release(c, now=at(2))
    assert r == {**m, "updated_at": at(2), "deliveries": 1}
    again = queue.claim(now=at(2))
    assert again["id"] == m["id"] and again["deliveries"] == 2 and again["retry_count"] == 0
    assert again["lease"] != c["lease"]
    queue.act(c, "succeed", now=at(2), expect=409)


def test_release_never_kills(queue):
    m = queue.enqueue("x", max_retries=1)
    for _ in range(20):
        queue.release(queue.claim())
    seen = queue.read(m)
    assert (seen["status"], seen["retry_count"], seen["deliveries"]) == ("pending", 0, 20)


def test_release_with_a_delay(queue):
    m = queue.enqueue("x")
    r = queue.release(queue.claim(), delay_seconds=10)
    assert r["available_at"] == at(10) and r["retry_after"] is None
    assert queue.claim(now=at(9)) is None
    assert queue.claim(now=at(10))["id"] == m["id"]


def test_release_keeps_the_place_and_the_failures(queue):
    a = queue.enqueue("a", max_retries=5)
    queue.fail(queue.claim(), error="boom")
    b = queue.enqueue("b")
    r = queue.release(queue.claim(now=at(2)), now=at(2))
    assert (r["id"], r["retry_count"], r["last_error"]) == (a["id"], 1, "boom")
    assert [queue.claim(now=at(2))["id"] for _ in range(2)] == [a["id"], b["id"]]


def test_release_ranges(queue):
    queue.enqueue("x")
    c = queue.claim()
    path = f"{queue.path}/messages/{c['id']}/release"
    for bad, code in ((-1, "out_of_range"), (31536001, "out_of_range"), ("1", "wrong_type")):
        reply = queue.client.post(path, {"delay_seconds": bad})
        assert reply.status == 422 and reply.error() == ("delay_seconds", code), (bad, reply)
    assert queue.release(c, delay_seconds=31536000)["available_at"] == "2027-06-01 00:00:00"


def test_many_leases_expire_at_once(queue):
    ids = queue.batch([{"payload": str(i)} for i in range(1000)] )["ids"] + queue.batch([{"payload": "y"}] * 1000)["ids"]
    queue.claim_many(1000, lease_seconds=10)
    queue.claim_many(1000, lease_seconds=11)
    assert queue.counts(now=at(5)) == {"pending": 0, "ready": 0, "processing": 2000, "parked": 0, "dead": 0,
                                       "succeeded": 0, "discarded": 0, "held": 0}
    assert queue.counts(now=at(50)) == {"pending": 2000, "ready": 0, "processing": 0, "parked": 0, "dead": 0,
                                        "succeeded": 0, "discarded": 0, "held": 0}
    assert queue.counts(now=at(60))["ready"] == 2000
    assert [m["id"] for m in queue.claim_many(1000, now=at(60))] == ids[:1000]


def test_the_clock_of_a_request_without_the_header_is_the_last_one(queue):
    queue.put(now=at(1234))
    assert queue.enqueue("x", now=None)["created_at"] == at(1234)
    assert queue.enqueue("x", now=T0)["created_at"] == T0
    assert queue.enqueue("x", now=None)["created_at"] == T0
