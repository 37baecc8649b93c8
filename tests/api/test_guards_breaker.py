"""The breaker: when it opens, what is spent meanwhile, how it looks for the end of an outage, and how it closes."""
import threading

import pytest

from lib.client import Client
from lib.guards import brakes, claim_ids, fail_next, fill, ids

BREAKER = {"share": 0.5, "min_outcomes": 4, "window_seconds": 60, "open_seconds": 30, "probes": 1}
AT_ONCE = {"kind": "fixed", "base_seconds": 0}


def guarded(world, n=20, breaker=None, **policy):
    queue = world.queue(max_retries=10, backoff=AT_ONCE, breaker={**BREAKER, **(breaker or {})}, **policy)
    fill(queue, n)
    return queue


def state(queue):
    b = queue.info()["breaker"]
    return b and b["state"]


def opened(world, n=20, **more):
    queue = guarded(world, n, **more)
    fail_next(queue, 4, error_class="Down")
    assert state(queue) == "open"
    return queue


def half_open(world, **more):
    queue = opened(world, **more)
    world.wait(30)
    assert state(queue) == "half_open"
    return queue


# -- opening --------------------------------------------------------------------------------------------------------------------


def test_off_by_default(world):
    queue = world.queue(max_retries=100, backoff=AT_ONCE)
    fill(queue, 3)
    assert len(fail_next(queue, 60)) == 60
    assert queue.info()["breaker"] is None and queue.info()["policy"]["breaker"] is None


def test_opens_at_the_minimum_and_not_before(world):
    queue = guarded(world)
    fail_next(queue, 3)
    assert queue.info()["breaker"] is None
    fail_next(queue, 1, error_class="Down")
    assert queue.info()["breaker"] == {"state": "open", "since": world.time(), "until": world.time(30), "cause": "Down",
                                       "opened_total": 1}


@pytest.mark.parametrize("good, bad, opens", [(4, 3, False), (4, 4, True), (5, 4, False), (9, 8, False), (0, 4, True)])
def test_opens_by_share(world, good, bad, opens):
    queue = guarded(world, 30)
    for _ in range(good):
        queue.succeed(queue.claim())
    assert len(fail_next(queue, bad)) == bad
    assert (state(queue) == "open") is opens


def test_a_success_alone_opens_nothing(world):
    queue = guarded(world, breaker={"share": 0.2, "min_outcomes": 6})
    fail_next(queue, 5)
    for _ in range(6):
        queue.succeed(queue.claim())
    assert queue.info()["breaker"] is None


def test_the_window_slides(world):
    queue = guarded(world)
    fail_next(queue, 3)
    world.wait(59)
    assert queue.info()["breaker"] is None
    world.wait(2)
    fail_next(queue, 3)
    assert queue.info()["breaker"] is None
    fail_next(queue, 1)
    assert state(queue) == "open"


def test_old_successes_leave_the_window_too(world):
    queue = guarded(world, 100, breaker={"share": 0.9})
    for _ in range(20):
        queue.succeed(queue.claim())
    fail_next(queue, 4)
    assert queue.info()["breaker"] is None
    world.wait(61)
    fail_next(queue, 4)
    assert state(queue) == "open"


def test_only_the_errors_it_looks_at(world):
    queue = guarded(world, breaker={"error": "Timeout*"})
    fail_next(queue, 9, error_class="ValidationError")
    fail_next(queue, 3)
    assert queue.info()["breaker"] is None
    assert queue.read(queue.list()[0])["retry_count"] > 0
    fail_next(queue, 4, error_class="TimeoutConnecting")
    assert queue.info()["breaker"]["cause"] == "TimeoutConnecting"


def test_bad_data_is_no_outage(world):
    queue = guarded(world)
    assert len(fail_next(queue, 10, permanent=True)) == 10
    assert queue.info()["breaker"] is None and queue.counts()["dead"] == 10


