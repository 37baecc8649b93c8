"""The real server under load, killed with kill -9 at random moments and started again. Every promise that a reply made is written down
in a ledger and held against what the server does and shows later.

CRASH_KILLS=n CRASH_SEED=n make it longer, or repeat the choices of a run (the interleaving of threads cannot be repeated)."""
import http.client
import os
import random
import threading
import time
import traceback
import typing

import pytest

from lib.client import Client, check_queue
from lib.server import Server, StartFailed

KILLS = int(os.environ.get("CRASH_KILLS", 100))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(10**6)))
THREADS = 8
MARGIN = 0.25  # seconds by which a lease may seem shorter than it was, for the two clocks and the cached time of a loop
LOST = (OSError, http.client.HTTPException)

# Kept for ever, so that every message can be audited; forgotten fast, so that the log has something to clean; with keys.
QUEUES = {"audit": {"backoff": {"kind": "fixed", "base_seconds": 1}},
          "churn": {"backoff": {"kind": "fixed", "base_seconds": 1}, "retention": {"succeeded_seconds": 1, "succeeded_max": 20}},
          "keys": {"backoff": {"kind": "fixed", "base_seconds": 0}, "max_retries": 250}}


class Record:
    """What is known of one message."""

    def __init__(self, queue, label):
        self.queue, self.label = queue, label
        self.deliveries = 0           # highest seen
        self.claims = {}              # by deliveries: (sent, received) of the claim, on the clock of this process
        self.holder_until = 0         # the claim of `deliveries` is valid at least until then
        self.succeed_sent = False     # a succeed left for it, its answer unknown or not yet here
        self.acknowledged = None      # "succeeded" or "dead" when a reply said so and nothing was sent that could change it
        self.settled_by = 0           # the deliveries of the claim which that reply was about


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.progress = threading.Condition(self.lock)
        self.records = {}             # by id
        self.labels = {}              # label: id
        self.unknown = set()          # labels of enqueues without an answer
        self.unknown_batches = []     # the same for batches: lists of labels
        self.keys = {}                # idempotency key: id
        self.created = set()          # keys whose creation (201) was acknowledged
        self.dead = []                # ids acknowledged dead, candidates for a replay
        self.violations = []
        self.acknowledged = 0         # replies that promised something
        self.counts = {}              # by kind of promise

    def violation(self, text):
        self.violations.append(text)

    def promise(self, kind, n=1):
        self.acknowledged += 1
        self.counts[kind] = self.counts.get(kind, 0) + n
        self.progress.notify_all()

    def accepted(self, queue, label, mid):
        if self.labels.setdefault(label, mid) != mid:
            self.violation(f"{label} is two messages: {self.labels[label]} and {mid}")
        record = self.records.setdefault(mid, Record(queue, label))
        if record.label != label:
            self.violation(f"id {mid} was given to {record.label} and {label}")
        return record

    def delivered(self, queue, m, sent, received, lease_seconds):
        """One message of a claim's reply. Threads may come here in another order than the server decided; `deliveries` tells that."""
        label, n = m["payload"].split(" ")[0], m["deliveries"]
        record = self.accepted(queue, label, m["id"])
        what = f"{m['id']} ({label}), delivery {n}"
        if record.acknowledged and n > record.settled_by:
            self.violation(f"{what}: had been acknowledged {record.acknowledged} in delivery {record.settled_by}")
        if n in record.claims:
            self.violation(f"{what}: delivered twice under that number")
        for other, (_, other_received) in record.claims.items():
            if other > n and other_received < sent:
                self.violation(f"{what}: comes after delivery {other}")
        record.claims[n] = (sent, received)
        if n > record.deliveries:
            if received < record.holder_until - MARGIN:
                self.violation(f"{what}: while another lease had {record.holder_until - received:.2f} s to go")
            record.deliveries = n
            record.holder_until = sent + lease_seconds


class Held(typing.NamedTuple):
    """A lease in a worker's hand."""

    queue: str
    id: int
    lease: str
    until: float
    deliveries: int


