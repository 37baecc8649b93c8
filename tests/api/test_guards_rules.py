"""Rules: what a failure means, by error class and message; the first that matches decides."""
import urllib.parse

import pytest

from lib.client import seconds
from lib.guards import fill


def ruled(world, *rules, **policy):
    return world.queue(rules=list(rules), **policy)


def failed(queue, error_class=None, error="boom", **fields):
    """What becomes of a message that fails so."""
    queue.enqueue("x")
    if error_class is not None:
        fields["error_class"] = error_class
    return queue.fail(queue.claim(), error=error, **fields)


def classify(queue, error_class="", message="", expect=200):
    query = urllib.parse.urlencode({"class": error_class, "message": message})
    return queue._do(expect, "GET", "/classify?" + query).json


def delay(world, m):
    return seconds(m["retry_after"]) - world.seconds


# -- actions --------------------------------------------------------------------------------------------------------------------


def test_dead_at_once(world):
    queue = ruled(world, {"error": "ValidationError", "action": "dead"}, max_retries=10)
    d = failed(queue, "ValidationError")
    assert (d["status"], d["reason"], d["retry_count"], d["death"]["by"]) == ("dead", "permanent", 1, "receiver")
    assert failed(queue, "Other")["status"] == "pending"


@pytest.mark.parametrize("restarts", [False, True])
def test_release_does_not_count(world, restarts):
    queue = ruled(world, {"error": "Http429", "action": "release", "delay_seconds": 30}, max_retries=1)
    m = queue.enqueue("x")
    for _ in range(5):
        f = queue.fail(queue.claim(), error="slow down", error_class="Http429")
        assert (f["status"], f["retry_count"], f["last_error"], f["error_class"]) == ("pending", 0, "slow down", "Http429")
        assert delay(world, f) == 30
        if restarts:
            world.restart()
        assert queue.claim() is None
        world.wait(30)
    assert queue.read(m)["deliveries"] == 5
    assert queue.fail(queue.claim())["status"] == "dead"


def test_release_without_a_delay_takes_the_backoff_of_a_first_failure(world):
    queue = ruled(world, {"error": "E", "action": "release"}, backoff={"kind": "fixed", "base_seconds": 7})
    assert delay(world, failed(queue, "E")) == 7


def test_a_delay_of_the_rule_goes_before_the_workers(world):
    queue = ruled(world, {"error": "E", "action": "release", "delay_seconds": 30})
    assert delay(world, failed(queue, "E", retry_after_seconds=5)) == 30


@pytest.mark.parametrize("breaker", [None, {"open_seconds": 100}])
def test_pause_opens_the_breaker(world, breaker):
    queue = ruled(world, {"error": "DatabaseDown", "action": "pause"}, max_retries=1, **({"breaker": breaker} if breaker else {}))
    fill(queue, 5)
    f = queue.fail(queue.claim(), error_class="DatabaseDown")
    assert (f["status"], f["retry_count"]) == ("pending", 0)
    b = queue.info()["breaker"]
    open_seconds = 100 if breaker else 30
    assert (b["state"], b["cause"], b["until"]) == ("open", "DatabaseDown", world.time(open_seconds))
    assert queue.claim() is None
    world.restart()
    world.wait(open_seconds)
    m = queue.claim()
    assert queue.claim() is None
    f = queue.fail(m, error_class="DatabaseDown")
    assert f["retry_count"] == 0 and queue.info()["breaker"]["opened_total"] == 2
    world.wait(open_seconds)
    other = queue.claim()
    assert other["id"] != m["id"]
    queue.succeed(other)
    assert queue.info()["breaker"]["state"] == "closed"


def test_retry_with_its_own_backoff_and_limit(world):
    queue = ruled(world, {"message_regex": "deadlock|serialization", "action": "retry", "max_retries": 5,
                          "backoff": {"kind": "list", "list_seconds": [1, 2, 4, 8]}}, max_retries=2,
                  backoff={"kind": "fixed", "base_seconds": 100})
    queue.enqueue("x")
    for n, wait in enumerate([1, 2, 4, 8]):
        f = queue.fail(queue.claim(), error="a deadlock was found")
        assert (f["status"], f["retry_count"], delay(world, f)) == ("pending", n + 1, wait)
        world.wait(wait)
    assert queue.fail(queue.claim(), error="serialization")["reason"] == "max_retries"


def test_a_limit_of_a_rule_may_be_less(world):
    queue = ruled(world, {"error": "Once", "action": "retry", "max_retries": 1}, max_retries=10)
    assert failed(queue, "Once")["reason"] == "max_retries"
    assert failed(queue, "Often")["status"] == "pending"


def test_other_failures_keep_the_queues_limit(world):
    queue = ruled(world, {"error": "Rare", "action": "retry", "max_retries": 9}, max_retries=2,
                  backoff={"kind": "fixed", "base_seconds": 0})
    queue.enqueue("x")
    for _ in range(3):
        assert queue.fail(queue.claim(), error_class="Rare")["status"] == "pending"
    assert queue.fail(queue.claim(), error_class="Other")["status"] == "dead"


# -- which --------------------------------------------------------------------------------------------------------------------


