"""nixie apply and nixie dump: policies as a file."""
import json

import pytest
import yaml
from deadtools import Terminal

ALERT = {"kind": "dead_letter", "url": "https://example.org/hook?a=1#x", "secret": "yes: \"no\" # no", "after_seconds": 60}
# Every member, none at its default, with texts that YAML would take for something else.
WHOLE = {
    "max_retries": 7,
    "backoff": {"kind": "exponential", "base_seconds": 2, "factor": 1.5, "cap_seconds": 600, "jitter": "equal"},
    "lease_seconds": 60, "delay_seconds": 1, "ttl_seconds": 86400, "max_messages": 1000, "max_bytes": 1000000,
    "idempotency_window_seconds": 60, "redrive_limit": 5,
    "retention": {"succeeded_seconds": 60, "succeeded_max": 10, "dead_seconds": 604800},
    "max_deliveries": 30, "retry_budget": 0.2, "overflow": "dead", "order": "park",
    "breaker": {"share": 0.25, "min_outcomes": 5, "window_seconds": 30, "open_seconds": 10, "probes": 2, "error": "Time*"},
    "owner": "no",
    "rules": [{"error": "123", "action": "dead", "comment": "null"},
              {"message_regex": "a\\d+: [\"'] # é", "action": "retry", "max_retries": 3,
               "backoff": {"kind": "list", "list_seconds": [1, 2, 3], "jitter": "full"}},
              {"error": "~", "action": "release", "delay_seconds": 30}, {"error": "Down", "action": "pause"}],
    "dead_target": {"queue": "t: \"x\"", "reasons": ["max_retries", "expired"]},
    "allow_from": ["a", "b\nc\x85\u202e\U0001f600", "- 1", "*x", "true"],
    "alerts": [ALERT, {"kind": "rate", "url": "http://example.org/", "per_minute": 5}],
}


@pytest.fixture
def own(own_server):
    return own_server.cli


@pytest.fixture
def write(tmp_path):
    """write(text or queues) -> the path of such a file."""
    def make(what):
        path = tmp_path / "queues.yaml"
        path.write_text(what if isinstance(what, str) else yaml.safe_dump({"queues": what}, allow_unicode=True))
        return str(path)
    return make


def policy(cli, queue):
    cli.queue = queue
    return cli.api("GET").json().get("policy")


def audit(cli):
    return [(e["action"], e["queue"], e["reason"]) for e in cli.ok("audit", "--all")]


# -- what is done -------------------------------------------------------------------------------------------------------------


def test_makes_changes_and_leaves_alone(own, write):
    own.queue = "other"
    own.policy(max_retries=9)
    path = write("queues:\n  a:\n    max_retries: 5\n    breaker: {share: 0.4}\n  b:\n")
    items = own.ok("apply", "-f", path, "--yes", "--reason", "as agreed")
    assert [(i["queue"], i["action"]) for i in items] == [("a", "create"), ("b", "create")]
    assert items[1]["members"] == []
    assert items[0]["members"][0] == {"member": "max_retries", "new": 5}
    assert policy(own, "a")["max_retries"] == 5 and policy(own, "a")["breaker"]["share"] == 0.4
    assert policy(own, "b")["max_retries"] == 3 and policy(own, "other")["max_retries"] == 9
    before = audit(own)
    assert before[1:] == [("queue_created", "a", "as agreed"), ("queue_created", "b", "as agreed")]

    done = own.run("apply", "-f", path, "--yes")
    assert (done.returncode, done.stdout) == (0, "") and "0 to make, 0 to change, 2 are as the file says" in done.stderr
    assert audit(own) == before, "what is as it should be is not put again"

    path = write("queues:\n  a:\n    max_retries: 5\n    breaker: {share: 0.5}\n    owner: ann\n  b: {}\n")
    [item] = own.ok("apply", "-f", path, "--yes")
    assert item == {"queue": "a", "action": "change", "members": [{"member": "breaker.share", "old": 0.4, "new": 0.5},
                                                                  {"member": "owner", "old": None, "new": "ann"}]}
    assert audit(own)[len(before):] == [("queue_changed", "a", None)]


