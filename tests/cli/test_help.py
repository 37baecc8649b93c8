"""Help, usage errors, settings: what needs no server."""
import pathlib
import re
import shutil
import subprocess

import pytest

from lib.server import ROOT, run

COMMANDS = ["queues", "enqueue", "claim", "succeed", "fail", "release", "extend", "replay", "ls", "show", "dead", "groups", "group",
            "attempts", "diff", "redrive", "jobs", "discard", "undiscard", "edit", "purge", "pause", "resume", "export", "import",
            "audit", "top", "classify", "doctor", "plan", "balance", "apply", "dump", "import-rabbitmq", "policies",
            "policy", "vhosts", "vhost", "work", "bench", "version", "help"]


def test_overview_lists_every_command():
    done = run("--help")
    assert done.returncode == 0 and done.stderr == ""
    listed = re.findall(r"^  ([a-z-]+) +[A-Z]", done.stdout, re.M)
    assert set(listed) == {*COMMANDS, "serve", "log"}
    assert done.stdout == run("help").stdout == run("-h").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    done = run(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"Usage: nixie {command} ")
    assert f"  nixie {command}" in done.stdout.split("Examples:")[1]
    assert "Exit status: 0 done;" in done.stdout
    assert run("help", command).stdout == done.stdout
    assert run("--help", command).stdout == done.stdout


@pytest.mark.parametrize("command", ["serve", "log"])
def test_help_of_what_main_runs_itself(command):
    done = run("help", command)
    assert done.returncode == 0
    assert f"nixie {command}" in done.stdout


def test_version():
    assert re.fullmatch(r"nixie \d+\.\d+\.\d+\n", run("version").stdout)
    assert run("--version").stdout == run("-V").stdout == run("version").stdout
    assert re.fullmatch(r'\{"version": "[\d.]+"\}\n', run("version", "-o", "json").stdout)


