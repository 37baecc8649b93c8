"""A small HTTP client over http.client that keeps its connection and checks the form of every reply."""
import datetime
import http.client
import json
import re
import socket
import ssl
import urllib.parse

T0 = "2026-06-01 00:00:00"
FORM = "%Y-%m-%d %H:%M:%S"
NOTHING = object()


def at(seconds, base=T0):
    """The time so many seconds after T0, as the API writes it."""
    return (datetime.datetime.strptime(base, FORM) + datetime.timedelta(seconds=seconds)).strftime(FORM)


def seconds(text, base=T0):
    """The inverse of at()."""
    return int((datetime.datetime.strptime(text, FORM) - datetime.datetime.strptime(base, FORM)).total_seconds())


def encode(name):
    return urllib.parse.quote(name, safe="")


# -- the form of replies ----------------------------------------------------------------------------------------------------

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\Z")
STATUSES = ("pending", "processing", "succeeded", "dead")
REASONS = ("max_retries", "permanent", "expired", "lease_expired")
CODES = ("required", "wrong_type", "out_of_range", "too_long", "not_allowed", "unknown_field", "bad_encoding", "conflict")
ALWAYS = {"id", "queue", "payload", "status", "retry_count", "max_retries", "retry_after", "last_error", "created_at",
          "updated_at"}
SOMETIMES = {"payload_base64", "headers", "key", "priority", "available_at", "expires_at", "deliveries", "lease",
             "lease_expires_at", "attempt", "error_class", "detail", "reason", "died_at"}


def strict_json(body):
    def members(pairs):
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"duplicate members in a reply: {names}"
        return dict(pairs)

    def constant(text):
        raise AssertionError(f"{text} is not JSON")

    return json.loads(body.decode("utf-8"), object_pairs_hook=members, parse_constant=constant)


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def check_message(m):
    """The form of a message object, whatever it says."""
    assert ALWAYS <= set(m), f"missing {ALWAYS - set(m)}: {m}"
    assert set(m) <= ALWAYS | SOMETIMES, f"undocumented {set(m) - ALWAYS - SOMETIMES}: {m}"
    assert is_whole(m["id"]) and 0 < m["id"] < 2**53, m
    assert m["status"] in STATUSES, m
    assert is_whole(m["retry_count"]) and is_whole(m["max_retries"]) and m["retry_count"] >= 0, m
    for name in ("created_at", "updated_at", "retry_after", "available_at", "expires_at", "lease_expires_at", "died_at"):
        if m.get(name) is not None:
            assert TIME.match(m[name]), (name, m)
    assert m["created_at"] and m["updated_at"], m
    for name in SOMETIMES & set(m):
        assert m[name] is not None, f"{name} says nothing: {m}"
    assert (m["payload"] is None) == ("payload_base64" in m), m
    assert m.get("priority") != 0, m
    assert m.get("deliveries") != 0, m
    assert ("reason" in m) == ("died_at" in m) == (m["status"] == "dead"), m
    if m["status"] == "dead":
        assert m["reason"] in REASONS, m
    if "lease" in m:
        assert m["status"] == "processing" and m["attempt"] == m["deliveries"] and m["lease_expires_at"], m
        assert isinstance(m["lease"], str) and m["lease"], m
    if m["status"] != "pending":
        assert "available_at" not in m, m


def check_queue(q):
    """The form of a queue object, and the equation."""
    assert {"queue", "created_at", "policy", "counts", "bytes", "conservation"} == set(q), q
    c, n = q["conservation"], q["counts"]
    assert set(n) == {"pending", "ready", "processing", "parked", "dead", "succeeded"}, q
    assert set(c) == {"accepted", "moved_in", "pending", "processing", "parked", "dead", "succeeded_total", "discarded_total",
                      "moved_out", "holds"}, q
    for name, value in list(n.items()) + [(k, v) for k, v in c.items() if k != "holds"]:
        assert is_whole(value) and value >= 0, (name, q)
    left = c["accepted"] + c["moved_in"]
    right = sum(c[k] for k in ("pending", "processing", "parked", "dead", "succeeded_total", "discarded_total", "moved_out"))
    assert left == right, f"conservation broken, {left} came in and {right} are accounted for: {q}"
    assert c["holds"] is True, q
    for name in ("pending", "processing", "parked", "dead"):
        assert c[name] == n[name], q
    assert n["ready"] <= n["pending"] and n["succeeded"] <= c["succeeded_total"], q
    assert is_whole(q["bytes"]) and q["bytes"] >= 0, q


