"""Redrives and discards over the API, with the accounting of every job checked whenever it is seen."""
from lib.client import NOTHING, TIME, is_whole

STATES = ("sampling", "running", "paused", "stopped", "cancelled", "done")
ENDED = ("cancelled", "done")
SKIPS = ("other_job", "redrive_limit", "edited", "replayed", "unpatchable")
WARNINGS = ("old_version", "paused", "no_worker", "redriven_before", "at_limit")
COUNTS = ("selected", "succeeded", "died_again", "open", "discarded", "skipped", "remaining", "sent")
SETTINGS = ("queue", "to", "filter", "name", "actor", "reason", "fence", "rate", "sample", "stop_if", "force", "clear_deaths")
REST = ("kind", "selecting", "skipped_by", "created_at", "changed_at", "ended_at", "stop_reason", "warnings", "versions")
ALL = set(COUNTS + SETTINGS + REST)
NEW_SINCE = {"new_since", "new_since_complete"}


def check_counts(j):
    """The equation that holds at every instant."""
    for name in COUNTS:
        assert is_whole(j[name]) and j[name] >= 0, (name, j)
    parts = ("succeeded", "died_again", "open", "discarded", "skipped", "remaining")
    assert j["selected"] == sum(j[name] for name in parts), f"the accounting is broken: {j}"
    assert j["skipped"] == sum(j["skipped_by"].values()) and set(j["skipped_by"]) <= set(SKIPS), j
    assert all(is_whole(n) and n > 0 for n in j["skipped_by"].values()), j


def check_members(j):
    """The form of a job or a plan, whatever it says."""
    check_counts(j)
    assert j["kind"] in ("redrive", "discard", "purge"), j
    for w in j["warnings"]:
        assert set(w) == {"code", "message"} and w["code"] in WARNINGS and w["message"], j
    for v in j["versions"]:
        assert set(v) == {"version", "count", "claiming"} and is_whole(v["count"]) and isinstance(v["claiming"], bool), j
    for name in ("created_at", "changed_at", "ended_at"):
        assert j[name] is None or TIME.match(j[name]), (name, j)
    assert isinstance(j["selecting"], bool) and isinstance(j["force"], bool), j


def check_job(j, listed=False):
    wanted = ALL | {"id", "state"} | (set() if listed else NEW_SINCE)
    assert wanted <= set(j) <= wanted | {"patch", "why"}, f"members: {set(j) ^ wanted}"
    check_members(j)
    assert is_whole(j["id"]) and j["id"] > 0 and j["state"] in STATES, j
    assert (j["ended_at"] is not None) == (j["state"] in ENDED), j
    assert (j["stop_reason"] is not None) or j["state"] != "stopped", j
    assert ("why" in j) == (j["kind"] == "discard"), j
    if j["state"] == "done":
        assert j["remaining"] == 0 and j["open"] == 0 and not j["selecting"], j
    return j


def check_plan(p):
    wanted = ALL | NEW_SINCE | {"dry_run", "complete", "examples"}
    assert wanted <= set(p) <= wanted | {"patch", "why"}, f"members: {set(p) ^ wanted}"
    check_members(p)
    assert p["dry_run"] is True and isinstance(p["complete"], bool) and len(p["examples"]) <= 3, p
    return p


