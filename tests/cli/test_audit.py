"""nixie audit: who did what."""
import json
import subprocess

import pytest
from clitools import wait_until
from deadtools import Mortuary
from test_output import EVIL, controls, on_terminal

from lib.server import NIXIE, environment, run


@pytest.fixture
def dead(cli):
    return Mortuary(cli)


def actions(entries):
    return [e["action"] for e in entries]


@pytest.fixture
def history(cli, dead):
    """Ann replayed a letter, bob paused and resumed the queue."""
    id = dead.die()
    cli.ok("replay", cli.queue, id, "--reason", "fix deployed", "--actor", "ann")
    path = f"/queues/{cli.queue.replace('/', '%2F')}"
    dead.api("POST", path + "/pause", {"reason": "provider is down"}, **{"Nixie-Actor": "bob"})
    dead.api("POST", path + "/resume", **{"Nixie-Actor": "bob"})
    return id


def test_oldest_first(cli, history):
    entries = cli.ok("audit", "--queue", cli.queue)
    assert actions(entries) == ["replay", "queue_paused", "queue_resumed"]
    assert [e["number"] for e in entries] == sorted(e["number"] for e in entries)
    replay = entries[0]
    assert (replay["actor"], replay["target"], replay["reason"], replay["count"]) == ("ann", str(history), "fix deployed", 1)
    assert json.loads(cli.run("audit", "--queue", cli.queue, "-o", "json").stdout) == entries


def test_newest_first(cli, history):
    assert actions(cli.ok("audit", "--queue", cli.queue, "--newest")) == ["queue_resumed", "queue_paused", "replay"]
    [last] = cli.ok("audit", "--queue", cli.queue, "--newest", "--limit", "1")
    before = cli.ok("audit", "--queue", cli.queue, "--newest", "--before", last["number"])
    assert actions(before) == ["queue_paused", "replay"]


def test_filters(cli, history):
    assert actions(cli.ok("audit", "--queue", cli.queue, "--actor", "bob")) == ["queue_paused", "queue_resumed"]
    assert actions(cli.ok("audit", "--queue", cli.queue, "--action", "replay")) == ["replay"]
    first = cli.ok("audit", "--queue", cli.queue)[0]
    assert actions(cli.ok("audit", "--queue", cli.queue, "--after", first["number"])) == ["queue_paused", "queue_resumed"]
    done = cli.run("audit", "--queue", cli.queue, "--actor", "nobody")
    assert (done.returncode, done.stdout) == (0, "") and "no entries" in done.stderr


def test_table(cli, history):
    header, *rows = cli.table("audit", "--queue", cli.queue)
    assert header.split() == ["NUMBER", "AT", "ACTOR", "ACTION", "QUEUE", "TARGET", "COUNT", "SCOPE", "RESULT", "REASON"]
    assert " ann " in rows[0] and " replay " in rows[0] and rows[0].endswith("fix deployed")
    done = cli.run("audit", "--queue", cli.queue, "-o", "table", "--limit", "2")
    assert "there may be more: --after " in done.stderr
    done = cli.run("audit", "--queue", cli.queue, "-o", "table", "--limit", "2", "--newest")
    assert "there may be more: --before " in done.stderr


def test_pages(cli, dead):
    path = f"/queues/{cli.queue.replace('/', '%2F')}"
    cli.policy()
    for i in range(1050):
        dead.api("POST", path + ("/resume" if i % 2 else "/pause"))
    every = cli.ok("audit", "--queue", cli.queue, "--all")
    assert len(every) >= 1050 and [e["number"] for e in every] == sorted({e["number"] for e in every})
    assert cli.ok("audit", "--queue", cli.queue, "--all", "--newest") == every[::-1]
    assert cli.ok("audit", "--queue", cli.queue) == every[:100]
    assert cli.ok("audit", "--queue", cli.queue, "--limit", "1020") == every[:1020]


