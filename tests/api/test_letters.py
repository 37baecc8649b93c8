"""Dead letters as they are shown and found: the message object, its story, GET /dead."""
import json
import urllib.parse

import pytest

from lib.client import STORY, T0, at, without_exact

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def kill(queue, n, now=T0, worker=None, version=None, **fields):
    """n letters that die at once, in the order of their ids; returns the ids."""
    ids = []
    for begin in range(0, n, 1000):
        items = [{"payload": json.dumps({"n": i})} for i in range(begin, min(n, begin + 1000))]
        ids += queue.batch(items, now=now)["ids"]
        who = {k: v for k, v in (("worker", worker), ("worker_version", version)) if v is not None}
        queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail", "permanent": True, **fields}
                      for m in queue.claim_many(1000, now=now, **who)], now=now)
    return ids


def ids_of(letters):
    return [m["id"] for m in letters]


# -- the message object -------------------------------------------------------------------------------------------------------


def test_every_member_of_a_dead_letter(queue):
    m = queue.enqueue("x", max_retries=2, priority=3, key="k", headers={"traceparent": TRACEPARENT})
    queue.fail(queue.claim(worker="w1", worker_version="1.3"), now=at(1), error="one", error_class="A")
    c = queue.claim(now=at(3), worker="w2", worker_version="1.4")
    queue.fail(c, now=at(5), error="two", error_class="Timeout", detail="D")
    seen = queue.read(m, now=at(9))
    death = seen["death"]
    assert seen == {
        "id": m["id"], "queue": queue.name, "payload": "x", "status": "dead", "retry_count": 2, "max_retries": 2,
        "retry_after": None, "last_error": "two", "created_at": T0, "updated_at": at(5), "properties": None, "headers": {"traceparent": TRACEPARENT},
        "key": "k", "priority": 3, "deliveries": 2, "error_class": "Timeout", "detail": "D", "reason": "max_retries",
        "died_at": at(5), "death": death}
    assert death == {
        "dead_seq": death["dead_seq"], "by": "system", "died_at": at(5), "first_failed_at": at(1), "last_failed_at": at(5),
        "first_enqueued_at": T0, "expires_at": None, "origin": {"queue": queue.name, "id": m["id"]}, "redrive_count": 0,
        "group": death["group"], "worker": "w2", "worker_version": "1.4", "trace_id": TRACE}


@pytest.mark.parametrize("how,by", [("max_retries", "system"), ("permanent", "receiver"), ("expired", "system"),
                                    ("lease_expired", "system")])
def test_who_decided(queue, how, by):
    m = queue.enqueue("x", max_retries=1, ttl_seconds=1000)
    if how == "lease_expired":
        queue.claim(lease_seconds=5)
    elif how != "expired":
        queue.fail(queue.claim(), permanent=how == "permanent")
    queue.info(now=at(5))
    seen = queue.read(m, now=at(1000))
    assert (seen["reason"], seen["death"]["by"]) == (how, by)
    failed = {"expired": None, "lease_expired": at(5)}.get(how, T0)
    assert (seen["death"]["first_failed_at"], seen["death"]["last_failed_at"]) == (failed, failed)
    assert "worker" not in seen["death"] and "worker_version" not in seen["death"] and "trace_id" not in seen["death"]


@pytest.mark.parametrize("value", ["", "00", TRACEPARENT.upper(), TRACEPARENT.replace(TRACE, "0" * 32), TRACEPARENT + "-x",
                                   "ff" + TRACEPARENT[2:], 7, None, [TRACEPARENT]])
def test_what_is_no_trace(queue, value):
    assert "trace_id" not in queue.dead("x", headers={"traceparent": value})["death"]


def test_a_death_is_numbered_after_all_before_it(client, queue):
    other = client.queue(queue.name + "-other")
    numbers = [q.dead("x")["death"]["dead_seq"] for q in (queue, other, queue, other)]
    assert numbers == sorted(set(numbers))


