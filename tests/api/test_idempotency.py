"""The same key within the window is the same message."""
import threading

import pytest

from lib.client import Client, T0, at


@pytest.mark.parametrize("how", ["header", "field"])
def test_the_second_enqueue_answers_the_first_message(queue, how):
    def enqueue(payload, key, expect, **fields):
        if how == "header":
            return queue.enqueue(payload, expect=expect, http={"Idempotency-Key": key}, **fields)
        return queue.enqueue(payload, expect=expect, idempotency_key=key, **fields)

    a = enqueue("one", "k", 201)
    assert enqueue("two", "k", 200, priority=5, delay_seconds=9) == a
    b = enqueue("three", "other", 201)
    assert b["id"] != a["id"]
    assert [m["payload"] for m in queue.list()] == ["one", "three"]
    assert queue.info()["conservation"]["accepted"] == 2


def test_header_and_field_are_one_thing(queue):
    a = queue.enqueue("one", idempotency_key="k")
    assert queue.enqueue("two", expect=200, http={"Idempotency-Key": "k"})["id"] == a["id"]


def test_the_field_goes_before_the_header(queue):
    """The header is the field's default."""
    a = queue.enqueue("one", idempotency_key="k", http={"Idempotency-Key": "h"})
    assert queue.enqueue("two", http={"Idempotency-Key": "h"})["id"] != a["id"]
    assert queue.enqueue("three", expect=200, idempotency_key="k")["id"] == a["id"]


def test_the_message_as_it_is_now(queue):
    a = queue.enqueue("x", idempotency_key="k", max_retries=1)
    queue.fail(queue.claim(), error="boom")
    again = queue.enqueue("y", expect=200, idempotency_key="k")
    assert (again["id"], again["status"], again["last_error"]) == (a["id"], "dead", "boom")


@pytest.mark.parametrize("body", [{"payload": 7}, {}, {"nope": 1}, {"payload": "x", "max_retries": 99}, []])
def test_the_second_body_is_ignored_whatever_it_holds(queue, body):
    a = queue.enqueue("x", http={"Idempotency-Key": "k"})
    reply = queue.client.post(queue.path + "/messages", body, headers={"Idempotency-Key": "k"})
    if isinstance(body, list):
        assert reply.status == 422, "the header with a batch"
    else:
        assert reply.status == 200 and reply.json["id"] == a["id"], reply


def test_keys_belong_to_a_queue(client):
    a, b = client.queue("keys-a"), client.queue("keys-b")
    assert a.enqueue("x", idempotency_key="same")["id"] != b.enqueue("y", idempotency_key="same")["id"]


def test_the_window(queue):
    a = queue.enqueue("x", idempotency_key="k")
    assert queue.enqueue("y", now=at(3599), expect=200, idempotency_key="k")["id"] == a["id"]
    b = queue.enqueue("z", now=at(3601), idempotency_key="k")
    assert b["id"] != a["id"]
    assert queue.enqueue("z", now=at(3601 + 3599), expect=200, idempotency_key="k")["id"] == b["id"]
    assert queue.read(a)["status"] == "pending"


def test_a_duplicate_does_not_prolong_the_window(queue):
    queue.enqueue("x", idempotency_key="k")
    queue.enqueue("x", now=at(3000), expect=200, idempotency_key="k")
    queue.enqueue("x", now=at(3601), idempotency_key="k")


def test_the_window_of_the_policy(queue):
    queue.put(idempotency_window_seconds=10)
    a = queue.enqueue("x", idempotency_key="k")
    assert queue.enqueue("x", now=at(9), expect=200, idempotency_key="k")["id"] == a["id"]
    assert queue.enqueue("x", now=at(11), idempotency_key="k")["id"] != a["id"]


def test_keys_are_compared_byte_for_byte(queue):
    keys = ["k", "K", " k", "k ", "é", "e\u0301", "k\u0000", "k\u0000a", "k" * 255]
    ids = [queue.enqueue("x", idempotency_key=k)["id"] for k in keys]
    assert len(set(ids)) == len(keys)
    for k, mid in zip(keys, ids):
        assert queue.enqueue("y", expect=200, idempotency_key=k)["id"] == mid


def test_a_header_that_is_too_long_or_empty(queue):
    for key in ("k" * 256, ""):
        reply = queue.client.post(queue.path + "/messages", {"payload": "x"}, headers={"Idempotency-Key": key})
        assert reply.status == 422, reply
    assert queue.enqueue("x", http={"Idempotency-Key": "k" * 255})


def test_twenty_at_once_make_one_message(server, queue):
    for key in ("race-a", "race-b", "race-c"):
        replies, barrier = [], threading.Barrier(20)

        def work(i):
            client = Client(server, now=T0)
            client.connect()
            barrier.wait()
            r = client.post(queue.path + "/messages", {"payload": str(i), "idempotency_key": key})
            replies.append((r.status, r.json["id"], r.json["payload"]))
            client.close()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(s for s, _, _ in replies) == [200] * 19 + [201], replies
        assert len({(mid, payload) for _, mid, payload in replies}) == 1, replies
    assert queue.counts()["pending"] == 3


@pytest.mark.parametrize("kill", [False, True])
def test_the_window_survives_a_restart(start, kill):
    server = start()
    queue = Client(server, now=T0).queue("q")
    a = queue.enqueue("x", http={"Idempotency-Key": "k"})
    b = queue.batch([{"payload": "y", "idempotency_key": "b"}])["ids"][0]
    queue.succeed(queue.claim())
    queue.client.close()
    server.restart(kill=kill)
    assert queue.enqueue("z", now=at(3599), expect=200, http={"Idempotency-Key": "k"})["status"] == "succeeded"
    assert queue.batch([{"payload": "z", "idempotency_key": "k"}, {"payload": "z", "idempotency_key": "b"}], now=at(3599)) == {
        "count": 2, "ids": [a["id"], b], "duplicates": 2}
    assert queue.enqueue("z", now=at(3601), idempotency_key="k")["id"] not in (a["id"], b)