def test_bad_data_by_a_rule_is_no_outage_either(world):
    queue = guarded(world, rules=[{"error": "Bad*", "action": "dead"}])
    assert len(fail_next(queue, 10, error_class="BadData")) == 10
    assert queue.info()["breaker"] is None
    assert queue.info()["dead_by_reason"] == {"permanent": 10}


def test_what_a_rule_releases_is_no_outage(world):
    queue = guarded(world, rules=[{"error": "Throttled", "action": "release", "delay_seconds": 1000}])
    assert len(fail_next(queue, 10, error_class="Throttled")) == 10
    assert queue.info()["breaker"] is None


def test_expired_leases_are_failures(world):
    queue = guarded(world, 4, lease_seconds=5)
    queue.claim_many(4)
    world.wait(5)
    assert queue.info()["breaker"]["cause"] == "lease_expired"


# -- open -----------------------------------------------------------------------------------------------------------------------


def test_claims_get_nothing_and_the_reason(world):
    queue = opened(world)
    said = brakes(queue)
    assert said["breaker"] == queue.info()["breaker"] and said["message"] is None
    assert queue.client.post(queue.path + "/claim", {"count": 5}).json["breaker"]["state"] == "open"
    after = queue.settle([], claim={"count": 1})
    assert after["messages"] == [] and after["breaker"]["cause"] == "Down"
    assert queue.counts()["ready"] == 20
    queue.enqueue("still accepted")


def test_what_was_in_flight_spends_no_attempt(world):
    queue = guarded(world)
    flying = queue.claim_many(6)
    fail_next(queue, 4)
    assert state(queue) == "open"
    for m in flying[:3]:
        f = queue.fail(m, error="down")
        assert (f["status"], f["retry_count"], f["last_error"]) == ("pending", 0, "down")
    assert queue.succeed(flying[3])["status"] == "succeeded"
    assert queue.release(flying[4])["retry_count"] == 0
    dead = queue.fail(flying[5], error="bad", permanent=True)
    assert (dead["status"], dead["reason"]) == ("dead", "permanent")
    assert state(queue) == "open"


def test_an_outage_kills_nothing(world):
    queue = world.queue(max_retries=2, backoff=AT_ONCE, breaker=BREAKER)
    fill(queue, 30)
    for _ in range(40):
        fail_next(queue, 30)
        world.wait(10)
    assert queue.counts()["dead"] <= 2  # those four failures that it took to know
    while claim := queue.claim_many(30):
        for m in claim:
            queue.succeed(m)
        world.wait(61)
    while queue.counts()["pending"]:
        world.wait(61)
        for m in queue.claim_many(30):
            queue.succeed(m)
    assert state(queue) == "closed" and queue.info()["conservation"]["succeeded_total"] >= 28


def test_an_error_it_does_not_look_at_still_counts_while_open(world):
    queue = guarded(world, breaker={"error": "Timeout"})
    m = queue.claim()
    fail_next(queue, 4, error_class="Timeout")
    assert state(queue) == "open"
    assert queue.fail(m, error_class="Other")["retry_count"] == 1


# -- half open ------------------------------------------------------------------------------------------------------------------


def test_half_open_by_its_time(world):
    queue = opened(world)
    world.wait(29)
    assert state(queue) == "open" and brakes(queue)["breaker"]["state"] == "open"
    world.wait(1)
    b = queue.info()["breaker"]
    assert (b["state"], b["since"], b["until"], b["cause"]) == ("half_open", world.time(), None, "Down")


@pytest.mark.parametrize("probes", [1, 2, 5])
def test_only_the_probes_go(world, probes):
    queue = half_open(world, breaker={"probes": probes})
    got = queue.claim_many(20)
    assert len(got) == probes
    assert brakes(queue)["breaker"]["state"] == "half_open"
    for k, m in enumerate(got):
        assert state(queue) == "half_open", k
        queue.succeed(m)
    b = queue.info()["breaker"]
    assert (b["state"], b["until"], b["opened_total"]) == ("closed", None, 1)
    assert len(queue.claim_many(20)) == 20 - probes


