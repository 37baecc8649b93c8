"""nixie doctor: findings of a server and of a file, and the exit status that CI looks at."""
import json

import pytest
from clitools import Cli

from lib.server import run

GOOD = "    owner: ann\n    breaker: {}\n"


@pytest.fixture
def policies(tmp_path):
    """policies(text) -> the path of such a file."""
    def make(text):
        path = tmp_path / "queues.yaml"
        path.write_text(text)
        return str(path)
    return make


def of_file(path, *args):
    """Without a server: (exit status, findings)."""
    done = run("doctor", "-f", path, *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def codes(findings):
    return [(f["code"], f["queue"]) for f in findings]


# -- of a server --------------------------------------------------------------------------------------------------------------


def test_exit_status(cli):
    cli.policy(owner="ann", breaker={})
    done = cli.run("doctor", cli.queue)
    assert (done.returncode, done.stdout) == (0, "") and "nothing found" in done.stderr
    cli.policy(breaker={}, alerts=[{"kind": "new_group", "url": "https://example.org/"}])
    done = cli.run("doctor", cli.queue)
    assert done.returncode == 0 and [json.loads(line)["code"] for line in done.stdout.splitlines()] == ["D21"]
    cli.policy(breaker={})
    assert cli.run("doctor", cli.queue).returncode == 10
    cli.policy(owner="ann", breaker={}, retention={"dead_seconds": 3600}, max_retries=2)
    id = cli.put("x")[0]
    cli.ok("claim", cli.queue)
    cli.ok("fail", cli.queue, str(id), "--permanent")
    done = cli.run("doctor", cli.queue)
    assert done.returncode == 11
    assert [json.loads(line)["code"] for line in done.stdout.splitlines()] == ["D02", "D09"]


def test_forms(cli):
    cli.policy(breaker={})
    done = cli.run("doctor", cli.queue, "-o", "table")
    fact, fix = done.stdout.splitlines()
    assert fact == f"warn      D11  {cli.queue}: nobody is told of dead letters, and nobody answers for them"
    assert fix == "               fix: owner: NAME, and alerts: [{kind: dead_letter, url: ...}]"
    [finding] = json.loads(cli.run("doctor", cli.queue, "-o", "json").stdout)
    assert set(finding) == {"code", "severity", "queue", "fact", "fix"}
    assert json.loads(cli.run("doctor", cli.queue, "-o", "ndjson").stdout) == finding


def test_all_queues_page_by_page(own_server):
    cli = own_server.cli
    for i in range(205):
        cli.queue = f"q{i}"
        cli.policy(breaker={})
    done = cli.run("doctor")
    assert done.returncode == 10
    assert codes(json.loads(line) for line in done.stdout.splitlines()) == [("D11", f"q{i}") for i in range(205)]


def test_no_such_queue(cli):
    cli.fails(4, "doctor", "no-such-queue")
    cli.fails(2, "doctor", "a", "b")


def test_no_server(tmp_path):
    Cli("http://127.0.0.1:1", tmp_path).fails(7, "doctor")


@pytest.mark.parametrize("reply", [
    {"findings": [], "count": 0, "next": "x" * 300},
    {"findings": [], "count": 0, "next": "again"},
])
def test_a_server_that_goes_round(fake, reply):
    f = fake(lambda *_: (200, reply))
    assert "do not go on" in f.cli.fails(1, "doctor")


def test_a_server_that_talks_to_the_terminal(fake):
    f = fake(lambda *_: (200, {"findings": [{"code": "\x1b[2J", "severity": "\x1b", "queue": "a\nb", "fact": "\x07", "fix": 7}, 1],
                               "count": 1, "next": None}))
    done = f.cli.run("doctor", "-o", "table")
    assert done.returncode == 0 and "\x1b" not in done.stdout and len(done.stdout.splitlines()) == 4


# -- of a file ----------------------------------------------------------------------------------------------------------------


def test_a_good_file(policies):
    assert of_file(policies("queues:\n  a:\n" + GOOD)) == (0, [])


def test_what_a_policy_says_alone(policies):
    path = policies("queues:\n  a:\n    max_retries: 1\n    retention: {dead_seconds: 60}\n  b:\n" + GOOD)
    code, findings = of_file(path)
    assert code == 10 and codes(findings) == [("D02", "a"), ("D03", "a"), ("D04", "a"), ("D11", "a")]
    assert of_file(path, "b") == (0, [])
    assert of_file(path, "c")[0] == 4


def test_what_the_policies_say_together(policies):
    code, findings = of_file(policies(
        "queues:\n  a:\n" + GOOD + "    dead_target: {queue: t}\n  b:\n    owner: bob\n    breaker: {}\n    dead_target: {queue: t}\n"
        "  c:\n" + GOOD + "    dead_target: {queue: elsewhere}\n  t:\n" + GOOD + "    allow_from: [a]\n    dead_target: {queue: u}\n"))
    assert code == 10 and codes(findings) == [("D07", "a"), ("D22", "a"), ("D07", "b"), ("D22", "b")]
    assert "of its own" in findings[0]["fact"] and "allow_from" in findings[2]["fact"]


def test_a_file_with_a_mistake(policies):
    done = run("doctor", "-f", policies("queues:\n  a:\n    max_retries: 0\n"))
    assert done.returncode == 1 and ":3: a: max_retries must be a whole number from 1 to 250" in done.stderr
