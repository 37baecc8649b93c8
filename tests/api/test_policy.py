"""Queues and their policy: GET, PUT, DELETE, and what each field does."""
import pytest

from lib.client import T0, at

DEFAULTS = {"max_retries": 3,
            "backoff": {"kind": "exponential", "base_seconds": 1, "factor": 2, "cap_seconds": 3600, "jitter": "none"},
            "lease_seconds": 300, "delay_seconds": 0, "ttl_seconds": None, "max_messages": None, "max_bytes": None,
            "idempotency_window_seconds": 3600, "redrive_limit": 3,
            "retention": {"succeeded_seconds": 3600, "succeeded_max": 1000000, "dead_seconds": None},
            "max_deliveries": None, "retry_budget": None, "overflow": "reject", "order": "none", "breaker": None, "owner": None,
            "rules": None, "dead_target": None, "allow_from": None, "alerts": None}


def fail_once(queue, now=0, **fields):
    """Fails the next message and returns the seconds until it is due again."""
    f = queue.fail(queue.claim(now=at(now)), now=at(now), **fields)
    assert f["status"] == "pending", f
    return f


# -- the object -----------------------------------------------------------------------------------------------------------------


def test_the_defaults_are_exactly_as_documented(queue):
    queue.enqueue("abc")
    assert queue.info() == {
        "queue": queue.name, "created_at": T0, "policy": DEFAULTS,
        "counts": {"pending": 1, "ready": 1, "processing": 0, "parked": 0, "dead": 0, "succeeded": 0, "discarded": 0, "held": 0},
        "dead_by_reason": {}, "groups": 0, "oldest_death": None, "soonest_expiry": None, "expired_total": 0, "paused": None,
        "bytes": 3, "breaker": None, "parked_keys": 0, "alone_claims": 0, "deaths_total": 0, "consumers": 0,
        "alerts_snoozed_until": None, "amqp": None,
        "conservation": {"accepted": 1, "moved_in": 0, "pending": 1, "processing": 0, "parked": 0, "dead": 0,
                         "succeeded_total": 0, "discarded_total": 0, "moved_out": 0, "holds": True}}


def test_put_creates_and_changes(queue):
    assert queue.put(expect=201)["policy"] == DEFAULTS
    assert queue.put(expect=200, max_retries=7)["policy"] == {**DEFAULTS, "max_retries": 7}
    assert queue.info()["policy"]["max_retries"] == 7
    assert queue.put(expect=200, lease_seconds=5)["policy"] == {**DEFAULTS, "lease_seconds": 5}, "fields not given get defaults"
    assert queue.put(expect=200, now=at(50))["created_at"] == T0


def test_put_without_a_body_is_the_defaults(queue):
    reply = queue.client.put(queue.path)
    assert reply.status == 201 and reply.json["policy"] == DEFAULTS


def test_a_whole_policy_comes_back(queue):
    policies = [DEFAULTS,
                {"max_retries": 250, "backoff": {"kind": "fixed", "base_seconds": 31536000, "jitter": "full"},
                 "lease_seconds": 43200, "delay_seconds": 31536000, "ttl_seconds": 31536000, "max_messages": 1, "max_bytes": 1,
                 "idempotency_window_seconds": 604800, "redrive_limit": 1000,
                 "retention": {"succeeded_seconds": 0, "succeeded_max": 0, "dead_seconds": 315360000}},
                {"max_retries": 1, "backoff": {"kind": "list", "list_seconds": list(range(32)), "jitter": "equal"},
                 "idempotency_window_seconds": 1, "redrive_limit": 0,
                 "retention": {"succeeded_seconds": 31536000, "succeeded_max": 10000000, "dead_seconds": 1}},
                {"backoff": {"kind": "exponential", "base_seconds": 0, "factor": 1.5, "cap_seconds": 0}}]
    for policy in policies:
        got = queue.put(**policy)["policy"]
        for field, value in policy.items():
            if isinstance(value, dict):
                assert {k: got[field][k] for k in value} == value
            else:
                assert got[field] == value
        assert queue.info()["policy"] == got
        assert queue.put(**got)["policy"] == got, "what GET shows can be PUT again"


