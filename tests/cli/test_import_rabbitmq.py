"""Moving from RabbitMQ by the command line: import-rabbitmq, dump --rabbitmq, policies, policy."""
import json

import pytest

from lib.server import ROOT

FILE = ROOT / "tests/lib/rabbitmq-3.10-definitions.json"


@pytest.fixture
def rabbit(own_server):
    return own_server.cli


def test_a_real_export(rabbit):
    dry = rabbit.table("import-rabbitmq", FILE, "--dry-run")
    assert [" ".join(line.split()) for line in dry[:6]] == [
        "vhosts 2 to make, 1 there already", "policies 3 to make", "exchanges 6 to make", "queues 8 to make", "bindings 7 to make",
        "not carried 14"]
    assert "  queue 'log' in vhost '/': invalid arg 'x-queue-type': streams are not supported" in dry
    assert rabbit.ok("queues") == []
    done = rabbit.table("import-rabbitmq", FILE, "--reason", "we move")
    assert [" ".join(line.split()) for line in done[:2]] == ["vhosts 2 made, 1 there already", "policies 3 made"]
    assert done[5:] == dry[5:]
    again = rabbit.ok("import-rabbitmq", FILE)[0]
    assert again["queues"] == {"made": 0, "changed": 0, "there": 8} and again["dry_run"] is False
    assert {q["queue"] for q in rabbit.ok("queues")} >= {"orders.new", "//shop/orders", "///staging/orders"}
    assert {e["reason"] for e in rabbit.ok("audit") if e["action"] == "policy_changed"} == {"we move"}


def test_strict(rabbit, tmp_path):
    assert rabbit.run("import-rabbitmq", FILE, "--strict").returncode == 1
    file = tmp_path / "small.json"
    file.write_text(json.dumps({"queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}]}))
    assert rabbit.ok("import-rabbitmq", file, "--strict")[0]["queues"]["made"] == 1


def test_standard_input_and_a_vhost(rabbit):
    rabbit.ok("import-rabbitmq", "-", stdin=b'{"vhosts": [{"name": "shop"}]}')
    text = json.dumps({"queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}]}).encode()
    assert rabbit.ok("import-rabbitmq", "-", "--vhost", "shop", stdin=text)[0]["queues"]["made"] == 1
    assert [q["queue"] for q in rabbit.ok("queues")] == ["//shop/q"]


def test_a_dump_can_be_taken_in_again(rabbit, tmp_path):
    rabbit.ok("import-rabbitmq", FILE)
    done = rabbit.run("dump", "--rabbitmq")
    assert done.returncode == 0
    file = tmp_path / "dump.json"
    file.write_text(done.stdout)
    report = rabbit.ok("import-rabbitmq", file)[0]
    assert report["queues"] == {"made": 0, "changed": 0, "there": 8} and report["bindings"]["there"] == 7
    done = rabbit.run("dump", "--rabbitmq", "--vhost", "shop")
    assert {q["name"] for q in json.loads(done.stdout)["queues"]} == {"orders", "lost"}
    assert "no such vhost" in rabbit.fails(4, "dump", "--rabbitmq", "--vhost", "nowhere")


def test_what_is_no_definitions(rabbit, tmp_path):
    assert "No such file" in rabbit.fails(1, "import-rabbitmq", tmp_path / "none")
    assert "malformed JSON" in rabbit.fails(1, "import-rabbitmq", "-", stdin=b"{")
    assert "queue" in rabbit.fails(1, "import-rabbitmq", "-", stdin=b'{"queue": []}')


def test_policies(rabbit):
    assert rabbit.ok("policies") == []
    made = rabbit.ok("policy", "put", "dlx", "^orders\\.", '{"dead-letter-exchange": "dead"}', "--apply-to", "queues",
                     "--priority", "3", "--reason", "why")[0]
    assert made == {"vhost": "/", "name": "dlx", "pattern": "^orders\\.", "apply-to": "queues", "priority": 3,
                    "definition": {"dead-letter-exchange": "dead"}}
    assert rabbit.ok("policies") == rabbit.ok("policies", "--vhost", "/") == [made]
    assert rabbit.ok("policies", "--vhost", "shop") == []
    row = rabbit.table("policies")[1]
    assert row.split() == ["3", "/", "dlx", "^orders\\.", "queues", '{"dead-letter-exchange":"dead"}']
    assert "pattern missing closing parenthesis" in rabbit.fails(1, "policy", "put", "x", "(", '{"expires": 1}')
    assert "no such vhost" in rabbit.fails(4, "policy", "put", "x", "^a", '{"expires": 1}', "--vhost", "nowhere")
    assert rabbit.ok("policy", "delete", "dlx") == []
    assert "no such policy" in rabbit.fails(4, "policy", "delete", "dlx")


def test_vhosts(rabbit):
    rows = [" ".join(line.split()) for line in rabbit.table("vhosts")]
    assert rows == ["NAME CLIENT X-DEATH", "/ opaque"]
    made = rabbit.ok("vhost", "put", "/shop", "--client-x-death", "read", "--reason", "old workers")[0]
    assert made == {"name": "/shop", "client_x_death": "read"}
    assert rabbit.ok("vhosts") == [{"name": "/", "client_x_death": "opaque"}, made]
    assert [(e["action"], e["reason"]) for e in rabbit.ok("audit")] == [("vhost_changed", "old workers")]
    assert rabbit.ok("vhost", "put", "/shop")[0]["client_x_death"] == "opaque"
    assert rabbit.run("vhost", "put", "/shop", "--client-x-death", "x").returncode == 1
    assert rabbit.run("vhost", "drop", "/shop").returncode == rabbit.run("vhost", "put", "").returncode == 2
