"""Redrives: jobs that send dead letters again, seen through the API with real claims under the test clock."""
import pytest

from lib.client import Client, T0, at
from lib.jobs import Jobs, bury, counts, finish

OUTCOME = ("selected", "succeeded", "died_again", "open", "remaining")


@pytest.fixture
def jobs(client):
    j = Jobs(client)
    yield j
    j.cancel_all()


def run(jobs, job, start, end):
    """Second by second, as a clock goes; the job at the end."""
    for second in range(start, end):
        jobs.read(job, now=at(second))
    return jobs.read(job, now=at(end))


def story(queue, mid, event):
    return [e for e in queue.attempts(mid) if e["event"] == event]


# -- from the first step to the last ---------------------------------------------------------------------------------------


def test_all_letters_of_a_queue(queue, jobs):
    ids = bury(queue, 5)
    other = bury(queue.client.queue(queue.name + " other"), 1)
    j = jobs.redrive(queue=queue.name, reason="fix deployed", name="first", headers={"Nixie-Actor": "ann"})
    assert (j["kind"], j["queue"], j["to"], j["filter"], j["force"]) == ("redrive", queue.name, None, None, False)
    assert (j["reason"], j["name"], j["actor"], j["rate"], j["stop_if"]) == ("fix deployed", "first", "ann", None, 0.2)
    j = jobs.read(j)
    assert (j["state"], j["sample"]) == ("running", 0) and counts(j, *OUTCOME) == (5, 0, 0, 5, 0)
    m = queue.read(ids[0])
    assert (m["status"], m["retry_count"], m["last_error"], m["redrive_count"], m["generation"]) == ("pending", 0, None, 1, 2)
    assert m["job"] == j["id"] and "death" not in m and m["id"] == ids[0]
    assert finish(queue) == ids
    j = jobs.read(j)
    assert (j["state"], j["ended_at"]) == ("done", T0) and counts(j, *OUTCOME) == (5, 5, 0, 0, 0)
    assert queue.client.queue(queue.name + " other").read(other[0])["status"] == "dead"
    assert [e["actor"] for e in story(queue, ids[0], "redriven")] == [f"job {j['id']}"]


def test_only_what_the_filter_matches(queue, jobs):
    a = bury(queue, 3, error_class="Timeout")
    b = bury(queue, 2, error_class="ParseError")
    j = jobs.redrive(queue=queue.name, filter="error:Time* id:<=%d" % a[1])
    assert j["filter"] == "error:Time* id:<=%d" % a[1]
    assert jobs.read(j)["selected"] == 2
    assert finish(queue) == a[:2] and jobs.is_done(j)
    assert [m["id"] for m in queue.list(status="dead")] == sorted(a[2:] + b)


def test_a_filter_that_matches_nothing(queue, jobs):
    bury(queue, 2)
    j = jobs.redrive(queue=queue.name, filter="error:Nothing")
    j = jobs.read(j)
    assert j["state"] == "done" and j["selected"] == 0
    assert queue.counts()["dead"] == 2


def test_a_queue_without_letters(queue, jobs):
    queue.put()
    assert jobs.is_done(jobs.redrive(queue=queue.name))


def test_what_dies_after_the_fence_is_new(queue, jobs):
    bury(queue, 3, error_class="Timeout")
    j = jobs.redrive(queue=queue.name, filter="error:Timeout", rate=0.001)
    late = bury(queue, 4, error_class="Timeout")
    bury(queue, 2, error_class="Other")
    j = jobs.read(j)
    assert j["selected"] == 3 and (j["new_since"], j["new_since_complete"]) == (4, True)
    j = jobs.change(j, rate=None)
    while got := finish(queue):
        assert not set(got) & set(late)
    assert counts(jobs.read(j), "state", *OUTCOME) == ("done", 3, 3, 0, 0, 0)
    assert queue.counts()["dead"] == 6


