"""Sending an edited copy in the place of a dead letter."""
import base64

import pytest

from lib.client import Client, T0, at
from lib.jobs import bury, finish


def edit(queue, mid, expect=201, now=T0, **fields):
    return queue.act(mid, "edit", expect=expect, now=now, **fields)


def letter(queue, **fields):
    """One that died, as it is read."""
    fields.setdefault("payload", '{"a": 1.50, "b": 2}')
    return queue.read(queue.dead(**fields)["id"])


def test_a_new_payload(queue):
    d = letter(queue, headers={"h": "1"}, key="k", priority=3)
    copy = edit(queue, d["id"], payload="better", reason="typo", now=at(10))
    assert copy["id"] > d["id"] and copy["parent_id"] == d["id"]
    assert (copy["status"], copy["payload"], copy["headers"], copy["key"], copy["priority"]) == ("pending", "better", {"h": "1"},
                                                                                           "k", 3)
    assert (copy["created_at"], copy["retry_count"], copy["max_retries"], copy["last_error"]) == (at(10), 0, 1, None)
    after = queue.read(d["id"], now=at(10))
    assert after["edited_to"] == copy["id"]
    assert {k: v for k, v in after.items() if k not in ("edited_to", "updated_at")} == \
        {k: v for k, v in d.items() if k != "updated_at"}
    lines = [e for e in queue.attempts(d["id"], now=at(10)) if e["event"] == "edited"]
    assert [e["actor"] for e in lines] == ["anonymous"]
    c = queue.info(now=at(10))["conservation"]
    assert (c["accepted"], c["dead"], c["pending"]) == (2, 1, 1)
    assert finish(queue, now=at(10)) == [copy["id"]]
    assert queue.read(d["id"], now=at(10))["status"] == "dead"


def test_binary_payloads(queue):
    d = letter(queue, payload="x")
    copy = edit(queue, d["id"], payload_base64=base64.b64encode(b"\x00\xff").decode())
    assert copy["payload"] is None and queue.payload(copy) == b"\x00\xff"
    d = queue.read(bury(queue, 1, payload="y")[0])
    assert queue.payload(edit(queue, d["id"], payload="")) == b""


def test_headers(queue):
    d = letter(queue, headers={"h": "1", "i": 2})
    assert edit(queue, d["id"], headers={"j": [None]})["headers"] == {"j": [None]}
    d = letter(queue, headers={"h": "1"})
    copy = edit(queue, d["id"], headers=None)
    assert "headers" not in copy and copy["payload"] == d["payload"]
    d = letter(queue, headers={"h": "1"})
    assert "headers" not in edit(queue, d["id"], headers={})


def test_a_patch(queue):
    d = letter(queue, payload='{"a": 1.50, "b": 2, "c": [1]}', headers={"h": "1", "i": 2})
    copy = edit(queue, d["id"], patch=[{"op": "set", "path": "payload.b", "value": {"x": "y"}},
                                       {"op": "remove", "path": "payload.c.0"},
                                       {"op": "set", "path": "header.x.y", "value": "z"},
                                       {"op": "remove", "path": "header.i"}])
    assert copy["payload"] == '{"a": 1.50, "b": {"x":"y"}, "c": []}' and copy["headers"] == {"h": "1", "x.y": "z"}


def test_a_patch_that_cannot_be_applied(queue):
    d = letter(queue, payload="no JSON")
    patch = [{"op": "set", "path": "payload.a", "value": 1}]
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/edit", {"patch": patch})
    assert reply.status == 422 and reply.error() == ("patch", "not_allowed")
    assert "no JSON" in reply.json["errors"][0]["message"]
    e = letter(queue, payload='{"a": 7}')
    patch[0]["path"] = "payload.a.b"
    reply = queue.client.post(f"{queue.path}/messages/{e['id']}/edit", {"patch": patch})
    assert reply.status == 422 and "neither object nor array" in reply.json["errors"][0]["message"]
    assert "edited_to" not in queue.read(d["id"]) and queue.counts()["dead"] == 2
    # Headers alone need no JSON.
    assert edit(queue, d["id"], patch=[{"op": "set", "path": "header.h", "value": 1}])["payload"] == "no JSON"


def test_a_second_edit_names_the_copy(queue):
    d = letter(queue)
    copy = edit(queue, d["id"], payload="one")
    reply = edit(queue, d["id"], payload="two", expect=409)
    assert reply["title"] == "edited"
    assert reply["detail"] == f"an edited copy was sent in its place: message {copy['id']}; force to send another"
    reply = queue.replay(d["id"], expect=409)
    assert reply["detail"] == f"an edited copy was sent in its place: message {copy['id']}; force to send this one, too"
    assert queue.info()["conservation"]["accepted"] == 2
    second = edit(queue, d["id"], payload="two", force=True)
    assert queue.read(d["id"])["edited_to"] == second["id"] and queue.read(copy["id"])["parent_id"] == d["id"]
    assert queue.replay(d["id"], force=True)["status"] == "pending"


