"""POST /queues/{queue}/messages with an array: one transaction."""
import pytest

from lib.client import at


def test_ids_in_the_order_of_the_array(queue):
    d = queue.batch([{"payload": f"p{i}"} for i in range(5)])
    assert set(d) == {"count", "ids", "duplicates"} and (d["count"], d["duplicates"]) == (5, 0)
    assert d["ids"] == sorted(set(d["ids"]))
    assert [(m["id"], m["payload"]) for m in queue.list()] == list(zip(d["ids"], [f"p{i}" for i in range(5)]))


def test_items_have_all_fields_of_a_message(queue):
    items = [{"payload": "a", "max_retries": 10, "priority": 9, "key": "k", "headers": {"h": 1}},
             {"payload_base64": "/w==", "delay_seconds": 5, "ttl_seconds": 9},
             {"payload": "c", "idempotency_key": "batch-fields"}]
    a, b, c = queue.batch(items)["ids"]
    a, b, c = queue.read(a), queue.read(b), queue.read(c)
    assert (a["max_retries"], a["priority"], a["key"], a["headers"]) == (10, 9, "k", {"h": 1})
    assert (b["payload_base64"], b["available_at"], b["expires_at"]) == ("/w==", at(5), at(9))
    assert c["payload"] == "c"


def test_one_and_a_thousand(queue):
    assert queue.batch([{"payload": "x"}])["count"] == 1
    assert queue.batch([{"payload": "x"}] * 1000)["count"] == 1000
    assert queue.counts()["pending"] == 1001


@pytest.mark.parametrize("n", [0, 1001, 5000])
def test_none_and_too_many(queue, n):
    reply = queue.client.post(queue.path + "/messages", [{"payload": "x"}] * n)
    assert reply.status == 422, reply
    assert queue.client.get(queue.path).status == 404


def test_all_or_none_and_the_field_says_which(queue):
    cases = [([{"payload": "a"}, {"payload": "b"}, {"payload": 7}], "[2].payload", "wrong_type"),
             ([{"payload": "a"}, {"payload": "b", "max_retries": 11}], "[1].max_retries", "out_of_range"),
             ([{}, {"payload": "b"}], "[0].payload", "required"),
             ([{"payload": "a", "nope": 1}], "[0].nope", "unknown_field"),
             ([{"payload": "a"}, {"payload_base64": "?"}], "[1].payload_base64", "bad_encoding"),
             ([{"payload": "a"}, 7], "[1]", "wrong_type"),
             ([{"payload": "a"}, None], "[1]", "wrong_type"),
             ([{"payload": "a"}, [{"payload": "b"}]], "[1]", "wrong_type")]
    for items, field, code in cases:
        reply = queue.client.post(queue.path + "/messages", items)
        assert reply.status == 422 and reply.error() == (field, code), (items, reply)
    assert queue.client.get(queue.path).status == 404


def test_a_payload_over_the_limit_refuses_the_batch(queue):
    reply = queue.client.post(queue.path + "/messages", [{"payload": "a"}, {"payload": "x" * (1024 * 1024 + 1)}])
    assert reply.status == 413
    assert queue.client.get(queue.path).status == 404


def test_large_payloads_fit_up_to_the_body_limit(queue):
    d = queue.batch([{"payload": chr(97 + i) * (1024 * 1024)} for i in range(15)])
    for i, mid in enumerate(d["ids"]):
        assert queue.payload(mid) == bytes([97 + i]) * (1024 * 1024)
    queue.delete(discard=True)


def test_known_keys_give_the_first_message(queue):
    first = queue.enqueue("one", idempotency_key="a")
    d = queue.batch([{"payload": "new"}, {"payload": "other", "idempotency_key": "a"}, {"payload": "b", "idempotency_key": "b"},
                     {"payload": "b again", "idempotency_key": "b"}])
    assert (d["count"], d["duplicates"]) == (4, 2)
    assert d["ids"][1] == first["id"] and d["ids"][3] == d["ids"][2]
    assert [m["payload"] for m in queue.list()] == ["one", "new", "b"]


def test_the_header_is_refused_with_a_batch(queue):
    reply = queue.client.post(queue.path + "/messages", [{"payload": "x"}], headers={"Idempotency-Key": "k"})
    assert reply.status == 422, reply
    assert reply.error()[1] == "not_allowed", reply
    assert queue.client.get(queue.path).status == 404


def test_order_within_a_batch(queue):
    ids = queue.batch([{"payload": str(i), "priority": i % 3} for i in range(9)])["ids"]
    wanted = [ids[i] for p in (2, 1, 0) for i in range(9) if i % 3 == p]
    assert [m["id"] for m in queue.claim_many(9)] == wanted
