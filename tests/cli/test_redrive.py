"""nixie redrive: the plan, the question, the job and its progress, and what it exits with."""
import json
import re
import signal

import pytest
from clitools import wait_until
from deadtools import Running, Terminal, Worker, bury, counts, get, jobs

from lib.server import run

TERMS = ("succeeded", "died_again", "open", "discarded", "skipped", "remaining")


def check(job):
    assert job["selected"] == sum(job[t] for t in TERMS), job
    return job


# -- usage ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, said", [
    (["q"], "which letters? Give a filter, or --all"),
    (["q", ""], "which letters?"),
    (["q", " ", "\t"], "which letters?"),
    (["q", "error:x", "--all"], "a filter or --all, not both"),
    (["", "--all"], "the queue's name is empty"),
    (["q", "--all", "--rate", "0"], "--rate 0: must be letters a second"),
    (["q", "--all", "--rate", "1e3"], "--rate 1e3: must be"),
    (["q", "--all", "--rate", "1000001"], "must be letters a second, from 0.001 to 1000000"),
    (["q", "--all", "--rate", ".5"], "must be letters a second"),
    (["q", "--all", "--stop-if", "5"], "--stop-if 5: must be a share such as 5% or 0.05"),
    (["q", "--all", "--stop-if", "101%"], "must be a share"),
    (["q", "--all", "--stop-if", "-1"], "must be a share"),
    (["q", "--all", "--sample", "1000001"], "--sample 1000001: must be"),
    (["q", "--all", "--to", ""], "the queue's name is empty"),
    (["q", "--all", "--progress", "text"], "--progress text: must be json"),
    (["q", "--all", "--reason", "x" * 1025], "--reason: longer than 1024 bytes"),
    (["q", "--all", "--name", "x" * 129], "--name: longer than 128 bytes"),
    (["q", "--all", "--set", "payload.a"], "--set payload.a: must be PATH=JSON"),
    (["q", "--all", "--set", "payload.a=acme"], "acme is not JSON"),
    (["q", "--all", "--set", 'payload."a=b"'], "must be PATH=JSON"),
    (["q", "--all", "--set", "a=1"], "must be header.NAME, or payload."),
    (["q", "--all", "--remove", "payload."], "must be header.NAME, or payload."),
    (["q", "--all", *(["--remove", "payload.a"] * 33)], "more than 32 changes"),
    (["q", "error:" + "x" * 4096], "longer than 4096 bytes"),
    (["q", "-version:1"], "put -- before a filter that begins with -"),
])
def test_wrong_usage(args, said):
    done = run("redrive", *args, "--yes", env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr


# -- the plan ------------------------------------------------------------------------------------------------------------

def test_a_filter_that_is_wrong(cli):
    bury(cli, 1)
    said = cli.fails(1, "redrive", cli.queue, "error:Timeout", "colour:red", "--yes")
    assert "colour" in said and said.splitlines()[-1].strip() == "^" * 6 or "^" in said.splitlines()[-1]
    assert jobs(cli) == []


def test_nothing_to_do(cli):
    assert "(404)" in cli.fails(4, "redrive", cli.queue, "--all", "--yes")
    cli.policy()
    assert "no dead letter is there" in cli.fails(4, "redrive", cli.queue, "--all", "--yes")
    bury(cli, 1)
    assert "no dead letter matches" in cli.fails(4, "redrive", cli.queue, "error:Nothing", "--yes")
    done = cli.run("redrive", cli.queue, "error:Nothing", "--dry-run")
    assert done.returncode == 4 and json.loads(done.stdout)["selected"] == 0
    assert "(404)" in cli.fails(4, "redrive", cli.queue, "--all", "--to", "no/such/queue", "--yes")
    assert jobs(cli) == []


def test_dry_run_is_the_plan_as_json(cli):
    ids = bury(cli, 5)
    done = cli.run("redrive", cli.queue, "error:Timeout", "--rate", "0.5", "--stop-if", "5%", "--sample", "2", "--dry-run")
    plan = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1
    assert (plan["dry_run"], plan["complete"], plan["selected"], plan["remaining"]) == (True, True, 5, 5)
    assert (plan["rate"], plan["stop_if"], plan["sample"], plan["filter"]) == (0.5, 0.05, 2, "error:Timeout")
    assert [m["id"] for m in plan["examples"]] == ids[:3]
    code, text = Terminal(cli, "redrive", cli.queue, "--all", "--dry-run").end()
    assert code == 0 and json.loads(text)["selected"] == 5 and text.count("\n") > 10
    assert jobs(cli) == [] and counts(cli)["dead"] == 5


def test_without_a_terminal_it_needs_yes(cli):
    bury(cli, 2)
    command = Running(cli, "redrive", cli.queue, "--all")
    code, out, err = command.end(10)
    assert (code, out) == (2, "") and "needs --yes" in err and "2 letters of" in err
    assert jobs(cli) == [] and counts(cli)["dead"] == 2


def test_the_plan_and_the_question(cli):
    bury(cli, 3)
    terminal = Terminal(cli, "redrive", cli.queue, "error:Timeout", "--rate", "50", "--reason", "fixed")
    terminal.until(r"Redrive 3 letters of \S+\? \[y/N\] ")
    assert "3 letters of" in terminal.text and "fence" in terminal.text and "50 a second" in terminal.text
    terminal.type("\n")
    code, text = terminal.end()
    assert code == 1 and "not confirmed; nothing was changed" in text
    assert jobs(cli) == [] and counts(cli)["dead"] == 3


@pytest.mark.parametrize("answer", ["n\n", "no\n", "yep\n", "\x04", " y\n"])
def test_only_yes_is_yes(cli, answer):
    bury(cli, 1)
    terminal = Terminal(cli, "redrive", cli.queue, "--all")
    terminal.until(r"\[y/N\] ")
    terminal.type(answer)
    assert terminal.end()[0] == 1
    assert jobs(cli) == []


def test_interrupted_at_the_question(cli):
    bury(cli, 1)
    terminal = Terminal(cli, "redrive", cli.queue, "--all")
    terminal.until(r"\[y/N\] ")
    terminal.type("\x03")
    assert terminal.end()[0] == -signal.SIGINT
    assert jobs(cli) == []


def test_a_plan_that_is_not_complete_says_at_least(fake):
    plan = {"kind": "redrive", "selected": 20000, "remaining": 20000, "skipped": 0, "skipped_by": {}, "fence": 7, "rate": None,
            "sample": 10, "stop_if": 0.2, "complete": False, "dry_run": True, "warnings": [], "to": "other"}
    f = fake(lambda *_: (200, plan))
    terminal = Terminal(f.cli, "redrive", "q", "payload.a:1")
    terminal.until(r"Redrive at least 20,000 letters of q to other\? \[y/N\] ")
    assert "at least 20,000 letters of q match" in terminal.text
    terminal.type("n\n")
    assert terminal.end()[0] == 1
    plan.update(selected=0, remaining=0)
    terminal = Terminal(f.cli, "redrive", "q", "payload.a:1")
    terminal.until(r"Redrive at least 0 letters")
    terminal.type("n\n")
    assert terminal.end()[0] == 1


# -- the job -------------------------------------------------------------------------------------------------------------

def test_all_succeed(cli):
    ids = bury(cli, 5)
    with Worker(cli):
        done = cli.run("redrive", cli.queue, "error:Timeout", "--yes", "--reason", "fixed in 1.4.3", "--name", "first try")
    assert done.returncode == 0, done.stderr
    job = check(json.loads(done.stdout))
    assert (job["state"], job["selected"], job["succeeded"], job["new_since"]) == ("done", 5, 5, 0)
    assert (job["reason"], job["name"], job["filter"]) == ("fixed in 1.4.3", "first try", "error:Timeout")
    assert [cli.status(id) for id in ids] == ["succeeded"] * 5
    assert "5 letters of" in done.stderr
    assert re.search(rf"nixie: redrive: job {job['id']}: done \| 5 selected \| 5 sent \| 5 ok \| 0 died\n", done.stderr)


def test_some_die_again(cli):
    ids = bury(cli, 6)
    with Worker(cli, fails=lambda m: m["id"] in ids[:2]):
        done = cli.run("redrive", cli.queue, "--all", "--stop-if", "never", "--yes")
    assert done.returncode == 3
    job = check(json.loads(done.stdout))
    assert (job["state"], job["succeeded"], job["died_again"]) == ("done", 4, 2)
    assert "| 4 ok | 2 died" in done.stderr


def test_on_a_terminal(cli):
    bury(cli, 4)
    with Worker(cli) as worker:
        wait_until(lambda: worker.cli.api("GET").status_code == 200)
        terminal = Terminal(cli, "redrive", cli.queue, "--all")
        terminal.until(r"Redrive 4 letters")
        terminal.type("y\n")
        code, text = terminal.end()
    assert code == 0
    assert "Ctrl-C ends watching it, not the job" in text
    drawn = [line for line in terminal.lines() if " selected | " in line]
    assert drawn[-1] == "done | 4 selected | 4 sent | 4 ok | 0 died"
    assert re.search(r"redrive \d+ of \S+: done\n +4 selected\n +4 succeeded\n", text)


def test_the_line_fits_the_terminal(cli):
    bury(cli, 3)
    with Worker(cli):
        terminal = Terminal(cli, "redrive", cli.queue, "--all", "--yes", columns=30)
        assert terminal.end()[0] == 0
    drawn = [line for line in terminal.lines() if " selected | " in line]
    assert drawn and all(len(line) <= 29 for line in drawn) and drawn[-1].endswith("…")


def test_standard_output_is_data_alone(cli, tmp_path):
    bury(cli, 2)
    with Worker(cli), open(tmp_path / "out", "w") as out:
        terminal = Terminal(cli, "redrive", cli.queue, "--all", stdout=out)
        terminal.until(r"\[y/N\] ")
        terminal.type("y\n")
        code, text = terminal.end()
    assert code == 0 and "done | 2 selected" in text
    assert json.loads((tmp_path / "out").read_text())["succeeded"] == 2


def test_quiet(cli):
    bury(cli, 2)
    with Worker(cli):
        done = cli.run("redrive", cli.queue, "--all", "--yes", "-q")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["succeeded"] == 2


def test_progress_as_json(cli):
    bury(cli, 30)
    with Worker(cli):
        done = cli.run("redrive", cli.queue, "--all", "--yes", "--rate", "20", "--sample", "0", "--progress", "json")
    assert done.returncode == 0
    seen = [check(json.loads(line)) for line in done.stderr.splitlines()]
    assert len(seen) >= 2 and seen[-1]["state"] == "done" and seen[0]["state"] == "running"
    assert [j["sent"] for j in seen] == sorted(j["sent"] for j in seen)
    assert len({j["id"] for j in seen}) == 1 and json.loads(done.stdout)["succeeded"] == 30


def test_the_rate_and_the_time_left_are_shown(cli):
    bury(cli, 60)
    with Worker(cli):
        terminal = Terminal(cli, "redrive", cli.queue, "--all", "--yes", "--rate", "20", "--sample", "0")
        terminal.until(r"running \| 60 selected \| [1-9]\d* sent \| \d+ ok \| 0 died \|.* \d+(\.\d)?/s \| ETA \ds")
        code, text = terminal.end()
    assert code == 0 and "20 a second, in about 3s" in text


def test_no_wait(cli):
    bury(cli, 2)
    done = cli.run("redrive", cli.queue, "--all", "--yes", "--no-wait")
    assert done.returncode == 0
    job = json.loads(done.stdout)
    assert job["id"] == jobs(cli)[0]["id"] and job["state"] in ("sampling", "running")
    with Worker(cli):
        done = cli.run("jobs", job["id"], "--watch")
    assert done.returncode == 0 and json.loads(done.stdout)["succeeded"] == 2


def test_to_another_queue(cli):
    ids = bury(cli, 3)
    other = cli.queue + "/other"
    cli.run("queues", other, "--put", "-", stdin=b"{}")
    with Worker(cli, queue=other):
        done = cli.run("redrive", cli.queue, "--all", "--to", other, "--yes")
    assert done.returncode == 0, done.stderr
    assert other in done.stderr and json.loads(done.stdout)["to"] == other
    for id in ids:
        m = get(cli, f"/messages/{id}")
        assert (m["queue"], m["status"], m["origin_queue"]) == (other, "succeeded", cli.queue)


def test_a_patch(cli):
    bury(cli, 2, payload=lambda i: '{"n": 1.10, "country":"UK", "i": %d}' % i, headers={"tenant": "acme", "old": "x"})
    terminal = Terminal(cli, "redrive", cli.queue, "payload.country:UK", "--set", 'payload.country="GB"', "--remove", "header.old",
                        "--set", 'header.tenant="b=c"')
    terminal.until(r"\[y/N\] ")
    assert '-   "country": "UK",' in terminal.text and '+   "country": "GB",' in terminal.text
    assert '"n": 1.10,' in terminal.text and '-   "old": "x"' in terminal.text and '+   "tenant": "b=c"' in terminal.text
    terminal.type("y\n")
    with Worker(cli):
        code, text = terminal.end()
    assert code == 0, text
    copies = [m for m in cli.api("GET", "/messages").json()["messages"] if "parent_id" in m]
    assert sorted(m["payload"] for m in copies) == ['{"n": 1.10, "country":"GB", "i": %d}' % i for i in range(2)]
    assert all(m["headers"] == {"tenant": "b=c"} and m["status"] == "succeeded" for m in copies)
    assert counts(cli)["dead"] == 2


def test_a_patch_that_fits_not_all(cli):
    bury(cli, 1, payload='{"a": 1}')
    bury(cli, 1, payload="no JSON")
    with Worker(cli):
        done = cli.run("redrive", cli.queue, "--all", "--set", "payload.a=2", "--yes")
    assert done.returncode == 3
    job = check(json.loads(done.stdout))
    assert (job["succeeded"], job["skipped_by"]) == (1, {"unpatchable": 1})
    assert "1 skipped" in done.stderr


def test_redrive_limit(cli):
    cli.policy(redrive_limit=1)
    bury(cli, 3)
    with Worker(cli, fails=lambda m: True):
        assert cli.run("redrive", cli.queue, "--all", "--stop-if", "never", "--yes").returncode == 3
    said = cli.fails(5, "redrive", cli.queue, "--all", "--yes")
    assert "none of them would go: 3 at their redrive limit" in said
    assert len(jobs(cli)) == 1
    [fresh] = bury(cli, 1)
    with Worker(cli):
        done = cli.run("redrive", cli.queue, "--all", "--yes")
        assert done.returncode == 3 and "skipped  3 at their redrive limit" in done.stderr
        assert cli.status(fresh) == "succeeded"
        done = cli.run("redrive", cli.queue, "--all", "--force", "--yes")
        assert done.returncode == 0 and "warning: 3 of these letters were sent again before" in done.stderr
    assert counts(cli)["dead"] == 0


def test_it_stops_by_itself_and_is_resumed(cli):
    ids = bury(cli, 120)
    broken = set(ids[:10])
    with Worker(cli, fails=lambda m: m["id"] in broken):
        done = cli.run("redrive", cli.queue, "--all", "--stop-if", "5%", "--yes")
        assert done.returncode == 3
        job = check(json.loads(done.stdout))
        assert (job["state"], job["sent"], job["died_again"], job["remaining"]) == ("stopped", 10, 10, 110)
        assert "stopped by itself" in done.stderr and f"nixie jobs {job['id']} --resume" in done.stderr
        assert "sampling | 120 selected" in done.stderr
        done = cli.run("jobs", job["id"], "--resume", "--watch")
    assert done.returncode == 3
    job = check(json.loads(done.stdout))
    assert (job["state"], job["succeeded"], job["died_again"]) == ("done", 110, 10)


def test_letters_that_die_later_are_not_among_them(cli):
    bury(cli, 3)
    cli.ok("pause", cli.queue)
    command = Running(cli, "redrive", cli.queue, "--all", "--yes")
    command.until(r"job \d+: ")
    [late] = cli.put("late", ttl_seconds=1)
    wait_until(lambda: cli.status(late) == "dead")
    cli.ok("resume", cli.queue)
    with Worker(cli):
        code, out, err = command.end()
    job = check(json.loads(out))
    assert (code, job["selected"], job["succeeded"], job["new_since"]) == (0, 3, 3, 1)
    assert cli.status(late) == "dead"


def test_warnings_come_and_go(cli):
    bury(cli, 2, version="1.4.2")
    cli.ok("pause", cli.queue, "--reason", "fix on its way")
    terminal = Terminal(cli, "redrive", cli.queue, "--all", "--yes")
    terminal.until(r"warning: \S+ is paused")
    terminal.until(r"(running|sampling) \| 2 selected")
    cli.ok("resume", cli.queue)
    terminal.until(r"no longer: \S+ is paused")
    with Worker(cli):
        code, text = terminal.end()
    assert code == 0 and text.count("warning: " + cli.queue) == 1


def test_it_warns_of_missing_and_of_old_workers(cli):
    [expired] = cli.put("x", ttl_seconds=1)
    wait_until(lambda: cli.status(expired) == "dead")
    terminal = Terminal(cli, "redrive", cli.queue, "--all")
    terminal.until(r"warning: no worker asked .*\n.*\[y/N\] ")
    terminal.type("n\n")
    assert terminal.end()[0] == 1
    bury(cli, 2, version="1.4.2")
    terminal = Terminal(cli, "redrive", cli.queue, "error:Timeout")
    terminal.until(r"warning: workers of version 1.4.2, which failed 2 of these letters, still claim from .*\n.*\[y/N\] ")
    terminal.type("n\n")
    assert terminal.end()[0] == 1


def test_the_line_and_the_summary(fake):
    old = "workers of version 1.4.2, which failed %d of these letters, still claim from q"
    job = {"id": 7, "kind": "redrive", "queue": "q", "selected": 12418, "sent": 0, "succeeded": 0, "died_again": 0, "skipped": 0,
           "remaining": 12418, "rate": 50, "warnings": [{"code": "old_version", "message": old % 300}]}
    looks = iter([
        {**job, "state": "sampling", "selecting": True, "selected": 3000, "warnings": []},
        {**job, "state": "sampling", "sent": 10, "open": 10, "remaining": 12408},
        {**job, "state": "paused", "sent": 10, "succeeded": 9, "died_again": 1, "remaining": 12408,
         "warnings": [{"code": "old_version", "message": old % 290}]},
        {**job, "state": "running", "sent": 3201, "succeeded": 3150, "died_again": 12, "open": 39, "remaining": 9217, "warnings": []},
        {**job, "state": "done", "sent": 12400, "succeeded": 12380, "died_again": 20, "discarded": 5, "skipped": 13, "remaining": 0,
         "skipped_by": {"redrive_limit": 10, "edited": 3}, "new_since": 37, "warnings": []},
    ])
    f = fake(lambda m, p, body: (200, {**job, "complete": True}) if body and body.get("dry_run") else (200, next(looks)))
    terminal = Terminal(f.cli, "redrive", "q", "--all", "--yes")
    code, text = terminal.end()
    assert code == 3
    shown = terminal.lines()
    assert [line for line in shown if " selected | " in line] == [
        "selecting | 3,000 selected | 0 sent | 0 ok | 0 died",
        "sampling | 12,418 selected | 10 sent | 0 ok | 0 died | 10 open",
        "paused | 12,418 selected | 10 sent | 9 ok | 1 died",
        "running | 12,418 selected | 3,201 sent | 3,150 ok | 12 died | 39 open | ETA 3m04s",
        "done | 12,418 selected | 12,400 sent | 12,380 ok | 20 died | 5 discarded | 13 skipped"]
    assert [line for line in shown if "version" in line] == [
        "nixie: redrive: warning: " + old % 300, "nixie: redrive: no longer: " + old % 300]
    assert text.endswith("""redrive 7 of q: done
     12,418 selected
     12,380 succeeded
         20 died again
          5 discarded
         13 skipped: 10 at their redrive limit, 3 replaced by an edited copy
         37 died since then and match: not among them
""")


# -- interrupts and a server that goes away ------------------------------------------------------------------------------

def test_an_interrupt_ends_the_watching_only(cli):
    bury(cli, 3)
    command = Running(cli, "redrive", cli.queue, "--all", "--yes")
    command.until(r"job \d+: \w+ \| 3 selected \| 3 sent|job \d+: ")
    command.interrupt()
    code, out, err = command.end(5)
    assert (code, out) == (-signal.SIGINT, "")
    [job] = jobs(cli)
    assert f"job {job['id']} goes on at the server" in err
    for option in ("--watch", "--pause", "--cancel"):
        assert f"nixie jobs {job['id']} {option}" in err
    with Worker(cli):
        assert wait_until(lambda: get(cli, f"/redrives/{job['id']}")["state"] == "done")
    assert counts(cli)["dead"] == 0


def test_ctrl_c_on_a_terminal(cli):
    bury(cli, 2)
    terminal = Terminal(cli, "redrive", cli.queue, "--all", "--yes")
    terminal.until(r" \| 2 selected")
    terminal.type("\x03")
    code, text = terminal.end()
    assert code == -signal.SIGINT and "goes on at the server" in text
    assert jobs(cli)[0]["state"] in ("running", "sampling")


def test_an_ignored_interrupt_stays_ignored(cli):
    bury(cli, 1)
    command = Running(cli, "redrive", cli.queue, "--all", "--yes", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    command.until(r"job \d+: ")
    command.interrupt()
    with Worker(cli):
        code, out, _ = command.end()
    assert code == 0 and json.loads(out)["succeeded"] == 1


def test_an_interrupt_before_the_answer(fake):
    plan = {"kind": "redrive", "selected": 2, "remaining": 2, "skipped": 0, "complete": True, "dry_run": True}
    f = fake(lambda m, p, body: (200, plan) if body.get("dry_run") else 20)
    command = Running(f.cli, "redrive", "q", "--all", "--yes")
    wait_until(lambda: len(f.requests) == 2)
    command.interrupt()
    code, out, err = command.end(5)
    assert (code, out) == (-signal.SIGINT, "") and "nixie jobs tells whether it made the job" in err


def test_an_interrupt_while_the_server_is_silent(fake):
    job = {"kind": "redrive", "id": 7, "state": "running", "selected": 2, "remaining": 2}
    f = fake(lambda m, p, body: 20 if m == "GET" else (202, {**job, "complete": True}))
    command = Running(f.cli, "redrive", "q", "--all", "--yes")
    wait_until(lambda: len(f.requests) == 3)
    command.interrupt()
    code, out, err = command.end(5)
    assert (code, out) == (-signal.SIGINT, "") and "job 7 goes on at the server" in err


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_the_server_restarts(own_server, kill):
    cli = own_server.cli
    ids = bury(cli, 40)
    command = Running(cli, "redrive", cli.queue, "--all", "--yes", "--rate", "20", "--sample", "0")
    with Worker(cli):
        command.until(r"job \d+: running")
        own_server.restart(kill=kill)
        code, out, err = command.end()
    assert code == 0, err
    assert check(json.loads(out))["succeeded"] == 40
    assert {cli.status(id) for id in ids} == {"succeeded"}


def test_the_server_is_gone(own_server):
    cli = own_server.cli
    bury(cli, 2)
    command = Running(cli, "redrive", cli.queue, "--all", "--yes", "--timeout", "1")
    command.until(r"job \d+: ")
    own_server.stop()
    code, out, err = command.end(20)
    assert (code, out) == (7, "")
    assert "trying again for 1 s" in err and "cannot reach" in err


def test_what_is_no_job(fake):
    f = fake(lambda m, p, body: (200, {"complete": True, "selected": 1, "remaining": 1}))
    assert "is no job" in f.cli.fails(1, "redrive", "q", "--all", "--yes", "-q")