def test_when_retention_takes_it(queue):
    queue.put(retention={"dead_seconds": 100})
    d = queue.dead("x", now=at(5))
    assert d["death"]["expires_at"] == at(105)
    assert queue.info(now=at(5))["soonest_expiry"] == at(105)
    queue.put(now=at(5), retention={"dead_seconds": 50})
    assert queue.read(d, now=at(5))["death"]["expires_at"] == at(55), "it holds for those that are dead already"
    info = queue.info(now=at(55))
    assert (info["counts"]["dead"], info["expired_total"], info["soonest_expiry"]) == (0, 1, None)


def test_sent_again_and_dead_again(queue):
    d = queue.dead("x")
    assert "redrive_count" not in d and "generation" not in d
    r = queue.replay(d)
    assert (r["redrive_count"], r["generation"]) == (1, 2) and "death" not in r
    again = queue.fail(queue.claim(), error="boom")
    assert (again["redrive_count"], again["death"]["redrive_count"]) == (1, 1)
    assert again["death"]["dead_seq"] > d["death"]["dead_seq"]


def test_a_live_message_has_nothing_of_a_letter(queue):
    m = queue.enqueue("x")
    for seen in (m, queue.claim(), queue.read(m), queue.succeed(m["id"])):
        assert not {"death", "discarded", "redrive_count", "generation", "parent_id", "edited_to", "origin_queue", "job",
                    "reason", "died_at"} & set(seen), seen


def test_a_discarded_letter(queue):
    d = queue.dead("x", error_class="C")
    gone = queue.discard(d, why="bad data", now=at(10))
    assert gone["status"] == "discarded" and gone["discarded"] == {"reason": "bad data", "gone_at": at(86410)}
    assert {k: v for k, v in gone["death"].items()} == {**d["death"]}
    assert queue.read(d, now=at(10))["discarded"] == gone["discarded"]
    assert queue.list(now=at(10)) == [] and queue.letters(now=at(10)) == []
    assert queue.counts(now=at(10))["discarded"] == 1
    back = queue.undiscard(d, now=at(20))
    assert back["status"] == "dead" and "discarded" not in back
    assert ids_of(queue.letters(now=at(20))) == [d["id"]]


def test_an_edited_letter_and_its_copy_name_each_other(queue):
    d = queue.dead("x")
    copy = queue.edit(d, payload="y")
    assert copy["parent_id"] == d["id"] and queue.read(d)["edited_to"] == copy["id"]
    assert queue.letters("edited:yes")[0]["id"] == d["id"] and queue.letters("edited:no") == []


def test_a_message_by_its_id_alone(client, queue):
    m = queue.enqueue("x", headers={"a": 1})
    queue.fail(queue.claim(), error="boom", detail="D")
    reply = client.get(f"/messages/{m['id']}")
    assert reply.status == 200 and reply.json == queue.read(m) and reply.json["detail"] == "D"
    for bad in ("0", "-1", "x", "1x", "999999999", "9007199254740992", "99999999999999999999", "%31%00"):
        assert client.get(f"/messages/{bad}").status in (400, 404), bad
    assert client.get("/messages/").status == 404


# -- the story ----------------------------------------------------------------------------------------------------------------


def test_the_end_of_a_claim_tells_who_and_how_long(queue):
    m = queue.enqueue("x", max_retries=5)
    queue.fail(queue.claim(worker="w1", worker_version="1.4"), now=at(2), error="boom", fingerprint="F")
    queue.release(queue.claim(now=at(4), worker="w2", lease_seconds=60), now=at(5), delay_seconds=1)
    queue.claim(now=at(6), worker="w3", lease_seconds=4)
    queue.info(now=at(10))
    queue.succeed(queue.claim(now=at(18)), now=at(19))
    story = queue.attempts(m, now=at(19))
    assert story == [
        {"attempt": 1, "event": "claimed", "at": T0, "worker": "w1", "worker_version": "1.4", "next_at": at(300)},
        {"attempt": 1, "event": "failed", "at": at(2), "worker": "w1", "worker_version": "1.4", "error": "boom",
         "fingerprint": "F", "duration_ms": 2000, "next_at": at(4)},
        {"attempt": 2, "event": "claimed", "at": at(4), "worker": "w2", "next_at": at(64)},
        {"attempt": 2, "event": "released", "at": at(5), "worker": "w2", "duration_ms": 1000, "next_at": at(6)},
        {"attempt": 3, "event": "claimed", "at": at(6), "worker": "w3", "next_at": at(10)},
        {"attempt": 3, "event": "lease_expired", "at": at(10), "worker": "w3", "error_class": "lease_expired",
         "error": story[5]["error"], "duration_ms": 4000, "next_at": at(14)},
        {"attempt": 4, "event": "claimed", "at": at(18), "next_at": at(318)},
        {"attempt": 4, "event": "succeeded", "at": at(19), "duration_ms": 1000}]