BAD = [({"max_retries": v}, "max_retries") for v in (0, 251, "3", 2.5, True, None)] + [
    ({"lease_seconds": v}, "lease_seconds") for v in (0, 43201, "3", 1.5)] + [
    ({"delay_seconds": v}, "delay_seconds") for v in (-1, 31536001, "3")] + [
    ({"ttl_seconds": v}, "ttl_seconds") for v in (0, -1, 31536001, "3")] + [
    ({"max_messages": v}, "max_messages") for v in (0, -1, "3", 1.5)] + [
    ({"max_bytes": v}, "max_bytes") for v in (0, -1, "3", 1.5)] + [
    ({"idempotency_window_seconds": v}, "idempotency_window_seconds") for v in (0, 604801, "3")] + [
    ({"redrive_limit": v}, "redrive_limit") for v in (-1, 1001, "3", 1.5, None)] + [
    ({"retention": {"succeeded_seconds": v}}, "retention.succeeded_seconds") for v in (-1, 31536001, "3")] + [
    ({"retention": {"succeeded_max": v}}, "retention.succeeded_max") for v in (-1, 10000001, "3")] + [
    ({"retention": {"dead_seconds": v}}, "retention.dead_seconds") for v in (0, -1, 315360001, "3")] + [
    ({"retention": v}, "retention") for v in (7, [], "x")] + [
    ({"retention": {"nope": 1}}, "retention.nope")] + [
    ({"backoff": v}, "backoff") for v in (7, [], "exponential")] + [
    ({"backoff": {"kind": v}}, "backoff.kind") for v in ("linear", "", 7, None)] + [
    ({"backoff": {"jitter": v}}, "backoff.jitter") for v in ("half", "", 7, True)] + [
    ({"backoff": {"base_seconds": v}}, "backoff.base_seconds") for v in (-1, 31536001, "3")] + [
    ({"backoff": {"cap_seconds": v}}, "backoff.cap_seconds") for v in (-1, 31536001, "3")] + [
    ({"backoff": {"factor": v}}, "backoff.factor") for v in (0, 0.99, 100.5, 101, "2", True)] + [
    ({"backoff": {"kind": "list", "list_seconds": v}}, "backoff.list_seconds") for v in ([], [1] * 33, 7, {}, "1")] + [
    ({"backoff": {"kind": "list"}}, "backoff.list_seconds")] + [
    ({"backoff": {"kind": "list", "list_seconds": [1, v]}}, "backoff.list_seconds[1]") for v in (-1, 31536001, "3", None)] + [
    ({"backoff": {"nope": 1}}, "backoff.nope"), ({"nope": 1}, "nope"), ({"max_retrys": 1}, "max_retrys")]


@pytest.mark.parametrize("policy,field", BAD, ids=[str(p) for p, _ in BAD])
def test_bad_policies(queue, policy, field):
    reply = queue.client.put(queue.path, policy)
    assert reply.status == 422, reply
    assert reply.error()[0] == field, reply
    assert queue.client.get(queue.path).status == 404


def test_bad_policies_leave_the_old_one(queue):
    queue.put(max_retries=9)
    assert queue.client.put(queue.path, {"max_retries": 5, "lease_seconds": 0}).status == 422
    assert queue.client.put(queue.path, data=b"{").status == 400
    for body in ([], "x", 7):
        assert queue.client.put(queue.path, body).status == 422
    assert queue.info()["policy"]["max_retries"] == 9


# -- what the fields do ----------------------------------------------------------------------------------------------------------


def test_max_retries_for_messages_that_do_not_say_their_own(queue):
    before = queue.enqueue("x")
    queue.put(max_retries=250)
    assert queue.enqueue("x")["max_retries"] == 250
    assert queue.enqueue("x", max_retries=2)["max_retries"] == 2
    assert queue.read(before)["max_retries"] == 3


def test_delay_and_ttl_defaults(queue):
    queue.put(delay_seconds=10, ttl_seconds=100)
    m = queue.enqueue("x")
    assert (m["available_at"], m["expires_at"]) == (at(10), at(100))
    m = queue.enqueue("x", delay_seconds=0, ttl_seconds=5)
    assert "available_at" not in m and m["expires_at"] == at(5)
    assert queue.claim()["id"] == m["id"]