def test_dry_run_changes_nothing(own, write):
    path = write({"a": {"max_retries": 5}})
    assert own.table("apply", "-f", path, "--dry-run") == ["a: new", "  max_retries: 5"]
    assert policy(own, "a") is None
    own.policy(max_retries=4, backoff={"kind": "fixed", "base_seconds": 9})
    assert own.table("apply", "-f", path, "--dry-run") == [
        "a:", "  max_retries: 4 -> 5", '  backoff.kind: "fixed" -> "exponential"', "  backoff.base_seconds: 9 -> 1",
        "  backoff.factor: null -> 2", "  backoff.cap_seconds: null -> 3600"]
    assert policy(own, "a")["max_retries"] == 4


def test_asks(own, write):
    path = write({"a": None})
    assert "needs --yes" in own.fails(2, "apply", "-f", path)
    for answer, made in (("n", False), ("y", True)):
        t = Terminal(own, "apply", "-f", path)
        t.until(r"Make 1 queues, change 0\? \[y/N\] ")
        t.type(answer + "\n")
        assert t.end()[0] == (0 if made else 1)
        assert (policy(own, "a") is not None) == made


def test_what_must_come_first_comes_first(own, write):
    own.ok("apply", "-f", write("queues:\n  t: {allow_from: [b], dead_target: {queue: a}}\n  a: {}\n"), "--yes")
    own.ok("apply", "-f", write("queues:\n  a: {dead_target: {queue: t}}\n  t: {allow_from: [a]}\n"), "--yes")
    assert policy(own, "a")["dead_target"]["queue"] == "t" and policy(own, "t")["dead_target"] is None


def test_conflicts_are_said(own, write):
    path = write("queues:\n  a: {dead_target: {queue: b}}\n  b: {dead_target: {queue: a}}\n  c: {}\n")
    done = own.run("apply", "-f", path, "--yes")
    assert done.returncode == 3 and done.stderr.count("b: ") == 1 and "(409)" in done.stderr
    assert policy(own, "a") and policy(own, "c") and policy(own, "b") is None


# -- dump ---------------------------------------------------------------------------------------------------------------------


def test_round_trip(own, write):
    own.queue = WHOLE["dead_target"]["queue"]
    own.policy()
    for queue in ("whole", "a: b", "plain", "123", "é/ü", "-", "null"):
        own.queue = queue
        own.policy(**(WHOLE if queue != "plain" else {}))
    dumped = own.run("dump")
    assert dumped.returncode == 0 and dumped.stderr == ""
    queues = yaml.safe_load(dumped.stdout)["queues"]
    for queue, p in queues.items():
        assert isinstance(queue, str) and p == policy(own, queue)
    assert set(queues["whole"]) == set(WHOLE) and all(queues["whole"][k] != queues["plain"][k] for k in WHOLE)
    assert not any(c in dumped.stdout for c in "\x85\u202e") and "\U0001f600" in dumped.stdout

    done = own.run("apply", "-f", "-", "--dry-run", stdin=dumped.stdout.encode())
    assert done.returncode == 0 and done.stdout == "", done.stdout
    for queue in ["whole", "a: b", "plain", "123", "é/ü", "-", "null", WHOLE["dead_target"]["queue"]]:
        own.queue = queue
        own.api("DELETE")
    assert own.run("dump").stdout == "queues: {}\n"
    whole = dumped.stdout.replace('"***"', json.dumps(ALERT["secret"]))
    own.ok("apply", "-f", write(whole), "--yes")
    assert own.run("dump").stdout == dumped.stdout
    assert own.ok("apply", "-f", write(dumped.stdout), "--yes") == []


