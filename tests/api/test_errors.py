"""Errors that are not about one verb: JSON, routes, methods, sizes."""
import json
import re

import pytest

from lib.client import T0

MALFORMED = [b"{not json", b"[1,2", b"", b" ", b"{", b"}", b'{"payload": "x"', b'{"payload": "x"} x', b'{"payload": "x"}{}', b"{'payload': 'x'}",
             b'{"payload": "x",}', b'{payload: "x"}', b'{"payload": "\n"}', b'{"payload": "\\x"}', b'{"payload": "\\u12"}',
             b'{"payload": "\\ud800"}', b'{"payload": "\\udc00\\ud800"}', b'{"payload": "\xff"}', b'{"payload": "\xc0\x80"}',
             b'{"payload": "\xed\xa0\x80"}', b'{"payload": "x", "max_retries": 03}', b'{"payload": "x", "max_retries": +3}',
             b'{"payload": "x", "max_retries": NaN}', b'{"payload": "x", "max_retries": 3.}', b"nul", b"\x00", b'{"payload": "x"}\x00',
             b"// {}\n{}", b'{"payload": "x", "payload\\u0000": 1}', b"[" * 100000, b'{"a":' * 100000, b'[{"payload": "x"},]']


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_json(queue, body):
    reply = queue.client.post(queue.path + "/messages", data=body)
    assert reply.status == 400, reply
    assert queue.client.get(queue.path).status == 404


def test_malformed_json_says_where(queue):
    reply = queue.client.post(queue.path + "/messages", data=b'{"payload":\n\n   nope}')
    assert reply.status == 400
    assert re.search(r"line\D{0,3}3\b", reply.json["detail"]) and re.search(r"column\D{0,3}\d", reply.json["detail"]), reply


def test_duplicate_members(queue):
    for body in (b'{"payload": "a", "payload": "b"}', b'{"payload": "a", "headers": {"x": 1, "x": 2}}',
                 b'{"payload": "a", "\\u0070ayload": "b"}'):
        assert queue.client.post(queue.path + "/messages", data=body).status == 400, body
    assert queue.client.put(queue.path, data=b'{"max_retries": 1, "max_retries": 1}').status == 400


ROUTES = [("/", {"GET"}), ("/healthz", {"GET"}), ("/readyz", {"GET"}), ("/metrics", {"GET"}), ("/openapi.json", {"GET"}),
          ("/queues", {"GET"}), ("/queues/Q", {"GET", "PUT", "DELETE"}), ("/queues/Q/messages", {"GET", "POST"}),
          ("/queues/Q/claim", {"POST"}), ("/queues/Q/settle", {"POST"}), ("/queues/Q/messages/1", {"GET"}),
          ("/queues/Q/messages/1/payload", {"GET"}), ("/queues/Q/messages/1/attempts", {"GET"})] + [
          (f"/queues/Q/messages/1/{verb}", {"POST"})
          for verb in ("succeed", "fail", "extend", "release", "replay", "edit", "discard", "undiscard")] + [
          ("/messages/1", {"GET"}), ("/dead", {"GET", "POST"}), ("/groups", {"GET"}), ("/groups/v1:1", {"GET", "PATCH"}),
          ("/redrives", {"GET", "POST"}), ("/redrives/1", {"GET", "PATCH"}), ("/discards", {"GET", "POST"}),
          ("/discards/1", {"GET", "PATCH"}), ("/audit", {"GET"}), ("/queues/Q/pause", {"POST"}), ("/queues/Q/resume", {"POST"}),
          ("/queues/Q/purge", {"POST"})]