@pytest.mark.parametrize("args, said", [
    ([], "which command?"),
    (["nonsense"], "nonsense: no such command"),
    (["help", "nonsense"], "nonsense: no such command"),
    (["--nonsense"], "--nonsense: no such option"),
    (["ls"], "too few arguments"),
    (["ls", "q", "extra"], "extra: one argument too many"),
    (["ls", ""], "the queue's name is empty"),
    (["ls", "q" * 256], "longer than 255 bytes"),
    (["ls", b"\xff"], "not UTF-8"),
    (["ls", "q", "--limit"], "--limit: needs a value"),
    (["ls", "q", "--limit", "0"], "--limit 0: must be a whole number from 1 to"),
    (["ls", "q", "--limit", "1x"], "--limit 1x: must be"),
    (["ls", "q", "--limit", "99999999999999999999"], "must be a whole number"),
    (["ls", "q", "-x"], "-x: no such option"),
    (["ls", "q", "-o", "xml"], "-o xml: must be table, json or ndjson"),
    (["ls", "q", "--status", "gone"], "--status gone: must be pending"),
    (["ls", "q", "--server", "example.org"], "must be a URL"),
    (["ls", "q", "--token", "a\nb"], "the token holds"),
    (["show", "q", "-1"], "-1: no such option"),
    (["show", "q", "x1"], "x1: not an id"),
    (["show", "q", "9007199254740992"], "not an id"),
    (["succeed", "q", "1", "x"], "x: not an id"),
    (["succeed", "q"], "too few arguments"),
    (["claim", "q", "--wait", "21"], "--wait 21: must be a whole number of seconds from 0 to 20"),
    (["claim", "q", "--count", "1001"], "--count 1001: must be"),
    (["claim", "q", "--lease", "13h"], "--lease 13h: must be"),
    (["enqueue", "q", "x", "--priority", "10"], "--priority 10: must be"),
    (["enqueue", "q", "x", "--header", "novalue"], "--header novalue: must be NAME=VALUE"),
    (["enqueue", "q", "x", "--lines"], "only one of them"),
    (["enqueue", "q", "--lines", "--idempotency-key", "k"], "--lines are many"),
    (["queues", "--put", "f"], "which queue?"),
    (["queues", "q", "--discard"], "--discard goes with --delete"),
    (["queues", "q", "--put", "f", "--delete"], "not both"),
    (["queues", "q", "--delete", "--discard"], "needs --yes"),
    (["policy", "make", "x"], "make: must be put or delete"),
    (["policy", "put", "x", "^q"], "put needs NAME PATTERN DEFINITION"),
    (["policy", "put", "x", "^q", "{"], "the definition is no JSON"),
    (["policy", "put", "x", "^q", "[]"], "the definition must be an object"),
    (["policy", "delete", "x", "--priority", "1"], "go with put"),
    (["dump", "q", "--rabbitmq"], "--rabbitmq writes all queues"),
    (["dump", "--vhost", "v"], "--vhost goes with --rabbitmq"),
    (["work", "q"], "too few arguments"),
    (["work", "q", "--", "no-such-program-here"], "no such program"),
    (["work", "q", "--", "/etc/passwd"], "may not be executed"),
    (["work", "q", "cat", "-u"], "put -- before the COMMAND"),
    (["work", "q", "-j", "0", "--", "cat"], "must be a whole number from 1 to"),
])
def test_wrong_usage(args, said):
    args = [a if isinstance(a, str) else a.decode("utf-8", "surrogateescape") for a in args]
    done = run(*args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stderr.startswith("nixie: ") and said in done.stderr, done.stderr
    assert "More: nixie " in done.stderr
    assert done.stdout == ""


def test_options_before_the_command_and_after_arguments(fake):
    f = fake(lambda *_: (200, {"messages": [], "count": 0}))
    for args in (["--server", f.url, "-q", "ls", "a b"], ["ls", "a b", "-q", f"--server={f.url}/"],
                 ["-q", "ls", "--server", f.url, "--", "a b"]):
        done = run(*args)
        assert done.returncode == 0 and done.stderr == "", done.stderr
    assert {r[1] for r in f.requests} == {"/queues/a%20b/messages?limit=100"}


def test_names_are_encoded(fake):
    f = fake(lambda *_: (200, {"messages": [], "count": 0}))
    for name in ("a/b", "..", ".", "ä", "a?b#c%", "-"):
        assert run("ls", name, env={"NIXIE_SERVER": f.url}).returncode == 0
    assert [r[1].split("/")[2] for r in f.requests] == ["a%2Fb", "%2E.", "%2E", "%C3%A4", "a%3Fb%23c%25", "-"]


def test_token_sources(fake, tmp_path):
    f = fake(lambda *_: (200, {"messages": [], "count": 0}))
    file = tmp_path / "token"
    file.write_text("from-file\n")
    env = {"NIXIE_SERVER": f.url}
    run("ls", "q", env=env)
    run("ls", "q", "--token", "given", env={**env, "NIXIE_TOKEN": "from-env"})
    run("ls", "q", "--token-file", file, env={**env, "NIXIE_TOKEN": "from-env"})
    run("ls", "q", env={**env, "NIXIE_TOKEN": "from-env"})
    run("ls", "q", env={**env, "NIXIE_TOKEN_FILE": str(file)})
    assert [r[3].get("Authorization") for r in f.requests] == [
        None, "Bearer given", "Bearer from-file", "Bearer from-env", "Bearer from-file"]
    done = run("ls", "q", "--token-file", tmp_path / "none", env=env)
    assert done.returncode == 2 and "No such file" in done.stderr


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
@pytest.mark.parametrize("page", sorted(pathlib.Path(ROOT, "man").glob("*.1")), ids=lambda p: p.name)
def test_man_pages_are_well_formed(page):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", done.stdout


def test_man_page_tells_of_every_option():
    page = "".join(p.read_text() for p in pathlib.Path(ROOT, "man").glob("*.1")).replace("\\-", "-")
    for command in COMMANDS:
        for option in re.findall(r"--([a-z][a-z-]+)", run(command, "--help").stdout.split("\nOptions:")[-1].split("Examples:")[0]):
            assert re.search(rf"Fl (\w , )?(Fl )?-{option}\b", page), f"{command} --{option}"
