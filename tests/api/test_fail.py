"""Failing a message: what is kept, when it comes back, when it is dead."""
import pytest

from lib.client import at


def claimed(queue, **fields):
    queue.enqueue("x", **fields)
    return queue.claim()


def test_what_a_failure_leaves(queue):
    c = claimed(queue)
    f = queue.fail(c, now=at(1), error="boom", error_class="Timeout", detail="line 1\nline 2")
    for seen in (f, queue.read(c, now=at(1))):
        assert (seen["status"], seen["retry_count"], seen["retry_after"]) == ("pending", 1, at(3))
        assert (seen["last_error"], seen["error_class"], seen["updated_at"]) == ("boom", "Timeout", at(1))
    assert queue.read(c, now=at(1))["detail"] == "line 1\nline 2"
    assert "detail" not in queue.list(now=at(1))[0], "detail only when one message is read"


def test_a_failure_needs_no_body(queue):
    f = queue.fail(claimed(queue)["id"])
    assert isinstance(f["last_error"], str) and f["retry_count"] == 1
    assert "error_class" not in f and "detail" not in queue.read(f)


def test_the_newest_failure_counts(queue):
    m = queue.enqueue("x", max_retries=5)
    queue.fail(queue.claim(), error="one", error_class="A", detail="first")
    seen = queue.fail(queue.claim(now=at(2)), now=at(2), error="two")
    assert seen["last_error"] == "two" and "error_class" not in seen
    assert "detail" not in queue.read(m, now=at(2))


def test_the_default_backoff(queue):
    m = queue.enqueue("x", max_retries=10)
    now = 0
    for n in range(1, 10):
        f = queue.fail(queue.claim(now=at(now)), now=at(now), error=f"e{n}")
        assert (f["id"], f["retry_count"], f["retry_after"], f["last_error"]) == (m["id"], n, at(now + 2**n), f"e{n}")
        assert queue.claim(now=at(now + 2**n - 1)) is None
        now += 2**n
    d = queue.fail(queue.claim(now=at(now)), now=at(now), error="last")
    assert (d["status"], d["reason"], d["retry_count"], d["died_at"], d["retry_after"]) == ("dead", "max_retries", 10, at(now), None)


def test_the_cap_of_an_hour(queue):
    queue.put(max_retries=20)
    queue.enqueue("x")
    now = 0
    for n in range(1, 15):
        f = queue.fail(queue.claim(now=at(now)), now=at(now))
        assert f["retry_after"] == at(now + min(2**n, 3600))
        now += 4000


def test_max_retries_of_one_is_dead_at_once(queue):
    d = queue.fail(claimed(queue, max_retries=1), error="boom", error_class="C", detail="D")
    assert (d["status"], d["reason"], d["retry_count"], d["last_error"], d["error_class"]) == ("dead", "max_retries", 1, "boom", "C")
    assert queue.read(d)["detail"] == "D"
    assert queue.claim(now=at(99999)) is None


def test_permanent(queue):
    c = claimed(queue, max_retries=10)
    d = queue.fail(c, now=at(1), error="bad data", permanent=True)
    assert (d["status"], d["reason"], d["died_at"], d["retry_count"]) == ("dead", "permanent", at(1), 1)
    assert queue.claim(now=at(99999)) is None


def test_permanent_false_is_an_ordinary_failure(queue):
    assert queue.fail(claimed(queue), permanent=False)["status"] == "pending"


def test_retry_after_seconds_replaces_the_backoff(queue):
    c = claimed(queue, max_retries=10)
    assert queue.fail(c, retry_after_seconds=100)["retry_after"] == at(100)
    assert queue.claim(now=at(99)) is None
    c = queue.claim(now=at(100))
    f = queue.fail(c, now=at(100), retry_after_seconds=0)
    assert (f["status"], f["retry_count"]) == ("pending", 2)
    assert queue.claim(now=at(100))["deliveries"] == 3


def test_retry_after_seconds_does_not_save_the_last_failure(queue):
    assert queue.fail(claimed(queue, max_retries=1), retry_after_seconds=5)["status"] == "dead"


def test_types_and_ranges(queue):
    c = claimed(queue)
    path = f"{queue.path}/messages/{c['id']}/fail"
    cases = [({"error": 7}, "error", "wrong_type"), ({"error": []}, "error", "wrong_type"),
             ({"error_class": 7}, "error_class", "wrong_type"), ({"detail": {}}, "detail", "wrong_type"),
             ({"permanent": "yes"}, "permanent", "wrong_type"), ({"permanent": 1}, "permanent", "wrong_type"),
             ({"retry_after_seconds": -1}, "retry_after_seconds", "out_of_range"),
             ({"retry_after_seconds": 31536001}, "retry_after_seconds", "out_of_range"),
             ({"retry_after_seconds": "5"}, "retry_after_seconds", "wrong_type"),
             ({"retry_after_seconds": 0.5}, "retry_after_seconds", "wrong_type"),
             ({"eror": "x"}, "eror", "unknown_field"), ({"lease_seconds": 5}, "lease_seconds", "unknown_field")]
    for body, field, code in cases:
        reply = queue.client.post(path, body)
        assert reply.status == 422 and reply.error() == (field, code), (body, reply)
    assert queue.read(c)["status"] == "processing"
    queue.fail(c, retry_after_seconds=31536000)


LIMITS = [("error", "last_error", 4096), ("error_class", "error_class", 255), ("detail", "detail", 32768)]


@pytest.mark.parametrize("field,shown,limit", LIMITS)
def test_texts_are_kept_up_to_their_limit(queue, field, shown, limit):
    text = "a" * limit
    f = queue.fail(claimed(queue), **{field: text})
    assert queue.read(f)[shown] == text


@pytest.mark.parametrize("field,shown,limit", LIMITS)
def test_longer_texts_are_cut_at_a_character(queue, field, shown, limit):
    for text in ("a" * (limit + 1), "é" * limit, "x" + "é" * limit, "💌" * limit, "x" + "💌" * limit, "xx" + "💌" * limit,
                 "xxx" + "€" * limit, "\u0000" * (limit + 5)):
        f = queue.fail(claimed(queue), permanent=True, **{field: text})
        kept = text.encode()[:limit].decode("utf-8", "ignore")
        assert queue.read(f)[shown] == kept
        assert [a for a in queue.attempts(f) if a["event"] == "failed"][0][{"last_error": "error"}.get(shown, shown)] == kept


def test_any_text_is_kept(queue):
    for text in ("\u0000", "ünï 💌", '"\\\n\t', "</script>", " "):
        f = queue.fail(claimed(queue), permanent=True, error=text, error_class=text, detail=text)
        seen = queue.read(f)
        assert (seen["last_error"], seen["error_class"], seen["detail"]) == (text, text, text)


def test_fail_twice(queue):
    c = claimed(queue)
    queue.fail(c)
    queue.fail(c, expect=409)
    assert queue.read(c)["retry_count"] == 1
