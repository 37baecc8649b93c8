"""nixie discard, undiscard and purge."""
import json
import re
import signal

import pytest
from clitools import wait_until
from deadtools import Running, Terminal, bury, counts, get, jobs

from lib.server import run


@pytest.mark.parametrize("args, said", [
    (["discard", "q", "1"], "--why is missing: fixed, obsolete,"),
    (["discard", "q", "1", "--why", "dunno"], "--why dunno: must be fixed, obsolete, duplicate, \"bad data\", test or other"),
    (["discard", "q", "--why", "test"], "which letters? Give ids, --filter or --all"),
    (["discard", "q", "1", "--all", "--why", "test"], "only one of them"),
    (["discard", "q", "--filter", "id:1", "--all", "--why", "test"], "a filter or --all, not both"),
    (["discard", "q", "--filter", " ", "--why", "test"], "which letters?"),
    (["discard", "q", "x", "--why", "test"], "x: not an id"),
    (["discard", "q", "1", "--dry-run", "--why", "test"], "go with --filter or --all"),
    (["discard", "q", "1", "--why", "test", "--reason", "x" * 1025], "longer than 1024 bytes"),
    (["undiscard", "q"], "which letters? Give ids, or --job"),
    (["undiscard", "q", "1", "--job", "2"], "ids or --job, not both"),
    (["undiscard", "q", "--job", "0"], "--job 0: must be"),
    (["purge", "q", "--confirm", "q"], "--reason is missing"),
    (["purge", "q", "--reason", "", "--confirm", "q"], "--reason is missing"),
    (["purge", "q", "--reason", "x", "--confirm", "p"], "--confirm p: is not the queue's name"),
    (["purge", "q", "--reason", "x"], "it needs --confirm"),
    (["purge", "q", "--reason", "x", "--confirm", "q", "--progress", "x"], "must be json"),
])
def test_wrong_usage(args, said):
    done = run(*args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr


# -- by ids --------------------------------------------------------------------------------------------------------------

def test_by_ids(cli):
    a, b, c = bury(cli, 3)
    got = cli.ok("discard", cli.queue, a, b, "--why", "bad data", "--reason", "no address in them")
    assert [(m["id"], m["status"], m["discarded"]["reason"]) for m in got] == [
        (a, "discarded", "bad data"), (b, "discarded", "bad data")]
    assert counts(cli)["dead"] == 1 and counts(cli)["discarded"] == 2
    entry = next(e for e in get(cli, "/audit?order=newest")["entries"] if e["action"] == "discard")
    assert entry["reason"] == "no address in them"
    got = cli.ok("undiscard", cli.queue, a)
    assert [m["status"] for m in got] == ["dead"] and counts(cli)["dead"] == 2
    lines = cli.table("discard", cli.queue, c, "--why", "fixed")
    assert lines[0].split()[:5] == ["ID", "STATUS", "DISCARDED", "GONE", "AT"] and "fixed" in lines[1]


def test_ids_from_standard_input(cli):
    ids = bury(cli, 4)
    letters = cli.run("dead", cli.queue).stdout.encode()
    assert len(cli.ok("discard", cli.queue, "-", "--why", "obsolete", stdin=letters)) == 4
    lines = "".join(f"{id}\n" for id in ids).encode()
    assert [m["id"] for m in cli.ok("undiscard", cli.queue, "-", stdin=lines)] == ids
    said = cli.fails(3, "discard", cli.queue, "-", "--why", "test", stdin=b"%d\nnonsense\n" % ids[0])
    assert "line 2: neither an id nor" in said


def test_what_cannot_be_discarded(cli):
    [dead] = bury(cli, 1)
    [pending] = cli.put("x")
    said = cli.fails(3, "discard", cli.queue, pending, dead, 9007199254740991, "--why", "test")
    assert f"{pending}: " in said and "(409)" in said and "(404)" in said
    assert cli.status(dead) == "discarded"
    assert "(409)" in cli.fails(5, "discard", cli.queue, dead, "--why", "test")
    assert "(409)" in cli.fails(5, "undiscard", cli.queue, pending)
    assert "(404)" in cli.fails(4, "undiscard", cli.queue, 9007199254740991)


# -- by a filter ---------------------------------------------------------------------------------------------------------

def test_by_a_filter(cli):
    bury(cli, 3, error="Timeout")
    bury(cli, 2, error="Other")
    done = cli.run("discard", cli.queue, "--filter", "error:Timeout", "--why", "obsolete", "--reason", "old", "--yes")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert (job["kind"], job["state"], job["selected"], job["discarded"], job["why"]) == ("discard", "done", 3, 3, "obsolete")
    assert "3 letters of" in done.stderr and "why      obsolete" in done.stderr
    assert re.search(r"job \d+: done \| 3 selected \| 3 discarded\n", done.stderr)
    assert counts(cli)["dead"] == 2 and counts(cli)["discarded"] == 3


def test_all_is_asked(cli):
    bury(cli, 2)
    code, out, err = Running(cli, "discard", cli.queue, "--all", "--why", "test").end(10)
    assert (code, out) == (2, "") and "needs --yes" in err and jobs(cli, "discards") == []
    terminal = Terminal(cli, "discard", cli.queue, "--all", "--why", "test")
    terminal.until(r"Discard 2 letters of \S+\? \[y/N\] ")
    terminal.type("n\n")
    assert terminal.end()[0] == 1 and counts(cli)["dead"] == 2
    terminal = Terminal(cli, "discard", cli.queue, "--all", "--why", "test")
    terminal.until(r"\[y/N\] ")
    terminal.type("y\n")
    code, text = terminal.end()
    assert code == 0 and re.search(r"discard \d+ of \S+: done\n +2 selected\n +2 discarded\n", text)
    assert counts(cli)["dead"] == 0


def test_dry_run_and_nothing(cli):
    bury(cli, 2)
    done = cli.run("discard", cli.queue, "--all", "--why", "test", "--dry-run")
    plan = json.loads(done.stdout)
    assert done.returncode == 0 and (plan["kind"], plan["selected"], plan["dry_run"]) == ("discard", 2, True)
    assert "no dead letter matches" in cli.fails(4, "discard", cli.queue, "--filter", "error:No", "--why", "test", "--yes")
    assert "^" in cli.fails(1, "discard", cli.queue, "--filter", "colour:red", "--why", "test", "--yes").splitlines()[-1]
    assert jobs(cli, "discards") == [] and counts(cli)["dead"] == 2


def test_undiscard_all_of_a_job(cli):
    ids = bury(cli, 1200)
    other = bury(cli, 1, error="Other")
    [job] = cli.ok("discard", cli.queue, "--filter", "error:Timeout", "--why", "test", "--yes", "-q")
    cli.ok("discard", cli.queue, *other, "--why", "test")
    [second] = bury(cli, 1, error="Third")
    cli.ok("discard", cli.queue, "--filter", "error:Third", "--why", "test", "--yes", "-q")
    cli.ok("undiscard", cli.queue, ids[5])
    back = cli.ok("undiscard", cli.queue, "--job", job["id"], timeout=60)
    assert [m["id"] for m in back] == ids[:5] + ids[6:] and {m["status"] for m in back} == {"dead"}
    assert counts(cli)["dead"] == 1200 and counts(cli)["discarded"] == 2
    assert cli.status(second) == cli.status(other[0]) == "discarded"
    assert "no letter that job" in cli.fails(4, "undiscard", cli.queue, "--job", job["id"])


# -- purge ---------------------------------------------------------------------------------------------------------------

def test_purge(cli):
    ids = bury(cli, 3)
    cli.put("pending")
    done = cli.run("purge", cli.queue, "--reason", "load test", "--confirm", cli.queue)
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert (job["kind"], job["state"], job["selected"], job["discarded"], job["reason"]) == ("purge", "done", 3, 3, "load test")
    assert "3 dead letters of" in done.stderr and "there is no undo" in done.stderr
    assert counts(cli)["dead"] == 0 and counts(cli)["pending"] == 1
    assert "(404)" in cli.fails(4, "undiscard", cli.queue, ids[0])
    assert "no dead letter is there" in cli.fails(4, "purge", cli.queue, "--reason", "x", "--confirm", cli.queue)
    assert "(404)" in cli.fails(4, "purge", "no/such/queue", "--reason", "x", "--confirm", "no/such/queue")


def test_purge_asks_for_the_name(cli):
    bury(cli, 1)
    for answer in ("\n", "y\n", "yes\n", cli.queue.upper() + "\n"):
        terminal = Terminal(cli, "purge", cli.queue, "--reason", "test")
        terminal.until(r"1 dead letter of \S+ will be gone for good: there is no undo.\nType the queue's name to go on: ")
        terminal.type(answer)
        code, text = terminal.end()
        assert code == 1 and "not confirmed" in text and counts(cli)["dead"] == 1
    terminal = Terminal(cli, "purge", cli.queue, "--reason", "test")
    terminal.until("Type the queue's name to go on: ")
    terminal.type(cli.queue + "\n")
    code, text = terminal.end()
    assert code == 0 and "1 discarded" in text and counts(cli)["dead"] == 0


def test_purge_without_a_terminal_does_not_hang(cli):
    bury(cli, 1)
    code, out, err = Running(cli, "purge", cli.queue, "--reason", "test").end(10)
    assert (code, out) == (2, "") and counts(cli)["dead"] == 1


def test_interrupting_a_discard(fake):
    job = {"kind": "discard", "id": 7, "state": "running", "queue": "q", "selected": 2, "remaining": 2, "discarded": 0}
    f = fake(lambda m, p, body: (200, job) if m == "GET" else (202, {**job, "complete": True}))
    command = Running(f.cli, "discard", "q", "--all", "--why", "test", "--yes")
    command.until(r"job 7: running \| 2 selected \| 0 discarded")
    command.interrupt()
    code, out, err = command.end(5)
    assert (code, out) == (-signal.SIGINT, "") and "job 7 goes on at the server" in err
    assert wait_until(lambda: f.requests[-1][1] in ("/discards/7", "/discards"))


def test_a_list_of_discarded_letters_that_does_not_go_on(fake):
    f = fake(lambda m, p, body: (200, {"messages": [{"id": 7, "job": 1, "status": "discarded"}]}))
    assert "out of order" in f.cli.fails(3, "undiscard", "q", "--job", "1")