def test_secrets_of_alerts(own, write):
    """They are not in a dump, which can be applied all the same where they are; and a file may hold them, or others."""
    own.queue = "a"
    own.policy(alerts=[dict(sorted(ALERT.items()))])  # as write() will
    dumped = own.run("dump").stdout
    assert "secret: '***'" in dumped or 'secret: "***"' in dumped
    assert ALERT["secret"] not in own.run("queues", "a", "-o", "json").stdout
    assert own.ok("apply", "-f", write(dumped), "--yes") == []
    [item] = own.ok("apply", "-f", write(dumped.replace("after_seconds: 60", "after_seconds: 61")), "--yes")
    assert [m["member"] for m in item["members"]] == ["alerts"] and item["members"][0]["new"][0]["secret"] == "***"

    before = audit(own)
    whole = {"a": {"alerts": [{**ALERT, "after_seconds": 61}]}}
    assert own.ok("apply", "-f", write(whole), "--yes") == [] and audit(own) == before, "the same secret"
    whole["a"]["alerts"][0]["secret"] = "another secret"
    done = own.run("apply", "-f", write(whole), "--dry-run")
    assert json.loads(done.stdout) == {"queue": "a", "action": "change", "members": [
        {"member": "alerts.secret", "old": "***", "new": "another"}]}
    assert own.table("apply", "-f", write(whole), "--dry-run") == ["a:", '  alerts.secret: "***" -> "another"']
    assert audit(own) == before
    assert len(own.ok("apply", "-f", write(whole), "--yes")) == 1 and own.ok("apply", "-f", write(whole), "--yes") == []

    dumped = own.run("dump").stdout
    own.api("DELETE")
    assert "alerts[0].secret" in own.fails(1, "apply", "-f", write(dumped), "--yes")


def test_dump_of_some(own):
    for queue in ("a", "b", "c"):
        own.queue = queue
        own.policy()
    assert list(yaml.safe_load(own.run("dump", "c", "a").stdout)["queues"]) == ["c", "a"]
    own.fails(4, "dump", "nope")
    assert yaml.safe_load(own.run("dump", "a", "-o", "json").stdout)["queues"]["a"] == policy(own, "a")


def test_a_backoff_of_another_kind(own, write):
    for backoff in ({"kind": "fixed", "base_seconds": 60}, {"kind": "list", "list_seconds": [1, 2], "jitter": "full"}):
        own.queue = "a"
        own.policy(backoff=backoff)
        assert own.ok("apply", "-f", write(own.run("dump").stdout), "--yes") == []


