"""The failures that a queue must survive, one scenario a row, with real workers (`nixie work`) on the real clock. With -s the table of
what happened is printed at the end.

Each scenario is short; the guards' own tests (test_guards_*.py) go into the corners.
"""
import itertools
import subprocess
import time

import pytest

from lib.guards import Watched, ids
from lib.jobs import Jobs
from lib.server import NIXIE, Server, environment, run

AT_ONCE = {"kind": "fixed", "base_seconds": 0}
ROWS = []
numbers = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    titles = ("trigger", "outward sign", "signal", "outcome")
    widths = [max(len(row[k]) for row in [titles, *ROWS]) for k in range(4)]
    print()
    for row in (titles, *ROWS) if ROWS else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def tell(trigger, sign, signal, outcome):
    ROWS.append((trigger, sign, signal, outcome))


# -- the world --------------------------------------------------------------------------------------------------------------


def until(look, timeout=30):
    """What it is once it is true."""
    deadline = time.monotonic() + timeout
    while not (value := look()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
    return value


class World:
    """A server on the real clock, whose queues are checked after each change; workers, and what they wrote."""

    def __init__(self, server, directory):
        self.client = Watched(server)
        self.url = f"http://127.0.0.1:{server.port}"
        self.directory, self.workers = directory, []

    def queue(self, **policy):
        q = self.client.queue(f"row{next(numbers)}")
        q.put(**policy)
        return q

    def fill(self, queue, count, **fields):
        return queue.batch([{"payload": str(i), **fields} for i in range(count)])["ids"]

    def work(self, queue, command, *args):
        """A worker that runs `command` in a shell for each message: its payload is $payload. What it does there, it may write with
        `note WORDS`."""
        script = f'payload=$(cat); note() {{ echo "$NIXIE_ID $*" >>notes; }}; {command}'
        worker = subprocess.Popen([NIXIE, "work", queue.name, "--quiet", *args, "--", "sh", "-c", script], cwd=self.directory,
                                  env=environment({"NIXIE_SERVER": self.url}), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.workers.append(worker)
        return worker

    def work_all(self, queue, command, *args):
        """Works until there is nothing to claim; its exit status."""
        return self.work(queue, command, "--until-empty", *args).wait(30)

    def work_until(self, look, queue, command, *args):
        """As a supervisor does: a worker that was killed is started again, until look() is true. How many were killed."""
        killed, worker = 0, self.work(queue, command, *args)

        def is_over():
            nonlocal killed, worker
            if worker.poll() is not None:
                killed += worker.returncode == -9
                worker = self.work(queue, command, *args)
            return look()

        until(is_over)
        worker.terminate()
        worker.wait(30)
        return killed

    def switch(self, name, on):
        """A file that commands look for."""
        path = self.directory / name
        path.touch() if on else path.unlink()

    def notes(self):
        """[(id, words)] in the order of writing; they are forgotten then."""
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    def metric(self, name, queue=None, label=""):
        """The sum of a metric of one queue over what else it is split by."""
        lines = self.client.raw("GET", "/metrics").body.decode().split("\n")
        label = label if queue is None else f'queue="{queue.name}"{label}'
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{") and label in line]
        assert values, f"{name} is not told of {queue and queue.name}"
        return sum(values)

    def close(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        self.client.check_conservation()
        self.client.close()


@pytest.fixture(scope="module")
def real_server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("table") / "data", test_clock=False) as server:
        yield server


@pytest.fixture
def world(real_server, tmp_path):
    w = World(real_server, tmp_path)
    yield w
    w.close()


def unfinished(queue):
    counts = queue.counts()
    return counts["pending"] + counts["processing"]


# -- rows -------------------------------------------------------------------------------------------------------------------


def test_poison_that_kills_its_worker(world):
    queue = world.queue(max_retries=3, backoff=AT_ONCE)
    m = queue.enqueue("x")
    killed = world.work_until(lambda: not unfinished(queue), queue, "kill -9 $PPID", "--lease", "1")
    d = queue.read(m)
    assert (d["status"], d["reason"], d["deliveries"], killed) == ("dead", "lease_expired", 3, 3)
    buckets = [world.metric("nixie_message_deliveries_bucket", queue, f',outcome="died",le="{le}"') for le in (2, 3)]
    assert buckets == [0, 1]
    tell("poison that kills its worker", f"{killed} workers died", 'nixie_message_deliveries_bucket{le="3"} 1', "dead: lease_expired")


def test_an_unbounded_poison_loop(world):
    """The queue's rule takes any failure for none: only the deliveries count."""
    queue = world.queue(max_deliveries=5, rules=[{"action": "release", "delay_seconds": 0}])
    m = queue.enqueue("x")
    assert world.work_all(queue, "exit 1") == 0
    d = queue.read(m)
    assert (d["reason"], d["deliveries"], d["retry_count"]) == ("delivery_limit", 5, 0)
    again = world.metric("nixie_redeliveries_total", queue)
    assert again == 4
    tell("a message that comes back for ever", "it is worked on again and again", f"nixie_redeliveries_total {again:.0f}", "dead: delivery_limit")


def test_neighbours_of_poison(world):
    """A worker claims 20, one of which kills it; its followers take one at a time."""
    queue = world.queue(max_retries=2, backoff=AT_ONCE)
    made = world.fill(queue, 20)
    command = '[ "$payload" != 7 ] || kill -9 $PPID; sleep 0.1'
    assert world.work(queue, "sleep 0.2; " + command, "--lease", "2", "-j", "20").wait(30) == -9
    killed = world.work_until(lambda: not unfinished(queue), queue, command, "--lease", "2")
    assert ids(queue.letters()) == [made[7]] and queue.counts()["succeeded"] == 19 and killed == 1
    alone = world.metric("nixie_alone_claims_total", queue)
    assert alone > 1
    tell("one of a claim of 20 kills the worker", "all 20 leases run out", f"nixie_alone_claims_total {alone:.0f}", "1 dead, 19 succeeded")


def test_an_outage_of_a_dependency(world):
    """The same outage for two queues, one of them with a breaker."""
    # The first message may be all of the outcomes that open the breaker.
    policy = {"max_retries": 8, "backoff": {"kind": "fixed", "base_seconds": 0}}
    queue = world.queue(**policy, breaker={"min_outcomes": 4, "window_seconds": 5, "open_seconds": 1})
    control = world.queue(**policy)
    world.switch("down", True)
    for q in (queue, control):
        world.fill(q, 100)
    workers = [world.work(q, "[ ! -e down ] || exit 1", "-j", "2") for q in (queue, control)]
    until(lambda: (queue.info()["breaker"] or {}).get("state") == "open")
    cause = world.client.post(queue.path + "/claim").json["breaker"]["cause"]
    held = world.metric("nixie_breaker_held", queue)
    until(lambda: queue.info()["breaker"]["opened_total"] >= 2 and control.counts()["dead"])
    world.switch("down", False)
    until(lambda: not unfinished(queue) and not unfinished(control))
    for worker in workers:
        worker.terminate()
    info, dead = queue.info(), control.counts()["dead"]
    assert (info["counts"]["dead"], info["conservation"]["succeeded_total"], info["breaker"]["state"]) == (0, 100, "closed")
    opened = world.metric("nixie_breaker_opened_total", queue)
    assert cause == "exit 1" and opened == info["breaker"]["opened_total"] and held > 50
    tell("a dependency is away for a second", f"claims get nothing: {cause}", f"nixie_breaker_opened_total {opened:.0f}, nixie_breaker_held {held:.0f}",
         f"0 dead, 100 succeeded (without a breaker: {dead} dead)")


def test_a_storm_of_retries_after_an_outage(world):
    queue = world.queue(max_retries=9, retry_budget=0.2, backoff={"kind": "fixed", "base_seconds": 2, "jitter": "full"})
    world.fill(queue, 50)
    items = [{"id": m["id"], "action": "fail", "error": "down"} for m in queue.claim_many(50)]
    queue.settle(items)
    due = {queue.read(m)["retry_after"] for m in ids(queue.list(limit=50))}
    assert len(due) > 1, "jitter spreads what failed together"
    until(lambda: queue.counts()["ready"] == 50)
    fresh = set(world.fill(queue, 50))
    assert world.work_all(queue, "note went") == 0
    order = [id in fresh for id, _ in world.notes()]
    last = len(order) - 1 - order[::-1].index(True)  # of the fresh ones
    before = order[:last].count(False)
    assert len(order) == 100 and before <= 0.2 * (50 + last) + 1 < 50
    retries, claims = world.metric("nixie_retries_total", queue), world.metric("nixie_claims_total", queue)
    assert (retries, claims, queue.counts()["succeeded"]) == (50, 150, 100)
    tell("50 retries fall due at once", "fresh messages would wait", f"nixie_retries_total {retries:.0f} of nixie_claims_total {claims:.0f}",
         f"{before} of them before the last of 50 fresh, 100 succeeded")


def test_a_dead_message_of_an_ordered_key(world):
    queue = world.queue(order="park")
    made = world.fill(queue, 5, key="account 1")
    other = queue.enqueue("x", key="account 2")["id"]
    world.switch("bug", True)
    command = 'note went; [ "$payload" != 0 ] || [ ! -e bug ] || exit 65'
    assert world.work_all(queue, command, "-j", "3") == 0
    assert sorted(world.notes()) == [(made[0], "went"), (other, "went")]
    keys, parked = world.metric("nixie_keys_parked", queue), world.metric("nixie_queue_messages", queue, ',state="parked"')
    assert (keys, parked, queue.counts()["parked"]) == (1, 4, 4)
    until(lambda: world.metric("nixie_keys_parked_oldest_age_seconds", queue) > 0)
    world.switch("bug", False)
    queue.replay(made[0])
    assert world.work_all(queue, command, "-j", "3") == 0
    assert [id for id, _ in world.notes()] == made
    tell("the first message of a key dies", "4 parked, other keys flow", f"nixie_keys_parked {keys:.0f}, its age", "replayed: all 5 in order")


def test_a_redrive_before_the_fix(world):
    queue = world.queue(max_retries=1)
    world.fill(queue, 120)
    queue.settle([{"id": m["id"], "action": "fail", "error": "bug"} for m in queue.claim_many(120)])
    jobs = Jobs(world.client)
    world.switch("bug", True)
    world.work(queue, "[ ! -e bug ] || exit 1", "-j", "2")
    job = jobs.redrive(queue=queue.name)
    stopped = until(lambda: (j := jobs.read(job))["state"] == "stopped" and j["open"] == 0 and j)
    assert (stopped["died_again"], stopped["remaining"], queue.counts()["dead"]) == (10, 110, 120)
    again = world.metric("nixie_redrive_outcome_total", queue, ',outcome="died_again"')
    world.switch("bug", False)
    assert world.client.call("PATCH", f"/redrives/{stopped['id']}", {"state": "cancelled"}).status == 200
    jobs.redrive(queue=queue.name, sample=0)
    until(lambda: not unfinished(queue) and not queue.counts()["dead"])
    twice = world.metric("nixie_redriven_again_total", queue)
    assert (again, twice, queue.counts()["succeeded"]) == (10, 10, 120)
    tell("a redrive before the fix", "the sample dies again", f"died_again {again:.0f} of {stopped['sent']}, nixie_redriven_again_total {twice:.0f}",
         "stopped, 110 untouched; 120 succeeded after the fix")


def test_a_target_that_is_not_there(world):
    queue = world.queue(dead_target={"queue": "nobody made it"})
    m = queue.enqueue("x")
    assert world.work_all(queue, "exit 65") == 0
    assert queue.read(m)["status"] == "dead" and world.metric("nixie_dead_messages", queue) == 1
    done = run("doctor", queue.name, env={"NIXIE_SERVER": world.url})
    assert done.returncode == 10 and "D07" in done.stdout
    tell("the dead-letter target is missing", "nixie doctor: D07", "nixie_dead_messages 1", "dead where it died")


def test_retention_runs_from_death(world):
    queue = world.queue(retention={"dead_seconds": 2})
    m = queue.enqueue("x", delay_seconds=2)
    worker = world.work(queue, "exit 65")
    until(lambda: queue.read(m)["status"] == "dead")
    worker.terminate()
    died = time.monotonic()
    until(lambda: world.client.get(f"{queue.path}/messages/{m['id']}").status == 404)
    kept = time.monotonic() - died
    assert kept > 1.5, "it was there for as long as if it had never waited"
    assert queue.info()["expired_total"] == world.metric("nixie_dead_expired_total", queue) == 1
    tell("retention as short as the wait", "none", "nixie_dead_expired_total 1", "kept 2 s from its death, on record")


@pytest.mark.parametrize("overflow", ["reject", "dead"])
def test_a_queue_that_is_full(world, overflow):
    queue = world.queue(max_messages=3, overflow=overflow)
    statuses = [world.client.post(queue.path + "/messages", {"payload": "x"}).status for _ in range(5)]
    assert world.work_all(queue, "true") == 0
    info = queue.info()
    assert info["conservation"]["succeeded_total"] == 3 and world.client.post(queue.path + "/messages", {"payload": "x"}).status == 201
    if overflow == "reject":
        assert statuses == [201, 201, 201, 429, 429] and info["conservation"]["accepted"] == 3
        tell("a queue is full (reject)", "429, Retry-After", "the producer knows", "3 accepted and succeeded, 2 refused, then room")
    else:
        assert statuses == [201] * 5 and info["dead_by_reason"] == {"max_length": 2}
        over = world.metric("nixie_dead_lettered_total", queue, ',reason="max_length"')
        assert over == 2
        tell("a queue is full (dead)", "201, status dead", 'nixie_dead_lettered_total{reason="max_length"} 2', "5 accepted, 3 succeeded, 2 dead")


def test_the_books_are_balanced_whatever_happened(world):
    done = run("balance", env={"NIXIE_SERVER": world.url})
    assert done.returncode == 0, (done.stdout, done.stderr)
    queues = world.client.get("/queues?limit=1000").json["count"]
    held = world.metric("nixie_queue_conservation_holds")
    assert held == queues > 0
    tell("all of the above", "none", f"nixie_queue_conservation_holds 1 of {queues} queues", "nixie balance: exit 0")
