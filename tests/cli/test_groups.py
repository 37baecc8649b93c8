"""nixie groups and nixie group: causes, one a line and one on a page."""
import json

import pytest
from deadtools import Mortuary
from test_output import EVIL, controls, on_terminal

from lib.server import run


@pytest.fixture
def dead(cli):
    return Mortuary(cli)


@pytest.fixture
def causes(cli, dead):
    """Three letters of one cause, one of another; returns their keys."""
    for i in range(3):
        dead.die(f"t{i}", error_class="Timeout", error=f"no answer after {i + 1}00 ms", version=f"1.{i}")
    rare = dead.die("r", error_class="BadData", error="no such customer", detail="Traceback\n  at checkout.py\n  at line")
    return dead.group_of(rare - 1), dead.group_of(rare)


def test_list(cli, dead, causes):
    timeout, rare = causes
    groups = cli.ok("groups", cli.queue)
    assert [g["key"] for g in groups] == [rare, timeout]
    assert [(g["count"], g["last_hour"], g["last_day"]) for g in groups] == [(1, 1, 1), (3, 3, 3)]
    assert {v["version"]: v["count"] for v in groups[1]["versions"]} == {"1.0": 1, "1.1": 1, "1.2": 1}
    assert [g["key"] for g in cli.ok("groups", cli.queue, "--sort", "count")] == [timeout, rare]
    assert [g["key"] for g in cli.ok("groups", cli.queue, "--sort", "title")] == [rare, timeout]
    assert [g["key"] for g in cli.ok("groups", cli.queue, "--limit", "1")] == [rare]
    assert [g["key"] for g in json.loads(cli.run("groups", cli.queue, "-o", "json").stdout)] == [rare, timeout]


def test_filters(cli, causes):
    timeout, rare = causes
    for args in ([cli.queue, "error:Timeout"], [f'queue:"{cli.queue}"', "error:Timeout"], ["--queue", cli.queue, "error:Time*"],
                 [cli.queue, "count:>=2"], [cli.queue, "error:Timeout", "OR", "error:Nothing"], [cli.queue, f"group:{timeout}"]):
        assert [g["key"] for g in cli.ok("groups", *args)] == [timeout], args
    assert cli.ok("groups", cli.queue, "state:resolved") == []
    stderr = cli.fails(1, "groups", cli.queue, "colour:red")
    said, text, marks = stderr.splitlines()
    assert text[marks.index("^"):].startswith("colour")
    done = cli.run("groups", cli.queue, "error:Nothing")
    assert (done.returncode, done.stdout) == (0, "") and "no causes that match the filter" in done.stderr


def test_a_queue_with_quotes_in_its_name(cli, dead):
    cli.queue += ' "a\\b" *'
    dead.die()
    assert [g["queue"] for g in cli.ok("groups", cli.queue)] == [cli.queue]


def test_table(cli, causes):
    header, *rows = cli.table("groups", cli.queue)
    assert header.split() == ["COUNT", "HOUR", "DAY", "FIRST", "SEEN", "LAST", "SEEN", "STATE", "QUEUE", "VERSIONS", "KEY", "CAUSE"]
    assert rows[1].split()[:3] == ["3", "3", "3"] and "1.0 1.1 1.2" in rows[1] and causes[0] in rows[1]
    cli.ok("group", causes[1], "--ack", "--owner", "ann")
    assert "acknowledged (ann)" in cli.table("groups", cli.queue)[1]
    done = cli.run("groups", cli.queue, "--limit", "1", "-o", "table")
    assert "1 of 2 causes" in done.stderr


def test_without_letters_only_when_asked(cli, dead, causes):
    timeout, rare = causes
    [letter] = cli.ok("dead", f"group:{rare}")
    dead.api("POST", f"/queues/{cli.queue.replace('/', '%2F')}/messages/{letter['id']}/discard", {"why": "test"})
    assert [g["key"] for g in cli.ok("groups", cli.queue)] == [timeout]
    assert {g["key"]: (g["count"], g["state"]) for g in cli.ok("groups", cli.queue, "--all")} == {
        timeout: (3, "open"), rare: (0, "resolved")}