class Worker(threading.Thread):
    """Does one random thing after the other. When the server is gone it waits for the next start."""

    def __init__(self, run, number):
        super().__init__(name=f"worker {number}")
        self.run_, self.ledger, self.number = run, run.ledger, number
        self.rng = random.Random(f"{SEED}/{number}")
        self.client = None
        self.held = []
        self.serial = 0

    def run(self):
        try:
            while not self.run_.over.is_set():
                generation = self.run_.generation
                if not self.run_.up.wait(0.5):
                    continue
                try:
                    if self.client is None:
                        self.client = Client(self.run_.server, timeout=20)
                    self.rng.choice([self.enqueue, self.enqueue, self.batch, self.keyed, self.claim, self.claim, self.settle, self.settle,
                                     self.settle, self.settle_many, self.settle_many, self.replay])()
                except LOST:
                    self.client.close()
                    self.run_.lost(generation)
        except Exception as e:  # the main thread fails with it
            with self.ledger.lock:
                self.ledger.violation(f"{self.name}: {e!r}\n{traceback.format_exc()}")
                self.ledger.progress.notify_all()

    def label(self):
        self.serial += 1
        return f"w{self.number}-{self.serial}"

    def payload(self, label, queue):
        return label + " " + "x" * self.rng.choice([0, 10, 100] if queue != "churn" else [1000, 3000])

    def expect(self, reply, *statuses):
        assert reply.status in statuses, reply
        return reply.json

    # -- producing ---------------------------------------------------------------------------------------------------------------

    def enqueue(self):
        queue, label = self.rng.choice(["audit", "churn"]), self.label()
        with self.ledger.lock:
            self.ledger.unknown.add(label)
        m = self.expect(self.client.post(f"/queues/{queue}/messages", {"payload": self.payload(label, queue), "max_retries": 10}), 201)
        with self.ledger.lock:
            self.ledger.unknown.discard(label)
            self.ledger.accepted(queue, label, m["id"])
            self.ledger.promise("enqueued")

    def batch(self):
        queue = self.rng.choice(["audit", "churn"])
        labels = [self.label() for _ in range(self.rng.randrange(1, 20))]
        with self.ledger.lock:
            self.ledger.unknown_batches.append(labels)
        d = self.expect(self.client.post(f"/queues/{queue}/messages", [{"payload": self.payload(x, queue)} for x in labels]), 201)
        assert d["ids"] == sorted(d["ids"]) and len(d["ids"]) == len(labels)
        with self.ledger.lock:
            self.ledger.unknown_batches.remove(labels)
            for label, mid in zip(labels, d["ids"]):
                self.ledger.accepted(queue, label, mid)
            self.ledger.promise("enqueued", len(labels))

    def keyed(self):
        """Retried by anybody until it is acknowledged, and often after that."""
        with self.ledger.lock:
            key = f"key{self.rng.randrange(max(10, self.ledger.counts.get('enqueued', 0) // 20))}"
        fields = {"payload": key + " x", "idempotency_key": key}
        reply = self.client.post("/queues/keys/messages", fields)
        m = self.expect(reply, 200, 201)
        with self.ledger.lock:
            if self.ledger.keys.setdefault(key, m["id"]) != m["id"]:
                self.ledger.violation(f"{key} is two messages: {self.ledger.keys[key]} and {m['id']}")
            if reply.status == 201:
                if key in self.ledger.created:
                    self.ledger.violation(f"{key} was created twice")
                self.ledger.created.add(key)
            self.ledger.accepted("keys", key, m["id"])
            self.ledger.promise("keyed")

    # -- consuming ----------------------------------------------------------------------------------------------------------------

    def claim(self):
        if len(self.held) > 40:
            return
        queue = self.rng.choice(["audit", "churn", "churn", "keys"])
        lease = self.rng.choice([1, 2, 4])
        sent = time.monotonic()
        d = self.expect(self.client.post(f"/queues/{queue}/claim", {"count": self.rng.randrange(1, 11), "lease_seconds": lease}), 200)
        self.took(queue, d["messages"], sent, lease)

    def took(self, queue, messages, sent, lease):
        received = time.monotonic()
        with self.ledger.lock:
            for m in messages:
                self.ledger.delivered(queue, m, sent, received, lease)
                self.held.append(Held(queue, m["id"], m["lease"], sent + lease, m["deliveries"]))
            if messages:
                self.ledger.promise("claimed", len(messages))

    def leaves(self, held, action):
        """Before a settle is sent: from now on the message may be anywhere."""
        record = self.ledger.records[held.id]
        if action == "succeed":
            record.succeed_sent = True
        if record.deliveries == held.deliveries:
            record.holder_until = 0

    def came(self, held, action, status, received):
        """The result of a settle: its status, or 404 or 409."""
        record = self.ledger.records[held.id]
        if status in (404, 409):
            if received < held.until - MARGIN:
                self.ledger.violation(f"{held.id} ({record.label}), delivery {held.deliveries}: {action} was refused with {status} though "
                                      f"its lease had {held.until - received:.2f} s to go")
        elif action == "succeed":
            assert status == "succeeded", status
            record.acknowledged, record.settled_by = "succeeded", held.deliveries
            self.ledger.promise("succeeded")
        elif status == "dead":
            record.acknowledged, record.settled_by = "dead", held.deliveries
            self.ledger.dead.append(held.id)
            self.ledger.promise("died")
        else:
            assert status == "pending", status
            self.ledger.promise("returned")

    def action(self):
        return self.rng.choice(["succeed", "succeed", "succeed", "succeed", "fail", "fail", "permanent", "release"])

    def settle(self):
        if not self.held:
            return
        held = self.held.pop(self.rng.randrange(len(self.held)))
        action = self.action()
        body = {"lease": held.lease}
        if action in ("fail", "permanent"):
            body.update(error="boom", detail="d" * self.rng.choice([0, 1000]), permanent=action == "permanent")
        with self.ledger.lock:
            self.leaves(held, action)
        verb = "fail" if action == "permanent" else action
        reply = self.client.post(f"/queues/{held.queue}/messages/{held.id}/{verb}", body)
        d = self.expect(reply, 200, 404, 409)
        with self.ledger.lock:
            self.came(held, action, d["status"], time.monotonic())

    def settle_many(self):
        queue = self.rng.choice(["audit", "churn", "keys"])
        mine = [h for h in self.held if h.queue == queue][:20]
        if not mine:
            return
        self.held = [h for h in self.held if h not in mine]
        actions = [self.action() for _ in mine]
        items = []
        for held, action in zip(mine, actions):
            item = {"id": held.id, "lease": held.lease, "action": "fail" if action == "permanent" else action}
            if action == "permanent":
                item["permanent"] = True
            items.append(item)
        with self.ledger.lock:
            for held, action in zip(mine, actions):
                self.leaves(held, action)
        sent = time.monotonic()
        d = self.expect(self.client.post(f"/queues/{queue}/settle", {"items": items, "claim": {"count": 5, "lease_seconds": 2}}), 200)
        received = time.monotonic()
        with self.ledger.lock:
            for held, action, result in zip(mine, actions, d["results"]):
                assert result["id"] == held.id
                self.came(held, action, result["status"] if "status" in result else result["error"]["status"], received)
        self.took(queue, d["messages"], sent, 2)

    def replay(self):
        with self.ledger.lock:
            if len(self.ledger.dead) < 5:
                return
            mid = self.ledger.dead.pop(self.rng.randrange(len(self.ledger.dead)))
            record = self.ledger.records[mid]
            record.acknowledged = None
        reply = self.client.post(f"/queues/{record.queue}/messages/{mid}/replay", {"force": True})
        assert reply.status == 200, reply
        with self.ledger.lock:
            self.ledger.promise("replayed")