def test_what_a_person_did_names_the_actor(client, queue):
    client.actor = "ann"
    d = queue.dead("x")
    queue.edit(d, payload="y")
    queue.discard(d, why="fixed", reason="copied")
    queue.undiscard(d)
    queue.replay(d, force=True)
    lines = [(a["event"], a["actor"]) for a in queue.attempts(d) if "actor" in a]
    assert lines == [(e, "ann") for e in ("edited", "discarded", "undiscarded", "replayed")]


def test_of_many_attempts_the_first_and_the_last_have_lines(queue):
    queue.put(max_retries=250, backoff={"kind": "fixed", "base_seconds": 0}, redrive_limit=0)
    m = queue.enqueue("x")
    for i in range(30):
        queue.fail(queue.claim(), error=f"e{i}", permanent=i == 29)
    d = queue.client.get(f"{queue.path}/messages/{m['id']}/attempts").json
    assert (d["attempts_total"], d["attempts_omitted"]) == (30, 7)
    failed = [a["error"] for a in d["attempts"] if a["event"] == "failed"]
    assert failed == [f"e{i}" for i in (*range(3), *range(10, 30))]


# -- GET /dead ------------------------------------------------------------------------------------------------------------------


def test_nothing_is_dead(client, queue):
    empty = {"letters": [], "count": 0, "next": None, "complete": True, "looked_at": 0}
    assert client.dead(queue=queue.name) == empty, "no such queue"
    queue.enqueue("x")
    assert client.dead(queue=queue.name) == empty
    assert client.dead(f"queue:{queue.name}") == empty


def test_a_letter_in_a_page_is_the_message(queue):
    d = queue.dead("x", headers={"a": "b"}, key="k")
    page = queue.client.dead(queue=queue.name)
    assert (page["next"], page["complete"], page["looked_at"]) == (None, True, 1)
    assert page["letters"] == queue.list(status="dead") and page["letters"][0]["death"] == d["death"]