def test_a_copy_can_die_and_be_edited(queue):
    d = letter(queue)
    first = edit(queue, d["id"], payload="one")
    assert finish(queue, "fail") == [first["id"]]
    second = edit(queue, first["id"], payload="two")
    assert second["parent_id"] == first["id"]
    assert finish(queue) == [second["id"]]
    assert queue.read(first["id"])["edited_to"] == second["id"]


def test_a_chain_of_copies_ends_at_the_limit(queue):
    queue.put(redrive_limit=2)
    mid = letter(queue)["id"]
    for _ in range(2):
        mid = edit(queue, mid, payload="again")["id"]
        finish(queue, "fail")
    reply = edit(queue, mid, payload="once more", expect=409)
    assert reply["detail"] == "it was sent again 2 times, which is the queue's redrive_limit: force to send it again"
    assert edit(queue, mid, payload="once more", force=True)["status"] == "pending"


@pytest.mark.parametrize("state", ["pending", "processing", "succeeded"])
@pytest.mark.parametrize("body", [{"payload": "y"}, {"patch": [{"op": "remove", "path": "header.a"}]}], ids=["payload", "patch"])
def test_only_dead_letters(queue, state, body):
    m = queue.enqueue("x")
    if state != "pending":
        m = queue.claim()
    if state == "succeeded":
        queue.succeed(m)
    reply = edit(queue, m["id"], expect=409, **body)
    assert reply["detail"] == f"message {m['id']} is {state}: only a dead letter can be edited"


@pytest.mark.parametrize("body, field, code", [
    ({}, "payload", "required"),
    ({"reason": "why"}, "payload", "required"),
    ({"payload": 7}, "payload", "wrong_type"),
    ({"payload": "a", "payload_base64": ""}, "payload_base64", "conflict"),
    ({"payload_base64": "x"}, "payload_base64", "bad_encoding"),
    ({"headers": "h"}, "headers", "wrong_type"),
    ({"headers": {"h": "x" * 65536}}, "headers", "too_long"),
    ({"patch": []}, "patch", "out_of_range"),
    ({"patch": [{"op": "remove", "path": "header.a"}], "payload": "a"}, "patch", "conflict"),
    ({"patch": [{"op": "set", "path": "header.a", "value": "x" * 16384}]}, "patch", "too_long"),
    ({"payload": "a", "priority": 3}, "priority", "unknown_field"),
    ({"payload": "a", "reason": "r" * 1025}, "reason", "too_long"),
    ([], "body", "wrong_type"),
])
def test_wrong_requests(queue, body, field, code):
    d = letter(queue)
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/edit", body)
    assert reply.status == 422 and reply.error() == (field, code), reply
    assert queue.read(d["id"]) == d


def test_a_payload_that_is_too_large(start):
    queue = Client(start("--payload-max", 1000), now=T0).queue("q")
    d = letter(queue, payload='{"a": 1}')
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/edit", {"payload": "x" * 1001})
    assert reply.status == 413, reply
    patch = [{"op": "set", "path": "payload.b", "value": "x" * 1000}]
    reply = queue.client.post(f"{queue.path}/messages/{d['id']}/edit", {"patch": patch})
    assert reply.status == 422 and reply.error() == ("patch", "too_long"), reply
    assert queue.counts()["dead"] == 1 and "edited_to" not in queue.read(d["id"])


def test_what_is_not_there(queue):
    queue.put()
    edit(queue, 999999999, expect=404, payload="x")
    edit(queue, 999999999, expect=404, patch=[{"op": "remove", "path": "header.a"}])
    edit(queue.client.queue("no such queue"), 1, expect=404, payload="x")


def test_a_full_queue(queue):
    d = letter(queue)
    queue.put(max_messages=1)
    queue.enqueue("y")
    edit(queue, d["id"], payload="z", expect=429)
    assert "edited_to" not in queue.read(d["id"])
    finish(queue)
    edit(queue, d["id"], payload="z")


def test_the_time_to_live_starts_anew(queue):
    m = queue.enqueue("x", ttl_seconds=10)
    assert queue.read(m, now=at(10))["reason"] == "expired"
    copy = edit(queue, m["id"], payload="y", now=at(100))
    assert copy["expires_at"] == at(110)
    assert queue.read(copy, now=at(110))["reason"] == "expired"


def test_a_restart(start):
    server = start()
    queue = Client(server, now=T0).queue("q")
    d = letter(queue)
    copy = edit(queue, d["id"], payload="y")
    before = queue.read(d["id"]), queue.read(copy["id"])
    queue.client.close()
    server.restart(kill=True)
    assert (queue.read(d["id"]), queue.read(copy["id"])) == before
    edit(queue, d["id"], payload="z", expect=409)