def follow(cli, tmp_path, *args):
    out = tmp_path / "followed"
    with open(out, "wb") as file:
        process = subprocess.Popen([NIXIE, "audit", "-f", *map(str, args)], env=environment(cli.env), stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=subprocess.PIPE)
    return process, lambda: [json.loads(line) for line in out.read_text().splitlines()]


def end(process):
    process.kill()
    process.communicate()


def test_follow(cli, dead, history, tmp_path):
    process, seen = follow(cli, tmp_path, "--queue", cli.queue)
    try:
        wait_until(lambda: len(seen()) == 3)
        path = f"/queues/{cli.queue.replace('/', '%2F')}"
        dead.api("POST", path + "/pause", {"reason": "again"})
        wait_until(lambda: len(seen()) == 4)
        dead.api("POST", path + "/resume")
        wait_until(lambda: len(seen()) == 5)
        assert seen() == cli.ok("audit", "--queue", cli.queue)
        assert process.poll() is None
    finally:
        end(process)


def test_follow_begins_with_the_newest_few(cli, dead, history, tmp_path):
    path = f"/queues/{cli.queue.replace('/', '%2F')}"
    for i in range(20):
        dead.api("POST", path + "/pause")
    every = cli.ok("audit", "--queue", cli.queue)
    process, seen = follow(cli, tmp_path, "--queue", cli.queue)
    try:
        wait_until(lambda: len(seen()) == 10)
        dead.api("POST", path + "/resume")
        wait_until(lambda: len(seen()) == 11)
        assert seen()[:10] == every[-10:]
    finally:
        end(process)


def test_follow_from_a_number(cli, dead, history, tmp_path):
    first = cli.ok("audit", "--queue", cli.queue)[0]["number"]
    process, seen = follow(cli, tmp_path, "--queue", cli.queue, "--after", first)
    try:
        wait_until(lambda: len(seen()) == 2)
        assert actions(seen()) == ["queue_paused", "queue_resumed"]
    finally:
        end(process)


def test_follow_ends_with_the_server(fake, tmp_path):
    answers = iter([(200, {"entries": [{"number": 5}], "next": None}), (200, {"entries": [{"number": 5}], "next": None}), None, None])
    f = fake(lambda *_: next(answers))
    process, seen = follow(f.cli, tmp_path)
    stderr = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 7 and "cannot reach" in stderr and [e["number"] for e in seen()] == [5]


@pytest.mark.parametrize("args, said", [
    (["--action", "sneeze"], "--action sneeze: no such action"),
    (["-f", "--newest"], "--follow goes on to what is newer"),
    (["-f", "-o", "json"], "-o ndjson"),
    (["--newest", "--after", "1"], "--newest goes with --before"),
    (["--before", "1"], "--before goes with --newest"),
    (["extra"], "extra: one argument too many"),
    (["--actor", "x" * 129], "--actor: longer than 128 bytes"),
])
def test_wrong_usage(args, said):
    done = run("audit", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


def test_an_audit_that_does_not_go_on(fake):
    f = fake(lambda *_: (200, {"entries": [{"number": 1}], "next": 1}))
    assert "does not go on" in f.cli.fails(3, "audit", "--all")
    f = fake(lambda *_: (200, {"entries": 1}))
    assert "does not go on" in f.cli.fails(1, "audit")
    f = fake(lambda *_: (200, {"entries": [{"number": 1}], "next": 5}))
    assert "does not go on" in f.cli.fails(3, "audit", "--all", "--newest")


def test_no_control_character_reaches_a_terminal(fake):
    entry = dict.fromkeys(("number", "at", "actor", "action", "queue", "target", "count", "scope", "result", "reason"), EVIL)
    f = fake(lambda *_: (200, {"entries": [entry], "next": None}))
    for more in ([], ["-o", "json"], ["-o", "ndjson"]):
        _, text = on_terminal(f.cli, "audit", *more)
        assert controls(text) == [], text