def test_fixed_backoff(queue):
    queue.put(backoff={"kind": "fixed", "base_seconds": 30}, max_retries=250)
    queue.enqueue("x")
    for i in range(5):
        assert fail_once(queue, now=i * 30)["retry_after"] == at(i * 30 + 30)


def test_fixed_backoff_of_nothing(queue):
    queue.put(backoff={"kind": "fixed", "base_seconds": 0}, max_retries=50)
    queue.enqueue("x")
    for i in range(49):
        fail_once(queue)
    assert queue.fail(queue.claim())["status"] == "dead"


def test_list_backoff(queue):
    queue.put(backoff={"kind": "list", "list_seconds": [5, 0, 60]}, max_retries=250)
    queue.enqueue("x")
    now = 0
    for wait in (5, 0, 60, 60, 60):
        f = fail_once(queue, now=now)
        now += wait
        if wait:
            assert f["retry_after"] == at(now)


def test_exponential_backoff_with_base_factor_cap(queue):
    queue.put(backoff={"kind": "exponential", "base_seconds": 10, "factor": 3, "cap_seconds": 500}, max_retries=250)
    queue.enqueue("x")
    now = 0
    for wait in (30, 90, 270, 500, 500):
        assert fail_once(queue, now=now)["retry_after"] == at(now + wait)
        now += wait


def test_a_fractional_factor(queue):
    queue.put(backoff={"kind": "exponential", "base_seconds": 16, "factor": 1.5, "cap_seconds": 100}, max_retries=250)
    queue.enqueue("x")
    now = 0
    for wait in (24, 36, 54, 81, 100, 100):
        assert fail_once(queue, now=now)["retry_after"] == at(now + wait)
        now += wait


def test_backoff_never_overflows(queue):
    queue.put(backoff={"kind": "exponential", "base_seconds": 31536000, "factor": 100, "cap_seconds": 31536000}, max_retries=250)
    queue.enqueue("x")
    for _ in range(3):
        f = queue.fail(queue.claim(), retry_after_seconds=0)
    for n in range(4, 60):
        c = queue.claim()
        if n % 2:
            queue.fail(c, retry_after_seconds=0)
        else:
            queue.fail(c)
            break
    assert queue.read(f)["retry_after"] == at(31536000)


def test_the_250th_failure(queue):
    """2^249 is far beyond any integer: the wait is still the cap."""
    queue.put(max_retries=250)
    m = queue.enqueue("x")
    for _ in range(248):
        queue.fail(queue.claim(), retry_after_seconds=0)
    f = queue.fail(queue.claim())
    assert (f["retry_count"], f["retry_after"]) == (249, at(3600))
    d = queue.fail(queue.claim(now=at(3600)), now=at(3600))
    assert (d["status"], d["retry_count"], d["deliveries"]) == ("dead", 250, 250)
    assert d["id"] == m["id"]


@pytest.mark.parametrize("jitter,low,high", [("full", 0, 100), ("equal", 50, 100)])
@pytest.mark.parametrize("kind", ["fixed", "exponential", "list"])
def test_jitter(queue, jitter, low, high, kind):
    backoff = {"fixed": {"base_seconds": 100}, "exponential": {"base_seconds": 50, "factor": 2},
               "list": {"list_seconds": [100]}}[kind]
    queue.put(backoff={"kind": kind, "jitter": jitter, **backoff})
    queue.batch([{"payload": str(i)} for i in range(200)])
    waits = []
    for m in queue.claim_many(200, lease_seconds=43200):
        f = queue.fail(m)
        waits.append(0 if f["retry_after"] is None else int(f["retry_after"][-8:-6]) * 3600 + int(f["retry_after"][-5:-3]) * 60
                     + int(f["retry_after"][-2:]))
    assert low <= min(waits) and max(waits) <= high, (min(waits), max(waits))
    span = high - low
    # 200 even draws miss a tenth of the range at one end with a chance of 0.9^200, below one in a thousand million.
    assert min(waits) < low + span / 10 + 1 and max(waits) > high - span / 10 - 1, (min(waits), max(waits))
    assert len(set(waits)) > span / 4


def test_a_changed_policy_does_not_touch_what_already_waits(queue):
    queue.enqueue("x")
    f = fail_once(queue)
    queue.put(backoff={"kind": "fixed", "base_seconds": 1000})
    assert queue.read(f)["retry_after"] == at(2)
    assert fail_once(queue, now=2)["retry_after"] == at(1002)


