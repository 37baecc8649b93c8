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
STATUSES = ("pending", "processing", "parked", "succeeded", "dead", "discarded")
REASONS = ("max_retries", "permanent", "expired", "lease_expired", "delivery_limit", "max_length")
PROPERTIES = {"cc", "content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "user_id", "app_id",
              "cluster_id", "delivery_mode", "priority", "timestamp", "expiration"}
DECIDERS = {"permanent": "receiver", "rejected": "receiver", "manual": "operator"}  # all else: system
DISCARDS = ("fixed", "obsolete", "duplicate", "bad data", "test", "other")
CODES = ("required", "wrong_type", "out_of_range", "too_long", "not_allowed", "unknown_field", "bad_encoding", "conflict",
         "bad_filter", "bad_regex")
ALWAYS = {"id", "queue", "payload", "status", "retry_count", "max_retries", "retry_after", "last_error", "created_at",
          "updated_at", "properties"}
SOMETIMES = {"payload_base64", "headers", "key", "priority", "available_at", "expires_at", "deliveries", "lease",
             "lease_expires_at", "attempt", "error_class", "detail", "reason", "died_at", "redrive_count", "generation",
             "parent_id", "edited_to", "origin_queue", "job", "death", "discarded"}
STORY = {"attempts", "attempts_total", "attempts_omitted"}  # of letters, when they are asked for
DEATH = {"dead_seq", "by", "died_at", "first_failed_at", "last_failed_at", "first_enqueued_at", "expires_at", "origin",
         "redrive_count"}
DEATH_SOMETIMES = {"group", "worker", "worker_version", "trace_id", "unroutable"}
LINE = {"attempt", "event", "at"}
LINE_SOMETIMES = {"worker", "worker_version", "actor", "error_class", "error", "detail", "fingerprint", "duration_ms", "next_at"}
WORK = ("claimed", "failed", "lease_expired", "released", "expired", "succeeded", "dead_lettered")
ACTS = ("replayed", "edited", "discarded", "undiscarded", "redriven", "patched")
GROUP = {"key", "queue", "title", "error_class", "reason", "count", "open", "total", "last_hour", "last_day", "first_seen",
         "last_seen", "versions", "state", "state_at", "owner", "note", "regressed_at", "quiet_seconds", "newest_id", "oldest_id"}
GROUP_KEY = re.compile(r"v1:[0-9a-f]{16}\Z")
ENTRY = {"number", "at", "actor", "action", "queue", "scope", "target", "count", "reason", "result"}
TERMS = ("succeeded", "died_again", "open", "discarded", "skipped", "remaining")  # of a job: their sum is what it selected


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


def check_times(thing, names):
    for name in names:
        if thing.get(name) is not None:
            assert TIME.match(thing[name]), (name, thing)


