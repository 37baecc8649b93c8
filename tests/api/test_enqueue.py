"""POST /queues/{queue}/messages with one message: every field, its range, its wrong types."""
import base64
import itertools

import pytest

from lib.client import T0, at

KEY_NUMBERS = itertools.count()


def refused(queue, body, field, *codes):
    reply = queue.client.post(queue.path + "/messages", body)
    assert reply.status == 422, (body, reply)
    got = reply.error()
    assert got[0] == field and got[1] in codes, (body, got)
    assert queue.client.get(queue.path).status in (200, 404)


# -- what comes back ------------------------------------------------------------------------------------------------------


def test_the_plain_message_is_exactly_as_documented(queue):
    m = queue.enqueue('{"to":"a@b.c"}')
    mid = m.pop("id")
    assert m == {"queue": queue.name, "payload": '{"to":"a@b.c"}', "status": "pending", "retry_count": 0, "max_retries": 3,
                 "retry_after": None, "last_error": None, "created_at": T0, "updated_at": T0, "properties": None}
    assert queue.read(mid) == {"id": mid, **m}


def test_every_field_at_once(queue):
    m = queue.enqueue("p", max_retries=10, priority=9, delay_seconds=60, ttl_seconds=120, key="customer 7",
                      headers={"a": "b", "n": 1}, idempotency_key="once")
    assert (m["max_retries"], m["priority"], m["key"], m["headers"]) == (10, 9, "customer 7", {"a": "b", "n": 1})
    assert (m["available_at"], m["expires_at"]) == (at(60), at(120))
    assert queue.read(m) == m


def test_fields_that_say_nothing_are_left_out(queue):
    m = queue.enqueue("p", priority=0, delay_seconds=0)
    assert set(m) == {"id", "queue", "payload", "status", "retry_count", "max_retries", "retry_after", "last_error",
                      "created_at", "updated_at", "properties"}


def test_ids_grow_across_queues(client):
    a, b = client.queue("ids-a"), client.queue("ids-b")
    ids = [q.enqueue("x")["id"] for _ in range(10) for q in (a, b)]
    assert ids == sorted(set(ids))


def test_the_reply_is_json_and_201(queue):
    reply = queue.client.post(queue.path + "/messages", {"payload": "x"})
    assert (reply.status, reply.type()) == (201, "application/json")


def test_no_content_type_is_needed(queue):
    """No status of the document speaks of media types, so `curl -d` with its own type works too."""
    for headers in ({}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "text/plain; charset=utf-8"}):
        reply = queue.client.raw("POST", queue.path + "/messages", b'{"payload": "x"}', headers)
        assert reply.status == 201, (headers, reply)


# -- payloads ---------------------------------------------------------------------------------------------------------------

TEXTS = ["", " ", "\u0000", "\u0000\u0001\u001f\u007f", "a\u0000b", "💌 ünïcödé", '"quoted" \\ \n\t\r\b\f', "\u2028\u2029\ufeff",
         "\U0010ffff\uffff", "</script>", "x" * 60000, "\u0000" * 5000, "null", "é" * 100000]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_survives_unchanged(queue, text):
    m = queue.enqueue(text)
    assert m["payload"] == text
    assert queue.read(m)["payload"] == text
    assert queue.payload(m) == text.encode()
    assert queue.list()[0]["payload"] == text
    assert queue.claim()["payload"] == text


BYTES = [b"\xff", b"\xc3", b"a\xc3(", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", bytes(range(256)), b"\x00\xff" * 3000,
         b"ok" * 1000 + b"\x80"]


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
def test_bytes_survive_unchanged(queue, data):
    text = base64.b64encode(data).decode()
    m = queue.enqueue(None, payload_base64=text)
    assert m["payload"] is None and m["payload_base64"] == text
    assert queue.payload(m) == data
    for seen in (queue.read(m), queue.list()[0], queue.claim()):
        assert seen["payload"] is None and seen["payload_base64"] == text


def test_base64_that_holds_text_comes_back_as_text(queue):
    m = queue.enqueue(None, payload_base64=base64.b64encode("né\u0000".encode()).decode())
    assert m["payload"] == "né\u0000" and "payload_base64" not in m
    assert queue.enqueue(None, payload_base64="")["payload"] == ""


@pytest.mark.parametrize("text", ["YQ", "YQ=", "Y", "YQ===", "=", "====", "YQ==YQ==", "Y Q=", "YWJj\n", "-_8=", "YW\u0000j", "é",
                                  "YWJj=", "Y=Jj"])
def test_what_is_not_base64_is_refused(queue, text):
    refused(queue, {"payload_base64": text}, "payload_base64", "bad_encoding")


