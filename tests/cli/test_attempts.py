"""nixie attempts and nixie diff: the story of a message, and what differs."""
import json
import random

import pytest
from deadtools import Mortuary
from test_output import EVIL, controls, on_terminal

from lib.server import run


@pytest.fixture
def dead(cli):
    return Mortuary(cli)


@pytest.fixture
def story(cli, dead):
    """A letter that failed in three ways, was replayed, and died."""
    cli.policy(max_retries=10)
    [id] = cli.put('{"to": "a"}')
    dead.fail(worker="w1", version="1.3", error_class="Timeout", error="no answer after 3000 ms", detail="at connect\nat send")
    dead.fail(worker="w2", version="1.4", error_class="Timeout", error="no answer after 5000 ms", detail="at connect\nat retry\nat send")
    dead.fail(worker="w2", version="1.4", permanent=True, error_class="BadData", error="no such address")
    cli.ok("replay", cli.queue, id, "--actor", "ann")
    dead.fail(worker="w3", version="1.5", permanent=True, error_class="BadData", error="still no such address")
    return id


def test_table(cli, story):
    header, *rows = cli.table("attempts", cli.queue, story)
    assert header.split() == ["ATTEMPT", "OUTCOME", "AT", "BY", "VERSION", "TOOK", "NEXT", "CLASS", "ERROR"]
    assert [row.split()[:2] for row in rows] == [["1", "failed"], ["2", "failed"], ["3", "failed"], ["3", "replayed"], ["4", "failed"]]
    assert rows[0].endswith("Timeout  no answer after 3000 ms") and " w1 " in rows[0] and " 1.3 " in rows[0]
    assert "ms  2" in rows[0]  # how long it took, and when it was next
    assert " ann " in rows[3]
    assert "at connect" not in "\n".join(rows)


def test_details(cli, story):
    text = "\n".join(cli.table("attempts", story, "--detail"))
    assert "\n\nDetail of attempt 1:\nat connect\nat send\n\nDetail of attempt 2:\nat connect\nat retry\nat send" in text


def test_machine_output_is_all_of_it(cli, story):
    assert cli.ok("attempts", cli.queue, story) == cli.ok("attempts", story) == cli.story(story)
    assert json.loads(cli.run("attempts", story, "-o", "json").stdout) == cli.story(story)


def test_a_claim_without_outcome_is_shown(cli):
    [id] = cli.put("a")
    done = cli.run("attempts", id)
    assert (done.returncode, done.stdout) == (0, "") and "nothing happened to it yet" in done.stderr
    cli.ok("claim", cli.queue, "--worker", "w1")
    rows = cli.table("attempts", id)
    assert rows[1].split()[:2] == ["1", "claimed"]


def test_attempts_without_a_line(cli, dead):
    cli.policy(max_retries=250)
    [id] = cli.put("a")
    for i in range(40):
        dead.fail(error_class="Timeout", error=f"error {i}")
    done = cli.run("attempts", id, "-o", "table")
    assert done.returncode == 0
    omitted = cli.api("GET", f"/messages/{id}/attempts").json()["attempts_omitted"]
    shown = [int(row.split()[0]) for row in done.stdout.splitlines()[1:]]
    assert omitted == 0 or f"{omitted} of its 40 attempts have no line" in done.stderr
    assert len(shown) == 40 - omitted and shown[:3] == [1, 2, 3] and shown[-20:] == list(range(21, 41))


def test_omitted_attempts_are_told(fake):
    lines = [{"attempt": i, "event": "failed"} for i in (1, 2, 3, *range(21, 41))]
    f = fake(lambda m, path, b: (200, {"attempts": lines, "attempts_total": 40, "attempts_omitted": 17}))
    done = f.cli.run("attempts", "q", "7")
    assert "17 of its 40 attempts have no line: the first 3 and the last 20 are kept" in done.stderr


def test_unknown(cli, story):
    assert "999999999" in cli.fails(4, "attempts", 999999999)
    assert cli.queue in cli.fails(4, "attempts", cli.queue, 999999999)
    assert "other" in cli.fails(4, "attempts", "other", story)


