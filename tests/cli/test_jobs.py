"""nixie jobs: the list, one job, its changes, watching it."""
import json
import re
import signal

import pytest
from clitools import wait_until
from deadtools import Running, Terminal, Worker, bury, counts, get, jobs
from test_output import EVIL, controls, on_terminal

from lib.server import run


def redrive(cli, *args):
    """Makes a job that waits for a worker; returns its id."""
    [job] = cli.ok("redrive", cli.queue, "--all", "--yes", "--no-wait", *args)
    return job["id"]


def state(cli, id):
    return get(cli, f"/redrives/{id}")["state"]


@pytest.mark.parametrize("args, said", [
    (["x"], "x: not the id of a job"),
    (["0"], "0: not the id of a job"),
    (["4294967296"], "not the id of a job"),
    (["1", "2"], "2: one argument too many"),
    (["--watch"], "which job?"),
    (["--cancel"], "which job?"),
    (["--rate", "5"], "which job?"),
    (["1", "--pause", "--resume"], "only one of them"),
    (["1", "--rate", "fast"], "--rate fast: must be"),
    (["1", "--stop-if", "5"], "--stop-if 5: must be"),
    (["1", "--reason", "because"], "--reason says why a job is changed"),
    (["1", "--progress", "json"], "--progress goes with --watch"),
    (["1", "--watch", "--progress", "x"], "must be json"),
    (["--limit", "0"], "--limit 0: must be"),
])
def test_wrong_usage(args, said):
    done = run("jobs", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr


# -- the list ------------------------------------------------------------------------------------------------------------

def test_no_jobs_yet(own_server):
    done = own_server.cli.run("jobs")
    assert (done.returncode, done.stdout) == (0, "") and "there are no jobs yet" in done.stderr
    assert json.loads(own_server.cli.run("jobs", "-o", "json").stdout) == []


def test_redrives_and_discards_in_one_list(cli):
    for error in ("A", "B", "C"):
        bury(cli, 2, error=error)
    made = [cli.ok(*command, "--yes", "--no-wait")[0]["id"] for command in (
        ("redrive", cli.queue, "error:A"), ("discard", cli.queue, "--filter", "error:B", "--why", "test"),
        ("redrive", cli.queue, "error:C"))]
    mine = [j for j in cli.ok("jobs", "-n", "1000") if j["queue"] == cli.queue]
    assert [j["id"] for j in mine] == made[::-1] == sorted(made, reverse=True)
    assert [j["kind"] for j in mine] == ["redrive", "discard", "redrive"]
    assert [j["id"] for j in cli.ok("jobs", "-n", "2")] == [j["id"] for j in mine[:2]]
    lines = cli.table("jobs", "-n", "2")
    assert lines[0].split() == ["ID", "KIND", "STATE", "SELECTED", "OK", "DIED", "OPEN", "SKIPPED", "LEFT", "QUEUE", "FILTER"]
    assert len(lines) == 3 and cli.queue in lines[1]


def pages(redrives, discards):
    """A server whose jobs these are."""
    def reply(method, path, body):
        name = path[1:].split("?")[0]
        before = int((re.search(r"before=(\d+)", path) or [0, 10**9])[1])
        limit = int(re.search(r"limit=(\d+)", path)[1])
        ids = sorted((i for i in {"redrives": redrives, "discards": discards}[name] if i < before), reverse=True)[:limit]
        return 200, {name: [{"id": i, "kind": name[:-1], "state": "done"} for i in ids], "count": len(ids)}
    return reply


@pytest.mark.parametrize("redrives, discards", [
    (range(1, 351), []), ([], range(1, 351)), (range(1, 350, 2), range(2, 351, 2)), (range(1, 201), range(201, 351)),
    (range(1, 101), range(101, 201)), ([], []),
], ids=["redrives", "discards", "mixed", "apart", "full pages", "none"])
def test_pages(fake, redrives, discards):
    f = fake(pages(redrives, discards))
    everything = sorted([*redrives, *discards], reverse=True)
    assert [j["id"] for j in f.cli.ok("jobs", "--limit", "1000")] == everything
    assert [j["id"] for j in f.cli.ok("jobs")] == everything[:20]
    assert [j["id"] for j in f.cli.ok("jobs", "-n", "150")] == everything[:150]
    assert ("there are older ones" in f.cli.run("jobs", "-o", "table").stderr) == (len(everything) > 20)


def test_a_list_that_does_not_go_on(fake):
    f = fake(lambda *_: (200, {"redrives": [{"id": 7}] * 100, "discards": []}))
    assert "does not go on" in f.cli.fails(3, "jobs", "-n", "1000")


# -- one -----------------------------------------------------------------------------------------------------------------

def test_one(cli):
    bury(cli, 2)
    id = redrive(cli, "--reason", "fixed", "--rate", "5")
    [job] = cli.ok("jobs", id)
    assert (job["id"], job["reason"], job["rate"], job["selected"]) == (id, "fixed", 5, 2)
    page = "\n".join(cli.table("jobs", id))
    assert f"redrive {id} of {cli.queue}: " in page and "5 a second" in page and "fixed" in page and "2 selected" in page
    assert "(404)" in cli.fails(4, "jobs", 4294967295)


def test_pause_resume_cancel(cli):
    bury(cli, 5)
    id = redrive(cli, "--rate", "0.001", "--sample", "0")
    assert [j["state"] for j in cli.ok("jobs", id, "--pause", "--reason", "wait")] == ["paused"]
    assert [j["state"] for j in cli.ok("jobs", id, "--pause")] == ["paused"]
    assert [j["state"] for j in cli.ok("jobs", id, "--resume")] == ["running"]
    [job] = cli.ok("jobs", id, "--cancel")
    assert job["state"] == "cancelled" and job["remaining"] >= 2
    assert "(409)" in cli.fails(5, "jobs", id, "--resume")
    assert counts(cli)["dead"] == job["remaining"]


def test_rate_and_stop_if(cli):
    bury(cli, 2)
    id = redrive(cli)
    [job] = cli.ok("jobs", id, "--rate", "0.5", "--stop-if", "2.5%")
    assert (job["rate"], job["stop_if"]) == (0.5, 0.025)
    [job] = cli.ok("jobs", id, "--rate", "none", "--stop-if", "never")
    assert (job["rate"], job["stop_if"]) == (None, None)


def test_a_discard_is_changed_by_its_id(cli):
    bury(cli, 1)
    [job] = cli.ok("discard", cli.queue, "--all", "--why", "test", "--yes", "--no-wait")
    wait_until(lambda: get(cli, f"/discards/{job['id']}")["state"] == "done")
    [job] = cli.ok("jobs", job["id"])
    assert (job["kind"], job["state"], job["discarded"], job["why"]) == ("discard", "done", 1, "test")
    assert "(409)" in cli.fails(5, "jobs", job["id"], "--cancel")


# -- watching ------------------------------------------------------------------------------------------------------------

def test_watch(cli):
    bury(cli, 3)
    id = redrive(cli)
    terminal = Terminal(cli, "jobs", id, "-w")
    terminal.until(r" \| 3 selected")
    with Worker(cli):
        code, text = terminal.end()
    assert code == 0 and "done | 3 selected | 3 sent | 3 ok | 0 died" in terminal.lines()
    assert "3 succeeded" in text
    done = cli.run("jobs", id, "--watch")
    assert done.returncode == 0 and json.loads(done.stdout)["state"] == "done"


def test_watch_a_job_that_others_pause_and_cancel(cli):
    bury(cli, 3)
    id = redrive(cli, "--rate", "0.001", "--sample", "0")
    command = Running(cli, "jobs", id, "--watch")
    command.until(r"running \| 3 selected")
    cli.ok("jobs", id, "--pause")
    command.until(r"paused \| 3 selected")
    cli.ok("jobs", id, "--cancel")
    code, out, err = command.end()
    assert code == 3 and json.loads(out)["state"] == "cancelled"
    assert re.findall(r"job \d+: (\w+) \|", err) == ["running", "paused", "cancelled"]


def test_watch_with_a_change(cli):
    bury(cli, 3)
    id = redrive(cli, "--rate", "0.001", "--sample", "0")
    with Worker(cli):
        done = cli.run("jobs", id, "--rate", "none", "--watch", "--progress", "json")
    assert done.returncode == 0 and json.loads(done.stdout)["rate"] is None
    assert [json.loads(line)["state"] for line in done.stderr.splitlines()][-1] == "done"


def test_interrupt_of_a_watch(cli):
    bury(cli, 1)
    id = redrive(cli)
    command = Running(cli, "jobs", id, "--watch")
    command.until(r"job \d+: ")
    command.interrupt()
    code, out, err = command.end(5)
    assert code == -signal.SIGINT and f"job {id} goes on at the server" in err
    assert state(cli, id) in ("running", "sampling")


def test_a_job_that_is_forgotten(fake):
    answers = iter([(200, {"id": 7, "kind": "redrive", "state": "running"})] * 2)
    f = fake(lambda *_: next(answers, (404, {"type": "about:blank", "title": "no such job", "status": 404, "detail": "x"},
                                       "application/problem+json")))
    assert "job 7: no such job" in f.cli.fails(4, "jobs", "7", "--watch", "-q")


# -- replies that no server should send ----------------------------------------------------------------------------------

def test_no_control_character_reaches_a_terminal(fake):
    job = {"id": 7, "kind": "redrive", "state": EVIL, "queue": EVIL, "to": EVIL, "filter": EVIL, "name": EVIL, "actor": EVIL,
           "reason": EVIL, "selected": 3, "remaining": 2, "skipped": 1, "skipped_by": {EVIL.replace("\0", ""): 1}, "rate": EVIL,
           "sample": 10, "stop_if": EVIL, "stop_reason": EVIL, "created_at": EVIL, "complete": False, "why": EVIL, "new_since": EVIL,
           "warnings": [{"code": EVIL, "message": EVIL}],
           "examples": [{"id": 1, "before": {"headers": {"a": EVIL}, "payload": EVIL}, "after": {"headers": {"a": 1}, "payload": "x"}},
                        {"id": 2, "error": EVIL}]}
    message = {"id": 7, "queue": EVIL, "payload": EVIL, "headers": {"a": EVIL}, "status": EVIL, "reason": EVIL, "last_error": EVIL,
               "error_class": EVIL, "discarded": {"reason": EVIL, "gone_at": EVIL}, "parent_id": EVIL, "job": 7}

    def reply(method, path, body):
        if path.startswith("/redrives/") or path.startswith("/discards/"):
            return 200, {**job, "state": "stopped"} if "8" in path else job
        if path.startswith("/redrives?") or path.startswith("/discards?"):
            return 200, {"redrives": [job], "discards": [job]}
        if path.endswith("/pause"):
            return 200, {"queue": EVIL, "counts": {"ready": EVIL}, "paused": {"since": EVIL, "by": EVIL, "reason": EVIL}}
        if path.startswith("/queues/"):
            if "?" in path:
                return 200, {"messages": [] if "after=7" in path else [message]}
            return 200, {**message, "status": "dead"} if method == "GET" else message
        return 200, {**job, "id": 8}
    f = fake(reply)
    f.cli.env["EDITOR"] = "echo x >"
    for args in (["jobs"], ["jobs", "7"], ["jobs", "8", "--watch"], ["redrive", "q", "--all"], ["redrive", "q", "--all", "--yes"],
                 ["discard", "q", "--all", "--why", "test"], ["discard", "q", "7", "--why", "test"], ["undiscard", "q", "7"],
                 ["undiscard", "q", "--job", "7"], ["edit", "q", "7", "--payload", "/etc/hostname"], ["edit", "q", "8"],
                 ["pause", "q"]):
        for columns in (40, 400):
            code, text = on_terminal(f.cli, *args, columns=columns, stdin=True, keys=b"n\n")
            assert code in (0, 1, 3, 5), (args, code, text)
            bad = [c for c in controls(text.replace("\r\x1b[K", "")) if c != "\t"]
            assert bad == [], (args, text)
