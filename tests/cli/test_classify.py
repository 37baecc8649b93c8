"""nixie classify: which rule would take a failure, and why."""
import pytest

from lib.server import run

RULES = [{"error": "Bad*", "action": "dead"},
         {"error": "Http429", "action": "release", "delay_seconds": 30},
         {"error_regex": "^Db", "message_regex": "dead ?lock", "action": "retry", "max_retries": 20,
          "backoff": {"kind": "fixed", "base_seconds": 1}},
         {"message": "*\x1b[31m*", "action": "pause"}]


def classify(cli, *args):
    [verdict] = cli.ok("classify", cli.queue, *args)
    return verdict


def test_the_rule_and_why(cli):
    cli.policy(rules=RULES)
    assert classify(cli, "--class", "BadData") == {"action": "dead", "rule": 0, "why": "rules[0]: error matches Bad*"}
    assert classify(cli, "--class", "Http429", "--message", "slow down") == {
        "action": "release", "rule": 1, "why": "rules[1]: error matches Http429", "delay_seconds": 30}
    v = classify(cli, "--class=DbError", "--message", "a deadlock")
    assert (v["rule"], v["max_retries"], v["backoff"]["kind"]) == (2, 20, "fixed")
    assert v["why"] == "rules[2]: error_regex matches ^Db and message_regex matches dead ?lock"


@pytest.mark.parametrize("args", [(), ("--class", "Other"), ("--message", "deadlock"), ("--class", "DbError")])
def test_the_default(cli, args):
    cli.policy(rules=RULES)
    assert classify(cli, *args) == {"action": "retry", "rule": None, "why": "no rule matches: the queue's own backoff and limit"}


def test_without_rules(cli):
    cli.policy()
    assert classify(cli, "--class", "E")["rule"] is None


def test_a_rule_that_matches_everything(cli):
    cli.policy(rules=[{"action": "dead"}])
    assert classify(cli)["why"] == "rules[0]: matches everything"


def test_texts_that_a_query_must_escape(cli):
    cli.policy(rules=[{"error": "a&b=c %41+ü", "message": "x y\nz", "action": "dead"}])
    assert classify(cli, "--class", "a&b=c %41+ü", "--message", "x y\nz")["rule"] == 0


def test_the_table(cli):
    cli.policy(rules=RULES)
    head, row = cli.table("classify", cli.queue, "--class", "Http429")
    assert head.split() == ["ACTION", "RULE", "DELAY", "LIMIT", "BACKOFF", "WHY"]
    assert row.split() == ["release", "1", "30", "-", "-", "rules[1]:", "error", "matches", "Http429"]
    row = cli.table("classify", cli.queue, "--message", "a\x1b[31mb")[1]
    assert row.startswith("pause ") and "\x1b" not in row


def test_errors(cli):
    assert "no such queue" in cli.fails(4, "classify", "cli/never used")
    cli.fails(2, "classify")
    cli.fails(2, "classify", cli.queue, "extra")
    cli.fails(2, "classify", cli.queue, "--class", "x" * 256)


def test_help():
    done = run("classify", "--help")
    assert done.returncode == 0 and "--class C" in done.stdout and "nixie classify emails" in done.stdout