def test_one_payload_and_only_one(queue):
    refused(queue, {}, "payload", "required")
    refused(queue, {"max_retries": 3}, "payload", "required")
    reply = queue.client.post(queue.path + "/messages", {"payload": "a", "payload_base64": "YQ=="})
    assert reply.status == 422 and reply.error()[1] == "conflict", reply
    assert reply.error()[0] in ("payload", "payload_base64"), reply


def test_a_payload_of_exactly_the_limit_fits_and_one_byte_more_does_not(queue):
    mib = 1024 * 1024
    for body in ({"payload": "x" * mib}, {"payload": "é" * (mib // 2)}, {"payload": "\u0001" * mib},
                 {"payload_base64": base64.b64encode(b"\xff" * mib).decode()}):
        assert queue.client.post(queue.path + "/messages", body).status == 201
    for body in ({"payload": "x" * (mib + 1)}, {"payload": "x" + "é" * (mib // 2)},
                 {"payload_base64": base64.b64encode(b"\xff" * (mib + 1)).decode()}):
        assert queue.client.post(queue.path + "/messages", body).status == 413
    assert queue.counts()["pending"] == 4


# -- ranges and types -----------------------------------------------------------------------------------------------------------

RANGES = [("max_retries", 1, 10), ("priority", 0, 9), ("delay_seconds", 0, 31536000), ("ttl_seconds", 1, 31536000)]


@pytest.mark.parametrize("field,low,high", RANGES)
def test_ranges_of_whole_numbers(queue, field, low, high):
    for good in (low, high):
        queue.enqueue("x", **{field: good})
    for bad in (low - 1, high + 1, -(2**63), 2**63 - 1):
        refused(queue, {"payload": "x", field: bad}, field, "out_of_range")
    for bad in ("3", 2.5, True, [], {}):
        refused(queue, {"payload": "x", field: bad}, field, "wrong_type")
    assert queue.counts()["pending"] == 2


def test_numbers_too_big_for_64_bits_are_refused(queue):
    for number in (b"9223372036854775808", b"1e400", b"-99999999999999999999"):
        reply = queue.client.post(queue.path + "/messages", data=b'{"payload": "x", "max_retries": ' + number + b"}")
        assert reply.status in (400, 422), reply


@pytest.mark.parametrize("field", ["payload", "payload_base64", "key", "idempotency_key"])
def test_strings_of_another_type(queue, field):
    for bad in (7, 1.5, False, [], {"a": 1}):
        body = {field: bad} if field.startswith("payload") else {"payload": "x", field: bad}
        refused(queue, body, field, "wrong_type")


def test_null_is_no_payload(queue):
    refused(queue, {"payload": None}, "payload", "wrong_type", "required")


@pytest.mark.parametrize("field", ["key", "idempotency_key"])
def test_lengths_count_bytes(queue, field):
    n = next(KEY_NUMBERS)
    for good in (f"{n}" + "k" * 250, f"{n}" + "é" * 120):
        assert queue.enqueue("x", **{field: good})
    for bad in ("k" * 256, "é" * 128):
        refused(queue, {"payload": "x", field: bad}, field, "too_long")


def test_an_empty_idempotency_key_is_refused(queue):
    reply = queue.client.post(queue.path + "/messages", {"payload": "x", "idempotency_key": ""})
    assert reply.status == 422 and reply.error()[0] == "idempotency_key", reply


def test_255_bytes_fit(queue):
    assert queue.enqueue("x", key="k" * 255)["key"] == "k" * 255
    queue.enqueue("x", idempotency_key="k" * 255)


def test_headers_are_kept_as_they_are(queue):
    headers = {"text": "é\u0000", "number": -1.5, "whole": 9007199254740991, "yes": True, "none": None, "list": [1, [2]],
               "deep": {"a": {"b": {}}}, "": "empty name", "z": 1, "a": 2}
    m = queue.enqueue("x", headers=headers)
    for seen in (m, queue.read(m), queue.list()[0], queue.claim()):
        assert seen["headers"] == headers
        assert list(seen["headers"]) == list(headers)


def test_headers_must_be_an_object_of_at_most_64_kib(queue):
    for bad in ("a", 1, [], True):
        refused(queue, {"payload": "x", "headers": bad}, "headers", "wrong_type")
    queue.enqueue("x", headers={"a": "b" * (65536 - len('{"a":""}'))})
    refused(queue, {"payload": "x", "headers": {"a": "b" * 65536}}, "headers", "too_long")


def test_unknown_members_are_errors(queue):
    refused(queue, {"payload": "x", "dealy_seconds": 5}, "dealy_seconds", "unknown_field")
    for field in ("id", "status", "queue", "Payload", ""):
        refused(queue, {"payload": "x", field: 1}, field, "unknown_field")
    assert queue.client.get(queue.path).status == 404, "a refused enqueue must not create the queue"


def test_right_json_of_the_wrong_kind(queue):
    for body in ("x", 7, None, True, 1.5):
        reply = queue.client.post(queue.path + "/messages", body)
        assert reply.status == 422 and reply.error()[1] == "wrong_type", (body, reply)


def test_every_error_is_named(queue):
    reply = queue.client.post(queue.path + "/messages", {"payload": 7, "max_retries": 11})
    assert reply.status == 422
    fields = {e["field"] for e in reply.json["errors"]}
    assert fields and fields <= {"payload", "max_retries"}, reply


# -- queue names ------------------------------------------------------------------------------------------------------------------

NAMES = ["has space", "ünï", "a/b", "dots.and:colons", "%41", "..", ".", "/", "?a=b", "#", "&=+;", "\u0001\u001f\u007f", "💌", "\\",
         "a//b", "messages", "claim", "x" * 255, "é" * 127]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_queue(client, name):
    q = client.queue(name)
    m = q.enqueue("x")
    assert m["queue"] == name
    assert q.read(m)["queue"] == name
    assert q.info()["queue"] == name
    assert q.claim()["id"] == m["id"]
    q.delete(discard=True)


def test_names_that_are_none(client):
    for path in ("/queues/" + "x" * 256, "/queues/" + "%C3%A9" * 128):
        reply = client.post(path + "/messages", {"payload": "x"})
        assert reply.status in (404, 414, 422), reply
        client.queues.clear()
    for path in ("/queues/%ff", "/queues/a%C3", "/queues/%ED%A0%80", "/queues/a%zz", "/queues/a%4"):
        reply = client.post(path + "/messages", {"payload": "x"})
        assert reply.status in (400, 404, 422), (path, reply)
        client.queues.clear()
    assert client.post("/queues//messages", {"payload": "x"}).status in (404, 422)
    client.queues.clear()
    assert client.post("/queues/a%00b/messages", {"payload": "x"}).status == 400
    client.queues.clear()


def test_percent_encoding_is_decoded_once(client):
    q = client.queue("once-%2541")
    m = q.enqueue("x")
    assert m["queue"] == "once-%2541"
    assert client.get(f"/queues/once-%252541/messages/{m['id']}").status == 200
    assert client.get(f"/queues/once-%2541/messages/{m['id']}").status == 404


# -- delay and time to live -----------------------------------------------------------------------------------------------------------


def test_delay(queue):
    m = queue.enqueue("later", delay_seconds=10)
    assert m["available_at"] == at(10) and m["status"] == "pending"
    assert queue.claim(now=at(9)) is None
    assert queue.counts(now=at(9)) == {"pending": 1, "ready": 0, "processing": 0, "parked": 0, "dead": 0,
                                       "succeeded": 0, "discarded": 0, "held": 0}
    assert queue.counts(now=at(10))["ready"] == 1
    assert "available_at" not in queue.read(m, now=at(10))
    assert queue.claim(now=at(10))["id"] == m["id"]


def test_a_delayed_message_keeps_its_place(queue):
    first = queue.enqueue("first", delay_seconds=10)
    second = queue.enqueue("second")
    assert queue.claim(now=at(10))["id"] == first["id"]
    assert queue.claim(now=at(10))["id"] == second["id"]


def test_ttl_kills_a_pending_message(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    assert m["expires_at"] == at(10)
    assert queue.read(m, now=at(9))["status"] == "pending"
    assert queue.claim(now=at(10)) is None
    d = queue.read(m, now=at(10))
    assert (d["status"], d["reason"], d["died_at"], d["retry_count"]) == ("dead", "expired", at(10), 0)
    assert queue.counts()["dead"] == 1


def test_ttl_leaves_a_message_in_processing_to_its_lease(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    claimed = queue.claim(lease_seconds=100)
    assert queue.read(m, now=at(50))["status"] == "processing"
    assert queue.succeed(claimed, now=at(50))["status"] == "succeeded"


def test_a_failure_after_the_ttl_leads_to_expired(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    claimed = queue.claim(lease_seconds=100)
    queue.fail(claimed, now=at(50), error="late")
    d = queue.read(m, now=at(50))
    assert (d["status"], d["reason"], d["last_error"]) == ("dead", "expired", "late")


def test_a_lease_that_ends_after_the_ttl_leads_to_expired(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    queue.claim(lease_seconds=30)
    d = queue.read(m, now=at(31))
    assert (d["status"], d["reason"], d["error_class"]) == ("dead", "expired", "lease_expired")


def test_ttl_ends_while_a_retry_waits(queue):
    m = queue.enqueue("x", ttl_seconds=10, max_retries=5)
    queue.fail(queue.claim(), retry_after_seconds=60)
    assert queue.read(m, now=at(9))["status"] == "pending"
    assert queue.read(m, now=at(10))["reason"] == "expired"


def test_a_delay_longer_than_the_ttl_expires(queue):
    m = queue.enqueue("x", delay_seconds=100, ttl_seconds=10)
    assert queue.read(m, now=at(10))["reason"] == "expired"
