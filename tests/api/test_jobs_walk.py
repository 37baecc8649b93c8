"""A random walk over letters and the jobs that act on them: after every step each job accounts for what it selected, and each queue
for what it accepted."""
import random

import pytest

from lib.client import Client, T0, at
from lib.jobs import ENDED, check_job

NAMES = ("a", "b", "c")
PATCH = [{"op": "set", "path": "payload.n", "value": 1}, {"op": "set", "path": "header.patched", "value": True}]
FILTERS = ("error:Timeout", "-error:Timeout", "id:<500", "redrives:>=1", "payload.n:1", "edited:no age:>=0s", "message:boom*")


class Walk:
    def __init__(self, server, seed):
        self.server, self.rng, self.seconds = server, random.Random(seed), 0
        self.client = Client(server, now=T0)
        self.queues = [self.client.queue(name) for name in NAMES]
        self.steps = [self.bury, self.bury, self.settle, self.settle, self.settle, self.redrive, self.redrive, self.discard,
                      self.purge, self.change, self.change, self.act, self.act, self.pause, self.wait, self.wait]
        for q in self.queues:
            q.put(max_retries=2, redrive_limit=4, retention={"dead_seconds": 300})

    def now(self):
        return at(self.seconds)

    def queue(self):
        return self.rng.choice(self.queues)

    def jobs(self):
        found = []
        for kind in ("redrives", "discards"):
            found += [check_job(j, listed=True) for j in self.client.get(f"/{kind}?limit=1000").json[kind]]
        return found

    # -- steps -------------------------------------------------------------------------------------------------------------

    def bury(self):
        q, n = self.queue(), self.rng.randrange(1, 60)
        payload = self.rng.choice(['{"n": 2, "m": [1.50]}', "no JSON"])
        q.batch([{"payload": payload}] * n)
        self.fail(q, n, permanent=True, error="boom 7", error_class=self.rng.choice(["Timeout", "ParseError"]))

    def fail(self, q, n, **failure):
        """Whatever is first in line."""
        got = q.claim_many(n, worker="w", worker_version=self.rng.choice(["1.0", "1.1"]))
        if got:
            q.settle([{"id": m["id"], "lease": m["lease"], "action": "fail", **failure} for m in got])

    def settle(self):
        q = self.queue()
        got = q.claim_many(self.rng.randrange(1, 100), lease_seconds=self.rng.choice([5, 300]))
        verbs = self.rng.choice([["succeed"], ["succeed", "succeed", "fail"], ["fail"], ["succeed", "fail", "release", None]])
        items = [{"id": m["id"], "lease": m["lease"], "action": verb} for m in got if (verb := self.rng.choice(verbs))]
        if items:
            q.settle(items)

    def scope(self):
        return self.rng.choice([{"all": True}, {"filter": self.rng.choice(FILTERS)}])

    def redrive(self):
        fields = {"queue": self.queue().name, **self.scope()}
        for name, values in (("to", NAMES), ("rate", (0.5, 3, 1000)), ("sample", (0, 2, 20)), ("stop_if", (None, 0.01, "50%")),
                             ("patch", (PATCH,)), ("force", (True,))):
            if self.rng.random() < 0.3:
                fields[name] = self.rng.choice(values)
        if fields.get("to") == fields["queue"]:
            del fields["to"]
        assert self.client.post("/redrives", {**fields, "dry_run": True}).status == 200
        assert self.client.post("/redrives", fields).status in (202, 429)

    def discard(self):
        if self.rng.random() < 0.5:
            queue = {"queue": self.queue().name} if self.rng.random() < 0.8 else {}
            assert self.client.post("/discards", {**queue, **self.scope(), "why": "test"}).status in (202, 429)

    def purge(self):
        if self.rng.random() < 0.15:
            q = self.queue()
            assert self.client.post(q.path + "/purge", {"confirm": q.name}).status in (202, 429)

    def change(self):
        live = [j for j in self.jobs() if j["state"] not in ENDED and j["kind"] == "redrive"]
        if live:
            change = self.rng.choice([{"state": "paused"}, {"state": "running"}, {"state": "running"}, {"state": "cancelled"},
                                      {"rate": 5}, {"rate": None, "stop_if": None}])
            assert self.client.patch(f"/redrives/{self.rng.choice(live)['id']}", change).status in (200, 409)

    def act(self):
        q = self.queue()
        listed = q.list(limit=1000)
        verb, fields = self.rng.choice([("replay", {}), ("replay", {"force": True}), ("edit", {"payload": "y"}),
                                        ("discard", {"why": "fixed"}), ("undiscard", {})])
        for m in self.rng.sample(listed, min(len(listed), 8)):
            reply = self.client.post(f"{q.path}/messages/{m['id']}/{verb}", fields)
            assert reply.status in (200, 201, 409), reply

    def pause(self):
        self.client.post(self.queue().path + self.rng.choice(["/pause", "/resume"]))

    def wait(self):
        self.seconds += self.rng.choice([1, 1, 2, 10])
        self.client.now = self.now()

    # -- and what must be so after each ------------------------------------------------------------------------------------

    def check(self):
        jobs = self.jobs()
        assert self.client.check_conservation() == len(NAMES)
        for j in jobs:
            assert j["state"] not in ("sampling",) or j["sent"] <= j["sample"], j
        terms = [q.info()["conservation"] for q in self.queues]
        assert sum(t["moved_in"] for t in terms) == sum(t["moved_out"] for t in terms), terms

    def restart(self, kill):
        self.check()
        before = [(j["id"], j["state"], j["selected"]) for j in self.jobs() if j["state"] in ENDED]
        self.client.close()
        self.server.restart(kill=kill)
        after = {(j["id"], j["state"], j["selected"]) for j in self.jobs()}
        assert set(before) <= after


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_walk(start, seed):
    walk = Walk(start("--segment-bytes", 4 * 1024 * 1024), seed)
    for number in range(400):
        walk.rng.choice(walk.steps)()
        walk.check()
        if number % 100 == 99:
            walk.restart(kill=walk.rng.random() < 0.7)
    for j in walk.jobs():
        if j["state"] not in ENDED:
            kind = "redrives" if j["kind"] == "redrive" else "discards"
            assert walk.client.patch(f"/{kind}/{j['id']}", {"state": "cancelled"}).status == 200
    # Nothing is on its way any more that a worker could not finish.
    for q in walk.queues:
        q.resume()
    for _ in range(400):
        walk.seconds += 301
        walk.client.now = walk.now()
        got = [q.claim_many(1000) for q in walk.queues]
        for q, messages in zip(walk.queues, got):
            if messages:
                q.settle([{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in messages])
        if not any(got):
            break
    walk.check()
    assert all(j["open"] == 0 for j in walk.jobs())
    assert all(q.counts()["pending"] + q.counts()["processing"] + q.counts()["dead"] == 0 for q in walk.queues)