def test_an_outcome_is_known_only_when_it_is(queue, jobs):
    bury(queue, 4)
    queue.put(max_retries=2, backoff={"kind": "fixed", "base_seconds": 5})
    j = jobs.redrive(queue=queue.name, stop_if=None)
    a, b, c, d = [queue.claim(lease_seconds=10) for _ in range(4)]
    queue.succeed(a)
    queue.release(b, delay_seconds=1)
    assert counts(jobs.read(j), *OUTCOME) == (4, 1, 0, 3, 0)
    assert queue.fail(c)["status"] == "dead"  # max_retries 1 is the message's own
    assert counts(jobs.read(j), *OUTCOME) == (4, 1, 1, 2, 0)
    jobs.read(j, now=at(10))  # the lease of d is over
    assert queue.read(d, now=at(10))["reason"] == "lease_expired"
    assert counts(jobs.read(j, now=at(10)), *OUTCOME) == (4, 1, 2, 1, 0)
    finish(queue, now=at(10))
    assert counts(jobs.read(j, now=at(10)), "state", *OUTCOME) == ("done", 4, 2, 2, 0, 0)


def test_a_letter_that_outlives_its_time_again_died_again(queue, jobs):
    queue.enqueue("x", ttl_seconds=10)
    assert queue.counts(now=at(10))["dead"] == 1
    j = jobs.redrive(queue=queue.name, now=at(20))
    assert queue.counts(now=at(29))["pending"] == 1
    assert counts(jobs.read(j, now=at(30)), "state", "died_again") == ("done", 1)


def test_each_letter_is_sent_once_a_job(queue, jobs):
    """One that died again is not taken again, though the filter matches it still."""
    ids = bury(queue, 30)
    j = jobs.redrive(queue=queue.name, filter="message:boom", stop_if=None)
    assert sorted(finish(queue, "fail", error="boom")) == ids
    j = jobs.read(j)
    assert counts(j, "state", *OUTCOME) == ("done", 30, 0, 30, 0, 0) and j["new_since"] == 0
    assert queue.claim() is None
    assert all(queue.read(i)["redrive_count"] == 1 for i in ids)


def test_live_traffic_goes_first(queue, jobs):
    ids = bury(queue, 3)
    jobs.redrive(queue=queue.name)
    live = queue.batch([{"payload": "live"}] * 2)["ids"]
    assert finish(queue) == live + ids


def test_a_large_job(queue, jobs):
    bury(queue, 5000)
    j = jobs.redrive(queue=queue.name, sample=0)
    j = jobs.read(j)
    assert not j["selecting"] and counts(j, *OUTCOME) == (5000, 0, 0, 5000, 0)
    assert sum(len(finish(queue)) for _ in range(5)) == 5000
    assert jobs.is_done(j)


def test_a_filter_over_payloads(queue, jobs):
    """More letters than are read from disk in one step, or for one plan."""
    ids = []
    for n in range(3):
        ids.append(bury(queue, 900, payload='{"n": %d}' % n))
    p = jobs.plan(queue=queue.name, filter="payload.n:1")
    assert p["complete"] is False and p["selected"] == 900 and [m["id"] for m in p["examples"]] == ids[1][:3]
    j = jobs.redrive(queue=queue.name, filter="payload.n:1", sample=0)
    j = jobs.read(j)
    assert not j["selecting"] and counts(j, *OUTCOME) == (900, 0, 0, 900, 0)
    assert sorted(finish(queue)) == ids[1] and jobs.is_done(j)


# -- the sample ------------------------------------------------------------------------------------------------------------