@pytest.mark.parametrize("args, said", [
    (["attempts"], "too few arguments"),
    (["attempts", "x"], "x: not an id"),
    (["attempts", "q", "x"], "x: not an id"),
    (["attempts", "", "1"], "the queue's name is empty"),
    (["diff", "1"], "too few arguments"),
    (["diff", "1", "2", "3", "4"], "4: one argument too many"),
    (["diff", "1", "x"], "x: not an id"),
    (["diff", "1@x", "2"], "x: not the number of an attempt"),
    (["diff", "1@", "2"], ": not the number of an attempt"),
    (["diff", "1", "2", "x"], "x: not the number of an attempt"),
    (["diff", "1@1", "2", "3"], "ID@ATTEMPT, or ID ATTEMPT ATTEMPT"),
    (["diff", "1" * 70, "2"], "not an id"),
    (["show", "x"], "x: not an id"),
])
def test_wrong_usage(args, said):
    done = run(*args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


def test_show_by_id_alone(cli, story):
    [shown] = cli.ok("show", story)
    assert shown == cli.ok("show", cli.queue, story)[0]
    assert cli.run("show", story, "--payload").stdout == '{"to": "a"}'


def test_replay_is_forced_only_when_asked(cli, dead):
    cli.policy(redrive_limit=0)
    id = dead.die()
    cli.fails(5, "replay", cli.queue, id)
    [message] = cli.ok("replay", cli.queue, id, "--force", "--reason", "it must")
    assert message["status"] == "pending"
    assert cli.ok("audit", "--queue", cli.queue, "--newest", "--limit", "1")[0]["reason"] == "it must"


# -- diff -------------------------------------------------------------------------------------------------------------------


def fields(items):
    return {i["field"]: (i.get("left"), i.get("right")) for i in items}


def test_diff_of_attempts(cli, story):
    differences = fields(cli.ok("diff", story, 1, 2))
    assert differences["worker"] == ("w1", "w2") and differences["worker_version"] == ("1.3", "1.4")
    assert differences["error"] == ("no answer after 3000 ms", "no answer after 5000 ms")
    assert differences["detail"] == ("at connect\nat send", "at connect\nat retry\nat send")
    assert "event" not in differences and "error_class" not in differences and "attempt" not in differences
    assert fields(cli.ok("diff", f"{story}@1", f"{story}@2")) == differences
    assert fields(cli.ok("diff", f"{story}@2", f"{story}@3"))["detail"] == ("at connect\nat retry\nat send", None)
    done = cli.run("diff", story, 1, 1)
    assert (done.returncode, done.stdout) == (0, "") and f"{story}@1 and {story}@1 are the same" in done.stderr


def test_diff_as_a_table(cli, story):
    lines = cli.table("diff", story, 1, 2)
    assert lines[0].split() == ["FIELD", f"{story}@1", f"{story}@2"]
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert rows["worker"].split() == ["worker", "w1", "w2"]
    assert "\n\ndetail\n  at connect\n+ at retry\n  at send" in "\n".join(lines)


def test_diff_of_the_newest_attempt(cli, dead, story):
    other = dead.die(error_class="BadData", error="none", worker="w9", version="2")
    assert fields(cli.ok("diff", f"{story}@3", other))["worker"] == ("w2", "w9")
    assert fields(cli.ok("diff", story, f"{other}@1"))["error"] == ("still no such address", "none")


def test_diff_of_letters(cli, dead):
    a = dead.die('{"id": 1, "to": {"name": "ann", "city": "Rome"}, "x": [1, 2]}', message={"headers": {"tenant": "acme", "n": 1}})
    b = dead.die('{"id": 1, "to": {"name": "bob", "city": "Rome"}, "x": [1, 2]}', worker="w2",
                 message={"headers": {"tenant": "zeta", "n": 1}, "priority": 3, "key": "k"})
    differences = fields(cli.ok("diff", a, b))
    assert differences["headers.tenant"] == ("acme", "zeta") and "headers.n" not in differences
    assert differences["priority"] == (None, 3) and differences["key"] == (None, "k") and differences["death.worker"] == ("w1", "w2")
    assert not {"id", "updated_at", "death.dead_seq", "death.origin.id", "queue", "reason"} & set(differences)
    text = "\n".join(cli.table("diff", a, b))
    assert '\n\npayload\n  {\n    "id": 1,\n    "to": {\n-     "name": "ann",\n+     "name": "bob",\n      "city": "Rome"\n    },\n' in text


def test_diff_of_payloads_that_differ_in_layout_only(cli, dead):
    a, b = dead.die('{"a": 1, "b": "' + "x" * 60 + '"}'), dead.die('{"a":1,"b":"' + "x" * 60 + '"}')
    text = "\n".join(cli.table("diff", a, b))
    assert '- {"a": 1, ' in text and '+ {"a":1,' in text


def test_diff_of_what_is_not_there(cli, story):
    assert "has no attempt 9: there were 4" in cli.fails(4, "diff", story, 1, 9)
    assert "has no attempt 0" in cli.fails(4, "diff", story, 0, 1)
    cli.fails(4, "diff", story, 999999999)


def test_diff_of_an_attempt_without_a_line(fake):
    def reply(method, path, body):
        if path.endswith("/attempts"):
            return 200, {"attempts": [{"attempt": 1, "event": "failed"}], "attempts_total": 40, "attempts_omitted": 17}
        return 200, {"id": 7, "queue": "q"}
    assert "attempt 9 of 7 has no line: the first 3 and the last 20 are kept" in fake(reply).cli.fails(4, "diff", 7, 1, 9)


def common(a, b):
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        row, above = [0], row
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(row[j], above[j + 1]))
    return row[-1]