@pytest.mark.parametrize("path,methods", ROUTES)
def test_wrong_methods(queue, path, methods):
    path = path.replace("/queues/Q", queue.path)
    queue.enqueue("x")
    before = queue.info()
    for method in sorted({"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - methods):
        reply = queue.client.call(method, path)
        assert reply.status == 405, (method, path, reply)
        allow = {m.strip() for m in reply.headers.get("Allow").split(",")}
        assert allow - {"HEAD"} == methods, (method, path, allow)
    assert queue.info() == before


def test_head_sends_no_body(queue):
    for path in ("/healthz", queue.path, "/nothing"):
        reply = queue.client.call("HEAD", path)
        assert reply.status in (200, 404, 405) and reply.body == b""
        assert queue.client.get("/healthz").json == {"status": "ok"}, "the connection is still in step"


UNKNOWN = ["/nothing/here", "/queue", "/queues/Q/message", "/queues/Q/messages/1/succeeds", "/queues/Q/messages/1/succeed/x",
           "/queues/Q/messages/1/", "/queues/Q/claims", "/healthz/x", "/Queues", "//queues", "/queues/Q/messages/1/payload/x",
           "/openapi", "/metrics/", "/messages", "/messages/1/payload", "/dead/1", "/groups/a/b", "/redrives/1/x", "/audit/1", "/..", "/queues/Q/../Q", "/favicon.ico"]


@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_routes(queue, path):
    queue.enqueue("x")
    for method in ("GET", "POST"):
        reply = queue.client.call(method, path.replace("/queues/Q", queue.path), **({"body": {}} if method == "POST" else {}))
        assert reply.status == 404, (method, reply)
    queue.client.queues = {queue.path.split("/")[2]}


def test_jobs_that_cannot_be(client):
    for kind in ("redrives", "discards"):
        for job in ("0", "x", "-1", "1x", "01", "4294967296", "99999999999999999999", "%ff"):
            for method in ("GET", "PATCH"):
                reply = client.call(method, f"/{kind}/{job}", **({"body": {"rate": 1}} if method == "PATCH" else {}))
                assert reply.status == 404 and reply.json["title"] == "no such job", (kind, job, reply)


def test_a_body_over_the_limit(start):
    from lib.client import Client
    client = Client(start("--body-max", 100000, "--payload-max", 50000), now=T0)
    q = client.queue("q")
    fit = json.dumps([{"payload": "x" * 40000}] * 2).encode()
    reply = client.post(q.path + "/messages", data=fit + b" " * (100000 - len(fit)))
    assert reply.status == 201, reply
    assert client.post(q.path + "/messages", data=fit + b" " * (100001 - len(fit))).status == 413
    assert client.post(q.path + "/messages", {"payload": "x" * 50000}).status == 201
    assert client.post(q.path + "/messages", {"payload": "x" * 50001}).status == 413
    assert q.counts()["pending"] == 3


def test_get_ignores_nothing_it_should_not(queue):
    """A GET with a body is odd but legal HTTP: the body is read, and the connection stays in step."""
    reply = queue.client.raw("GET", "/healthz", b'{"x": 1}', {})
    assert reply.status in (200, 400, 413)
    assert queue.client.get("/healthz").status == 200


def test_root_says_name_and_version(client):
    reply = client.get("/")
    assert reply.status == 200 and reply.type() == "application/json"
    assert "nixie" in json.dumps(reply.json).lower() and re.search(r"\d+\.\d+", json.dumps(reply.json)), reply


def test_health_and_readiness(client):
    assert client.get("/healthz").json == {"status": "ok"}
    assert client.get("/readyz").status == 200


def test_a_query_that_is_not_decodable(queue):
    queue.enqueue("x")
    for query in ("status=%zz", "limit=%", "status=%ff"):
        assert queue.client.get(f"{queue.path}/messages?{query}").status in (400, 422), query


BAD_TIMES = ["", "yesterday", "2026-06-01", "2026-06-01T00:00:00", "2026-06-01 00:00", "2026-13-01 00:00:00", "2026-02-30 00:00:00",
             "2026-06-01 24:00:00", "2026-06-01 00:60:00", "2026-06-01 00:00:60", "2026-06-01 00:00:00Z", "99999-06-01 00:00:00"]


@pytest.mark.parametrize("text", BAD_TIMES)
def test_a_bad_test_clock_changes_nothing(queue, text):
    queue.enqueue("x", now=T0)
    reply = queue.client.get(queue.path, now=text)
    assert 400 <= reply.status < 500, reply
    assert queue.enqueue("y", now=None)["created_at"] == T0


def test_without_the_flag_the_header_is_ignored(live_queue):
    m = live_queue.enqueue("x", now="2001-01-01 00:00:00")
    assert m["created_at"] > "2020"
    assert live_queue.client.get(live_queue.path, now="rubbish").status == 200
