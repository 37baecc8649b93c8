"""nixie dead: lists of dead letters, and how errors in filters are shown."""
import json

import pytest
from deadtools import Mortuary
from test_output import EVIL, controls, on_terminal

from lib.server import run


@pytest.fixture
def dead(cli):
    return Mortuary(cli)


def ids(letters):
    return [letter["id"] for letter in letters]


def test_newest_death_first(cli, dead):
    a, b, c = (dead.die(error=f"error {i}") for i in range(3))
    assert ids(cli.ok("dead", cli.queue)) == [c, b, a]
    assert ids(cli.ok("dead", cli.queue, "--oldest")) == [a, b, c]
    assert ids(cli.ok("dead", cli.queue, "--limit", "2")) == [c, b]
    assert ids(json.loads(cli.run("dead", cli.queue, "-o", "json").stdout)) == [c, b, a]


def test_all_queues_without_one(cli, dead):
    here, there = dead.die(error_class="Everywhere"), dead.die(queue=cli.queue + "-b", error_class="Everywhere")
    assert ids(cli.ok("dead", "error:Everywhere")) == [there, here]
    assert ids(cli.ok("dead", cli.queue, "error:Everywhere")) == [here]


def test_no_payload_unless_asked(cli, dead):
    dead.die("secret")
    [letter] = cli.ok("dead", cli.queue)
    assert "payload" not in letter and letter["death"]["worker_version"] == "1.4"
    assert "secret" not in "".join(cli.table("dead", cli.queue))
    [letter] = cli.ok("dead", cli.queue, "--payload")
    assert letter["payload"] == "secret"
    assert cli.table("dead", cli.queue, "--payload")[1].endswith("secret")


def test_table(cli, dead):
    cli.policy(retention={"dead_seconds": 86400 * 3})
    id = dead.die(attempts=3, error_class="Timeout", error="no answer from 10.0.0.1")
    header, row = cli.table("dead", cli.queue)
    assert header.split() == ["ID", "QUEUE", "REASON", "ATTEMPTS", "REDRIVES", "DIED", "EXPIRES", "VERSION", "ERROR"]
    died_at = cli.message(id)["died_at"]
    assert row.split()[:3] == [str(id), cli.queue, "permanent"]
    assert "Timeout: no answer from 10.0.0.1" in row and died_at in row
    assert row.split()[3:5] == ["3", "0"] and ("2d23h" in row or "3d00h" in row) and " 1.4 " in row


def test_filters(cli, dead):
    timeout = dead.die('{"customer": {"id": 7}}', error_class="Timeout", message={"headers": {"tenant": "acme"}})
    refused = dead.die('{"customer": {"id": 8}}', error_class="ConnectionRefused")
    for filter in (["error:Time*"], ["payload.customer.id:7"], ["header.tenant:acme"], ["error:Timeout", "OR", "error:Nothing"],
                   ["error:Timeout payload.customer.id:7"], ["(error:Timeout", "OR", "error:Nothing)"],
                   ["--", "-error:ConnectionRefused"]):
        assert ids(cli.ok("dead", cli.queue, *filter)) == [timeout], filter
    assert ids(cli.ok("dead", "--queue", cli.queue, "error:ConnectionRefused")) == [refused]
    assert ids(cli.ok("dead", cli.queue, "")) == [refused, timeout]


def test_a_queue_whose_name_looks_like_a_filter(cli, dead):
    cli.queue += ":a b"
    id = dead.die()
    assert ids(cli.ok("dead", "--queue", cli.queue)) == [id]
    assert ids(cli.ok("dead", f'queue:"{cli.queue}"')) == [id]
    assert "filter" in cli.fails(1, "dead", cli.queue)