def test_the_first_that_matches_decides(world):
    queue = ruled(world, {"error": "Val*", "action": "dead"}, {"error": "Value", "action": "release"}, {"action": "pause"})
    assert failed(queue, "Value")["reason"] == "permanent"
    assert classify(queue, "Value")["rule"] == 0 and classify(queue, "Other")["rule"] == 2


@pytest.mark.parametrize("rule, error_class, error, matches", [
    ({"error": "Timeout"}, "Timeout", "x", True), ({"error": "Timeout"}, "TimeoutX", "x", False),
    ({"error": "timeout"}, "Timeout", "x", False), ({"error": "Time*"}, "Timeout", "x", True),
    ({"error": "*"}, "", "x", True), ({"message": "*refused*"}, "E", "connection refused by peer", True),
    ({"message": "refused"}, "E", "connection refused by peer", False),
    ({"error": "E", "message": "*a*"}, "E", "bab", True), ({"error": "E", "message": "*a*"}, "F", "bab", False),
    ({"error": "E", "message": "*a*"}, "E", "bbb", False), ({"error_regex": "^Http4..$"}, "Http429", "x", True),
    ({"error_regex": "^Http4..$"}, "Http500", "x", False), ({"message_regex": "dead ?lock"}, "E", "a deadlock", True),
    ({"message_regex": "(?i)DEAD"}, "E", "a deadlock", True), ({"message_regex": "é+"}, "E", "ééé", True),
    ({"message_regex": "^$"}, "E", "x", False), ({}, "E", "x", True)])
def test_patterns(world, rule, error_class, error, matches):
    queue = ruled(world, {**rule, "action": "dead"}, max_retries=10)
    assert (classify(queue, error_class, error)["action"] == "dead") is matches
    assert (failed(queue, error_class, error)["status"] == "dead") is matches


def test_permanent_goes_before_all_rules(world):
    queue = ruled(world, {"action": "release", "delay_seconds": 5})
    assert failed(queue, "E", permanent=True)["reason"] == "permanent"
    assert failed(queue, "E")["retry_count"] == 0


def test_an_expired_lease_is_classified_like_any_failure(world):
    queue = ruled(world, {"error": "lease_expired", "action": "dead"}, max_retries=10, lease_seconds=10)
    m = queue.enqueue("x")
    queue.claim()
    world.wait(10)
    assert queue.read(m)["reason"] == "permanent"


def test_rules_that_change_hold_from_the_next_failure_on(world):
    queue = ruled(world, {"error": "E", "action": "dead"}, max_retries=10)
    assert failed(queue, "E")["status"] == "dead"
    queue.put(max_retries=10)
    assert failed(queue, "E")["status"] == "pending"
    queue.put(max_retries=10, rules=[{"error": "E", "action": "release", "delay_seconds": 9}])
    world.restart()
    world.wait(100)
    assert delay(world, queue.fail(queue.claim(), error_class="E")) == 9


def test_an_expression_that_would_take_for_ever_does_not_match(world):
    queue = ruled(world, {"message_regex": "(a+)+$", "action": "dead"}, max_retries=10)
    assert failed(queue, "E", "a" * 3000 + "b")["status"] == "pending"


# -- classify, and what a policy may say ------------------------------------------------------------------------------------------


def test_classify_says_which(world):
    queue = ruled(world, {"error": "Bad", "action": "dead"}, {"error": "Http429", "action": "release", "delay_seconds": 30},
                  {"message_regex": "lock", "action": "retry", "max_retries": 20, "backoff": {"kind": "fixed", "base_seconds": 1}},
                  {"error": "Down", "action": "pause"})
    assert [classify(queue, c)["action"] for c in ("Bad", "Http429", "Down", "Other")] == ["dead", "release", "pause", "retry"]
    assert [classify(queue, c)["rule"] for c in ("Bad", "Http429", "Down", "Other")] == [0, 1, 3, None]
    assert classify(queue, "Http429")["delay_seconds"] == 30
    c = classify(queue, "X", "lock")
    assert (c["rule"], c["max_retries"], c["backoff"]["base_seconds"]) == (2, 20, 1)
    classify(world.client.queue("nobody"), expect=404)


@pytest.mark.parametrize("rule, field", [
    ({}, "rules[0].action"), ({"action": "explode"}, "rules[0].action"), ({"action": "dead", "colour": 1}, "rules[0].colour"),
    ({"action": "dead", "error_regex": "("}, "rules[0].error_regex"),
    ({"action": "dead", "message_regex": "[a"}, "rules[0].message_regex"),
    ({"action": "release", "delay_seconds": -1}, "rules[0].delay_seconds"),
    ({"action": "retry", "max_retries": 0}, "rules[0].max_retries"),
    ({"action": "retry", "backoff": {"kind": "odd"}}, "rules[0].backoff.kind"), ("dead", "rules[0]")])
def test_mistakes_name_the_place(world, rule, field):
    reply = world.client.put("/queues/checked", {"rules": [rule]})
    assert reply.status == 422 and reply.error()[0] == field


def test_64_rules_and_no_more(world):
    rule = {"error": "E", "action": "dead"}
    queue = world.queue(rules=[rule] * 64)
    assert len(queue.info()["policy"]["rules"]) == 64
    assert world.client.put(queue.path, {"rules": [rule] * 65}).status == 422