class Jobs:
    """The jobs of one server through one client; everything that is read is checked, also the queues' conservation."""

    def __init__(self, client):
        self.client = client
        self.made = {}  # id: "redrives" or "discards", of those that may not have ended

    def _do(self, expect, method, path, body=NOTHING, **more):
        reply = self.client.call(method, path, body, **more)
        assert reply.status == expect, f"{method} {path} {body!r}: expected {expect}, got {reply!r}"
        self.client.check_conservation()
        return reply

    def _start(self, kind, path, expect, fields, now, headers):
        reply = self._do(expect, "POST", path, fields, now=now, headers=headers)
        if expect == 200:
            assert fields.get("dry_run") is True and reply.headers.get("Location") is None
            return check_plan(reply.json)
        if expect != 202:
            return reply
        j = check_job(reply.json)
        assert reply.headers.get("Location") == f"/{kind}/{j['id']}", reply.headers.items()
        self.made[j["id"]] = kind
        return j

    def redrive(self, now=NOTHING, expect=202, headers=None, **fields):
        """All letters of the queue, unless there is a filter."""
        if "filter" not in fields:
            fields.setdefault("all", True)
        return self._start("redrives", "/redrives", expect, fields, now, headers)

    def discard(self, now=NOTHING, expect=202, headers=None, **fields):
        if "filter" not in fields:
            fields.setdefault("all", True)
        fields.setdefault("why", "obsolete")
        return self._start("discards", "/discards", expect, fields, now, headers)

    def purge(self, queue, now=NOTHING, expect=202, headers=None, **fields):
        fields.setdefault("confirm", queue.name)
        return self._start("discards", queue.path + "/purge", expect, fields, now, headers)

    def plan(self, now=NOTHING, **fields):
        return self.redrive(now=now, expect=200, dry_run=True, **fields)

    def path(self, job):
        return f"/{self.made[job['id']]}/{job['id']}"

    def read(self, job, now=NOTHING):
        j = check_job(self._do(200, "GET", self.path(job), now=now).json)
        assert j["id"] == job["id"] and j["fence"] == job["fence"], j
        return j

    def change(self, job, now=NOTHING, expect=200, headers=None, **fields):
        reply = self._do(expect, "PATCH", self.path(job), fields, now=now, headers=headers)
        return check_job(reply.json) if expect == 200 else reply

    def list(self, kind="redrives", **params):
        query = "&".join(f"{k}={v}" for k, v in params.items())
        d = self._do(200, "GET", f"/{kind}?{query}").json
        assert set(d) == {kind, "count"} and d["count"] == len(d[kind]), d
        for j in d[kind]:
            check_job(j, listed=True)
            assert (j["kind"] == "redrive") == (kind == "redrives"), j
        ids = [j["id"] for j in d[kind]]
        assert ids == sorted(ids, reverse=True), ids
        return d[kind]

    def is_done(self, job, now=NOTHING):
        return self.read(job, now)["state"] == "done"

    def cancel_all(self):
        """So that no job of one test is at work in the next."""
        for number, kind in self.made.items():
            reply = self.client.call("PATCH", f"/{kind}/{number}", {"state": "cancelled"})
            assert reply.status in (200, 404, 409), reply


def counts(job, *names):
    return tuple(job[name] for name in names)


def bury(queue, n, now=NOTHING, payload="x", **failure):
    """n letters that died one after the other; their ids. Nothing else may be ready in the queue. The failure's fields are the
    API's, and the worker's."""
    version = {k: failure.pop(k) for k in ("worker", "worker_version") if k in failure}
    ids = []
    while len(ids) < n:
        batch = min(n - len(ids), 1000)
        queue.batch([{"payload": payload, "max_retries": 1}] * batch, now=now)
        got = queue.claim_many(batch, now=now, **version)
        assert len(got) == batch, f"{len(got)} of {batch} claimed"
        items = [{"id": m["id"], "lease": m["lease"], "action": "fail", "error": "boom", **failure} for m in got]
        results = queue.settle(items, now=now)["results"]
        assert all(r.get("status") == "dead" for r in results), results
        ids += [r["id"] for r in results]
    return ids


def finish(queue, verb="succeed", n=1000, now=NOTHING, **fields):
    """Claims up to n and settles each; what was claimed, in order."""
    got = queue.claim_many(n, now=now)
    if got:
        results = queue.settle([{"id": m["id"], "lease": m["lease"], "action": verb, **fields} for m in got], now=now)["results"]
        assert all("status" in r for r in results), results
    return [m["id"] for m in got]