# -- limits of the queue ----------------------------------------------------------------------------------------------------------------


def full(reply):
    assert reply.status == 429, reply
    assert int(reply.headers.get("Retry-After")) >= 0, reply.headers.items()


def test_max_messages(queue):
    queue.put(max_messages=3)
    queue.batch([{"payload": "x"}] * 3)
    path = queue.path + "/messages"
    full(queue.client.post(path, {"payload": "x"}))
    c = queue.claim()
    full(queue.client.post(path, {"payload": "x"}))
    queue.fail(c)
    full(queue.client.post(path, {"payload": "x"}))
    c = queue.claim(now=at(2))
    queue.fail(c, now=at(2), permanent=True)
    queue.enqueue("dead do not count")
    full(queue.client.post(path, {"payload": "x"}))
    queue.succeed(queue.claim())
    queue.enqueue("nor do succeeded ones")
    full(queue.client.post(path, {"payload": "x"}))
    assert queue.info()["conservation"]["accepted"] == 5


def test_a_batch_that_does_not_fit_is_refused_whole(queue):
    queue.put(max_messages=3)
    queue.enqueue("x")
    full(queue.client.post(queue.path + "/messages", [{"payload": "x"}] * 3))
    assert queue.counts()["pending"] == 1
    queue.batch([{"payload": "x"}] * 2)


def test_max_bytes(queue):
    queue.put(max_bytes=100)
    queue.enqueue("x" * 60)
    full(queue.client.post(queue.path + "/messages", {"payload": "x" * 41}))
    queue.enqueue("x" * 40)
    full(queue.client.post(queue.path + "/messages", {"payload": "x"}))
    queue.succeed(queue.claim())
    queue.enqueue("x" * 60)


def test_a_known_key_is_answered_when_the_queue_is_full(queue):
    queue.put(max_messages=1)
    m = queue.enqueue("x", idempotency_key="k")
    assert queue.enqueue("y", expect=200, idempotency_key="k")["id"] == m["id"]
    full(queue.client.post(queue.path + "/messages", {"payload": "x", "idempotency_key": "other"}))
    assert queue.batch([{"payload": "z", "idempotency_key": "k"}]) == {"count": 1, "ids": [m["id"]], "duplicates": 1}


def test_known_keys_in_a_batch_need_no_room(queue):
    queue.put(max_messages=3)
    queue.batch([{"payload": "a", "idempotency_key": "a"}, {"payload": "b"}])
    assert queue.batch([{"payload": "a", "idempotency_key": "a"}, {"payload": "c"}])["duplicates"] == 1
    assert queue.counts()["pending"] == 3
    full(queue.client.post(queue.path + "/messages", [{"payload": "a", "idempotency_key": "a"}, {"payload": "d"}]))


def test_raising_the_limit_makes_room(queue):
    queue.put(max_messages=1)
    queue.enqueue("x")
    full(queue.client.post(queue.path + "/messages", {"payload": "x"}))
    queue.put(max_messages=2)
    queue.enqueue("x")
    queue.put(max_messages=1)
    assert queue.counts()["pending"] == 2, "lowering it removes nothing"


def test_bytes_count_the_payloads_of_what_is_there(queue):
    a = queue.enqueue("x" * 100)
    assert queue.info()["bytes"] == 100
    queue.enqueue(None, payload_base64="//8=")
    assert queue.info()["bytes"] == 102
    queue.enqueue("é", headers={"a": "b"})
    b = queue.info()["bytes"]
    assert b == 104
    queue.claim()
    assert queue.info()["bytes"] == b
    queue.fail(a["id"], permanent=True)
    assert queue.info()["bytes"] == b, "dead ones count"
    queue.replay(a)
    queue.succeed(queue.claim())
    assert queue.info()["bytes"] == b - 100


# -- retention -------------------------------------------------------------------------------------------------------------------------