def test_more_than_100_letters_go_by_sample(queue, jobs):
    bury(queue, 101)
    j = jobs.redrive(queue=queue.name)
    j = jobs.read(j)
    assert (j["state"], j["sample"], j["sent"]) == ("sampling", 10, 10) and counts(j, *OUTCOME) == (101, 0, 0, 10, 91)
    finish(queue, n=9)
    j = jobs.read(j)
    assert (j["state"], j["sent"]) == ("sampling", 10) and counts(j, *OUTCOME) == (101, 9, 0, 1, 91)
    finish(queue, "fail", error="boom")
    j = jobs.read(j)
    assert (j["state"], j["sent"]) == ("running", 101) and counts(j, *OUTCOME) == (101, 9, 1, 91, 0)
    finish(queue)
    assert counts(jobs.read(j), "state", *OUTCOME) == ("done", 101, 100, 1, 0, 0)


@pytest.mark.parametrize("n, sample", [(100, {}), (150, {"sample": 0})])
def test_without_a_sample_all_go_at_once(queue, jobs, n, sample):
    bury(queue, n)
    j = jobs.read(jobs.redrive(queue=queue.name, **sample))
    assert (j["state"], j["sample"], j["sent"]) == ("running", 0, n)


def test_a_sample_that_is_asked_for(queue, jobs):
    bury(queue, 5)
    j = jobs.read(jobs.redrive(queue=queue.name, sample=2))
    assert (j["state"], j["sent"], j["remaining"]) == ("sampling", 2, 3)
    finish(queue)
    assert counts(jobs.read(j), "state", "sent", "remaining") == ("running", 5, 0)


def test_a_sample_of_all(queue, jobs):
    bury(queue, 3)
    j = jobs.read(jobs.redrive(queue=queue.name, sample=10))
    assert counts(j, "sent", "remaining") == (3, 0)
    finish(queue)
    assert jobs.is_done(j)


def test_a_sample_that_dies_stops_the_job(queue, jobs):
    ids = bury(queue, 101)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    finish(queue, n=7)
    finish(queue, "fail", error="boom")
    j = jobs.read(j)
    assert (j["state"], j["ended_at"]) == ("stopped", None) and counts(j, *OUTCOME) == (101, 7, 3, 0, 91)
    assert j["stop_reason"] == "3 of 10 died again: 30 %, more than 20 %"
    assert queue.claim() is None and queue.counts()["dead"] == 94
    # Resuming goes on, and counts its share anew.
    j = jobs.change(j, state="running", reason="it was the other cause")
    j = jobs.read(j)
    assert (j["state"], j["remaining"]) == ("running", 0)
    assert sorted(finish(queue)) == ids[10:]
    assert counts(jobs.read(j), "state", *OUTCOME) == ("done", 101, 98, 3, 0, 0)


def test_exactly_the_share_does_not_stop(queue, jobs):
    bury(queue, 20)
    j = jobs.redrive(queue=queue.name, sample=10, stop_if="20%")
    jobs.read(j)
    finish(queue, "fail", n=2)
    finish(queue)
    assert jobs.read(j)["state"] == "running"


def test_a_share_of_nothing_stops_at_the_first_death(queue, jobs):
    bury(queue, 20)
    j = jobs.redrive(queue=queue.name, sample=5, stop_if=0)
    jobs.read(j)
    finish(queue, "fail", n=1)
    finish(queue)
    assert jobs.read(j)["state"] == "stopped"


def test_null_never_stops(queue, jobs):
    bury(queue, 101)
    j = jobs.redrive(queue=queue.name, stop_if=None)
    assert j["stop_if"] is None
    jobs.read(j)
    finish(queue, "fail")
    assert jobs.read(j)["state"] == "running"


def test_a_running_job_stops_for_its_share(queue, jobs):
    bury(queue, 200)
    j = jobs.redrive(queue=queue.name, sample=0, rate=1, stop_if="50%")
    state, seconds = "running", 0
    while state == "running" and seconds < 200:
        seconds += 1
        jobs.read(j, now=at(seconds))
        finish(queue, "fail", now=at(seconds), error="boom")
        state = jobs.read(j, now=at(seconds))["state"]
    j = jobs.read(j, now=at(seconds))
    assert state == "stopped" and 20 <= j["died_again"] <= 25 and j["open"] == 0, j
    j = jobs.change(j, state="cancelled", now=at(seconds))
    assert (j["state"], j["ended_at"]) == ("cancelled", at(seconds))


