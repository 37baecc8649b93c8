"""A live server and a naive model of it do the same things side by side; every reply must be what the model says.

Reproduce a failure with --hypothesis-seed=N. Making it small takes minutes of starting servers; SHRINK=1 in the environment does it."""
import os
import shutil
import sys
import tempfile

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lib import model
from lib.client import DISCARDS, Client, at
from lib.server import Server

QUEUES = st.sampled_from(sorted(model.POLICIES))
SMALL = st.integers(0, 20)


@st.composite
def items(draw):
    item = {"payload": draw(st.sampled_from(["", "a", "bb", "é💌", "x" * 300]))}
    for name, values in (("priority", st.integers(0, 9)), ("delay_seconds", SMALL), ("ttl_seconds", st.integers(1, 90)),
                         ("max_retries", st.integers(1, 4)), ("idempotency_key", st.sampled_from("abc"))):
        if draw(st.integers(0, 3)) == 0:
            item[name] = draw(values)
    return item


@st.composite
def actions(draw):
    """(action, fields)"""
    action = draw(st.sampled_from(["succeed", "succeed", "fail", "fail", "fail", "release", "extend"]))
    fields = {}
    maybe = {"fail": [("error", st.text(max_size=5)), ("error_class", st.sampled_from(["A", "B"])), ("permanent", st.booleans()),
                      ("retry_after_seconds", SMALL)],
             "release": [("delay_seconds", SMALL)], "extend": [("lease_seconds", st.integers(1, 60))]}
    for name, values in maybe.get(action, []):
        if draw(st.booleans()):
            fields[name] = draw(values)
    return action, fields


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="nixie-test-")
        self.server = Server(self.folder + "/data").start()
        self.client = Client(self.server)
        self.now = 0
        self.ids = []     # every id the server ever gave, with its queue
        self.leases = []  # every (queue, id, token) it ever gave
        self.queues = {}
        self.touched = set()  # queues whose counts may have changed since they were last compared

    @initialize()
    def begin(self):
        for name, policy in model.POLICIES.items():
            self.queues[name] = model.Queue(policy)
            self.client.now = at(0)
            self.client.queue(name).put(**policy)

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:  # else a rule has failed, and that is what should be reported
                self.everything()
                self.client.close()
                self.server.stop()
        finally:
            self.server.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- comparing ------------------------------------------------------------------------------------------------------------

    def same(self, name, seen, m):
        assert (seen["id"], seen["queue"], seen["payload"], seen["status"]) == (m.id, name, m.payload, m.status), (seen, vars(m))
        assert (seen["retry_count"], seen["max_retries"], seen.get("priority", 0)) == (m.retry_count, m.max_retries, m.priority), (
            seen, vars(m))
        assert (seen["created_at"], seen["updated_at"]) == (at(m.created), at(m.updated)), (seen, vars(m))
        assert seen.get("deliveries", 0) == m.deliveries, (seen, vars(m))
        assert seen.get("error_class") == m.error_class and seen.get("reason") == m.reason, (seen, vars(m))
        if m.error:
            assert seen["last_error"] == m.error, (seen, vars(m))
        elif m.retry_count == 0 and m.error_class is None:
            assert seen["last_error"] is None, (seen, vars(m))
        else:
            assert isinstance(seen["last_error"], str), (seen, vars(m))
        if m.status == "pending":
            assert seen.get("expires_at") == (None if m.expires is None else at(m.expires)), (seen, vars(m))
            waits = m.available is not None and m.available > self.now
            assert seen.get("available_at") == (at(m.available) if waits else None), (seen, vars(m))
            if m.retry_at is not None and m.retry_at > self.now:
                assert seen["retry_after"] == at(m.retry_at), (seen, vars(m))
        else:
            assert seen["retry_after"] is None, (seen, vars(m))
        if m.status in ("dead", "discarded"):
            assert seen["died_at"] == at(m.died), (seen, vars(m))
        assert seen.get("redrive_count", 0) == m.redrives, (seen, vars(m))
        assert seen.get("discarded") == (None if m.gone is None else {"reason": m.why, "gone_at": at(m.gone)}), (seen, vars(m))
        if "lease" in seen:
            assert seen["lease_expires_at"] == at(m.lease_end), (seen, vars(m))

    def q(self, name):
        """The queue's client and its model, both at the present time."""
        self.touched.add(name)
        self.client.now = at(self.now)
        for queue in self.queues.values():
            queue.tick(self.now)
        return self.client.queue(name), self.queues[name]

    def expected(self, f, *args, **fields):
        """(status, message) of a verb on the model."""
        try:
            return 200, f(self.now, *args, **fields)
        except model.Refused as e:
            return e.status, None

    @invariant()
    def counts(self):
        for name in sorted(self.touched):
            client, queue = self.q(name)
            info = client.info()
            assert info["counts"] == queue.counts(self.now), name
            assert info["conservation"] == queue.terms(), name
            assert info["bytes"] == queue.bytes(), name
            assert info["expired_total"] == queue.expired, name
            assert info["oldest_death"] == min((at(m.died) for m in queue.dead()), default=None), name
            assert (info["paused"] or {}).get("since") == (None if queue.paused is None else at(queue.paused)), name
        self.touched.clear()

    def everything(self):
        for name in self.queues:
            client, queue = self.q(name)
            seen = client.all()
            assert [m["id"] for m in seen] == sorted(i for i, m in queue.messages.items() if m.status != "discarded"), name
            for m in seen:
                self.same(name, m, queue.messages[m["id"]])
            for status in ("pending", "processing", "dead", "succeeded"):
                assert [m["id"] for m in client.list(status=status, limit=1000)] == sorted(
                    i for i, m in queue.messages.items() if m.status == status)
            for mid, m in queue.messages.items():
                self.same_story(name, client, m)
            self.same_letters(name, client, queue)

    def same_letters(self, name, client, queue):
        """By time of death in pages, and by cause."""
        for order in ("newest", "oldest"):
            letters = client.letters(order=order, limit=3)
            places = [(m["died_at"], m["death"]["dead_seq"]) for m in letters]
            assert places == sorted(places, reverse=order == "newest") and len(set(places)) == len(places), name
            assert {m["id"]: m["died_at"] for m in letters} == {m.id: at(m.died) for m in queue.dead()}, name
        groups = client.groups()
        causes = {m["death"]["group"] for m in letters}
        assert sum(g["count"] for g in groups) == len(letters) and {g["key"] for g in groups if g["count"]} == causes, name

    def same_story(self, name, client, m):
        """Of a success at the first attempt only the last line is kept."""
        story = [(a["attempt"], a["event"], a["at"]) for a in client.attempts(m.id)]
        first_time = [event for _, event, _ in m.story] == ["claimed", "succeeded"]
        wanted = m.story[-1:] if first_time else m.story
        assert story == [(n, event, at(t)) for n, event, t in wanted], (name, vars(m))

    # -- rules ------------------------------------------------------------------------------------------------------------------

    @rule(name=QUEUES, item=items())
    def enqueue(self, name, item):
        client, queue = self.q(name)
        known = queue.known(self.now, item["idempotency_key"]) if "idempotency_key" in item else None
        reply = client.client.post(client.path + "/messages", item)
        if known is not None:
            assert reply.status == 200 and reply.json["id"] == known, reply
            return self.same(name, reply.json, queue.messages[known])
        try:
            queue.check_room(self.now, [item])
        except model.Refused as e:
            assert reply.status == e.status, reply
            return
        assert reply.status == 201, reply
        self.new(name, reply.json["id"])
        self.same(name, reply.json, queue.enqueue(self.now, reply.json["id"], item))

    def new(self, name, mid):
        assert all(mid > old for _, old in self.ids), "ids grow"
        self.ids.append((name, mid))

    @rule(name=QUEUES, batch=st.lists(items(), min_size=1, max_size=5))
    def batch(self, name, batch):
        client, queue = self.q(name)
        reply = client.client.post(client.path + "/messages", batch)
        if reply.status == 429 and queue.unfinished() + len(batch) > queue.setting("max_messages", 10**9) and any(
                "idempotency_key" in item for item in batch):
            return  # whether known keys need room is looked at in test_policy.py
        try:
            queue.check_room(self.now, batch)
        except model.Refused as e:
            assert reply.status == e.status, reply
            return
        assert reply.status == 201 and reply.json["count"] == len(batch) == len(reply.json["ids"]), reply
        duplicates = 0
        for item, mid in zip(batch, reply.json["ids"]):
            known = queue.known(self.now, item["idempotency_key"]) if "idempotency_key" in item else None
            if known is not None:
                assert mid == known
                duplicates += 1
            else:
                self.new(name, mid)
                queue.enqueue(self.now, mid, item)
        assert reply.json["duplicates"] == duplicates, reply

    @rule(name=QUEUES, count=st.integers(1, 4), lease=st.sampled_from([None, None, 1, 10, 100]))
    def claim(self, name, count, lease):
        client, queue = self.q(name)
        seen = client.claim_many(count, **({"lease_seconds": lease} if lease else {}))
        self.claimed(name, seen, queue.claim(self.now, count, lease))

    def claimed(self, name, seen, wanted):
        assert [m["id"] for m in seen] == [m.id for m in wanted]
        for s, m in zip(seen, wanted):
            self.same(name, s, m)
            assert (name, m.id, s["lease"]) not in self.leases, "a token twice"
            m.lease = s["lease"]
            self.leases.append((name, m.id, s["lease"]))

    @rule(name=QUEUES, lease=st.sampled_from([None, 1, 10]), batch=st.lists(actions(), min_size=1, max_size=4))
    def work(self, name, lease, batch):
        """What a worker does: claims some, settles each."""
        first = len(self.leases)
        self.claim(name, len(batch), lease)
        for action, (_, mid, token) in zip(batch, self.leases[first:]):
            self.settle_one(name, mid, action, token)

    @rule(data=st.data(), action=actions())
    def settle_a_lease(self, data, action):
        """One of the newest leases, perhaps stale by now."""
        if self.leases:
            name, mid, lease = data.draw(st.sampled_from(self.leases[-8:]))
            self.settle_one(name, mid, action, lease)

    @rule(data=st.data(), action=actions())
    def settle_without_a_lease(self, data, action):
        if self.ids:
            name, mid = data.draw(st.sampled_from(self.ids))
            self.settle_one(name, mid, action, None)

    def settle_one(self, name, mid, action, lease):
        client, queue = self.q(name)
        verb, fields = action
        status, m = self.expected(queue.settle, mid, verb, lease=lease, **fields)
        sent = {**fields, **({"lease": lease} if lease is not None else {})}
        reply = client.client.post(f"{client.path}/messages/{mid}/{verb}", sent)
        assert reply.status == status, (reply, status)
        if m is not None and not self.expires(m):
            self.same(name, reply.json, m)

    def expires(self, m):
        """It came back to pending after its time to live: the reply shows it just before or just after its death."""
        return m.status == "pending" and m.expires is not None and m.expires <= self.now

    @rule(data=st.data(), batch=st.lists(actions(), max_size=4), claim=st.sampled_from([None, 1, 3]))
    def settle_many(self, data, batch, claim):
        name = data.draw(QUEUES)
        client, queue = self.q(name)
        leases = [(mid, lease) for n, mid, lease in self.leases if n == name][-6:]
        sent, wanted = [], []
        for verb, fields in batch if leases else []:
            mid, lease = data.draw(st.sampled_from(leases))
            sent.append({"id": mid, "lease": lease, "action": verb, **fields})
            status, m = self.expected(queue.settle, mid, verb, lease=lease, **fields)
            wanted.append((mid, status, m and m.status, m and self.expires(m)))
        reply = client.settle(sent, **({"claim": {"count": claim}} if claim else {}))
        assert len(reply["results"]) == len(wanted)
        for result, (mid, status, state, expires) in zip(reply["results"], wanted):
            assert result["id"] == mid
            if state is None:
                assert result["error"]["status"] == status, (result, status)
            else:
                assert result["status"] == state or (expires and result["status"] == "dead"), (result, state)
        if claim:
            queue.tick(self.now)
            self.claimed(name, reply["messages"], queue.claim(self.now, claim, None))

    @rule(data=st.data())
    def replay(self, data):
        """A dead one if there is any, else just any."""
        dead = [(name, m.id) for name, q in self.queues.items() for m in q.messages.values() if m.status == "dead"]
        if dead or self.ids:
            self.replay_one(*data.draw(st.sampled_from(dead or self.ids)))

    def replay_one(self, name, mid, **fields):
        self.letter_one(name, mid, "replay", **fields)

    def letter_one(self, name, mid, verb, **fields):
        client, queue = self.q(name)
        status, m = self.expected(getattr(queue, verb), mid, **fields)
        reply = client.client.post(f"{client.path}/messages/{mid}/{verb}", fields)
        assert reply.status == status, (reply, status)
        if m is not None:
            self.same(name, reply.json, m)

    @rule(data=st.data(), verb=st.sampled_from(["replay", "discard", "discard", "undiscard"]), why=st.sampled_from(DISCARDS))
    def end_or_bring_back(self, data, verb, why):
        """One that is dead or discarded, if there is any."""
        found = [(name, m.id) for name, q in self.queues.items() for m in q.messages.values() if m.status in ("dead", "discarded")]
        if found:
            fields = {"replay": {"force": True}, "discard": {"why": why}}.get(verb, {})
            self.letter_one(*data.draw(st.sampled_from(found)), verb, **fields)

    @rule(name=QUEUES, paused=st.sampled_from([True, False, False]))
    def pause(self, name, paused):
        client, queue = self.q(name)
        client.pause() if paused else client.resume()
        queue.paused = None if not paused else self.now if queue.paused is None else queue.paused

    @rule(data=st.data())
    def read(self, data):
        if self.ids:
            name, mid = data.draw(st.sampled_from(self.ids))
            client, queue = self.q(name)
            if mid in queue.messages:
                self.same(name, client.read(mid), queue.messages[mid])
            else:
                client.read(mid, expect=404)

    @rule(seconds=st.sampled_from([1, 1, 2, 3, 5, 8, 20, 60, 300, 4000, 90000]))
    def time_passes(self, seconds):
        self.now += seconds
        self.touched.update(self.queues)

    @rule(kill=st.booleans())
    def restart(self, kill):
        self.client.close()
        self.server.restart(kill=kill)
        self.everything()


PHASES = set(Phase) - ({Phase.shrink} if not os.environ.get("SHRINK") else set())
Machine.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None, print_blob=True, phases=PHASES,
                                     suppress_health_check=list(HealthCheck))
TestMachine = Machine.TestCase