def without_exact(thing):
    """The thing without its members in milliseconds, each of which must agree with the time it stands beside."""
    for name, value in thing.items():
        if name.endswith("_ms") and name not in ("duration_ms", "ttl_ms"):
            assert is_whole(value) and thing[name[:-3]] == at(value // 1000, "1970-01-01 00:00:00"), (name, thing)
    return {k: v for k, v in thing.items() if (not k.endswith("_ms") or k == "duration_ms") and k != "envelope_base64"}


def check_death(m):
    """The death record of a dead or discarded message."""
    d = without_exact(m["death"])
    assert DEATH <= set(d) <= DEATH | DEATH_SOMETIMES, d
    check_times(d, ("died_at", "first_failed_at", "last_failed_at", "first_enqueued_at", "expires_at"))
    assert is_whole(d["dead_seq"]) and d["dead_seq"] > 0, d
    assert d["by"] == DECIDERS.get(m["reason"], "system"), m
    assert (d["died_at"], d["first_enqueued_at"]) == (m["died_at"], m["created_at"]), m
    assert d["origin"] == {"queue": m.get("origin_queue", m["queue"]), "id": m["id"]}, m
    assert d["redrive_count"] == m.get("redrive_count", 0), m
    assert m["status"] == "dead" or d["expires_at"] is None, m
    assert "group" not in d or GROUP_KEY.match(d["group"]), d
    assert "trace_id" not in d or re.fullmatch("[0-9a-f]{32}", d["trace_id"]), d
    if (d["first_failed_at"] is not None) and (d["last_failed_at"] is not None):
        assert d["first_failed_at"] <= d["last_failed_at"] <= d["died_at"], d


def check_message(m, is_letter=False):
    """The form of a message object, whatever it says; of a letter with what GET /dead may add and leave out."""
    if is_letter:
        if "attempts" in m:
            check_story(m)
        with_payload = {"payload": "left out", **m}
        m = {k: v for k, v in without_exact(with_payload).items() if k not in STORY}
    assert ALWAYS <= set(m), f"missing {ALWAYS - set(m)}: {m}"
    assert set(m) <= ALWAYS | SOMETIMES, f"undocumented {set(m) - ALWAYS - SOMETIMES}: {m}"
    assert is_whole(m["id"]) and 0 < m["id"] < 2**53, m
    assert m["status"] in STATUSES, m
    assert is_whole(m["retry_count"]) and is_whole(m["max_retries"]) and m["retry_count"] >= 0, m
    check_times(m, ("created_at", "updated_at", "retry_after", "available_at", "expires_at", "lease_expires_at", "died_at"))
    assert m["created_at"] and m["updated_at"], m
    check_properties(m["properties"])
    for name in SOMETIMES & set(m):
        assert m[name] is not None, f"{name} says nothing: {m}"
    assert (m["payload"] is None) == ("payload_base64" in m), m
    for name in ("priority", "deliveries", "redrive_count", "parent_id", "edited_to", "job"):
        assert m.get(name) != 0, m
    is_dead = m["status"] in ("dead", "discarded")
    assert ("reason" in m) == ("died_at" in m) == ("death" in m) == is_dead, m
    if is_dead:
        assert m["reason"] in REASONS, m
        check_death(m)
    assert ("discarded" in m) == (m["status"] == "discarded"), m
    if "discarded" in m:
        gone = without_exact(m["discarded"])
        assert set(gone) == {"reason", "gone_at"} and gone["reason"] in DISCARDS and TIME.match(gone["gone_at"]), m
    assert m.get("generation") == (m["redrive_count"] + 1 if "redrive_count" in m else None), m
    assert m.get("origin_queue") != m["queue"], m
    if "lease" in m:
        assert m["status"] == "processing" and m["attempt"] == m["deliveries"] and m["lease_expires_at"], m
        assert isinstance(m["lease"], str) and m["lease"], m
    if m["status"] not in ("pending", "parked"):
        assert "available_at" not in m, m


def check_story(d):
    """Of a story: the form of each line, and that the numbers fit."""
    numbers = []
    for line in d["attempts"]:
        line = without_exact(line)
        assert LINE <= set(line) <= LINE | LINE_SOMETIMES, line
        assert line["event"] in WORK + ACTS, line
        assert ("actor" in line) == (line["event"] in ACTS) and not ("actor" in line and "worker" in line), line
        check_times(line, ("at", "next_at"))
        assert "duration_ms" not in line or (is_whole(line["duration_ms"]) and line["duration_ms"] >= 0), line
        assert all(line[k] not in (None, "") for k in LINE_SOMETIMES & set(line)), line
        numbers.append(line["attempt"])
    assert numbers == sorted(numbers) and all(is_whole(n) and 0 <= n <= d["attempts_total"] for n in numbers), d
    assert is_whole(d["attempts_omitted"]) and 0 <= d["attempts_omitted"] <= d["attempts_total"], d


def check_queue(q):
    """The form of a queue object, and the equation."""
    assert {"queue", "created_at", "policy", "counts", "dead_by_reason", "groups", "oldest_death", "soonest_expiry",
            "expired_total", "deaths_total", "consumers", "breaker", "parked_keys", "alone_claims", "paused", "alerts_snoozed_until", "bytes",
            "amqp", "conservation"} == set(q), q
    check_amqp(q["amqp"])
    c, n = q["conservation"], q["counts"]
    assert set(n) == {"pending", "ready", "held", "processing", "parked", "dead", "succeeded", "discarded"}, q
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
    assert n["ready"] + n["held"] <= n["pending"] + n["parked"], q
    assert n["succeeded"] <= c["succeeded_total"] and n["discarded"] <= c["discarded_total"], q
    assert is_whole(q["bytes"]) and q["bytes"] >= 0, q
    assert sum(q["dead_by_reason"].values()) == n["dead"] and all(v > 0 for v in q["dead_by_reason"].values()), q
    assert is_whole(q["groups"]) and (n["dead"] > 0) <= q["groups"] <= n["dead"], q
    assert (q["oldest_death"] is not None) == (n["dead"] > 0), q
    check_times(q, ("created_at", "oldest_death", "soonest_expiry"))
    assert q["soonest_expiry"] is None or (n["dead"] > 0 and q["policy"]["retention"]["dead_seconds"] is not None), q
    assert is_whole(q["expired_total"]) and 0 <= q["expired_total"] <= c["discarded_total"], q
    assert q["parked_keys"] <= n["dead"], q
    check_paused(q["paused"])
    check_breaker(q["breaker"])


def check_amqp(a):
    """Of a queue object: what AMQP declared."""
    if a is not None:
        assert {"durable", "exclusive", "auto_delete", "type", "arguments", "policy", "effective", "discarded"} == set(a), a
        assert a["type"] in ("classic", "quorum") and isinstance(a["arguments"], dict) and isinstance(a["effective"], dict), a
        assert set(a["discarded"]) == {"expired", "max_length"}, a


def check_properties(p):
    """Of a message object: what AMQP knows of it."""
    if p is not None:
        assert {"exchange", "routing_key", "deaths"} <= set(p) <= {"exchange", "routing_key", "deaths"} | PROPERTIES, p
        for d in p["deaths"]:
            assert {"queue", "reason", "count", "first_at", "exchange", "routing_keys"} <= set(d), p
            assert is_whole(d["count"]) and d["count"] > 0 and TIME.match(d["first_at"]), p


def check_paused(p):
    if p is not None:
        assert set(p) == {"since", "by", "reason"} and TIME.match(p["since"]) and p["by"], p


def check_breaker(b):
    if b is not None:
        assert set(b) == {"state", "since", "until", "cause", "opened_total"} and TIME.match(b["since"]), b
        assert b["state"] in ("closed", "open", "half_open") and b["opened_total"] > 0, b
        assert (b["until"] is not None) == (b["state"] == "open"), b


def check_group(g):
    assert set(g) == GROUP, g
    assert GROUP_KEY.match(g["key"]) and g["title"] and g["queue"] and g["reason"] in REASONS, g
    check_times(g, ("first_seen", "last_seen", "state_at", "regressed_at"))
    assert g["first_seen"] <= g["last_seen"] and g["last_hour"] <= g["last_day"] <= g["total"], g
    assert g["state"] in ("open", "acknowledged", "resolved"), g
    assert g["count"] + g["open"] > 0 or g["state"] == "resolved", g
    assert (g["newest_id"] is not None) == (g["oldest_id"] is not None) == (g["count"] > 0), g
    assert (g["regressed_at"] is None) == (g["quiet_seconds"] is None), g
    for v in g["versions"]:
        assert set(v) == {"version", "count", "total"} and v["count"] <= v["total"], g
    assert sum(v["count"] for v in g["versions"]) <= g["count"], g


def check_job(j):
    """Every letter it selected is accounted for."""
    assert j["selected"] == sum(j[k] for k in TERMS), j
    assert j["skipped"] == sum(j["skipped_by"].values()), j
    assert j["kind"] in ("redrive", "discard", "purge"), j


def check_entry(e):
    assert set(e) == ENTRY and TIME.match(e["at"]) and e["actor"] and e["action"], e
    assert is_whole(e["number"]) and e["number"] > 0 and is_whole(e["count"]), e
    assert e["target"] is None or isinstance(e["target"], str), e


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
            place = {"position", "length"} if e["code"] in ("bad_filter", "bad_regex") else set()
            assert set(e) == {"field", "code", "message"} | place, p
            assert all(is_whole(e[k]) and e[k] >= 0 for k in place), p
            assert isinstance(e["field"], str) and isinstance(e["message"], str) and e["message"], p
            assert e["code"] in CODES, p
    else:
        assert "errors" not in p, p


CHECKS = (("retry_count", check_message), ("conservation", check_queue), ("regressed_at", check_group),
          ("skipped_by", check_job), ("scope", check_entry))  # by a member that only such an object has
CHECKED = ("/queues", "/messages", "/dead", "/groups", "/redrives", "/discards", "/audit")


def check_forms(value, letters=False):
    """Checks every object of the API that is found in a reply."""
    if isinstance(value, list):
        for v in value:
            check_forms(v, letters)
    elif isinstance(value, dict):
        for member, check in CHECKS:
            if member in value:
                check(value, letters) if check is check_message else check(value)
                return
        for v in value.values():
            check_forms(v, letters)


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
    """One keep-alive connection. With `now` set, every request carries it as X-Now, with `actor` as Nixie-Actor."""

    def __init__(self, server, now=None, token=None, timeout=30, tls=None, actor=None):
        self.server, self.now, self.token, self.timeout, self.tls = server, now, token, timeout, tls
        self.actor = actor
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
        elif method in ("POST", "PUT", "PATCH"):
            data = b""
        when = self.now if now is NOTHING else now
        if when is not None:
            h["X-Now"] = when
        if self.token is not None:
            h["Authorization"] = f"Bearer {self.token}"
        if self.actor is not None:
            h["Nixie-Actor"] = self.actor
        h.update(headers or {})
        if path.startswith("/queues/"):
            self.queues.add(path.split("?")[0].split("/")[2])
        reply = self.raw(method, path, data, h)
        if method != "HEAD":
            if reply.status >= 400:
                check_problem(reply)
            elif reply.type() == "application/json":
                check_forms(reply.json if path.startswith(CHECKED) else None, letters=path.startswith("/dead"))
            elif reply.status == 204:
                assert reply.body == b"", reply
        return reply

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=NOTHING, **more):
        return self.call("POST", path, body, **more)

    def put(self, path, body=NOTHING, **more):
        return self.call("PUT", path, body, **more)

    def patch(self, path, body=NOTHING, **more):
        return self.call("PATCH", path, body, **more)

    def delete(self, path, **more):
        return self.call("DELETE", path, **more)

    def _page(self, path, now, params):
        reply = self.get(path + ("?" + urllib.parse.urlencode(params) if params else ""), now=now)
        assert reply.status == 200, reply
        return reply.json

    # -- dead letters -------------------------------------------------------------------------------------------------------

    def dead(self, q=None, now=NOTHING, **params):
        """A page of GET /dead."""
        d = self._page("/dead", now, {**({} if q is None else {"q": q}), **params})
        assert set(d) == {"letters", "count", "next", "complete", "looked_at"} and d["count"] == len(d["letters"]), d
        assert is_whole(d["looked_at"]) and d["looked_at"] >= d["count"], d
        assert d["complete"] or d["next"] is not None, d
        return d

    def letters(self, q=None, now=NOTHING, **params):
        """All letters, page by page."""
        letters, cursor = [], {}
        while True:
            d = self.dead(q, now=now, **cursor, **params)
            letters += d["letters"]
            if d["next"] is None:
                return letters
            cursor = {"cursor": d["next"]}

    def groups(self, q=None, now=NOTHING, **params):
        d = self._page("/groups", now, {**({} if q is None else {"q": q}), **params})
        assert set(d) == {"groups", "count", "total"} and d["count"] == len(d["groups"]) <= d["total"], d
        return d["groups"]

    def group(self, key, now=NOTHING):
        reply = self.get("/groups/" + encode(key), now=now)
        assert reply.status == 200, reply
        return reply.json

    def change_group(self, key, now=NOTHING, expect=200, **fields):
        reply = self.patch("/groups/" + encode(key), fields, now=now)
        assert reply.status == expect, reply
        return reply.json

    def take_in(self, queue, letters, now=NOTHING, expect=200, dry_run=False, **fields):
        """POST /dead."""
        reply = self.post("/dead" + ("?dry_run=yes" if dry_run else ""), {"queue": queue, "letters": letters, **fields}, now=now)
        assert reply.status == expect, reply
        return reply.json

    def audit(self, now=NOTHING, **params):
        d = self._page("/audit", now, params)
        assert set(d) == {"entries", "count", "next"} and d["count"] == len(d["entries"]), d
        return d["entries"]

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
        assert set(d) - {"paused", "breaker"} == {"claimed", "message"} and d["claimed"] is (d["message"] is not None), d
        assert not (d["claimed"] and ("paused" in d or "breaker" in d)), d
        return d["message"]

    def claim_many(self, count, now=NOTHING, **fields):
        d = self._do(200, "POST", "/claim", {"count": count, **fields}, now=now).json
        assert set(d) - {"paused", "breaker"} == {"claimed", "messages"} and d["claimed"] is bool(d["messages"]), d
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

    def edit(self, m, expect=201, **more):
        return self.act(m["id"] if isinstance(m, dict) else m, "edit", expect=expect, **more)

    def discard(self, m, why="other", **more):
        return self.act(m["id"] if isinstance(m, dict) else m, "discard", why=why, **more)

    def undiscard(self, m, **more):
        return self.act(m["id"] if isinstance(m, dict) else m, "undiscard", **more)

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
        assert set(d) == {"attempts", "count", "attempts_total", "attempts_omitted"} and d["count"] == len(d["attempts"]), d
        check_story(d)
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

    def pause(self, now=NOTHING, expect=200, **fields):
        return self._do(expect, "POST", "/pause", fields if fields else NOTHING, now=now).json

    def resume(self, now=NOTHING, expect=200, **fields):
        return self._do(expect, "POST", "/resume", fields if fields else NOTHING, now=now).json

    def letters(self, q=None, now=NOTHING, **params):
        """The dead letters of this queue."""
        return self.client.letters(q, now=now, queue=self.name, **params)

    def groups(self, q="", now=NOTHING, **params):
        """The cause groups of this queue."""
        return self.client.groups(f'queue:"{self.name}" {q}'.strip(), now=now, **params)

    # -- short cuts ---------------------------------------------------------------------------------------------------------

    def dead(self, payload="x", now=NOTHING, error="boom", **fields):
        """Enqueues a message and lets it die."""
        failure = {k: fields.pop(k) for k in ("error_class", "detail", "fingerprint") if k in fields}
        self.enqueue(payload, now=now, max_retries=1, **fields)
        m = self.claim(now=now)
        d = self.fail(m, now=now, error=error, **failure)
        assert d["status"] == "dead", d
        return d