# -- rate, pause, cancel ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate, seconds, sent", [(2, 10, 20), (0.5, 20, 10), (0.1, 60, 6), (50, 3, 150)])
def test_the_rate(queue, jobs, rate, seconds, sent):
    bury(queue, 200)
    j = jobs.redrive(queue=queue.name, sample=0, rate=rate)
    assert j["rate"] == rate
    before = 0
    for s in range(seconds + 1):
        now = jobs.read(j, now=at(s))["sent"]
        assert before <= now <= rate * s + 1
        before = now
    assert sent <= before <= sent + 1
    # What was held up is not made up for by a burst: a second of it is, at most.
    assert jobs.read(j, now=at(seconds + 1000))["sent"] <= before + rate + 1
    jobs.change(j, state="cancelled", now=at(seconds + 1000))


def test_the_rate_can_be_changed(queue, jobs):
    bury(queue, 100)
    j = jobs.redrive(queue=queue.name, sample=0, rate=1)
    first = run(jobs, j, 0, 10)["sent"]
    assert 10 <= first <= 11
    j = jobs.change(j, rate=4.5, now=at(10))
    assert j["rate"] == 4.5
    second = run(jobs, j, 10, 20)["sent"] - first
    assert 44 <= second <= 47, second
    j = jobs.change(j, rate=None, now=at(20))
    assert j["rate"] is None and jobs.read(j, now=at(20))["remaining"] == 0


def test_pause_and_resume(queue, jobs):
    bury(queue, 50)
    j = jobs.redrive(queue=queue.name, sample=0, rate=1)
    run(jobs, j, 0, 5)
    j = jobs.change(j, state="paused", now=at(5), headers={"Nixie-Actor": "bob"}, reason="lunch")
    assert (j["state"], j["changed_at"]) == ("paused", at(5))
    sent = j["sent"]
    assert jobs.read(j, now=at(500))["sent"] == sent
    # Outcomes are counted while it is paused.
    finish(queue, now=at(500))
    assert counts(jobs.read(j, now=at(500)), "state", "open", "succeeded") == ("paused", 0, sent)
    assert jobs.change(j, state="paused", now=at(500))["state"] == "paused"
    j = jobs.change(j, state="running", now=at(500))
    assert j["state"] == "running"
    j = run(jobs, j, 500, 510)
    assert sent + 10 <= j["sent"] <= sent + 12, "the time it was paused is not made up for"
    jobs.change(j, state="cancelled", now=at(510))


def test_pausing_a_sample(queue, jobs):
    bury(queue, 101)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    jobs.change(j, state="paused")
    finish(queue)
    assert counts(jobs.read(j), "state", "sent", "remaining") == ("paused", 10, 91)
    jobs.change(j, state="running")
    assert counts(jobs.read(j), "state", "sent", "remaining") == ("running", 101, 0)


def test_cancel(queue, jobs):
    ids = bury(queue, 101)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    j = jobs.change(j, state="cancelled", now=at(7))
    assert (j["state"], j["ended_at"]) == ("cancelled", at(7)) and j["sent"] == 10
    j = jobs.read(j, now=at(7))
    assert j["selected"] == 101 and j["open"] == 10
    # What was sent is sent; the rest stays dead, for another job.
    assert queue.counts(now=at(7))["dead"] == 91
    assert sorted(finish(queue, now=at(7))) == ids[:10]
    assert jobs.read(j, now=at(7))["state"] == "cancelled"
    again = jobs.redrive(queue=queue.name, sample=0, now=at(7))
    assert jobs.read(again, now=at(7))["open"] == 91
    assert sorted(finish(queue, now=at(7))) == ids[10:]
    assert jobs.is_done(again, now=at(7))
    jobs.read(j, now=at(7))