def test_after_closing_the_window_begins_anew(world):
    queue = half_open(world)
    queue.succeed(queue.claim())
    assert state(queue) == "closed"
    fail_next(queue, 3)
    assert state(queue) == "closed"
    fail_next(queue, 1)
    assert queue.info()["breaker"]["opened_total"] == 2


def test_a_failed_probe_opens_again_and_another_goes_next(world):
    queue = half_open(world)
    probe = queue.claim()
    f = queue.fail(probe, error="down", error_class="StillDown")
    assert (f["status"], f["retry_count"]) == ("pending", probe["retry_count"])
    b = queue.info()["breaker"]
    assert (b["state"], b["cause"], b["opened_total"], b["until"]) == ("open", "StillDown", 2, world.time(30))
    seen = {probe["id"]}
    for _ in range(5):
        world.wait(30)
        other = queue.claim()
        assert other["id"] != probe["id"]
        queue.fail(other)
        seen.add(other["id"])
        probe = other
    assert len(seen) > 2
    assert queue.counts()["dead"] == 0


@pytest.mark.parametrize("poison", [1, 2, 7])
def test_poison_at_the_head_does_not_keep_it_open(world, poison):
    """As long as there are others to try."""
    queue = half_open(world)
    bad = set(ids(queue.list(limit=poison)))
    for _ in range(poison + 1):
        m = queue.claim()
        if m["id"] not in bad:
            break
        queue.fail(m)
        world.wait(30)
    queue.succeed(m)
    assert state(queue) == "closed"


def test_the_only_message_is_the_probe_each_time(world):
    queue = guarded(world, 1, breaker={"min_outcomes": 1})
    m = queue.claim()
    queue.fail(m)
    for _ in range(3):
        world.wait(30)
        assert queue.fail(queue.claim())["retry_count"] == 1
    world.wait(30)
    queue.succeed(queue.claim())
    assert state(queue) == "closed"


def test_a_probe_given_back_makes_room_for_another(world):
    queue = half_open(world)
    queue.release(queue.claim(), delay_seconds=1000)
    m = queue.claim()
    assert m is not None and queue.claim() is None
    queue.succeed(m)
    assert state(queue) == "closed"


def test_a_probe_that_fails_of_something_else_makes_room_for_another(world):
    queue = guarded(world, breaker={"error": "Down"})
    fail_next(queue, 4, error_class="Down")
    world.wait(30)
    assert queue.fail(queue.claim(), error_class="Other")["retry_count"] > 0
    assert state(queue) == "half_open"
    queue.fail(queue.claim(), permanent=True)
    assert state(queue) == "half_open"
    queue.succeed(queue.claim())
    assert state(queue) == "closed"


def test_a_probe_whose_lease_runs_out_has_failed(world):
    queue = half_open(world)
    m = queue.claim(lease_seconds=10)
    world.wait(10)
    b = queue.info()["breaker"]
    assert (b["state"], b["cause"]) == ("open", "lease_expired")
    assert queue.read(m)["retry_count"] == m["retry_count"]


def test_what_was_in_flight_before_counts_as_a_probe(world):
    queue = guarded(world)
    m = queue.claim()
    fail_next(queue, 4)
    world.wait(30)
    assert state(queue) == "half_open"
    queue.succeed(m)
    assert state(queue) == "closed"


# -- by hand, and policies ------------------------------------------------------------------------------------------------------


def test_the_brake_by_hand_beside_it(world):
    queue = opened(world)
    queue.pause(reason="looking")
    said = brakes(queue)
    assert said["paused"]["reason"] == "looking" and said["breaker"]["state"] == "open"
    world.wait(30)
    said = brakes(queue)
    assert said["paused"] and said["breaker"]["state"] == "half_open"
    queue.resume()
    m = queue.claim()
    queue.pause()
    queue.succeed(m)
    assert state(queue) == "closed" and "breaker" not in brakes(queue)
    queue.resume()
    assert len(queue.claim_many(20)) == 19