class Run:
    def __init__(self, data):
        # Sixteen small segments' worth of work roll and clean them many times over within the run.
        self.server = Server(data, "--segment-bytes", 1024 * 1024, "--payload-max", 100000, test_clock=False)
        self.ledger = Ledger()
        self.rng = random.Random(SEED)
        self.up, self.over = threading.Event(), threading.Event()
        self.generation = 0
        self.kills = self.restarts = 0
        self.files = set()

    def lost(self, generation):
        """A worker of this generation lost its connection. That must be our doing: `up` is cleared before a kill."""
        if not self.server.is_running() and self.up.is_set() and generation == self.generation:
            with self.ledger.lock:
                self.ledger.violation(f"the server ended by itself\n{self.server.stderr()}")
                self.ledger.progress.notify_all()

    def start(self):
        while True:
            self.server.spawn()
            if self.restarts % 5 == 4 and self.rng.random() < 0.7:
                # Killed while it starts, recovering what the last kill left.
                if self.over.wait(self.rng.random() * 0.03):
                    return
                self.server.kill()
                self.kills += 1
                continue
            try:
                self.server.wait_ready()
            except StartFailed as e:
                raise AssertionError(f"seed {SEED}: after kill {self.kills}: {e}") from e
            break
        self.restarts += 1
        self.generation += 1

    def kill(self):
        self.up.clear()
        self.server.kill()
        self.kills += 1
        self.files |= self.segments()

    def segments(self):
        return {f.name for f in self.server.data.iterdir() if f.name.startswith("segment")}

    def wait_for_promises(self, n):
        """Until n more promises were made; then somewhere in the next few milliseconds."""
        with self.ledger.progress:
            target = self.ledger.acknowledged + n
            ok = self.ledger.progress.wait_for(lambda: self.ledger.acknowledged >= target or self.ledger.violations, 30)
        self.no_violations()
        assert ok, f"seed {SEED}: {n} operations took more than 30 s"
        self.over.wait(self.rng.random() * 0.005)

    def no_violations(self):
        with self.ledger.lock:
            assert not self.ledger.violations, f"seed {SEED}, kill {self.kills}:\n" + "\n".join(self.ledger.violations[:10])

    # -- after a restart ---------------------------------------------------------------------------------------------------------

    def check_conservation(self, client):
        for name in QUEUES:
            check_queue(client.get("/queues/" + name).json)

    def check_some(self, client):
        """Before anybody works again: the newest messages and some others are what the ledger says."""
        ids = sorted(self.ledger.records)
        for mid in set(ids[-60:] + self.rng.sample(ids, min(60, len(ids)))):
            self.check(client, mid)

    def check(self, client, mid):
        record = self.ledger.records[mid]
        reply = client.get(f"/queues/{record.queue}/messages/{mid}")
        if reply.status == 404:
            # Only what was sent a succeed can be gone, and only where succeeded messages are not kept.
            assert record.queue == "churn" and record.succeed_sent, f"seed {SEED}: {mid} ({record.label}) is lost"
            return
        assert reply.status == 200, reply
        self.check_shown(record, reply.json)

    def check_shown(self, record, m):
        what = f"seed {SEED}, kill {self.kills}: {record.label}, ledger {vars(record)}, server {m}"
        assert m["payload"].split(" ")[0] == record.label, what
        assert m.get("deliveries", 0) >= record.deliveries, what
        if record.acknowledged:
            assert m["status"] == record.acknowledged, what
        if m["status"] == "succeeded":
            assert record.succeed_sent, what