@pytest.mark.parametrize("end", ["done", "cancelled"])
def test_what_has_ended_cannot_be_changed(queue, jobs, end):
    bury(queue, 1)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    if end == "done":
        finish(queue)
    else:
        jobs.change(j, state="cancelled")
    reply = jobs.change(j, state="paused", expect=409)
    assert f"job {j['id']} is {end}" in reply.json["detail"]
    jobs.change(j, rate=5, expect=409)
    assert jobs.read(j)["state"] == end


def test_a_job_whose_queue_is_paused(queue, jobs):
    bury(queue, 3)
    queue._do(200, "POST", "/pause", {"reason": "incident"})
    j = jobs.redrive(queue=queue.name)
    assert "paused" in [w["code"] for w in j["warnings"]]
    j = jobs.read(j)
    assert counts(j, "state", "open") == ("running", 3)
    assert queue.client.post(queue.path + "/claim", {"count": 5}).json["messages"] == []
    queue._do(200, "POST", "/resume")
    assert "paused" not in [w["code"] for w in jobs.read(j)["warnings"]]
    finish(queue)
    assert jobs.is_done(j)


# -- letters that others act on --------------------------------------------------------------------------------------------


def test_two_jobs_over_the_same_letters(queue, jobs):
    ids = bury(queue, 30)
    a = jobs.redrive(queue=queue.name, rate=1)
    jobs.read(a)
    b = jobs.redrive(queue=queue.name)
    b = jobs.read(b)
    taken = b["skipped_by"].get("other_job", 0)
    assert b["selected"] == taken + b["open"] and taken >= 29
    got = []
    for s in range(1, 31):
        got += finish(queue, now=at(s))
        jobs.read(a, now=at(s))
    got += finish(queue, now=at(30))
    assert sorted(got) == ids, "each goes once"
    a, b = jobs.read(a, now=at(30)), jobs.read(b, now=at(30))
    assert a["state"] == b["state"] == "done" and a["succeeded"] + b["succeeded"] == 30
    assert all(queue.read(i, now=at(30))["redrive_count"] == 1 for i in ids)


def test_letters_discarded_while_the_job_runs(queue, jobs):
    ids = bury(queue, 10)
    j = jobs.redrive(queue=queue.name, sample=2)
    j = jobs.read(j)
    for mid in ids[5:8]:
        queue.act(mid, "discard", why="obsolete")
    assert counts(jobs.read(j), "discarded", "remaining") == (3, 5)
    queue.act(ids[5], "undiscard")
    finish(queue)
    j = jobs.read(j)
    assert counts(j, "discarded", "open", "remaining") == (3, 5, 0)
    finish(queue)
    assert counts(jobs.read(j), "state", "succeeded", "discarded") == ("done", 7, 3)
    assert queue.read(ids[5])["status"] == "dead"


def test_letters_replayed_while_the_job_runs(queue, jobs):
    ids = bury(queue, 5)
    j = jobs.redrive(queue=queue.name, sample=1)
    jobs.read(j)
    queue.replay(ids[4])
    j = jobs.read(j)
    assert j["skipped_by"] == {"replayed": 1} and j["remaining"] == 3
    finish(queue)
    finish(queue)
    assert counts(jobs.read(j), "state", "succeeded", "skipped") == ("done", 4, 1)
    assert queue.read(ids[4])["redrive_count"] == 1


def test_letters_edited_while_the_job_runs(queue, jobs):
    ids = bury(queue, 5)
    j = jobs.redrive(queue=queue.name, sample=1)
    jobs.read(j)
    queue.act(ids[4], "edit", expect=201, payload="better")
    assert jobs.read(j)["skipped_by"] == {"edited": 1}
    finish(queue)
    finish(queue)
    assert counts(jobs.read(j), "state", "succeeded", "skipped") == ("done", 4, 1)