def test_succeeded_by_time(queue):
    queue.put(retention={"succeeded_seconds": 100})
    m = queue.enqueue("x")
    queue.succeed(queue.claim(), now=at(10))
    assert queue.read(m, now=at(109))["status"] == "succeeded"
    assert queue.counts(now=at(109))["succeeded"] == 1
    queue.read(m, now=at(110), expect=404)
    info = queue.info()
    assert info["counts"]["succeeded"] == 0 and info["conservation"]["succeeded_total"] == 1
    assert queue.list() == []
    queue.act(m["id"], "succeed", expect=404)


def test_succeeded_for_an_hour_by_default(queue):
    m = queue.enqueue("x")
    queue.succeed(queue.claim())
    queue.read(m, now=at(3599))
    queue.read(m, now=at(3600), expect=404)


def test_succeeded_are_kept_at_least_their_time_whatever_the_order(queue):
    """The oldest by creation goes first, so one that succeeds late keeps the younger ones for a while."""
    queue.put(retention={"succeeded_seconds": 100})
    ids = queue.batch([{"payload": str(i)} for i in range(4)])["ids"]
    first, *others = queue.claim_many(4)
    for m in others:
        queue.succeed(m)
    queue.succeed(first, now=at(50))
    assert [m["id"] for m in queue.list(now=at(99))] == ids
    assert queue.read(first, now=at(149))["status"] == "succeeded"
    assert queue.list(now=at(150)) == []


def test_succeeded_by_number(queue):
    queue.put(retention={"succeeded_max": 2})
    ids = queue.batch([{"payload": str(i)} for i in range(5)])["ids"]
    for m in queue.claim_many(5):
        s = queue.succeed(m)
        assert s["status"] == "succeeded"
    assert [m["id"] for m in queue.list()] == ids[3:]
    queue.read(ids[2], expect=404)
    assert queue.counts()["succeeded"] == 2 and queue.info()["conservation"]["succeeded_total"] == 5


@pytest.mark.parametrize("retention", [{"succeeded_max": 0}, {"succeeded_seconds": 0}])
def test_succeeded_are_not_kept_at_all(queue, retention):
    queue.put(retention=retention)
    m = queue.enqueue("x")
    assert queue.succeed(queue.claim())["status"] == "succeeded"
    queue.read(m, expect=404)
    assert queue.counts()["succeeded"] == 0 and queue.info()["conservation"]["succeeded_total"] == 1


@pytest.mark.parametrize("retention", [{"succeeded_max": 0}, {"succeeded_seconds": 0}, {"succeeded_seconds": 50}])
def test_a_message_is_kept_as_long_as_its_key(queue, retention):
    queue.put(retention=retention, idempotency_window_seconds=100)
    m = queue.enqueue("x", idempotency_key="k")
    queue.succeed(queue.claim())
    again = queue.enqueue("y", now=at(99), expect=200, idempotency_key="k")
    assert (again["id"], again["payload"], again["status"]) == (m["id"], "x", "succeeded")
    assert queue.read(m, now=at(99))["status"] == "succeeded"
    queue.read(m, now=at(101), expect=404)
    assert queue.enqueue("y", now=at(101), idempotency_key="k")["id"] != m["id"]


def test_retention_of_dead(queue):
    queue.put(retention={"dead_seconds": 100})
    m = queue.enqueue("x")
    queue.fail(queue.claim(), now=at(10), permanent=True)
    assert queue.read(m, now=at(109))["status"] == "dead"
    queue.read(m, now=at(110), expect=404)
    info = queue.info()
    assert info["counts"]["dead"] == 0 and info["bytes"] == 0
    assert info["conservation"]["discarded_total"] == 1


def test_dead_are_kept_for_ever_by_default(queue):
    d = queue.dead()
    assert queue.read(d, now="2036-01-01 00:00:00")["status"] == "dead"