def test_pages(cli, dead):
    all_ids = dead.die_many(2500)
    assert ids(cli.ok("dead", cli.queue, "--all", "--oldest")) == all_ids
    assert ids(cli.ok("dead", cli.queue, "--limit", "1700")) == all_ids[::-1][:1700]
    assert len(cli.ok("dead", cli.queue)) == 100
    table = cli.run("dead", cli.queue, "-o", "table")
    assert table.returncode == 0 and "there may be more: --cursor " in table.stderr and "or --all" in table.stderr
    assert cli.run("dead", cli.queue).stderr == ""
    cursor = table.stderr.split("--cursor ")[1].split(",")[0]
    assert ids(cli.ok("dead", cli.queue, "--cursor", cursor)) == all_ids[::-1][100:200]


def test_nothing(cli, dead):
    assert cli.queue in cli.fails(4, "dead", cli.queue)
    cli.policy()
    done = cli.run("dead", cli.queue)
    assert (done.returncode, done.stdout) == (0, "") and "no dead letters" in done.stderr
    assert "match" not in done.stderr
    done = cli.run("dead", cli.queue, "error:x")
    assert (done.returncode, done.stdout) == (0, "") and "no dead letters that match the filter" in done.stderr
    assert cli.run("dead", cli.queue, "-q").stderr == ""
    assert json.loads(cli.run("dead", cli.queue, "-o", "json").stdout) == []


def test_a_page_that_is_not_complete(fake):
    def reply(method, path, body):
        if "cursor=a" in path:
            return 200, {"letters": [{"id": 2}], "count": 1, "next": None, "complete": True, "looked_at": 5}
        return 200, {"letters": [{"id": 1}], "count": 1, "next": "a", "complete": False, "looked_at": 20000}
    f = fake(reply)
    done = f.cli.run("dead", "payload.x:1")
    assert done.returncode == 3 and json.loads(done.stdout)["id"] == 1
    assert "not complete" in done.stderr and "20000" in done.stderr and "--cursor a, or --all" in done.stderr
    assert "not complete" in f.cli.run("dead", "payload.x:1", "-q").stderr
    assert ids(f.cli.ok("dead", "payload.x:1", "--all")) == [1, 2]
    assert ids(f.cli.ok("dead", "payload.x:1", "--cursor", "a")) == [2]


def test_what_is_asked_for(fake):
    f = fake(lambda *_: (200, {"letters": [], "count": 0, "next": None, "complete": True, "looked_at": 0}))
    f.cli.ok("dead", "a b", "error:x y", "k:ä", "--oldest", "--limit", "7", "--cursor", "5-6")
    f.cli.ok("dead", "error:x", "--payload", "--all")
    assert [r[1] for r in f.requests if r[1].startswith("/dead")] == [
        "/dead?q=error%3Ax%20y%20k%3A%C3%A4&queue=a%20b&limit=7&order=oldest&payload=no&cursor=5-6",
        "/dead?q=error%3Ax&limit=1000"]


def problem(position, length, message="there is no such word"):
    return 422, {"title": "invalid", "status": 422, "errors": [
        {"field": "q", "code": "bad_filter", "message": message, "position": position, "length": length}]}


def marked(stderr):
    """What the marks stand under."""
    said, text, marks = stderr.splitlines()
    assert set(marks) <= {" ", "^"}
    return text[marks.index("^"):len(marks)], len(marks.strip())


def test_where_a_filter_is_wrong(cli):
    for args, bad in ((["colour:red"], "colour"), ([cli.queue, "error:x", "age:2parsecs"], "2parsecs"),
                      (["error:x redrives:many"], "many")):
        stderr = cli.fails(1, "dead", *args)
        said, text, marks = stderr.splitlines()
        assert said.startswith("nixie: dead: the filter: ")
        assert bad in text and marks.index("^") <= text.index(bad) < marks.rindex("^") + 1, stderr


