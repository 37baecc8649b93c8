"""Redrives as they are asked for: plans, warnings, requests that are wrong, lists."""
import pytest

from lib.client import Client, T0, at
from lib.jobs import Jobs, bury, counts, finish


@pytest.fixture
def jobs(client):
    j = Jobs(client)
    yield j
    j.cancel_all()


# -- the plan --------------------------------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(queue, jobs):
    ids = bury(queue, 5, error_class="Timeout")
    before = queue.info()
    p = jobs.plan(queue=queue.name, filter="error:Timeout", rate=5, reason="look")
    assert p["complete"] is True and p["selected"] == p["remaining"] == 5 and (p["rate"], p["reason"]) == (5, "look")
    assert [m["id"] for m in p["examples"]] == ids[:3] and p["examples"][0] == queue.list()[0]
    assert queue.info() == before
    assert not [j for j in jobs.list(limit=1000) if j["queue"] == queue.name]
    assert jobs.plan(queue=queue.name, filter="error:Nothing")["examples"] == []


def test_a_plan_shows_what_a_patch_does(queue, jobs):
    a = bury(queue, 1, payload='{"a": 1}')[0]
    b = bury(queue, 1, payload="no JSON")[0]
    c = bury(queue, 1, payload='{"a": [1]}')[0]
    p = jobs.plan(queue=queue.name, patch=[{"op": "set", "path": "payload.a.5", "value": 2}])
    by_id = {e["id"]: e for e in p["examples"]}
    assert set(by_id) <= {a, b, c} and by_id
    assert all("error" in e for e in by_id.values())
    p = jobs.plan(queue=queue.name, filter=f"id:{a}", patch=[{"op": "set", "path": "payload.a", "value": 2},
                                                           {"op": "set", "path": "header.h", "value": "v"}])
    assert p["examples"] == [{"id": a, "before": {"headers": None, "payload": '{"a": 1}'},
                              "after": {"headers": {"h": "v"}, "payload": '{"a": 2}'}}]
    assert queue.counts()["dead"] == 3


def test_a_plan_counts_what_would_be_skipped(queue, jobs):
    queue.put(redrive_limit=1)
    ids = bury(queue, 3)
    queue.replay(ids[0])
    finish(queue, "fail")
    queue.act(ids[1], "edit", expect=201, payload="y")
    finish(queue)
    p = jobs.plan(queue=queue.name)
    assert counts(p, "selected", "skipped", "remaining") == (3, 2, 1)
    assert p["skipped_by"] == {"redrive_limit": 1, "edited": 1} and [m["id"] for m in p["examples"]] == [ids[2]]
    assert jobs.plan(queue=queue.name, force=True)["remaining"] == 3


# -- warnings --------------------------------------------------------------------------------------------------------------


def warnings(job):
    return {w["code"]: w["message"] for w in job["warnings"]}


def test_workers_of_a_version_that_failed_them_still_claim(queue, jobs):
    bury(queue, 3, worker="w1", worker_version="1.4.2")
    bury(queue, 2, worker="w2", worker_version="1.4.1")
    queue.claim(now=at(100), worker="w1", worker_version="1.4.2")
    p = jobs.plan(queue=queue.name, now=at(100))
    assert warnings(p)["old_version"] == (f"workers of version 1.4.2, which failed 3 of these letters, still claim from "
                                          f"{queue.name}")
    assert {v["version"]: (v["count"], v["claiming"]) for v in p["versions"]} == {"1.4.2": (3, True), "1.4.1": (2, False)}
    # A minute without it: the fix is everywhere.
    queue.claim(now=at(200), worker="w1", worker_version="1.5")
    assert "old_version" not in warnings(jobs.plan(queue=queue.name, now=at(200)))


def test_nobody_is_there(queue, jobs):
    bury(queue, 1)
    assert "no_worker" not in warnings(jobs.plan(queue=queue.name, now=at(50)))
    text = warnings(jobs.plan(queue=queue.name, now=at(500)))["no_worker"]
    assert queue.name in text and "60 seconds" in text
    queue.claim(now=at(500))
    assert "no_worker" not in warnings(jobs.plan(queue=queue.name, now=at(501)))


def test_letters_that_were_sent_again_before(queue, jobs):
    ids = bury(queue, 3)
    queue.replay(ids[0])
    finish(queue, "fail")
    assert warnings(jobs.plan(queue=queue.name))["redriven_before"] == "1 of these letters was sent again before"
    j = jobs.redrive(queue=queue.name)
    assert "redriven_before" in warnings(j)


# -- requests --------------------------------------------------------------------------------------------------------------


WRONG = [
    ({"all": True}, "queue", "required"),
    ({"queue": "Q"}, "filter", "required"),
    ({"queue": "Q", "filter": ""}, "filter", "bad_filter"),
    ({"queue": "Q", "filter": "   "}, "filter", "bad_filter"),
    ({"queue": "Q", "filter": "colour:red"}, "filter", "bad_filter"),
    ({"queue": "Q", "filter": "id:1", "all": True}, "all", "conflict"),
    ({"queue": "Q", "all": True, "rate": 0}, "rate", "out_of_range"),
    ({"queue": "Q", "all": True, "rate": 1000001}, "rate", "out_of_range"),
    ({"queue": "Q", "all": True, "sample": 1000001}, "sample", "out_of_range"),
    ({"queue": "Q", "all": True, "stop_if": "5"}, "stop_if", "out_of_range"),
    ({"queue": "Q", "all": True, "stop_if": 1.01}, "stop_if", "out_of_range"),
    ({"queue": "Q", "all": True, "stop_if": []}, "stop_if", "wrong_type"),
    ({"queue": "Q", "all": True, "patch": [{"op": "set", "path": "payload", "value": 1}]}, "patch[0].path", "out_of_range"),
    ({"queue": "Q", "all": True, "name": "n" * 129}, "name", "too_long"),
    ({"queue": "Q", "all": True, "reason": "r" * 1025}, "reason", "too_long"),
    ({"queue": "Q", "all": True, "why": "fixed"}, "why", "unknown_field"),
]