def test_letters_edited_before(queue, jobs):
    ids = bury(queue, 2)
    queue.act(ids[0], "edit", expect=201, payload="better")
    finish(queue)
    j = jobs.read(jobs.redrive(queue=queue.name))
    assert j["skipped_by"] == {"edited": 1} and j["open"] == 1
    assert finish(queue) == [ids[1]] and jobs.is_done(j)
    j = jobs.read(jobs.redrive(queue=queue.name, force=True))
    assert j["open"] == 1 and finish(queue) == [ids[0]]


def test_a_discard_and_a_redrive_over_the_same_letters(queue, jobs):
    bury(queue, 20)
    a = jobs.redrive(queue=queue.name, sample=5)
    jobs.read(a)
    b = jobs.read(jobs.discard(queue=queue.name))
    assert b["state"] == "done"
    finish(queue)
    finish(queue)
    a = jobs.read(a)
    assert a["state"] == "done" and a["succeeded"] + b["discarded"] == 20
    assert queue.counts()["dead"] == 0


def test_letters_that_retention_takes(queue, jobs):
    queue.put(retention={"dead_seconds": 100})
    bury(queue, 10)
    j = jobs.redrive(queue=queue.name, sample=3)
    jobs.read(j)
    j = jobs.read(j, now=at(100))
    assert counts(j, "discarded", "remaining", "open") == (7, 0, 3)
    finish(queue, now=at(100))
    assert jobs.is_done(j, now=at(100))


# -- the limit -------------------------------------------------------------------------------------------------------------


def test_the_redrive_limit(queue, jobs):
    queue.put(redrive_limit=2)
    mid = bury(queue, 1)[0]
    for n in range(1, 3):
        j = jobs.redrive(queue=queue.name)
        finish(queue, "fail", error="boom")
        assert jobs.is_done(j) and queue.read(mid)["redrive_count"] == n
    j = jobs.redrive(queue=queue.name)
    assert {"at_limit", "redriven_before"} <= {w["code"] for w in j["warnings"]}, j["warnings"]
    j = jobs.read(j)
    assert counts(j, "state", "selected", "skipped") == ("done", 1, 1) and j["skipped_by"] == {"redrive_limit": 1}
    reply = queue.replay(mid, expect=409)
    assert reply["detail"] == "it was sent again 2 times, which is the queue's redrive_limit: force to send it again"
    j = jobs.redrive(queue=queue.name, force=True)
    finish(queue, "fail", error="boom")
    assert counts(jobs.read(j), "state", "died_again", "force") == ("done", 1, True)
    assert queue.read(mid)["redrive_count"] == 3 and queue.read(mid)["generation"] == 4


# -- to another queue ------------------------------------------------------------------------------------------------------


def test_to_another_queue(queue, jobs):
    target = queue.client.queue(queue.name + "/debug")
    target.put()
    ids = bury(queue, 3, payload="same bytes")
    before = queue.read(ids[0])
    j = jobs.redrive(queue=queue.name, to=target.name)
    assert j["to"] == target.name
    j = jobs.read(j)
    assert counts(j, "open", "remaining") == (3, 0)
    m = target.read(ids[0])
    assert (m["payload"], m["queue"], m["origin_queue"]) == ("same bytes", target.name, queue.name)
    assert (m["created_at"], m["generation"], m["deliveries"]) == (before["created_at"], 2, 1)
    queue.read(ids[0], expect=404)
    c, t = queue.info()["conservation"], target.info()["conservation"]
    assert (c["accepted"], c["moved_out"], t["accepted"], t["moved_in"]) == (3, 3, 0, 3)
    assert sorted(finish(target)) == ids and jobs.is_done(j)
    assert len(target.attempts(ids[0])) >= 4


def test_a_letter_that_dies_again_elsewhere(queue, jobs):
    target = queue.client.queue(queue.name + "/debug")
    target.put()
    mid = bury(queue, 1)[0]
    j = jobs.redrive(queue=queue.name, to=target.name)
    finish(target, "fail", error="boom")
    assert counts(jobs.read(j), "state", "died_again") == ("done", 1)
    m = target.read(mid)
    assert (m["status"], m["death"]["origin"]) == ("dead", {"queue": queue.name, "id": mid})
    assert queue.counts()["dead"] == 0 and target.counts()["dead"] == 1
    # And back.
    back = jobs.redrive(queue=target.name, to=queue.name)
    assert finish(queue) == [mid] and jobs.is_done(back)