def test_a_policy_without_it_lets_an_open_one_end(world):
    queue = opened(world)
    queue.put(max_retries=10)
    assert state(queue) == "open"
    world.wait(30)
    queue.succeed(queue.claim())
    assert state(queue) == "closed" and len(queue.claim_many(100)) == 19


@pytest.mark.parametrize("breaker, field", [
    ({"share": 0}, "breaker.share"), ({"share": 1.1}, "breaker.share"), ({"min_outcomes": 0}, "breaker.min_outcomes"),
    ({"window_seconds": 0}, "breaker.window_seconds"), ({"window_seconds": 3601}, "breaker.window_seconds"),
    ({"open_seconds": 86401}, "breaker.open_seconds"), ({"probes": 1001}, "breaker.probes"), ({"colour": 1}, "breaker.colour")])
def test_its_policy_is_checked(world, breaker, field):
    reply = world.client.put("/queues/checked", {"breaker": breaker})
    assert reply.status == 422 and reply.error()[0] == field


# -- those who wait -------------------------------------------------------------------------------------------------------------


class Waiting(threading.Thread):
    """A claim that waits, without a clock of its own."""

    def __init__(self, world, queue, count=1):
        super().__init__(daemon=True)
        self.client, self.count = Client(world.server), count
        self.queue, self.got = self.client.queue(queue.name), None
        self.start()

    def run(self):
        reply = self.client.post(self.queue.path + "/claim", {"count": self.count, "wait_seconds": 20})
        self.got = ids(reply.json["messages"])
        self.client.close()

    def ends(self, timeout=5):
        self.join(timeout)
        assert not self.is_alive(), "the claim is still waiting"
        return self.got


def test_a_waiting_claim_is_served_when_it_half_opens_and_the_next_when_it_closes(world):
    queue = opened(world)
    first, second = Waiting(world, queue), None
    deadline = threading.Event()
    deadline.wait(0.2)
    assert first.is_alive()
    world.wait(30)
    assert state(queue) == "half_open"
    probe = first.ends()
    assert len(probe) == 1
    second = Waiting(world, queue, count=5)
    deadline.wait(0.2)
    assert second.is_alive()
    queue.succeed(probe[0])
    assert len(second.ends()) == 5


def test_a_waiting_claim_is_served_by_the_next_probe(world):
    queue = half_open(world)
    probe = queue.claim()
    waiting = Waiting(world, queue)
    threading.Event().wait(0.2)
    queue.release(probe, delay_seconds=1000)
    assert waiting.ends() != [probe["id"]]


# -- restarts -------------------------------------------------------------------------------------------------------------------


def test_a_restart_while_closed_forgets_the_window(world):
    queue = guarded(world)
    fail_next(queue, 3)
    world.restart()
    fail_next(queue, 3)
    assert queue.info()["breaker"] is None
    fail_next(queue, 1)
    assert state(queue) == "open"


def test_a_restart_while_open(world):
    queue = opened(world)
    before = queue.info()["breaker"]
    world.restart()
    assert queue.info()["breaker"] == before and brakes(queue)["breaker"] == before
    world.wait(29)
    world.restart(kill=False)
    assert state(queue) == "open"
    world.wait(1)
    assert state(queue) == "half_open"


def test_a_restart_while_half_open_with_a_probe_out(world):
    queue = half_open(world)
    probe = queue.claim()
    world.restart()
    assert state(queue) == "half_open"
    assert len(claim_ids(queue)) <= 1
    queue.succeed(probe)
    assert state(queue) == "closed"
    world.restart()
    assert state(queue) == "closed" and queue.info()["breaker"]["opened_total"] == 1


def test_a_failed_probe_after_a_restart(world):
    queue = half_open(world)
    probe = queue.claim()
    world.restart()
    assert queue.fail(probe)["retry_count"] == probe["retry_count"]
    assert state(queue) == "open"
    world.restart()
    world.wait(30)
    assert queue.claim()["id"] != probe["id"]


def test_time_passes_while_the_server_is_away(world):
    queue = opened(world)
    world.client.close()
    world.server.kill()
    world.wait(31)
    world.server.start()
    assert state(queue) == "half_open"