def storm(run, kills, after_kill=lambda run: None):
    """The load, the kills and the looks after each restart; the server runs at the end."""
    run.start()
    client = Client(run.server)
    for name, policy in QUEUES.items():
        client.queue(name).put(**policy)
    client.close()
    workers = [Worker(run, n) for n in range(THREADS)]
    for w in workers:
        w.start()
    try:
        while run.kills < kills:
            run.up.set()
            run.wait_for_promises(run.rng.choice([5, 50, 200, 400]))
            run.kill()
            after_kill(run)
            run.start()
            client = Client(run.server)
            run.check_conservation(client)
            with run.ledger.lock:
                run.check_some(client)
            client.close()
            run.no_violations()
        run.up.set()
        run.wait_for_promises(100)
    finally:
        run.over.set()
        run.up.set()
        for w in workers:
            w.join(30)
    run.no_violations()
    assert not any(w.is_alive() for w in workers)


def test_nothing_acknowledged_is_lost_or_doubled(tmp_path, capsys):
    run = Run(tmp_path / "data")
    began = time.monotonic()
    storm(run, KILLS)
    client = Client(run.server)
    run.check_conservation(client)
    survey = final_check(run, client)
    drain(run, client)
    gone = run.files - run.segments()
    assert len(gone) >= 3, f"seed {SEED}: the run was too short to clean the log: {sorted(run.files)}"
    run.server.stop()
    ledger = run.ledger
    assert ledger.counts["succeeded"] > 100 and ledger.counts["died"] > 10 and ledger.counts["replayed"] > 5, ledger.counts
    with capsys.disabled():
        done = ", ".join(f"{n} {kind}" for kind, n in sorted(ledger.counts.items()))
        print(f"\n  seed {SEED}: {run.kills} kills, {run.restarts} restarts survived, {len(ledger.records)} messages ({done}), "
              f"{survey['unknown']} enqueues without an answer, of which {survey['kept']} were kept; {len(gone)} segments cleaned; "
              f"{time.monotonic() - began:.0f} s")