def test_what_a_queue_tells_of_its_dead(queue):
    queue.put(retention={"dead_seconds": 1000})
    queue.dead("x", now=at(5))
    queue.enqueue("y", now=at(10))
    queue.fail(queue.claim(now=at(10)), now=at(10), permanent=True, error="other")
    info = queue.info(now=at(20))
    assert info["dead_by_reason"] == {"max_retries": 1, "permanent": 1} and info["groups"] == 2
    assert (info["oldest_death"], info["soonest_expiry"], info["expired_total"]) == (at(5), at(1005), 0)
    info = queue.info(now=at(1005))
    assert (info["oldest_death"], info["soonest_expiry"], info["expired_total"]) == (at(10), at(1010), 1)
    assert info["dead_by_reason"] == {"permanent": 1} and info["groups"] == 1
    info = queue.info(now=at(1010))
    assert (info["oldest_death"], info["soonest_expiry"], info["expired_total"], info["groups"]) == (None, None, 2, 0)
    assert info["conservation"]["discarded_total"] == 2 and info["counts"]["discarded"] == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_how_often_a_message_may_be_sent_again(queue, limit):
    queue.put(redrive_limit=limit)
    d = queue.dead("x")
    for _ in range(limit):
        queue.replay(d)
        queue.fail(queue.claim(), permanent=True)
    before = queue.read(d)
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/replay")
    assert reply.status == 409 and "force" in reply.json["detail"], reply
    assert queue.read(d) == before
    assert queue.replay(d, force=True)["redrive_count"] == limit + 1


def test_a_replayed_message_is_not_discarded(queue):
    queue.put(retention={"dead_seconds": 100})
    d = queue.dead()
    queue.replay(d, now=at(50))
    assert queue.read(d, now=at(1000))["status"] == "pending"


# -- the list of queues, and deleting ----------------------------------------------------------------------------------------------------


def test_list_of_queues_in_order_of_creation(start):
    from lib.client import Client
    client = Client(start(), now=T0)
    assert client.get("/queues").json == {"queues": [], "count": 0}
    names = ["zebra", "a/b", "ünï", "mid", "alpha"]
    for name in names:
        client.queue(name).put()

    def listed(query=""):
        d = client.get("/queues" + query).json
        assert d["count"] == len(d["queues"])
        return [q["queue"] for q in d["queues"]]

    assert listed() == names
    assert listed("?limit=2") == names[:2]
    assert listed("?after=a%2Fb&limit=2") == names[2:4]
    assert listed("?after=alpha") == []
    assert client.get("/queues").json["queues"][1] == client.queue("a/b").info()
    for query, field in (("?limit=0", "limit"), ("?limit=1001", "limit"), ("?limit=x", "limit")):
        reply = client.get("/queues" + query)
        assert reply.status == 422 and reply.error()[0] == field
    client.queue("mid").delete()
    assert listed() == ["zebra", "a/b", "ünï", "alpha"]
    client.queue("mid").put()
    assert listed() == ["zebra", "a/b", "ünï", "alpha", "mid"]


def test_delete_an_empty_queue(queue):
    queue.put(max_retries=9)
    reply = queue.delete()
    assert reply.body == b""
    queue.info(expect=404)
    queue.delete(expect=404)
    assert queue.enqueue("x")["max_retries"] == 3, "the name is free and the old policy gone"


def test_delete_with_only_succeeded_messages(queue):
    m = queue.enqueue("x")
    queue.succeed(queue.claim())
    queue.delete()
    queue.enqueue("y")
    queue.read(m, expect=404)
    assert queue.info()["conservation"]["accepted"] == 1


@pytest.mark.parametrize("state", ["pending", "delayed", "processing", "dead"])
def test_delete_of_unfinished_messages(queue, state):
    queue.batch([{"payload": "x"}] * 2 if state != "delayed" else [{"payload": "x", "delay_seconds": 5}] * 2)
    if state in ("processing", "dead"):
        for m in queue.claim_many(2):
            if state == "dead":
                queue.fail(m, permanent=True)
    reply = queue.delete(expect=409)
    assert "2" in reply.json["detail"], reply
    assert queue.client.delete(queue.path + "?discard=false").status == 409
    assert sum(queue.counts()[k] for k in ("pending", "processing", "dead")) == 2
    queue.delete(discard=True)
    queue.info(expect=404)
    m = queue.enqueue("again")
    assert queue.info()["counts"]["pending"] == 1 and queue.claim()["id"] == m["id"]


def test_deleting_forgets_keys(queue):
    a = queue.enqueue("x", idempotency_key="k")
    queue.delete(discard=True)
    b = queue.enqueue("y", idempotency_key="k")
    assert a["id"] != b["id"] and b["payload"] == "y"


def test_bad_discard(queue):
    queue.enqueue("x")
    assert queue.client.delete(queue.path + "?discard=maybe").status == 422
    assert queue.counts()["pending"] == 1
