"""nixie pause and nixie resume."""
from deadtools import get

from lib.server import run


def test_wrong_usage():
    for args, said in ((["pause"], "too few arguments"), (["pause", "q", "r"], "one argument too many"), (["resume", ""], "is empty"),
                       (["pause", "q", "--reason", "x" * 1025], "--reason: longer than 1024 bytes")):
        done = run(*args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_pause_and_resume(cli):
    cli.put("a")
    [queue] = cli.ok("pause", cli.queue, "--reason", "provider is down", "--actor", "ann")
    assert (queue["queue"], queue["paused"]["by"], queue["paused"]["reason"]) == (cli.queue, "ann", "provider is down")
    assert cli.run("claim", cli.queue).returncode == 4
    [queue] = cli.ok("resume", cli.queue, "--actor", "bob")
    assert queue["paused"] is None
    assert cli.run("claim", cli.queue).returncode == 0
    entries = [e for e in get(cli, "/audit?order=newest")["entries"] if e["queue"] == cli.queue]
    assert [(e["action"], e["actor"]) for e in entries[:2]] == [("queue_resumed", "bob"), ("queue_paused", "ann")]


def test_as_a_table(cli):
    cli.put("a")
    lines = cli.table("pause", cli.queue, "--reason", "wait")
    assert lines[0].split() == ["PAUSED", "SINCE", "BY", "READY", "PROCESSING", "QUEUE", "REASON"]
    assert cli.queue in lines[1] and lines[1].endswith("wait")
    assert cli.table("resume", cli.queue)[1].split()[0] == "-"


def test_a_queue_that_is_not_there(cli):
    assert "(404)" in cli.fails(4, "pause", "no/such/queue")
    assert "(404)" in cli.fails(4, "resume", "no/such/queue")
    assert cli.run("pause", "q", env={"NIXIE_SERVER": "http://127.0.0.1:1"}).returncode == 7
