"""nixie edit: in an editor and without one, what is shown, what is sent."""
import json
import pathlib
import re
import signal
import subprocess

import pytest
from deadtools import Running, Terminal, bury, counts, get

from lib.server import NIXIE, environment, run


def payload(cli, id):
    return subprocess.run([NIXIE, "show", cli.queue, str(id), "--payload"], env=environment(cli.env), capture_output=True).stdout


@pytest.fixture
def editor(script, tmp_path):
    """editor(text) -> environment in which $EDITOR is a script on the file $1."""
    folder = tmp_path / "edited"
    folder.mkdir()

    def make(text, name="EDITOR"):
        return {name: str(script(text)), "TMPDIR": str(folder)}
    make.files = lambda: sorted(folder.iterdir())
    return make


@pytest.mark.parametrize("args, said", [
    (["q"], "too few arguments"),
    (["q", "x"], "x: not an id"),
    (["q", "1"], "without a terminal for an editor, say what is to change"),
    (["q", "1", "--headers", "--yes"], "without a terminal for an editor"),
    (["q", "1", "--set", "payload.a=1"], "needs --yes"),
    (["q", "1", "--payload", "-"], "needs --yes"),
    (["q", "1", "--payload", "-", "--headers", "--yes"], "only one of them"),
    (["q", "1", "--payload", "-", "--remove", "payload.a", "--yes"], "only one of them"),
    (["q", "1", "--header", "novalue", "--yes"], "--header novalue: must be NAME=VALUE"),
    (["q", "1", "--set", "payload.a=", "--yes"], "is not JSON"),
    (["q", "1", "--remove", "a.b", "--yes"], "must be header.NAME, or payload."),
    (["q", "1", "--remove", "payload.a", "--yes", "--reason", "x" * 1025], "longer than 1024 bytes"),
])
def test_wrong_usage(args, said):
    done = run("edit", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr


# -- in an editor --------------------------------------------------------------------------------------------------------

def test_in_an_editor(cli, editor):
    [id] = bury(cli, 1, payload='{"to": "ann@example.com", "n": 1.10}')
    env = editor(f'sed -i s/example.com/example.org/ "$1"; stat -c %a "$1" > {cli.tmp}/mode')
    terminal = Terminal(cli, "edit", cli.queue, id, "--reason", "typo", env=env)
    terminal.until(r"Send this copy of \S+ \d+\? \[y/N\] ")
    assert '-   "to": "ann@example.com",\n+   "to": "ann@example.org",\n    "n": 1.10\n' in terminal.text
    terminal.type("y\n")
    code, text = terminal.end()
    assert code == 0, text
    copy = cli.message(id)["edited_to"]
    assert f"sent as {copy}" in text and str(copy) in text.splitlines()[-1]
    assert payload(cli, copy) == b'{"to": "ann@example.org", "n": 1.10}'
    assert (cli.message(copy)["parent_id"], cli.message(copy)["status"], cli.status(id)) == (id, "pending", "dead")
    assert (cli.tmp / "mode").read_text() == "600\n"
    assert editor.files() == []
    entry = next(e for e in get(cli, "/audit?order=newest")["entries"] if e["action"] == "edit")
    assert entry["reason"] == "typo"


def test_visual_comes_first_and_may_have_arguments(cli, editor):
    [id] = bury(cli, 1)
    env = {**editor('echo "$1" > "$2"', "VISUAL"), "EDITOR": "false"}
    env["VISUAL"] += " 'new text'"
    terminal = Terminal(cli, "edit", cli.queue, id, "--yes", env=env)
    assert terminal.end()[0] == 0
    assert payload(cli, cli.message(id)["edited_to"]) == b"new text"


@pytest.mark.parametrize("before, command, after", [
    ("a\nb", 'echo c >> "$1"', "a\nbc"),          # it had no newline at its end: what the editor adds there is taken off
    ("a\nb\n", 'echo c >> "$1"', "a\nb\nc\n"),
    ("a", 'printf "" > "$1"', ""),
    ("a", 'printf "ä\\n\\n" > "$1"', "ä\n"),
])
def test_the_newline_at_the_end(cli, editor, before, command, after):
    [id] = bury(cli, 1, payload=before)
    assert Terminal(cli, "edit", cli.queue, id, "--yes", env=editor(command)).end()[0] == 0
    assert payload(cli, cli.message(id)["edited_to"]).decode() == after


def test_unchanged(cli, editor, tmp_path):
    [id] = bury(cli, 1, payload='{"a": 1}')
    for command in ("true", 'echo >> "$1"'):
        code, text = Terminal(cli, "edit", cli.queue, id, env=editor(command)).end()
        assert code == 0 and "unchanged; nothing was sent" in text
    (tmp_path / "same").write_text('{"a": 1}')
    for args in (["--payload", tmp_path / "same"], ["--set", "payload.a=1"], ["--remove", "header.x"]):
        done = cli.run("edit", cli.queue, id, *args, "--yes")
        assert (done.returncode, done.stdout) == (0, "") and "unchanged; nothing was sent" in done.stderr
    assert "edited_to" not in cli.message(id) and counts(cli)["pending"] == 0


def test_declined(cli, editor):
    [id] = bury(cli, 1)
    terminal = Terminal(cli, "edit", cli.queue, id, env=editor('echo y > "$1"'))
    terminal.until(r"\[y/N\] ")
    terminal.type("\n")
    code, text = terminal.end()
    assert code == 1 and "not confirmed" in text
    assert "edited_to" not in cli.message(id) and editor.files() == []


def test_an_editor_that_fails(cli, editor):
    [id] = bury(cli, 1)
    code, text = Terminal(cli, "edit", cli.queue, id, env=editor('echo y > "$1"; exit 3')).end()
    assert code == 1 and "ended with exit status 3; nothing was sent" in text
    code, text = Terminal(cli, "edit", cli.queue, id, env={"EDITOR": "/no/such/editor"}).end()
    assert code == 1 and "ended with exit status 127" in text
    code, text = Terminal(cli, "edit", cli.queue, id, env={"EDITOR": "true", "TMPDIR": "/no/such/folder"}).end()
    assert code == 1 and "/no/such/folder" in text
    assert "edited_to" not in cli.message(id) and editor.files() == []


def test_headers_in_an_editor(cli, editor):
    [id] = bury(cli, 1, headers={"tenant": "acme", "n": 5})
    env = editor('sed -i s/acme/umbrella/ "$1"')
    code, text = Terminal(cli, "edit", cli.queue, id, "--headers", "--yes", env=env).end()
    assert code == 0 and '-   "tenant": "acme",\n+   "tenant": "umbrella",\n' in text
    copy = cli.message(cli.message(id)["edited_to"])
    assert copy["headers"] == {"tenant": "umbrella", "n": 5} and copy["payload"] == "x"


def test_headers_that_are_none(cli, editor):
    [id] = bury(cli, 1)
    code, text = Terminal(cli, "edit", cli.queue, id, "--headers", "--yes", env=editor('cat "$1"')).end()
    assert code == 0 and "unchanged" in text and "{}" in text
    for bad, said in (("[1]", "must be a JSON object"), ('{"a": 1,}', "line 1, column")):
        code, text = Terminal(cli, "edit", cli.queue, id, "--headers", "--yes", env=editor(f"echo '{bad}' > \"$1\"")).end()
        assert code == 1 and said in text
        kept = pathlib.Path(re.search(r"what you wrote is kept in (\S+)", text)[1])
        assert kept.read_text() == bad + "\n"
        kept.unlink()
    [with_headers] = bury(cli, 1, headers={"a": 1})
    code, text = Terminal(cli, "edit", cli.queue, with_headers, "--headers", "--yes", env=editor('printf "" > "$1"')).end()
    assert code == 0 and "headers" not in cli.message(cli.message(with_headers)["edited_to"])


def test_what_was_written_is_not_lost(fake, editor):
    letter = {"id": 7, "queue": "q", "payload": "x", "status": "dead"}
    f = fake(lambda m, p, body: (200, letter) if m == "GET" else None)
    code, text = Terminal(f.cli, "edit", "q", "7", "--yes", env=editor('echo hours of work > "$1"')).end()
    assert code == 7
    [kept] = editor.files()
    assert f"what you wrote is kept in {kept}" in text and kept.read_text() == "hours of work"
    assert kept.stat().st_mode & 0o777 == 0o600


# -- without an editor ---------------------------------------------------------------------------------------------------

def test_a_patch(cli):
    [id] = bury(cli, 1, payload='{"a": {"b": 1e2}, "old" : true}', headers={"x": "1"})
    done = cli.run("edit", cli.queue, id, "--set", "payload.a.c=[1, 2]", "--remove", "payload.old", "--header", "tenant=a=b", "--yes")
    assert done.returncode == 0, done.stderr
    copy = json.loads(done.stdout)
    assert copy["parent_id"] == id and copy["headers"] == {"x": "1", "tenant": "a=b"}
    assert copy["payload"].startswith('{"a": {"b": 1e2') and json.loads(copy["payload"]) == {"a": {"b": 100, "c": [1, 2]}}
    assert '+   "tenant": "a=b"' in done.stderr and '-   "old": true' in done.stderr


def test_removals_come_first(cli):
    [id] = bury(cli, 1, payload='{"a": {"b": 1}}')
    [copy] = cli.ok("edit", cli.queue, id, "--set", "payload.a.c=2", "--remove", "payload.a", "--yes")
    assert json.loads(copy["payload"]) == {"a": {"c": 2}}


def test_a_header_of_a_binary_payload(cli, tmp_path):
    data = bytes(range(256))
    (tmp_path / "in").write_bytes(data)
    [m] = cli.ok("enqueue", cli.queue, "--file", tmp_path / "in")
    cli.ok("claim", cli.queue)
    cli.ok("fail", cli.queue, m["id"], "--permanent")
    [copy] = cli.ok("edit", cli.queue, m["id"], "--header", "tenant=acme", "--yes")
    assert copy["headers"] == {"tenant": "acme"} and payload(cli, copy["id"]) == data
    assert "its payload is no JSON" in cli.fails(1, "edit", cli.queue, m["id"], "--set", "payload.a=1", "--yes", "--force")


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x1b" * 300, "ä\n".encode(), b"x" * 1048576], ids=["empty", "binary", "text", "big"])
def test_a_payload_from_a_file(cli, tmp_path, data):
    a, b = bury(cli, 2, payload="y")
    (tmp_path / "in").write_bytes(data)
    [copy] = cli.ok("edit", cli.queue, a, "--payload", tmp_path / "in", "--yes")
    assert payload(cli, copy["id"]) == data
    done = subprocess.run([NIXIE, "edit", cli.queue, str(b), "--payload", "-", "--yes"], input=data, env=environment(cli.env),
                          capture_output=True)
    assert done.returncode == 0 and payload(cli, json.loads(done.stdout)["id"]) == data


def test_a_file_that_is_not_there(cli, tmp_path):
    [id] = bury(cli, 1)
    assert "No such file" in cli.fails(1, "edit", cli.queue, id, "--payload", tmp_path / "none", "--yes")


def test_what_cannot_be_edited(cli):
    [id] = bury(cli, 1)
    [pending] = cli.put("x")
    args = ["--header", "a=1", "--yes"]
    assert "is pending: only a dead letter can be edited" in cli.fails(5, "edit", cli.queue, pending, *args)
    assert "(404)" in cli.fails(4, "edit", cli.queue, 9007199254740991, *args)
    [copy] = cli.ok("edit", cli.queue, id, *args)
    said = cli.fails(5, "edit", cli.queue, id, *args)
    assert f"an edited copy was sent in its place: {copy['id']} (--force sends another)" in said
    [second] = cli.ok("edit", cli.queue, id, *args, "--force")
    assert second["id"] > copy["id"] and cli.message(id)["edited_to"] == second["id"]


def test_two_edits_at_the_same_time(cli, editor):
    """The second was begun before the first was sent: the server refuses it, and its text is kept."""
    [id] = bury(cli, 1)
    env = editor('echo second > "$1"')
    terminal = Terminal(cli, "edit", cli.queue, id, env=env)
    terminal.until(r"\[y/N\] ")
    [first] = cli.ok("edit", cli.queue, id, "--header", "a=1", "--yes")
    terminal.type("y\n")
    code, text = terminal.end()
    assert code == 5 and "(409)" in text and str(first["id"]) in text
    [kept] = editor.files()
    assert kept.read_text() == "second"


def test_an_interrupt_at_the_question_leaves_nothing_behind(cli, editor):
    [id] = bury(cli, 1)
    terminal = Terminal(cli, "edit", cli.queue, id, env=editor('echo y > "$1"'))
    terminal.until(r"\[y/N\] ")
    terminal.type("\x03")
    assert terminal.end()[0] == -signal.SIGINT
    assert "edited_to" not in cli.message(id) and editor.files() == []


def test_without_a_terminal_it_does_not_hang(cli):
    [id] = bury(cli, 1)
    for args in ([], ["--headers"], ["--header", "a=1"]):
        code, out, err = Running(cli, "edit", cli.queue, id, *args).end(10)
        assert (code, out) == (2, ""), err