def check_problem(reply):
    """RFC 9457, and for 422 the errors."""
    assert reply.type() == "application/problem+json", (reply.status, reply.headers.items(), reply.body[:300])
    p = reply.json
    assert {"type", "title", "status", "detail"} <= set(p) <= {"type", "title", "status", "detail", "errors"}, p
    assert p["type"] == "about:blank" and p["status"] == reply.status, p
    assert isinstance(p["title"], str) and p["title"] and isinstance(p["detail"], str) and p["detail"], p
    if reply.status == 422:
        assert p["errors"], p
        for e in p["errors"]:
            assert set(e) == {"field", "code", "message"}, p
            assert isinstance(e["field"], str) and isinstance(e["message"], str) and e["message"], p
            assert e["code"] in CODES, p
    else:
        assert "errors" not in p, p


def check_forms(value):
    """Checks every message and queue object found in a reply."""
    if isinstance(value, list):
        for v in value:
            check_forms(v)
    elif isinstance(value, dict):
        if "retry_count" in value:
            check_message(value)
        elif "conservation" in value:
            check_queue(value)
        else:
            for v in value.values():
                if isinstance(v, (list, dict)):
                    check_forms(v)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self._json = NOTHING

    def type(self):
        return (self.headers.get("Content-Type") or "").split(";")[0].strip()

    @property
    def json(self):
        if self._json is NOTHING:
            self._json = strict_json(self.body)
        return self._json

    def error(self):
        """Of a 422: (field, code) of the first error."""
        e = self.json["errors"][0]
        return e["field"], e["code"]

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


# -- the client ---------------------------------------------------------------------------------------------------------------


class _Connection(http.client.HTTPConnection):
    """A connection whose request leaves in one packet."""

    def _send_output(self, message_body=None, encode_chunked=False):
        if isinstance(message_body, bytes) and not encode_chunked:
            self._buffer.extend((b"", message_body))
            data = b"\r\n".join(self._buffer)
            del self._buffer[:]
            self.send(data)
        else:
            super()._send_output(message_body, encode_chunked=encode_chunked)


class Client:
    """One keep-alive connection. With `now` set, every request carries it as X-Now."""

    def __init__(self, server, now=None, token=None, timeout=30, tls=None):
        self.server, self.now, self.token, self.timeout, self.tls = server, now, token, timeout, tls
        self.queues = set()  # names touched, percent-encoded
        self.connection = None

    def connect(self):
        if self.tls is not None:
            c = http.client.HTTPSConnection(self.server.host, self.server.port, timeout=self.timeout, context=self.tls)
        else:
            c = _Connection(self.server.host, self.server.port, timeout=self.timeout)
        c.connect()
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = c

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def raw(self, method, path, body=None, headers=None):
        """One request, one reply; nothing is added and nothing is checked."""
        if self.connection is None:
            self.connect()
        try:
            self.connection.request(method, path, body=body, headers=headers or {})
            r = self.connection.getresponse()
            reply = Reply(r.status, r.headers, r.read())
            if r.will_close:
                self.close()
            return reply
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def call(self, method, path, body=NOTHING, now=NOTHING, headers=None, data=None):
        """body is sent as JSON, data as it is."""
        h = {}
        if body is not NOTHING:
            data = json.dumps(body).encode()
        if data is not None:
            h["Content-Type"] = "application/json"
        elif method in ("POST", "PUT"):
            data = b""
        when = self.now if now is NOTHING else now
        if when is not None:
            h["X-Now"] = when
        if self.token is not None:
            h["Authorization"] = f"Bearer {self.token}"
        h.update(headers or {})
        if path.startswith("/queues/"):
            self.queues.add(path.split("?")[0].split("/")[2])
        reply = self.raw(method, path, data, h)
        if method != "HEAD":
            if reply.status >= 400:
                check_problem(reply)
            elif reply.type() == "application/json":
                check_forms(reply.json if path.startswith("/queues") else None)
            elif reply.status == 204:
                assert reply.body == b"", reply
        return reply

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=NOTHING, **more):
        return self.call("POST", path, body, **more)

    def put(self, path, body=NOTHING, **more):
        return self.call("PUT", path, body, **more)

    def delete(self, path, **more):
        return self.call("DELETE", path, **more)

    def queue(self, name):
        return Queue(self, name)

    def check_conservation(self):
        """Of every queue this client touched that exists. Returns how many were checked."""
        checked = 0
        for name in sorted(self.queues):
            reply = self.get("/queues/" + name)
            assert reply.status in (200, 404, 422), reply
            checked += reply.status == 200
        return checked