# -- one --------------------------------------------------------------------------------------------------------------------


def test_document(cli, causes):
    timeout, rare = causes
    [group] = cli.ok("group", rare)
    assert group["key"] == rare and group["count"] == 1 and group["error_class"] == "BadData"
    letter = group["newest_letter"]
    assert letter["id"] == group["newest_id"] and letter["detail"] == "Traceback\n  at checkout.py\n  at line"
    assert "payload" not in letter and group["letters"] == [letter["id"]]
    [group] = cli.ok("group", timeout)
    assert group["letters"] == sorted(group["letters"], reverse=True) and len(group["letters"]) == 3
    assert json.loads(cli.run("group", rare, "-o", "json").stdout)["key"] == rare


def test_page(cli, causes):
    timeout, rare = causes
    page = "\n".join(cli.table("group", rare))
    assert page.splitlines()[0].startswith("cause") and "BadData" in page
    assert "1 dead, 0 sent again and open" in page and "1 in the last hour, 1 in the last day, 1 since ever" in page
    assert "  no such customer\n  Traceback\n    at checkout.py\n    at line" in page
    assert "worker w1 (1.4)" in page
    page = "\n".join(cli.table("group", timeout))
    assert "WORKER VERSION" in page and page.count("1.2") >= 2 and f"(nixie dead group:{timeout})" in page


def test_beginning_of_a_key(cli, causes):
    for n in range(len("v1:") + 8, len(causes[0])):
        [group] = cli.ok("group", causes[0][:n])
        assert group["key"] == causes[0]
    assert "several begin with it: v1:" in cli.fails(2, "group", "v1:")
    assert "no cause has a key that begins so" in cli.fails(4, "group", "v1:ffffffffffffffff")
    assert "no cause has a key that begins so" in cli.fails(4, "group", "v9:")


def test_change(cli, causes):
    timeout, _ = causes
    [group] = cli.ok("group", timeout, "--ack", "--owner", "ann", "--note", "waiting for the provider\nuntil noon", "--reason", "pager",
                     "--actor", "bob")
    assert (group["state"], group["owner"], group["note"]) == ("acknowledged", "ann", "waiting for the provider\nuntil noon")
    assert "newest_letter" not in group
    page = "\n".join(cli.table("group", timeout))
    assert "acknowledged, since " in page and "ann" in page and "waiting for the provider\\nuntil noon" in page
    entry = cli.ok("audit", "--queue", cli.queue, "--newest", "--limit", "1")[0]
    assert (entry["actor"], entry["action"], entry["target"], entry["reason"]) == ("bob", "group", timeout, "pager")
    [group] = cli.ok("group", timeout, "--note", "")
    assert (group["state"], group["owner"], group["note"]) == ("acknowledged", "ann", None)
    [group] = cli.ok("group", timeout, "--resolve", "--owner", "")
    assert (group["state"], group["owner"]) == ("resolved", None)
    [group] = cli.ok("group", timeout, "--open")
    assert group["state"] == "open"


def test_regressed(cli, dead, causes):
    timeout, _ = causes
    cli.ok("group", timeout, "--resolve")
    dead.die("again", error_class="Timeout", error="no answer after 900 ms")
    [group] = cli.ok("groups", cli.queue, f"group:{timeout}")
    assert group["state"] == "open" and group["regressed_at"]
    assert "open, regressed" in "\n".join(cli.table("groups", cli.queue))
    assert "after it had been quiet for" in "\n".join(cli.table("group", timeout))