def test_marks(fake):
    answers = {}
    f = fake(lambda *_: answers["now"])
    for text, position, length, under in (
            ("a:b colour:red", 4, 6, "colour"),
            ("a:b ", 3, 0, ""),  # at the end
            ("x:ääää colour:red", 11, 6, "colour"),
            ("x:日本 colour:red", 9, 6, "colour"),  # wide characters: two columns each
            ("x:" + "y" * 500 + " colour:red " + "z" * 500, 503, 6, "colour"),
            ("x:" + "ä" * 500 + " colour:red " + "ä" * 500, 1003, 6, "colour"),
            ("x:\x1b[2J colour:red", 7, 6, "colour"),
            ("colour:red", 0, 400, "colour:red")):
        answers["now"] = problem(position, length)
        stderr = f.cli.fails(1, "dead", text)
        said, shown, marks = stderr.splitlines()
        assert said == "nixie: dead: the filter: there is no such word"
        assert len(shown) < 250 and controls(stderr) == []
        column = marks.index("^") - sum(c in "日本" for c in shown)
        assert shown[column:column + len(under)] == under and len(marks.strip()) == max(1, len(under)), stderr


@pytest.mark.parametrize("position, length", [(-1, 1), (99999, 1), (0, -1), ("x", "y"), (9223372036854775807, 9223372036854775807)])
def test_marks_that_make_no_sense(fake, position, length):
    f = fake(lambda *_: problem(position, length))
    assert "invalid (422)" in f.cli.fails(1, "dead", "a:b")


def test_a_list_that_does_not_go_on(fake):
    f = fake(lambda *_: (200, {"letters": [{"id": 1}], "count": 1, "next": "same", "complete": True, "looked_at": 1}))
    assert "does not go on" in f.cli.fails(3, "dead", "--all")
    for reply in ({}, {"letters": 1}, {"letters": [], "next": 7}, {"letters": [], "next": ""}, {"letters": [], "next": "x" * 2000},
                  {"letters": [], "next": "a\0b"}, []):
        f = fake(lambda *_, reply=reply: (200, reply))
        assert "does not go on" in f.cli.fails(1, "dead")


@pytest.mark.parametrize("args, said", [
    (["--limit", "0"], "--limit 0: must be"),
    (["--cursor", "x" * 2000], "--cursor: longer than"),
    (["-error:x"], "put -- before a filter that begins with -"),
    (["q", "a:" + "x" * 5000], "the filter: longer than 4096 bytes"),
    (["q", "a:" + "x" * 4000, "b:" + "x" * 1000], "the filter: longer than 4096 bytes"),
    (["q" * 256], "longer than 255 bytes"),
    (["q", b"a:\xff".decode("utf-8", "surrogateescape")], "the filter: not UTF-8"),
    (["--actor", "a\nb"], "a control character"),
    (["--actor", "a" * 129], "longer than 128 bytes"),
])
def test_wrong_usage(args, said):
    done = run("dead", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


def test_who_acts(fake):
    f = fake(lambda *_: (200, {"letters": [], "count": 0, "next": None, "complete": True, "looked_at": 0}))
    f.cli.ok("dead")
    f.cli.ok("dead", env={"NIXIE_ACTOR": "ann"})
    f.cli.ok("dead", "--actor", "jürgen", env={"NIXIE_ACTOR": "ann"})
    actors = [r[3].get("Nixie-Actor") for r in f.requests]
    assert actors[0] and actors[1] == "ann"
    assert actors[2].encode("latin-1").decode() == "jürgen"


def test_no_control_character_reaches_a_terminal(fake):
    death = {"dead_seq": 1, "worker_version": EVIL, "expires_at": EVIL, "redrive_count": EVIL}
    letter = {"id": 7, "queue": EVIL, "payload": EVIL, "reason": EVIL, "died_at": EVIL, "error_class": EVIL, "last_error": EVIL,
              "death": death, EVIL.replace("\0", ""): EVIL}
    f = fake(lambda *_: (200, {"letters": [letter], "count": 1, "next": EVIL.replace("\0", ""), "complete": False, "looked_at": 1}))
    g = fake(lambda *_: problem(1, 2, EVIL))
    for c in (f.cli, g.cli):
        for more in ([], ["-o", "json"], ["-o", "ndjson"], ["--payload"]):
            _, text = on_terminal(c, "dead", "a:b", *more)
            assert controls(text) == [], text