def test_by_time_of_death_the_newest_first(queue):
    ids = [queue.enqueue(str(i))["id"] for i in range(6)]
    for i, m in enumerate(reversed(queue.claim_many(6))):
        queue.fail(m, now=at(i // 2), permanent=True)
    died = list(reversed(ids))  # two at a time in the same moment
    assert ids_of(queue.letters(order="oldest")) == died
    assert ids_of(queue.letters(order="newest")) == ids_of(queue.letters()) == ids
    assert ids_of(queue.letters(order="oldest", limit=1)) == died


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages(queue, order):
    ids = kill(queue, 250)
    wanted = ids if order == "oldest" else ids[::-1]
    whole = queue.client.dead(queue=queue.name, order=order, limit=1000)
    assert ids_of(whole["letters"]) == wanted and whole["next"] is None
    assert len(queue.client.dead(queue=queue.name)["letters"]) == 100, "by default"
    for limit in (1, 7, 249, 250):
        assert ids_of(queue.letters(order=order, limit=limit)) == wanted, limit


def test_a_cursor_keeps_its_place(queue):
    """Letters that die or go while somebody leafs are neither shown twice nor push others out."""
    ids = kill(queue, 30)
    first = queue.client.dead(queue=queue.name, limit=10)
    assert ids_of(first["letters"]) == ids[:19:-1]
    kill(queue, 5, now=at(1))
    queue.replay(ids[20], now=at(1))
    queue.replay(ids[15], now=at(1))
    second = queue.client.dead(queue=queue.name, limit=10, cursor=first["next"], now=at(1))
    assert ids_of(second["letters"]) == [i for i in ids[19::-1] if i != ids[15]][:10]


def test_without_payloads(queue):
    queue.dead("x" * 1000)
    queue.dead(None, payload_base64="AP8=")
    for m in queue.letters(payload="no"):
        assert "payload" not in m and "payload_base64" not in m
    assert [m["payload"] for m in queue.letters(payload="yes")] == [None, "x" * 1000]


def test_with_the_story(queue):
    for i in range(3):
        queue.dead(str(i), error=f"e{i}")
    for m in queue.letters(attempts="yes"):
        whole = queue.client.get(f"{queue.path}/messages/{m['id']}/attempts").json
        assert {k: m[k] for k in STORY} == {k: whole[k] for k in STORY}
    assert not STORY & set(queue.letters(attempts="no")[0])


def test_exact_times(live_queue):
    """Every time has its milliseconds beside it, in the story, too."""
    live_queue.put(retention={"dead_seconds": 1000})
    live_queue.enqueue("x", ttl_seconds=500, max_retries=1)
    live_queue.fail(live_queue.claim(), error="boom")
    d = live_queue.letters(exact="yes", attempts="yes")[0]
    for thing, names in ((d, ("created_at", "updated_at", "died_at")), (d["attempts"][0], ("at", "next_at")),
                         (d["death"], ("died_at", "first_failed_at", "last_failed_at", "first_enqueued_at", "expires_at"))):
        assert all(f"{name}_ms" in thing for name in names), thing
        without_exact(thing)
    assert d["ttl_ms"] == 500000
    assert d["death"]["expires_at_ms"] == d["died_at_ms"] + 1000000
    assert d["attempts"][1]["at_ms"] - d["attempts"][0]["at_ms"] == d["attempts"][1]["duration_ms"]
    plain = live_queue.letters()[0]
    assert not [k for k in (*plain, *plain["death"]) if k.endswith("_ms")]


def test_filters_find(client, queue):
    queue.dead("a", error_class="Timeout", key="k1", headers={"tenant": "acme"})
    queue.dead(json.dumps({"customer": {"id": 123}}), error_class="Other", now=at(60))
    both = ids_of(queue.letters(now=at(100)))
    for q, wanted in (("error:Timeout", both[1:]), ("error:T* reason:max_retries", both[1:]), ("-error:Timeout", both[:1]),
                      ("key:k1", both[1:]), ("header.tenant:acme", both[1:]), ("payload.customer.id:123", both[:1]),
                      ("error:Timeout OR error:Other", both), (f"id:{both[0]}", both[:1]), ("age:>1m", both[1:]),
                      ("reason:expired", []), (f"queue:{queue.name}", both), ("", both)):
        assert ids_of(queue.letters(q, now=at(100))) == wanted, q
    assert ids_of(client.letters(f'queue:"{queue.name}"', now=at(100))) == both


BAD_FILTERS = [("colour:red", 0, 6), ("reason:max_retries colour:red", 19, 6), ("reason:", 7, 0), ("reason:boredom", 7, 7),
               ("(error:x", None, None), ("age:>soon", None, None), ("   ", None, None), ("error:x OR", None, None),
               ('key:"open', None, None), ("état:1", 0, None), ("state:open", 0, 5), (":", None, None), ("x" * 5000, None, None)]


@pytest.mark.parametrize("q,position,length", BAD_FILTERS, ids=[q[:20] for q, _, _ in BAD_FILTERS])
def test_an_ill_formed_filter_says_where(client, q, position, length):
    reply = client.get("/dead?" + urllib.parse.urlencode({"q": q}))
    assert reply.status == 422 and reply.error() == ("q", "bad_filter"), reply
    e = reply.json["errors"][0]
    assert position is None or e["position"] == position, e
    assert length is None or e["length"] == length, e
    assert e["position"] + e["length"] <= len(q.encode()) or len(q) > 4096, e


BAD = [("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("limit=", "limit"), ("order=up", "order"),
       ("order=", "order"), ("payload=maybe", "payload"), ("attempts=2", "attempts"), ("exact=", "exact"), ("cursor=x", "cursor"),
       ("cursor=1", "cursor"), ("cursor=1-", "cursor"), ("cursor=-1", "cursor"), ("cursor=01-1", "cursor"),
       ("cursor=1-1-1", "cursor"),
       ("cursor=9223372036854775808-1", "cursor"), ("cursor=1-18446744073709551616", "cursor"), ("cursor=" + "9" * 500, "cursor"),
       ("q=%ff", "q"), ("q=%zz", "q"), ("q=a%00", "q"), ("queue=%ff", "queue"), ("queue=" + "q" * 256, "queue"), ("nope=1", "nope"),
       ("limit=1&limit=2", "limit"), ("Q=error:x", "Q")]


@pytest.mark.parametrize("query,field", BAD, ids=[q[:20] for q, _ in BAD])
def test_bad_queries(client, query, field):
    reply = client.get("/dead?" + query)
    assert reply.status == 422 and reply.error()[0] == field, reply


def test_any_place_will_do_as_a_cursor(queue):
    ids = kill(queue, 3)
    assert ids_of(queue.letters(cursor="0-0", order="oldest")) == ids
    assert queue.client.dead(queue=queue.name, cursor="0-0")["letters"] == []
    assert queue.client.dead(queue=queue.name, cursor="9223372036854775807-18446744073709551615", order="oldest")["letters"] == []


def test_a_search_that_reads_much_says_that_it_is_not_complete(queue):
    ids = kill(queue, 2500)
    page = queue.client.dead("payload.n:0", queue=queue.name)
    assert page["letters"] == [] and not page["complete"] and page["next"] is not None and 0 < page["looked_at"] < 2500
    looked_at, cursor = 0, {}
    found = []
    while True:
        page = queue.client.dead("payload.n:0", queue=queue.name, **cursor)
        found += ids_of(page["letters"])
        looked_at += page["looked_at"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert found == ids[:1] and looked_at == 2500 and page["complete"]
    queue.delete(discard=True)


def test_a_page_ends_at_16_mib(queue):
    for _ in range(3):
        queue.batch([{"payload": "x" * 1000000, "max_retries": 1}] * 7)
    while messages := queue.claim_many(10):
        queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail"} for m in messages])
    first = queue.client.dead(queue=queue.name, limit=1000)
    assert 1 <= first["count"] <= 17 and first["next"] is not None and first["complete"]
    ids = ids_of(queue.letters(limit=1000))
    assert len(ids) == 21 and ids == sorted(ids, reverse=True)
    assert len(queue.client.dead(queue=queue.name, limit=1000, payload="no")["letters"]) == 21
    queue.delete(discard=True)


def test_looking_changes_nothing(client, queue):
    ids = kill(queue, 20, error="boom", error_class="C")
    queue.enqueue("alive")

    def state():
        return queue.info(), [queue.read(i) for i in ids], [queue.attempts(i) for i in ids], queue.groups(), \
            [e["number"] for e in client.audit(order="newest", limit=1)]

    before = state()
    for params in ({}, {"limit": 3}, {"order": "oldest"}, {"attempts": "yes", "exact": "yes"}, {"q": "payload.n:>3"}):
        queue.letters(**params)
    client.groups()
    assert state() == before
    assert queue.claim()["payload"] == "alive"


def test_letters_survive_a_restart(start):
    from lib.client import Client
    server = start()
    client = Client(server, now=T0)
    queue = client.queue("q")
    ids = kill(queue, 12, worker="w", version="1.4", error="boom", error_class="C", detail="D")
    queue.discard(ids[3], why="test")
    queue.edit(ids[4], payload="y")
    queue.replay(ids[5])

    def state():
        return queue.letters(attempts="yes", exact="yes"), queue.info(), queue.groups(all="yes"), client.audit(), queue.list()

    before = state()
    client.close()
    server.restart(kill=True)
    assert state() == before
    client.close()