def test_queues_that_are_not_there(queue, jobs):
    reply = jobs.redrive(queue=queue.name, expect=404)
    assert queue.name in reply.json["detail"]
    bury(queue, 1)
    reply = jobs.redrive(queue=queue.name, to="not there", expect=404)
    assert "not there" in reply.json["detail"]
    assert queue.counts()["dead"] == 1
    reply = jobs.redrive(queue=queue.name, to=queue.name, expect=422)
    assert reply.error() == ("to", "conflict")


def test_the_queue_is_deleted_while_the_job_runs(queue, jobs):
    bury(queue, 101)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    finish(queue, n=4)
    queue.delete(discard=True)
    j = jobs.read(j)
    j = jobs.read(j)
    assert counts(j, "selected", "succeeded", "open", "remaining", "discarded") == (101, 4, 0, 0, 97), j
    assert j["state"] in ("done", "stopped"), j


def test_the_target_is_deleted_while_the_job_runs(queue, jobs):
    target = queue.client.queue(queue.name + "/debug")
    target.put()
    bury(queue, 10)
    j = jobs.redrive(queue=queue.name, to=target.name, sample=3)
    jobs.read(j)
    target.delete(discard=True)
    j = jobs.read(jobs.read(j))
    assert (j["state"], j["stop_reason"]) == ("stopped", f"the target queue {target.name} is gone"), j
    assert counts(j, "open", "discarded", "remaining") == (0, 3, 7)
    assert queue.counts()["dead"] == 7
    jobs.change(j, state="cancelled")


# -- patches ---------------------------------------------------------------------------------------------------------------


def test_a_patch_sends_changed_copies(queue, jobs):
    patch = [{"op": "set", "path": "payload.customer.id", "value": 7}, {"op": "remove", "path": "payload.debug"},
             {"op": "set", "path": "header.x-tenant", "value": "acme"}]
    good = bury(queue, 2, payload='{"debug": true, "customer": {"id": 1.50}, "z": 1.10}')
    bad = bury(queue, 1, payload="no JSON")
    j = jobs.redrive(queue=queue.name, patch=patch)
    assert j["patch"] == patch
    j = jobs.read(j)
    assert counts(j, "open", "skipped") == (2, 1) and j["skipped_by"] == {"unpatchable": 1}
    letter = queue.read(good[0])
    copy = queue.read(letter["edited_to"])
    assert (letter["status"], letter["payload"]) == ("dead", '{"debug": true, "customer": {"id": 1.50}, "z": 1.10}')
    assert copy["payload"] == '{"customer": {"id": 7}, "z": 1.10}' and copy["headers"] == {"x-tenant": "acme"}
    assert (copy["parent_id"], copy["status"], copy["job"]) == (good[0], "pending", j["id"])
    assert len(story(queue, good[0], "patched")) == 1
    # The copies' outcome is the letters'.
    finish(queue, n=1)
    finish(queue, "fail", n=1, permanent=True)
    assert counts(jobs.read(j), "state", "succeeded", "died_again") == ("done", 1, 1)
    assert queue.counts()["dead"] == 4 and queue.read(bad[0])["status"] == "dead"


def test_a_patch_to_another_queue(queue, jobs):
    target = queue.client.queue(queue.name + "/debug")
    target.put()
    mid = bury(queue, 1, payload="{}")[0]
    j = jobs.redrive(queue=queue.name, to=target.name, patch=[{"op": "set", "path": "payload.a", "value": None}])
    j = jobs.read(j)
    copies = target.list()
    assert [(m["payload"], m["parent_id"]) for m in copies] == [('{"a":null}', mid)]
    assert queue.read(mid)["edited_to"] == copies[0]["id"]
    finish(target)
    assert jobs.is_done(j)