@pytest.mark.parametrize("body, field, code", WRONG, ids=[f"{f} {c} {i}" for i, (_, f, c) in enumerate(WRONG)])
def test_wrong_requests(queue, jobs, body, field, code):
    bury(queue, 1)
    body = {k: queue.name if v == "Q" else v for k, v in body.items()}
    reply = queue.client.post("/redrives", body)
    assert reply.status == 422 and reply.error() == (field, code), reply
    assert queue.counts()["dead"] == 1


def test_where_a_filter_is_wrong(queue):
    queue.put()
    e = queue.client.post("/redrives", {"queue": queue.name, "filter": "id:7 colour:red"}).json["errors"][0]
    assert (e["code"], e["position"], e["length"]) == ("bad_filter", 5, 6), e
    e = queue.client.post("/redrives", {"queue": queue.name, "filter": ""}).json["errors"][0]
    assert "all: true" in e["message"] and e["position"] == 0


def test_who_is_ill_formed(queue):
    bury(queue, 1)
    for actor in (b"\xff\xfe", b"a" * 129):
        reply = queue.client.raw("POST", "/redrives", b'{"queue": "%s", "all": true}' % queue.name.encode(),
                                 {"Nixie-Actor": actor})
        assert reply.status == 422 and reply.error()[0] == "Nixie-Actor", reply
    assert queue.counts()["dead"] == 1


@pytest.mark.parametrize("body, field, code", [
    ({}, "state", "required"),
    ({"reason": "why"}, "state", "required"),
    ({"state": "done"}, "state", "out_of_range"),
    ({"state": "sampling"}, "state", "out_of_range"),
    ({"rate": -1}, "rate", "out_of_range"),
    ({"stop_if": 2}, "stop_if", "out_of_range"),
    ({"sample": 5}, "sample", "unknown_field"),
    ([], "body", "wrong_type"),
])
def test_wrong_changes(queue, jobs, body, field, code):
    bury(queue, 1)
    j = jobs.redrive(queue=queue.name)
    reply = queue.client.call("PATCH", f"/redrives/{j['id']}", body)
    assert reply.status == 422 and reply.error() == (field, code), reply


def test_jobs_that_are_not_there(queue, jobs):
    bury(queue, 1)
    d = jobs.discard(queue=queue.name, filter="error:none")
    for number in ("999999999", "0", "x", "4294967296", "9007199254740993", str(d["id"])):
        for method in ("GET", "PATCH"):
            reply = queue.client.call(method, "/redrives/" + number, {"state": "paused"} if method == "PATCH" else None)
            assert reply.status == 404 and reply.json["title"] == "no such job", (number, reply)
    r = jobs.redrive(queue=queue.name)
    assert queue.client.get(f"/discards/{r['id']}").status == 404


def test_stop_if_can_be_changed(queue, jobs):
    bury(queue, 20)
    j = jobs.redrive(queue=queue.name, sample=10, stop_if="10%")
    jobs.read(j)
    assert jobs.change(j, stop_if="35.5%")["stop_if"] == 0.355
    finish(queue, "fail", n=3)
    finish(queue)
    assert jobs.read(j)["state"] == "running"
    assert jobs.change(j, stop_if=None)["stop_if"] is None


def test_lists(queue, jobs):
    bury(queue, 1)
    made = [jobs.redrive(queue=queue.name, filter="error:none", name=str(i))["id"] for i in range(5)]
    d = jobs.discard(queue=queue.name, filter="error:none")["id"]
    assert [j["id"] for j in jobs.list(limit=3)] == made[:1:-1]
    assert [j["id"] for j in jobs.list(limit=2, before=made[2])] == made[1::-1]
    assert d not in [j["id"] for j in jobs.list(limit=1000)]
    assert [j["id"] for j in jobs.list("discards", limit=1)] == [d]
    for query in ("limit=0", "limit=1001", "before=0", "before=4294967296", "after=1"):
        assert queue.client.get("/redrives?" + query).status == 422, query


def test_too_many_jobs(start):
    client = Client(start(), now=T0)
    queue = client.queue("q")
    bury(queue, 1)
    body = {"queue": "q", "all": True, "rate": 0.001}
    queue._do(200, "POST", "/pause")
    first = client.post("/redrives", body).json
    queue.client.queue("r").put()
    for _ in range(99):
        bury(client.queue("r"), 1)
        assert client.post("/redrives", {"queue": "r", "all": True, "rate": 0.001}).status == 202
    reply = client.post("/redrives", body)
    assert reply.status == 429 and reply.headers.get("Retry-After"), reply
    assert client.call("PATCH", f"/redrives/{first['id']}", {"state": "cancelled"}).status == 200
    assert client.post("/redrives", body).status == 202
    client.check_conservation()