def tls_context(cert):
    context = ssl.create_default_context(cafile=str(cert))
    context.check_hostname = False
    return context


class Queue:
    """The routes of one queue. Each method says which status it expects and returns what the reply holds."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.path = "/queues/" + encode(name)

    def _do(self, expect, method, path, body=NOTHING, **more):
        reply = self.client.call(method, self.path + path, body, **more)
        expected = expect if isinstance(expect, tuple) else (expect,)
        assert reply.status in expected, f"{method} {self.path + path} {body!r}: expected {expect}, got {reply!r}"
        return reply

    def enqueue(self, payload="x", now=NOTHING, expect=201, http=None, **fields):
        """http: more header lines of the request; headers, among the fields, is the message's own."""
        if payload is not None:
            fields["payload"] = payload
        return self._do(expect, "POST", "/messages", fields, now=now, headers=http).json

    def batch(self, items, now=NOTHING, expect=201):
        return self._do(expect, "POST", "/messages", items, now=now).json

    def claim(self, now=NOTHING, **fields):
        """A message, or None."""
        d = self._do(200, "POST", "/claim", fields if fields else NOTHING, now=now).json
        assert set(d) == {"claimed", "message"} and d["claimed"] is (d["message"] is not None), d
        return d["message"]

    def claim_many(self, count, now=NOTHING, **fields):
        d = self._do(200, "POST", "/claim", {"count": count, **fields}, now=now).json
        assert set(d) == {"claimed", "messages"} and d["claimed"] is bool(d["messages"]), d
        assert len(d["messages"]) <= count, d
        return d["messages"]

    def act(self, mid, verb, now=NOTHING, expect=200, **fields):
        """A verb on one message, given by its id or its object; with the object of a claim its lease goes along."""
        if isinstance(mid, dict):
            if "lease" in mid:
                fields.setdefault("lease", mid["lease"])
            mid = mid["id"]
        return self._do(expect, "POST", f"/messages/{mid}/{verb}", fields if fields else NOTHING, now=now).json

    def succeed(self, m, **more):
        return self.act(m, "succeed", **more)

    def fail(self, m, **more):
        return self.act(m, "fail", **more)

    def extend(self, m, **more):
        return self.act(m, "extend", **more)

    def release(self, m, **more):
        return self.act(m, "release", **more)

    def replay(self, m, **more):
        return self.act(m["id"] if isinstance(m, dict) else m, "replay", **more)

    def settle(self, items, now=NOTHING, expect=200, **fields):
        return self._do(expect, "POST", "/settle", {"items": items, **fields}, now=now).json

    def read(self, m, now=NOTHING, expect=200):
        return self._do(expect, "GET", f"/messages/{m['id'] if isinstance(m, dict) else m}", now=now).json

    def payload(self, m, now=NOTHING):
        reply = self._do(200, "GET", f"/messages/{m['id'] if isinstance(m, dict) else m}/payload", now=now)
        assert reply.type() == "application/octet-stream", reply.headers.items()
        return reply.body

    def attempts(self, m, now=NOTHING):
        d = self._do(200, "GET", f"/messages/{m['id'] if isinstance(m, dict) else m}/attempts", now=now).json
        assert d["count"] == len(d["attempts"]), d
        return d["attempts"]

    def list(self, now=NOTHING, expect=200, **params):
        query = "?" + urllib.parse.urlencode(params) if params else ""
        d = self._do(expect, "GET", "/messages" + query, now=now).json
        if expect == 200:
            assert d["count"] == len(d["messages"]), d
            return d["messages"]
        return d

    def all(self, now=NOTHING, **params):
        """Every message, page by page."""
        messages, after = [], {}
        while page := self.list(now=now, limit=1000, **after, **params):
            messages += page
            after = {"after": page[-1]["id"]}
        return messages

    def info(self, now=NOTHING, expect=200):
        return self._do(expect, "GET", "", now=now).json

    def counts(self, now=NOTHING):
        return self.info(now)["counts"]

    def put(self, now=NOTHING, expect=(200, 201), **policy):
        return self._do(expect, "PUT", "", policy, now=now).json

    def delete(self, now=NOTHING, expect=204, discard=False):
        return self._do(expect, "DELETE", "?discard=true" if discard else "", now=now)

    # -- short cuts ---------------------------------------------------------------------------------------------------------

    def dead(self, payload="x", now=NOTHING, error="boom", **fields):
        """Enqueues a message and lets it die."""
        self.enqueue(payload, now=now, max_retries=1, **fields)
        m = self.claim(now=now)
        d = self.fail(m, now=now, error=error)
        assert d["status"] == "dead", d
        return d
