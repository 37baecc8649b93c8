"""The failures that a queue must survive, one scenario a row. With -s the table of what happened is printed at the end.

Each scenario is short; the guards' own tests (test_guards_*.py) go into the corners.
"""
import os
import subprocess

import pytest

from lib.client import Client
from lib.guards import claim_ids, fill, ids
from lib.jobs import Jobs
from lib.server import NIXIE, Server, environment, run

AT_ONCE = {"kind": "fixed", "base_seconds": 0}
ROWS = []


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    widths = [max(len(row[k]) for row in ROWS) for k in range(4)] if ROWS else []
    titles = ("trigger", "outward sign", "signal", "outcome")
    print()
    for row in (titles, *ROWS) if ROWS else ():
        print("  ".join(cell.ljust(max(width, len(title))) for cell, width, title in zip(row, widths, titles)).rstrip())


def tell(trigger, sign, signal, outcome):
    ROWS.append((trigger, sign, signal, outcome))


def metric(world, name, queue):
    """The sum of a metric of one queue over what else it is split by."""
    values = metric_all(world, name, f'queue="{queue.name}"')
    assert values, f"{name} is not told of {queue.name}"
    return sum(values)


def metric_all(world, name, label=""):
    lines = world.client.raw("GET", "/metrics").body.decode().split("\n")
    return [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{") and label in line]


def kill_after(queue, world, poison, count, lease):
    """A worker claims; when it holds poison it dies with all it has, else all succeed. True when there was work."""
    got = queue.claim_many(count)
    if set(ids(got)) & poison:
        world.wait(lease)
    elif got:
        queue.settle([{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in got])
    world.wait(2)
    return bool(got)


# -- rows -----------------------------------------------------------------------------------------------------------------------


def test_poison_that_kills_its_worker(tmp_path):
    """Real workers, which a command kills, on the real clock."""
    with Server(tmp_path / "data", test_clock=False) as server:
        client = Client(server)
        queue = client.queue("poison")
        queue.put(max_retries=3, backoff=AT_ONCE)
        m = queue.enqueue("x")
        deaths = 0
        while queue.counts()["pending"] or queue.counts()["processing"]:
            worker = subprocess.run([NIXIE, "work", "poison", "--once", "--lease", "1", "--", "sh", "-c", "kill -9 $PPID"],
                                    env=environment({"NIXIE_SERVER": f"http://127.0.0.1:{server.port}"}), timeout=30,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert worker.returncode == -9
            deaths += 1
            while queue.counts()["processing"]:
                os.sched_yield()
        d = queue.read(m)
        assert (d["status"], d["reason"], d["deliveries"], deaths) == ("dead", "lease_expired", 3, 3)
        tell("poison that kills its worker", f"{deaths} workers died", f"deliveries {d['deliveries']}", "dead: lease_expired")
        client.close()


def test_an_unbounded_poison_loop(world):
    queue = world.queue(max_deliveries=5)
    m = queue.enqueue("x")
    while (c := queue.claim()) is not None:
        queue.release(c)
    d = queue.read(m)
    assert (d["reason"], d["deliveries"]) == ("delivery_limit", 5) and metric(world, "nixie_deliveries_total", queue) == 5
    tell("a message that is given back for ever", "it comes again and again", "nixie_deliveries_total 5", "dead: delivery_limit")


def test_neighbours_of_poison(world):
    queue = world.queue(max_retries=2, lease_seconds=10, backoff={"kind": "fixed", "base_seconds": 1})
    made = fill(queue, 100)
    while kill_after(queue, world, {made[42]}, 100, 10) or queue.counts()["pending"]:
        pass
    info = queue.info()
    assert ids(queue.letters()) == [made[42]] and info["counts"]["succeeded"] == 99
    alone = metric(world, "nixie_alone_claims_total", queue)
    assert alone == info["alone_claims"] > 0
    tell("one of a claim of 100 kills the worker", "all 100 leases run out", f"nixie_alone_claims_total {alone:.0f}",
         "1 dead, 99 succeeded")


def test_an_outage_of_a_dependency(world):
    queue = world.queue(max_retries=3, backoff={"kind": "fixed", "base_seconds": 1},
                        breaker={"min_outcomes": 10, "window_seconds": 10, "open_seconds": 5})
    made = fill(queue, 500)
    for _ in range(120):  # two minutes
        for m in queue.claim_many(10):
            queue.fail(m, error="refused", error_class="Down")
        world.wait(1)
    opened = queue.info()["breaker"]["opened_total"]
    assert metric(world, "nixie_breaker_opened_total", queue) == opened > 5
    for _ in range(60):
        for m in queue.claim_many(100):
            queue.succeed(m)
        world.wait(2)
    info = queue.info()
    assert (info["counts"]["dead"], info["conservation"]["succeeded_total"]) == (0, len(made))
    assert info["breaker"]["state"] == "closed"
    tell("a dependency is away for 2 minutes", "claims get nothing, and the reason", f"nixie_breaker_opened_total {opened}",
         "0 dead, 500 succeeded")


def test_a_storm_of_retries_after_an_outage(world):
    queue = world.queue(max_retries=50, retry_budget=0.2, backoff={"kind": "fixed", "base_seconds": 10, "jitter": "full"})
    fill(queue, 300)
    items = [{"id": m["id"], "action": "fail", "error": "down"} for m in queue.claim_many(300)]
    queue.settle(items)
    due = {queue.read(m)["retry_after"] for m in ids(queue.list(limit=50))}
    assert len(due) > 5, "jitter spreads what failed together"
    world.wait(70)
    fill(queue, 200)
    got = queue.claim_many(200)
    retries = sum(m["retry_count"] > 0 for m in got)
    assert retries <= 0.2 * 200 + 20
    queue.settle([{"id": m["id"], "action": "succeed"} for m in got])
    while got := queue.claim_many(100):
        queue.settle([{"id": m["id"], "action": "succeed"} for m in got])
    assert queue.counts()["succeeded"] == 500
    tell("300 retries fall due at once", "fresh messages would wait", f"{retries} retries of 200 claims", "fresh first, 500 succeeded")


def test_a_dead_message_of_an_ordered_key(world):
    queue = world.queue(order="park", max_retries=1)
    made = queue.batch([{"payload": str(n), "key": "account 1"} for n in range(5)])["ids"]
    other = queue.enqueue("x", key="account 2")["id"]
    queue.fail(queue.claim())
    assert claim_ids(queue) == [other]
    parked, keys = queue.counts()["parked"], metric(world, "nixie_keys_parked", queue)
    assert (parked, keys) == (4, 1)
    queue.replay(made[0])
    went = []
    while (m := queue.claim()) is not None:
        queue.succeed(m)
        went.append(m["id"])
    assert went == made
    tell("the first message of a key dies", "4 parked, other keys flow", "nixie_keys_parked 1", "replayed: all 5 in order")


def test_a_redrive_before_the_fix(world):
    queue = world.queue(max_retries=1, redrive_limit=2)
    fill(queue, 200)
    queue.settle([{"id": m["id"], "action": "fail", "error": "bug"} for m in queue.claim_many(200)])
    jobs = Jobs(world.client)
    job = jobs.redrive(queue=queue.name)
    sent = queue.claim_many(200)
    assert len(sent) == 10, "a sample goes first"
    queue.settle([{"id": m["id"], "action": "fail", "error": "bug"} for m in sent])
    job = jobs.read(job)
    assert (job["state"], job["died_again"], job["remaining"]) == ("stopped", 10, 190)
    assert queue.counts()["dead"] == 200
    tell("a redrive before the fix", "the sample dies again", f"died_again {job['died_again']} of {job['sent']}",
         "stopped, 190 untouched")


def test_a_target_that_is_not_there(world):
    queue = world.queue()
    queue.put(max_retries=1, dead_target={"queue": "nobody made it"})
    m = queue.enqueue("x")
    queue.fail(queue.claim())
    assert queue.read(m)["status"] == "dead" and metric(world, "nixie_dead_messages", queue) == 1
    tell("the dead-letter target is missing", "none", "nixie_dead_messages 1", "dead where it died")


def test_retention_runs_from_death(world):
    queue = world.queue(max_retries=1, retention={"dead_seconds": 100})
    m = queue.enqueue("x", delay_seconds=95)
    world.wait(95)
    queue.fail(queue.claim())
    world.wait(99)
    assert queue.read(m)["status"] == "dead"
    world.wait(1)
    queue.read(m, expect=404)
    assert queue.info()["expired_total"] == metric(world, "nixie_dead_expired_total", queue) == 1
    tell("retention shorter than the wait", "none", "nixie_dead_expired_total 1", "kept 100 s from its death, on record")


@pytest.mark.parametrize("overflow", ["reject", "dead"])
def test_a_queue_that_is_full(world, overflow):
    queue = world.queue(max_messages=3, overflow=overflow)
    statuses = [world.client.post(queue.path + "/messages", {"payload": "x"}).status for _ in range(5)]
    if overflow == "reject":
        assert statuses == [201, 201, 201, 429, 429]
        tell("a queue is full (reject)", "429, Retry-After", "the producer knows", "3 accepted, 2 refused")
    else:
        assert statuses == [201] * 5 and queue.info()["dead_by_reason"] == {"max_length": 2}
        tell("a queue is full (dead)", "201, status dead", "dead_by_reason max_length 2", "5 accepted, 2 of them dead")


def test_the_books_are_balanced_whatever_happened(world):
    url = f"http://127.0.0.1:{world.server.port}"
    done = run("balance", env={"NIXIE_SERVER": url})
    assert done.returncode == 0, (done.stdout, done.stderr)
    held = metric_all(world, "nixie_queue_conservation_holds")
    assert held and all(held)
    tell("all of the above", "none", f"nixie_queue_conservation_holds 1 of {len(held)} queues", "nixie balance: exit 0")