@pytest.mark.parametrize("args, said", [
    ([], "too few arguments"),
    (["v1:0", "--ack", "--resolve"], "--ack, --resolve or --open: only one of them"),
    (["v1:0", "--reason", "x"], "--reason says why something is changed; nothing is"),
    (["v1:0*"], "not the key of a cause"),
    ([""], "not the key of a cause"),
    (["x" * 65], "not the key of a cause"),
    (["v1:0", "--owner", "x" * 129], "--owner: longer than 128 bytes"),
    (["v1:0", "--note", "x" * 4097], "--note: longer than 4096 bytes"),
    (["v1:0", "--ack", "--reason", "x" * 1025], "--reason: longer than 1024 bytes"),
])
def test_wrong_usage(args, said):
    done = run("group", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


def test_wrong_usage_of_the_list():
    done = run("groups", "--sort", "size", env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and "--sort size: must be" in done.stderr


def test_pages_and_ambiguity(fake):
    groups = [{"key": f"v1:{i:016x}", "title": "t", "state": "open"} for i in range(2500)]

    def reply(method, path, body):
        query = dict(p.split("=") for p in path.split("?")[1].split("&"))
        offset, limit = int(query.get("offset", 0)), int(query["limit"])
        return 200, {"groups": groups[offset:offset + limit], "count": limit, "total": 2500}
    f = fake(reply)
    assert [g["key"] for g in f.cli.ok("groups", "--limit", "2200")] == [g["key"] for g in groups[:2200]]
    assert len(f.cli.ok("groups", "--limit", "10000")) == 2500
    stderr = f.cli.fails(2, "group", "v1:0")
    assert stderr.count("v1:00000") == 10 and stderr.endswith(", ...\n")
    assert f.requests[-1][1] == "/groups?q=group%3Av1%3A0%2A&all=yes&limit=11"


def test_a_letter_that_is_gone_meanwhile(fake):
    def reply(method, path, body):
        if path.startswith("/groups?"):
            return 200, {"groups": [{"key": "v1:1"}], "total": 1}
        if path.startswith("/groups/"):
            return 200, {"key": "v1:1", "count": 1, "title": "t", "state": "open"}
        if path.startswith("/dead"):
            return 200, {"letters": [{"id": 5}], "next": None, "complete": True}
        return 404, {"title": "not found", "status": 404}
    f = fake(reply)
    [group] = f.cli.ok("group", "v1:1")
    assert group["newest_letter"] is None and group["letters"] == [5]
    assert "Newest letter" not in "\n".join(f.cli.table("group", "v1:1"))


def test_no_control_character_reaches_a_terminal(fake):
    name = EVIL.replace("\0", "")
    group = {"key": "v1:1", "queue": EVIL, "title": EVIL, "error_class": EVIL, "reason": EVIL, "count": 1, "first_seen": EVIL,
             "last_seen": EVIL, "versions": [{"version": EVIL, "count": EVIL}], "state": EVIL, "state_at": EVIL, "owner": EVIL,
             "note": EVIL, "regressed_at": EVIL, "quiet_seconds": 9223372036854775807, name: EVIL}
    letter = {"id": 5, "error_class": EVIL, "last_error": EVIL, "detail": EVIL, "died_at": EVIL,
              "death": {"worker": EVIL, "worker_version": EVIL}}

    def reply(method, path, body):
        if "evil" in path:
            return 200, {"groups": [{**group, "key": EVIL}], "total": 1}
        if "many" in path:
            return 200, {"groups": [{**group, "key": EVIL}] * 20, "total": 20}
        if path.startswith("/groups?"):
            return 200, {"groups": [group], "total": 1}
        if path.startswith("/dead"):
            return 200, {"letters": [letter], "next": None, "complete": True}
        return 200, letter if path.startswith("/messages") else group
    f = fake(reply)
    for args in (["groups"], ["group", "v1:1"], ["group", "v1:1", "--ack"], ["group", "evil"], ["group", "many"]):
        for more in ([], ["-o", "json"], ["-o", "ndjson"]):
            _, text = on_terminal(f.cli, *args, *more)
            assert [c for c in controls(text) if c != "\t"] == [], text