# -- restarts --------------------------------------------------------------------------------------------------------------


def durable(job):
    """Who claims is known since the start of the server only."""
    return {k: v for k, v in job.items() if k not in ("warnings", "versions")}


@pytest.mark.parametrize("kill", [False, True], ids=["sigterm", "sigkill"])
def test_a_restart_in_the_middle(start, kill):
    server = start()
    client = Client(server, now=T0)
    jobs, queue = Jobs(client), client.queue("q")
    ids = bury(queue, 300, error_class="Timeout", worker="w", worker_version="1.4")
    made = [jobs.redrive(queue="q", filter=f"id:<={ids[99]}", sample=5, name="sampling"),
            jobs.redrive(queue="q", filter=f"id:{ids[100]}..{ids[199]}", sample=0, rate=2, reason="at a rate"),
            jobs.redrive(queue="q", filter=f"id:{ids[200]}..{ids[249]}", sample=0, rate=0.5, stop_if=None),
            jobs.discard(queue="q", filter=f"id:>={ids[250]}", why="duplicate")]
    jobs.change(made[2], state="paused", reason="wait")
    got, seconds = [], 0
    for round_number in range(6):
        seconds += 10
        got += finish(queue, n=7, now=at(seconds))
        before = [durable(jobs.read(j, now=at(seconds))) for j in made]
        client.close()
        server.restart(kill=kill)
        after = [durable(jobs.read(j, now=at(seconds))) for j in made]
        assert [after[i] for i in (0, 2, 3)] == [before[i] for i in (0, 2, 3)]
        # The one with a rate goes on, with at most a second's worth and one at each time it is told.
        assert before[1]["sent"] <= after[1]["sent"] <= before[1]["sent"] + 4
    jobs.change(made[2], state="running", rate=None, now=at(seconds))
    for _ in range(200):
        seconds += 1
        got += finish(queue, now=at(seconds))
    assert sorted(got) == ids[:250], "each letter once"
    ends = [jobs.read(j, now=at(seconds)) for j in made]
    assert [j["state"] for j in ends] == ["done"] * 4
    assert [j["succeeded"] for j in ends] == [100, 100, 50, 0] and ends[3]["discarded"] == 50
    assert queue.counts(now=at(seconds))["dead"] == 0


def test_a_restart_while_it_selects(start):
    server = start()
    client = Client(server, now=T0)
    jobs, queue = Jobs(client), client.queue("q")
    ids = bury(queue, 6000)
    # Not through Jobs: no further request of ours lets it go on before the server is gone.
    j = client.post("/redrives", {"queue": "q", "all": True, "sample": 0}).json
    client.close()
    server.restart(kill=True)
    jobs.made[j["id"]] = "redrives"
    j = jobs.read(j)
    assert not j["selecting"] and j["selected"] == 6000
    got = []
    while batch := finish(queue):
        got += batch
    assert sorted(got) == ids and jobs.is_done(j)


@pytest.mark.parametrize("kind", ["redrives", "discards"])
def test_a_repeated_request_makes_one_job(queue, jobs, kind):
    bury(queue, 3)
    body = {"queue": queue.name, "all": True} | ({"why": "test"} if kind == "discards" else {})
    first = queue.client.post(f"/{kind}", body, headers={"Idempotency-Key": queue.name})
    assert first.status == 202
    again = queue.client.post(f"/{kind}", {**body, "name": "again"}, headers={"Idempotency-Key": queue.name})
    assert again.status == 200 and again.json["id"] == first.json["id"] and again.json["name"] is None
    other = queue.client.post(f"/{kind}", body, headers={"Idempotency-Key": queue.name + "2"})
    assert other.status == 202 and other.json["id"] != first.json["id"]
    assert queue.client.post(f"/{kind}", body, headers={"Idempotency-Key": "k" * 256}).status == 422