def test_the_ledger_notices_what_a_disk_forgets(tmp_path):
    """Control: the newest part of the log vanishes with one kill, as if replies had been sent before the sync."""
    forgot = []

    def forget(run):
        file = run.server.data / max(run.segments())
        used = len(file.read_bytes().rstrip(b"\0"))
        if not forgot and used > 400000:  # more than all that can be on its way and unanswered
            with open(file, "r+b") as f:
                f.seek(used - 300000)
                f.write(bytes(300000))
            forgot.append(used)

    run = Run(tmp_path / "data")
    with pytest.raises(AssertionError, match="is lost|had been acknowledged|deliver|server {|worker"):
        storm(run, 40, forget)
    assert forgot
    run.server.kill()


def final_check(run, client):
    """Everything the server holds, against everything it ever said."""
    ledger, present, kept = run.ledger, {}, 0
    for name in QUEUES:
        queue = client.queue(name)
        messages = queue.all()
        for m in messages:
            label = m["payload"].split(" ")[0]
            assert label not in present, f"seed {SEED}: {label} is two messages: {present[label]} and {m['id']}"
            present[label] = m["id"]
            record = ledger.records.get(m["id"])
            if record is None:
                asked = name == "keys" or label in ledger.unknown or any(label in b for b in ledger.unknown_batches)
                assert asked, f"seed {SEED}: {m} was never asked for"
                kept += 1
            else:
                run.check_shown(record, m)
        if name != "churn":
            info = queue.info()
            assert info["conservation"]["accepted"] == len(messages), f"seed {SEED}: {info}"
    for mid, record in ledger.records.items():
        if record.label not in present:
            run.check(client, mid)  # gone for a good reason, or this says so
        else:
            assert present[record.label] == mid, f"seed {SEED}: {record.label}"
    for batch in ledger.unknown_batches:
        # Delivered ones may be gone from the queue that forgets; the ledger knows them all the same.
        there = [x in present or x in ledger.labels for x in batch]
        if any(there) and not all(there):
            missing = [x for x, t in zip(batch, there) if not t]
            assert False, f"seed {SEED}: half a batch was kept: {missing} of {batch}"
    unknown = len(ledger.unknown) + sum(map(len, ledger.unknown_batches))
    return {"unknown": unknown, "kept": kept}


def drain(run, client):
    """The rest is worked off: what is still on its way ends succeeded or dead, and the sums agree."""
    deadline = time.monotonic() + 60
    for name in QUEUES:
        queue = client.queue(name)
        while queue.counts()["pending"] + queue.counts()["processing"]:
            assert time.monotonic() < deadline, f"seed {SEED}: {queue.info()}"
            sent = time.monotonic()
            messages = queue.claim_many(1000, lease_seconds=60, wait_seconds=1)
            with run.ledger.lock:
                for m in messages:
                    run.ledger.delivered(name, m, sent, time.monotonic(), 60)
            results = queue.settle([{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in messages])["results"]
            assert all(r.get("status") == "succeeded" for r in results), results
        c = queue.info()["conservation"]
        assert c["accepted"] == c["succeeded_total"] + c["dead"] + c["discarded_total"], f"seed {SEED}: {c}"
        if name != "churn":
            messages = queue.all()
            by_state = {s: sum(m["status"] == s for m in messages) for s in ("succeeded", "dead")}
            assert by_state == {"succeeded": c["succeeded_total"], "dead": c["dead"]}, f"seed {SEED}: {c}"
    run.no_violations()
