"""POST /dead: letters from elsewhere land as dead, once, and exactly as they were."""
import base64
import copy

import pytest

from lib.client import T0, Client, at


@pytest.fixture
def other(start):
    """Another, empty server."""
    c = Client(start(), now=T0)
    yield c
    c.check_conservation()
    c.close()


def export(queue, **more):
    return queue.letters(attempts="yes", exact="yes", order="oldest", **more)


def varied(queue):
    """Letters of many kinds, in the order of their deaths."""
    queue.put(max_retries=2)
    queue.enqueue("plain", key="k", priority=4, headers={"a": [1, 2.5, None], "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    queue.fail(queue.claim(worker="w1", worker_version="1.3"), now=at(1), error="one", error_class="A", detail="D1\nD2")
    queue.fail(queue.claim(now=at(3), worker="w2"), now=at(4), error="two", error_class="B", fingerprint="F")
    queue.enqueue(None, now=at(4), payload_base64="AP8A/w==", ttl_seconds=100)
    queue.fail(queue.claim(now=at(4)), now=at(5), permanent=True, error="é\u0000\U0001f600")
    queue.enqueue("", now=at(5), ttl_seconds=10)
    queue.info(now=at(15))
    d = queue.dead("again", now=at(16))
    queue.replay(d, now=at(17))
    queue.fail(queue.claim(now=at(18)), now=at(19), error="")
    queue.enqueue("lease", now=at(20), max_retries=1)
    queue.claim(now=at(20), lease_seconds=5)
    queue.info(now=at(25))
    queue.client.now = at(30)
    letters = export(queue)
    assert [m["reason"] for m in letters] == ["max_retries", "permanent", "expired", "max_retries", "lease_expired"]
    return letters


def without_numbers(letters):
    """What has to be the same: all but the place in the order of deaths of this server, and the time of the last change."""
    letters = copy.deepcopy(letters)
    for m in letters:
        del m["death"]["dead_seq"], m["updated_at"], m["updated_at_ms"]
    return letters


def test_a_round_trip_is_exact(queue, other):
    letters = varied(queue)
    there = other.queue(queue.name)
    other.now, other.actor = at(40), "ann"
    assert other.take_in(queue.name, letters, reason="moving house") == {"imported": 5, "known": 0}
    taken = export(there)
    assert without_numbers(taken) == without_numbers(letters)
    assert [m["death"]["dead_seq"] for m in taken] == sorted(m["death"]["dead_seq"] for m in taken)
    info = there.info()
    assert info["counts"]["dead"] == 5 and info["conservation"]["accepted"] + info["conservation"]["moved_in"] == 5
    mine, theirs = queue.groups(), there.groups()
    assert sorted(g["key"] for g in mine) == sorted(g["key"] for g in theirs)
    assert sorted(g["title"] for g in mine) == sorted(g["title"] for g in theirs)
    [e] = [e for e in other.audit() if e["action"] == "import"]
    assert (e["actor"], e["count"], e["queue"], e["reason"]) == ("ann", 5, queue.name, "moving house")


def test_what_was_taken_in_lives_on(queue, other):
    letters = varied(queue)
    there = other.queue(queue.name)
    other.now = at(40)
    other.take_in(queue.name, letters)
    for m in letters:
        r = there.replay(m["id"], now=at(50))
        assert (r["status"], r["redrive_count"]) == ("pending", m.get("redrive_count", 0) + 1)
        assert r.get("expires_at") == (None if "ttl_ms" not in m else at(50 + m["ttl_ms"] // 1000))
    claimed = there.claim_many(10, now=at(51))
    assert sorted(m["id"] for m in claimed) == sorted(m["id"] for m in letters)
    assert {m["id"]: m["attempt"] for m in claimed} == {m["id"]: m.get("deliveries", 0) + 1 for m in letters}
    assert there.enqueue("new")["id"] > max(m["id"] for m in letters)


def test_a_second_time_all_are_known(queue, other):
    letters = varied(queue)
    assert other.take_in(queue.name, letters[:3]) == {"imported": 3, "known": 0}
    there = other.queue(queue.name)
    before = export(there), there.info(), there.groups()
    assert other.take_in(queue.name, letters) == {"imported": 2, "known": 3}
    assert [m for m in export(there) if m["id"] in {x["id"] for x in letters[:3]}] == before[0]
    assert other.take_in(queue.name, letters) == {"imported": 0, "known": 5}
    there.replay(letters[0]["id"])
    assert other.take_in(queue.name, letters) == {"imported": 0, "known": 5}, "whatever became of them"
    assert there.read(letters[0]["id"])["status"] == "pending"


def test_home_again_they_are_known(queue):
    letters = varied(queue)
    before = export(queue), queue.info(), queue.client.groups()
    assert queue.client.take_in(queue.name, letters) == {"imported": 0, "known": 5}
    assert (export(queue), queue.info(), queue.client.groups()) == before


def test_an_id_of_another_message_refuses_all(queue, other):
    letters = varied(queue)
    there = other.queue(queue.name)
    taken = there.enqueue("mine", now=at(1))
    letters[2]["id"] = taken["id"]
    audit = other.audit()
    d = other.take_in(queue.name, letters, expect=409)
    assert "letters[2]" in d["detail"] and str(taken["id"]) in d["detail"]
    d = other.take_in("elsewhere", letters, expect=409)
    assert there.letters() == [] and other.get("/queues/elsewhere").status == 404 and other.audit() == audit
    other.take_in(queue.name, letters, expect=409, dry_run=True)


def test_a_dry_run_changes_nothing(queue, other):
    letters = varied(queue)
    assert other.take_in(queue.name, letters, dry_run=True) == {"imported": 5, "known": 0}
    assert other.get("/queues/" + queue.name).status == 404 and other.audit() == []
    other.take_in(queue.name, letters[:2])
    assert other.take_in(queue.name, letters, dry_run=True) == {"imported": 3, "known": 2}
    assert len(other.queue(queue.name).letters()) == 2
    assert other.post("/dead?dry_run=no", {"queue": queue.name, "letters": letters}).json == {"imported": 3, "known": 2}
    reply = other.post("/dead?dry_run=maybe", {"queue": queue.name, "letters": letters})
    assert reply.status == 422 and reply.error()[0] == "dry_run"


def test_into_another_queue_they_say_where_they_come_from(queue, other):
    letters = varied(queue)
    other.take_in("hospital", letters)
    for m in other.queue("hospital").letters():
        assert m["origin_queue"] == queue.name and m["death"]["origin"]["queue"] == queue.name
    back = export(other.queue("hospital"))
    assert other.take_in("hospital", back) == {"imported": 0, "known": 5}


def test_a_restart_keeps_them(start, queue):
    server = start()
    c = Client(server, now=at(30))
    letters = varied(queue)
    c.take_in("q", letters)
    before = export(c.queue("q")), c.queue("q").info(), c.groups(), c.audit()
    c.close()
    server.restart(kill=True)
    assert (export(c.queue("q")), c.queue("q").info(), c.groups(), c.audit()) == before
    c.close()


# -- what a letter needs --------------------------------------------------------------------------------------------------------


def plain(**more):
    return {"id": 7, "payload": "x", "status": "dead", "retry_count": 1, "max_retries": 3, "reason": "permanent", "created_at": T0,
            "died_at": at(5), **more}


def test_the_least_a_letter_needs(other):
    letter = {k: v for k, v in plain().items() if k not in ("status", "retry_count")}
    assert other.take_in("q", [letter]) == {"imported": 1, "known": 0}
    m = other.queue("q").read(7)
    assert (m["payload"], m["retry_count"], m["max_retries"], m["created_at"], m["died_at"]) == ("x", 0, 3, T0, at(5))
    assert m["last_error"] is None and m["death"]["first_failed_at"] is None


def test_without_a_story_the_newest_failure_is_kept(queue, other):
    queue.dead("x", error="boom", error_class="C")
    [m] = queue.letters(exact="yes")
    other.take_in(queue.name, [m])
    [t] = other.queue(queue.name).letters(exact="yes")
    assert (t["last_error"], t["error_class"], t["death"]["group"]) == ("boom", "C", m["death"]["group"])
    assert t["death"]["last_failed_at"] == m["death"]["last_failed_at"]


def test_times_may_be_given_as_text(other):
    other.take_in("q", [plain(created_at_ms=1780272000123, death={"first_failed_at": at(2)})])
    [m] = other.queue("q").letters(exact="yes")
    assert (m["created_at_ms"], m["died_at_ms"] % 1000, m["death"]["first_failed_at"]) == (1780272000123, 0, at(2))


def test_a_long_story(queue, other):
    """More lines than attempts are kept of: what people did has lines, too."""
    queue.put(redrive_limit=1000)
    d = queue.dead("x")
    for _ in range(25):
        queue.replay(d)
        queue.fail(queue.claim(), permanent=True)
        queue.discard(d)
        queue.undiscard(d)
    letters = export(queue)
    assert len(letters[0]["attempts"]) > 100 and letters[0]["attempts_omitted"] == 3
    other.take_in(queue.name, letters)
    assert without_numbers(export(other.queue(queue.name))) == without_numbers(letters)


def test_a_thousand_at_once(other):
    letters = [plain(id=i + 1, payload="x" * 1000) for i in range(1000)]
    assert other.take_in("q", letters) == {"imported": 1000, "known": 0}
    assert len(other.queue("q").letters(limit=1000)) == 1000


LINE = {"attempt": 1, "event": "failed", "at": T0}
BAD_LETTERS = [({k: None}, k, "wrong_type") for k in ("id", "max_retries", "reason", "retry_count", "priority", "key")] + [
    ({"id": v}, "id", "out_of_range") for v in (0, -1, 2**53)] + [
    ({"id": "7"}, "id", "wrong_type"), ({"id": ...}, "id", "required")] + [
    ({k: ...}, k, "required") for k in ("payload", "max_retries", "reason", "created_at", "died_at")] + [
    ({"created_at": None}, "created_at", "required"), ({"created_at": "yesterday"}, "created_at", "out_of_range"),
    ({"created_at": 5}, "created_at", "wrong_type"), ({"died_at_ms": 0}, "died_at_ms", "out_of_range"),
    ({"died_at_ms": 2**53}, "died_at_ms", "out_of_range"), ({"died_at_ms": "1"}, "died_at_ms", "wrong_type"),
    ({"payload": 7}, "payload", "wrong_type"), ({"payload": None}, "payload", "wrong_type"),
    ({"payload_base64": "AA=="}, "payload_base64", "conflict"),
    ({"payload": None, "payload_base64": "A"}, "payload_base64", "bad_encoding"),
    ({"headers": []}, "headers", "wrong_type"), ({"headers": {"x": "y" * 65536}}, "headers", "too_long"),
    ({"key": "k" * 256}, "key", "too_long"), ({"priority": 10}, "priority", "out_of_range"),
    ({"max_retries": 0}, "max_retries", "out_of_range"), ({"max_retries": 251}, "max_retries", "out_of_range"),
    ({"retry_count": -1}, "retry_count", "out_of_range"), ({"deliveries": 2**22}, "deliveries", "out_of_range"),
    ({"redrive_count": -1}, "redrive_count", "out_of_range"), ({"redrive_count": 2**32}, "redrive_count", "out_of_range"),
    ({"status": "pending"}, "status", "out_of_range"), ({"status": "discarded"}, "status", "out_of_range"),
    ({"status": 1}, "status", "wrong_type"),
    ({"reason": "boredom"}, "reason", "out_of_range"), ({"reason": "none"}, "reason", "out_of_range"),
    ({"ttl_ms": -1}, "ttl_ms", "out_of_range"), ({"parent_id": 0}, "parent_id", "out_of_range"),
    ({"origin_queue": 7}, "origin_queue", "wrong_type"),
    ({"origin_queue": "q" * 256}, "origin_queue", "too_long"), ({"death": 7}, "death", "wrong_type"),
    ({"death": {"nope": 1}}, "death.nope", "unknown_field"),
    ({"death": {"first_failed_at": "x"}}, "death.first_failed_at", "out_of_range"),
    ({"nope": 1}, "nope", "unknown_field"), ({"lease": "7-1"}, "lease", "unknown_field"),
    ({"attempts": 7}, "attempts", "wrong_type"), ({"attempts": [7]}, "attempts[0]", "wrong_type"),
    ({"attempts": [LINE] * 1001}, "attempts", "out_of_range"),
    ({"attempts": [{**LINE, "attempt": 2}]}, "attempts[0].attempt", "out_of_range"),
    ({"attempts": [LINE, {**LINE, "attempt": 0}]}, "attempts[1].attempt", "out_of_range"),
    ({"attempts": [{**LINE, "event": "exploded"}]}, "attempts[0].event", "out_of_range"),
    ({"attempts": [{"attempt": 1, "event": "failed"}]}, "attempts[0].at", "required"),
    ({"attempts": [{**LINE, "worker": "a", "actor": "b"}]}, "attempts[0].actor", "conflict"),
    ({"attempts": [{**LINE, "worker": "w" * 129}]}, "attempts[0].worker", "too_long"),
    ({"attempts": [{**LINE, "error": "e" * 4097}]}, "attempts[0].error", "too_long"),
    ({"attempts": [{**LINE, "detail": "e" * 32769}]}, "attempts[0].detail", "too_long"),
    ({"attempts": [{**LINE, "nope": 1}]}, "attempts[0].nope", "unknown_field")]


@pytest.mark.parametrize("change,field,code", BAD_LETTERS, ids=range(len(BAD_LETTERS)))
def test_bad_letters(client, queue, change, field, code):
    letter = {k: v for k, v in {**plain(id=10**9, deliveries=1), **change}.items() if v is not ...}
    good = plain(id=10**9 + 1)
    reply = client.post("/dead", {"queue": queue.name, "letters": [good, letter]})
    assert reply.status == 422 and reply.error() == (f"letters[1].{field}", code), reply
    assert client.get(queue.path).status == 404, "all or none"


BAD_BODIES = [({}, "queue"), ({"queue": "q"}, "letters"), ({"queue": "q", "letters": []}, "letters"),
({"queue": "q", "letters": 7}, "letters"),
              ({"queue": "q", "letters": [plain()] * 1001}, "letters"), ({"queue": "", "letters": [plain()]}, "queue"),
              ({"queue": 7, "letters": [plain()]}, "queue"), ({"queue": "q" * 256, "letters": [plain()]}, "queue"),
              ({"queue": "q", "letters": [7]}, "letters[0]"), ({"queue": "q", "letters": [plain(), plain()]}, "letters[1].id"),
              ({"queue": "q", "letters": [plain()], "reason": "x" * 1025}, "reason"),
              ({"queue": "q", "letters": [plain()], "nope": 1}, "nope"),
              ([], "body"), ("x", "body")]


@pytest.mark.parametrize("body,field", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_bad_bodies(other, body, field):
    reply = other.post("/dead", body)
    assert reply.status == 422 and reply.error()[0] == field, reply
    assert other.get("/queues").json["queues"] == []


def test_malformed_and_missing_bodies(client):
    assert client.post("/dead", data=b"{").status == 400
    assert client.post("/dead", data=b"").status == 400
    assert client.raw("POST", "/dead", None, {}).status in (400, 411)
    assert client.post("/dead?nope=1", {"queue": "q", "letters": [plain()]}).status == 422


def test_a_payload_over_the_limit(start):
    c = Client(start("--payload-max", 1000), now=T0)
    assert c.post("/dead", {"queue": "q", "letters": [plain(payload="x" * 1001)]}).status == 413
    assert c.take_in("q", [plain(payload="x" * 1000)]) == {"imported": 1, "known": 0}
    c.close()


# Of the default exchange and the key "work", content_type text/plain, headers {"a": true}, delivery_mode 2; it died in "work".
ENVELOPE = base64.b64encode(
    b"\x10\x04work\x01\x13\x02\x90\xa4\xea\xcd\xe83\x04work\x04work"
    b"\xb0\x00\x0atext/plain\x00\x00\x00\x04\x01at\x01\x02").decode()


def test_what_amqp_knows_comes_along(queue):
    d = queue.dead("x")
    letter, = queue.letters(exact="yes", attempts="yes")
    assert letter["properties"] is None and "envelope_base64" not in letter
    other = queue.client.queue(queue.name + "-amqp")
    letter.update(id=d["id"] + 2**40, envelope_base64=ENVELOPE)
    queue.client.take_in(other.name, [letter])
    seen, = other.letters(exact="yes", attempts="yes")
    assert seen["envelope_base64"] == ENVELOPE
    death, = seen["properties"].pop("deaths")
    assert seen["properties"] == {"exchange": "", "routing_key": "work", "content_type": "text/plain", "delivery_mode": 2}
    assert (death["queue"], death["reason"], death["count"], death["routing_keys"]) == ("work", "rejected", 2, ["work"])
    assert other.read(seen)["properties"]["content_type"] == "text/plain" and "envelope_base64" not in other.read(seen)
    other.replay(seen)
    assert other.claim()["properties"]["routing_key"] == "work"


@pytest.mark.parametrize("envelope", ["?", "/w==", base64.b64encode(b"\x00\x01k\x10\x00").decode(),
                                      base64.b64encode(b"\x00\x01k\x20\x00\x00\x00\x00\x03\x01a?").decode()])
def test_what_amqp_knows_must_hold_together(queue, envelope):
    queue.dead("x")
    letter, = queue.letters(exact="yes")
    reply = queue.client.post("/dead", {"queue": queue.name, "letters": [{**letter, "envelope_base64": envelope}]})
    assert reply.status == 422 and reply.error() == ("letters[0].envelope_base64", "bad_encoding")