@pytest.mark.parametrize("seed", range(25))
def test_diff_of_lines_is_right_and_small(fake, seed):
    r = random.Random(seed)
    a = [r.choice("abcdefgh"[:r.choice((2, 8))]) + "|" for _ in range(r.choice((0, 1, 5, 30)))]
    b = [line for line in a if r.random() < 0.8]
    for _ in range(r.choice((0, 1, 3, 8))):
        b.insert(r.randrange(len(b) + 1), r.choice("abcdefgh") + "|")
    a, b = ["begin", *a, "end"], ["begin", *b, "end"]
    texts = {7: "\n".join(a), 8: "\n".join(b)}
    f = fake(lambda m, path, body: (200, {"id": 0, "queue": "q", "detail": texts[int(path.split("/")[2])]}))
    lines = f.cli.table("diff", 7, 8)
    if a == b:
        assert lines == []
        return
    at = lines.index("detail") if "detail" in lines else None
    if at is None:  # both are short and on one line each
        return
    marked = lines[at + 1:]
    left, right = [m[2:] for m in marked if m[:2] == "- "], [m[2:] for m in marked if m[:2] == "+ "]
    both = len(a) - len(left)
    assert both == len(b) - len(right) == common(a, b)
    # each side, without what the dots stand for, is what it was
    for side, mark in ((a, "- "), (b, "+ ")):
        rest = iter(side)
        for m in marked:
            if m[:2] in (mark, "  "):
                assert any(line == m[2:] for line in rest), (marked, side)


def test_diff_of_endless_texts(fake):
    texts = {7: "\n".join(f"a{i}" for i in range(30000)), 8: "\n".join(f"b{i}" for i in range(30000))}
    f = fake(lambda m, path, body: (200, {"id": 0, "queue": "q", "detail": texts[int(path.split("/")[2])]}))
    lines = f.cli.table("diff", 7, 8)
    assert len(lines) == 60000 + 2 or len(lines) == 60000 + 1
    f = fake(lambda m, path, body: (200, {"id": 0, "queue": "q", "detail": texts[7] + ("\nend" if path.endswith("8") else "")}))
    assert f.cli.table("diff", 7, 8)[-2:] == ["  a29999", "+ end"]


def test_diff_of_a_last_newline(fake):
    f = fake(lambda m, path, body: (200, {"id": 0, "queue": "q", "detail": "a\nb" + ("\n" if path.endswith("8") else "")}))
    assert f.cli.table("diff", 7, 8)[-1] == "(only one ends with a newline)"


def test_no_control_character_reaches_a_terminal(fake):
    name = EVIL.replace("\0", "")
    line = dict.fromkeys(("attempt", "event", "at", "worker", "worker_version", "next_at", "error_class", "error", "detail"), EVIL)

    def reply(method, path, body):
        if "404" in path:
            return 404, {"title": EVIL, "status": 404, "detail": EVIL}
        if path.endswith("/attempts"):
            return 200, {"attempts": [{**line, "attempt": i, "event": "failed", "x": f"{EVIL}{i}", "detail": f"{i}\n{EVIL}"}
                                      for i in (1, 2)], "attempts_total": 2}
        n = path[-1]
        return 200, {"id": 7, "queue": "nul\0" if n == "9" else EVIL.replace("\0", "") + "é", name: n, "headers": {name: n},
                     "detail": f"{n}\n{EVIL}"}
    f = fake(reply)
    for args in (["attempts", "7"], ["attempts", "7", "--detail"], ["diff", "7", "8"], ["diff", "7", "1", "2"], ["attempts", "9"],
                 ["attempts", "404"], ["attempts", "q", "404"]):
        for more in ([], ["-o", "json"], ["-o", "ndjson"]):
            _, text = on_terminal(f.cli, *args, *more)
            assert [c for c in controls(text) if c != "\t"] == [], text