# -- mistakes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, said", [
    ("", "1: there is nothing in it"),
    ("queues:", "1: queues is required"),
    ("[1]", "1: queues is required"),
    ("queues: [a]", "1: queues is required"),
    ("queues: {}\nversion: 1", "2: version is not known: at the top stands queues, alone"),
    ("queues:\n  a: 1", "2: a: must be the members of a policy"),
    ("queues:\n  a:\n    max_retries: 0", "3: a: max_retries must be a whole number from 1 to 250"),
    ("queues:\n  a:\n\n    max_retires: 3", "4: a: max_retires is not known here"),
    ("queues:\n  a:\n    owner: ann\n    order: fifo", "4: a: order must be one of"),
    ("queues:\n  a:\n    backoff:\n      kind: fixed\n      factor: 2", "5: a: backoff.factor has no meaning with kind fixed"),
    ("queues:\n  a:\n    backoff: {kind: list,\n list_seconds: [1,\n x]}", "5: a: backoff.list_seconds[1] must be a whole number"),
    ("queues:\n  a:\n    rules:\n      - action: dead\n      - error: x\n        action: drop", "6: a: rules[1].action must be one of"),
    ("queues:\n  a:\n    rules:\n      - action: dead\n      - error: x", "5: a: rules[1].action is required"),
    ("queues:\n  a: {}\n  b:\n    owner: 7", "4: b: owner must be a string"),
    ("queues:\n  a.b:\n    c.d: 7", "3: a.b: c.d is not known here"),
    ("queues:\n  a: {}\n  b: {}\n  a: {}", "4: "),
    ("queues:\n  a:\n    owner: x\n    owner: y", "4: "),
    ("queues:\n  a: &x\n    owner: x\n  b: *x", "2: anchors (&) and aliases (*) are not taken"),
    ("queues:\n  a: {owner: *x}", "2: anchors (&) and aliases (*) are not taken"),
    ("queues:\n  a:\n    owner: !!str 7", "3: tags (!) are not taken"),
    ("queues: {}\n---\nqueues: {}", "2: a second document"),
    ("queues:\n  a: [", "a: "),
    ("queues:\n\ta: 1", "2: "),
    ("queues:\n  [a]: 1", "2: a name must be text"),
    ("queues:\n  '': {}", "2: a name is empty"),
    ("queues:\n  \"a\\0b\": {}", "2: a name is empty, or holds a NUL"),
    ("queues:\n  a: {owner: \"\\e[2J\", x\u202e: 1}", "2: a: x"),
    ("queues:\n  " + "q" * 256 + ": {}", "2: the name of a queue has at most 255 bytes"),
    ("queues: " + "[" * 20 + "]" * 20, "1: nested too deeply"),
    ("queues: " + "{a: " * 5000 + "}" * 5000, "1: nested too deeply"),
])
def test_mistakes_name_their_line(cli, write, text, said):
    path = write(text)
    err = cli.fails(1, "apply", "-f", path, "--yes")
    assert "\u202e" not in err
    if said == "a: ":
        assert f"{path}:" in err
    else:
        assert f"{path}:{said}" in err


def test_every_mistake_is_said(cli, write):
    err = cli.fails(1, "apply", "-f", write("x: 1\nqueues:\n  a: {max_retries: 0, order: no}\n  b: {owner: 1}"), "--yes")
    assert [line.split(":")[3] for line in err.splitlines()] == ["1", "3", "3", "4"]


def test_files(cli, tmp_path, write):
    assert "which file?" in cli.fails(2, "apply")
    cli.fails(1, "apply", "-f", str(tmp_path / "none"))
    (tmp_path / "latin1").write_bytes(b"queues:\n  a: {owner: \xe9}\n")
    assert "latin1:" in cli.fails(1, "apply", "-f", str(tmp_path / "latin1"), "--yes")
    (tmp_path / "large").write_bytes(b"#" * (8 * 1024 * 1024 + 1))
    assert "longer than" in cli.fails(1, "apply", "-f", str(tmp_path / "large"), "--yes")


def test_scalars(cli, write):
    """What is a number, null or a truth value, and what is text."""
    for text, value in (("~", None), ("null", None), ("''", ""), ("007", "007"), ("'7'", "7"), ("yes", "yes"), ("0x10", "0x10"),
                        (".5", ".5"), ("a # b", "a"), ('"a\\u00e9"', "aé"), (">-\n      a\n      b", "a b"), ("1.2.3", "1.2.3")):
        [item] = cli.ok("apply", "-f", write(f"queues:\n  no-such-queue:\n    owner: {text}\n"), "--dry-run")
        assert {m["member"]: m["new"] for m in item["members"]} == ({"owner": value} if value else {}), text


def test_a_server_of_odd_words(fake, write):
    """Members that are no policy, and names that would be no JSON."""
    f = fake(lambda *_: (200, {"queue": "a", "policy": {"backoff": {"x\"\x1b": 1}, "owner": "\x1b[2J"}}))
    done = f.cli.run("apply", "-f", write({"a": None}), "--dry-run", "-o", "table")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert all(json.loads(line) for line in f.cli.run("apply", "-f", write({"a": None}), "--dry-run").stdout.splitlines())
    assert "\x1b" not in f.cli.run("dump").stdout
