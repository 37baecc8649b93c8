"""RabbitMQ's definitions, taken in and given out."""
import itertools
import json

import pytest

from lib.client import Client
from lib.server import ROOT

names = itertools.count(1)
SECTIONS = ("vhosts", "exchanges", "queues", "bindings", "policies")


@pytest.fixture
def rabbit(start):
    """A client of a server of its own."""
    c = Client(start())
    yield c
    c.check_conservation()
    c.close()


@pytest.fixture
def vhost(client):
    """A vhost nobody else uses, on the shared server."""
    name = f"vhost{next(names)}"
    take_in(client, {"vhosts": [{"name": name}]})
    return name


def take_in(client, definitions, query="", expect=200):
    reply = client.post("/definitions" + query, definitions)
    assert reply.status == expect, reply
    return reply.json


def counts(report, what="made"):
    return {s: report[s][what] for s in SECTIONS if report[s][what]}


def why(report):
    assert report["not_carried_count"] == len(report["not_carried"])
    return {e["what"]: e["why"] for e in report["not_carried"]}


def queue(vhost, name="q", **more):
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}, **more}


def exchange(vhost, name="x", **more):
    return {"name": name, "vhost": vhost, "type": "topic", "durable": True, "auto_delete": False, "internal": False,
            "arguments": {}, **more}


def binding(vhost, source="x", destination="q", **more):
    return {"source": source, "vhost": vhost, "destination": destination, "destination_type": "queue", "routing_key": "k",
            "arguments": {}, **more}


def given_out(client, query=""):
    reply = client.get("/definitions" + query)
    assert reply.status == 200, reply
    return reply.json


# -- an export of RabbitMQ 3.10 -------------------------------------------------------------------------------------------------

REAL = json.loads((ROOT / "tests/lib/rabbitmq-3.10-definitions.json").read_text())
REAL_MADE = {"vhosts": 2, "exchanges": 6, "queues": 8, "bindings": 7, "policies": 3}
REAL_NOT = {
    "vhost 'team/app'": "a vhost's name has 1 to 234 bytes and no slash but at its beginning",
    "queue 'q' in vhost 'team/app'": "there is no such vhost",
    "queue 'log' in vhost '/'": "invalid arg 'x-queue-type': streams are not supported",
    "binding of queue 'log' in vhost '/'": "there is no such queue",
    "binding of exchange 'inner' in vhost '/'": "there is no such exchange",
    "binding of queue 'transient' in vhost '/'": "there is no exchange 'inner'",
    "policy 'ha' in vhost '/'": "ha-mode means nothing here",
    "user 'worker'": "users come without passwords: nixie serve --amqp-user NAME:PASSWORD",
    "limits of user 'worker'": "there are no limits of connections or channels",
    "user 'guest'": "users come without passwords: nixie serve --amqp-user NAME:PASSWORD",
    "permissions of user 'worker' in vhost 'shop'": "nixie serve --amqp-permission 'worker shop ^$ ^orders .*'",
    "topic permissions of user 'worker' in vhost 'shop'": "there are no permissions on topics: to write to an exchange is all",
    "operator policy 'limits' in vhost '/'": "there are no operator policies",
    "limits 'limits' in vhost 'shop'": "there are no limits of connections or queues",
}


def test_a_real_export(rabbit):
    dry = take_in(rabbit, REAL, "?dry_run=yes")
    assert dry["dry_run"] is True and counts(dry) == REAL_MADE and why(dry) == REAL_NOT
    assert rabbit.get("/queues").json["count"] == 0 and given_out(rabbit)["vhosts"] == [{"name": "/"}]
    done = take_in(rabbit, REAL)
    assert done == {**dry, "dry_run": False}
    again = take_in(rabbit, REAL)
    assert counts(again) == {} and counts(again, "there") == {**REAL_MADE, "vhosts": 3} and why(again) == REAL_NOT
    assert take_in(rabbit, REAL, "?dry_run=yes") == {**again, "dry_run": True}

    q = rabbit.queue("orders.retry").info()["amqp"]
    assert q["policy"] == "dlx" and q["type"] == "classic" and q["durable"] and not q["exclusive"]
    assert q["effective"] == {"dead-letter-exchange": "", "dead-letter-routing-key": "orders.new", "message-ttl": 30000,
                              "max-length": 10000, "overflow": "reject-publish"}
    q = rabbit.queue("orders.new").info()["amqp"]
    assert q["type"] == "quorum" and q["effective"]["delivery-limit"] == 5 and q["effective"]["dead-letter-exchange"] == "dead"
    assert rabbit.queue("//shop/orders").info()["amqp"]["policy"] is None
    assert rabbit.queue("///staging/orders").info()["queue"] == "///staging/orders"


def test_what_is_given_out_can_be_taken_in(rabbit, start):
    take_in(rabbit, REAL)
    out = given_out(rabbit)
    other = Client(start())
    report = take_in(other, out)
    assert counts(report) == REAL_MADE and why(report) == {"policy 'ha' in vhost '/'": "ha-mode means nothing here"}
    assert given_out(other) == out
    other.close()
    assert [x for x in out["exchanges"] if x["name"].startswith("amq.") or not x["name"]] == []
    for section in ("queues", "exchanges", "bindings", "policies"):
        kept = [e for e in REAL[section] if e in out[section] or {"internal": False, **e} in out[section]
                or {k: v for k, v in e.items() if k != "type"} in out[section]]
        assert len(kept) == REAL_MADE[section], section
    assert {v["name"] for v in out["vhosts"]} == {"/", "shop", "/staging"}
    shop = given_out(rabbit, "?vhost=shop")
    assert {q["name"] for q in shop["queues"]} == {"orders", "lost"} and shop["vhosts"] == [{"name": "shop"}]
    assert rabbit.get("/definitions?vhost=none").status == 404


def test_it_is_there_after_a_restart(start):
    server = start()
    c = Client(server)
    take_in(c, REAL)
    out = given_out(c)
    c.close()
    server.stop()
    server.start()
    c = Client(server)
    after = given_out(c)
    c.close()
    transient = [q["name"] for q in out["queues"] if not q["durable"]]
    assert transient == ["transient"]
    out["queues"] = [q for q in out["queues"] if q["durable"]]
    assert after == out


# -- one by one -----------------------------------------------------------------------------------------------------------------


def test_what_is_there_with_other_arguments_stays(client, vhost):
    all_of = {"exchanges": [exchange(vhost, arguments={"alternate-exchange": "ae"})],
              "queues": [queue(vhost, arguments={"x-max-length": 5})]}
    assert counts(take_in(client, all_of)) == {"exchanges": 1, "queues": 1}
    where = f"'x' in vhost '{vhost}'"
    for change, said in (({"type": "direct"}, "type"), ({"durable": False}, "durable"), ({"auto_delete": True}, "auto_delete"),
                         ({"internal": True}, "internal"), ({"arguments": {}}, "alternate-exchange")):
        report = take_in(client, {"exchanges": [{**all_of["exchanges"][0], **change}]})
        assert why(report) == {f"exchange {where}": f"it is there with another {said}"} and counts(report, "there") == {}
    where = f"'q' in vhost '{vhost}'"
    for change, said in (({"durable": False}, "durable"), ({"auto_delete": True}, "auto_delete"),
                         ({"arguments": {"x-max-length": 6}}, "x-max-length"), ({"arguments": {}}, "x-max-length"),
                         ({"arguments": {"x-max-length": 5, "x-queue-type": "quorum"}}, "x-queue-type")):
        report = take_in(client, {"queues": [{**all_of["queues"][0], **change}]})
        assert why(report) == {f"queue {where}": f"it is there with another {said}"} and counts(report, "there") == {}
    same = take_in(client, {"queues": [queue(vhost, arguments={"x-queue-type": "classic", "x-max-length": 5, "x-unheard": 1})]})
    assert why(same) == {} and counts(same, "there") == {"queues": 1}
    assert given_out(client, f"?vhost={vhost}")["queues"] == [queue(vhost, arguments={"x-max-length": 5})]


def test_a_queue_of_http_takes_the_arguments_on(client, queue):
    queue.enqueue("x")
    entry = {"name": queue.name, "durable": True, "auto_delete": False, "arguments": {"x-max-length": 500}}
    report = take_in(client, {"queues": [entry]})
    assert counts(report, "changed") == {"queues": 1} and counts(report) == {}
    assert queue.info()["amqp"]["arguments"] == {"x-max-length": 500} and queue.info()["counts"]["pending"] == 1
    assert counts(take_in(client, {"queues": [entry]}), "there") == {"queues": 1}


def test_a_queue_named_into_no_vhost_is_not_given_out(client):
    client.queue("//no-vhost/q").put()
    assert [q for q in given_out(client)["queues"] if q["vhost"] == "no-vhost"] == []


def test_a_policy_is_changed(client, vhost):
    p = {"vhost": vhost, "name": "p", "pattern": "^a", "apply-to": "queues", "definition": {"max-length": 1}, "priority": 2}
    assert counts(take_in(client, {"policies": [p]})) == {"policies": 1}
    assert counts(take_in(client, {"policies": [{**p, "definition": {"max-length": 1.0}}]}))  == {}
    changed = {**p, "definition": {"max-length": 2}}
    assert counts(take_in(client, {"policies": [changed]}, "?dry_run=yes"), "changed") == {"policies": 1}
    assert given_out(client, f"?vhost={vhost}")["policies"] == [p]
    assert counts(take_in(client, {"policies": [changed]}), "changed") == {"policies": 1}
    assert given_out(client, f"?vhost={vhost}")["policies"] == [changed]
    assert counts(take_in(client, {"policies": [changed]}), "there") == {"policies": 1}


def test_bindings(client, vhost):
    both = {"exchanges": [exchange(vhost), exchange(vhost, "y", type="headers")], "queues": [queue(vhost)]}
    some = [binding(vhost), binding(vhost, routing_key="other"), binding(vhost, destination="y", destination_type="exchange"),
            binding(vhost, "y", arguments={"x-match": "all", "n": 1}), binding(vhost, "y", arguments={"x-match": "all", "n": 2}),
            binding(vhost, "amq.fanout", routing_key="")]
    report = take_in(client, {**both, "bindings": some + [binding(vhost, "", routing_key="q")]})
    assert counts(report)["bindings"] == len(some) and why(report) == {}
    numbers = [dict(b, arguments={"n": 2.0, "x-match": "all"}) if b["arguments"].get("n") == 2 else b for b in some]
    report = take_in(client, {"bindings": numbers})
    assert counts(report, "there") == {"bindings": len(some)} and counts(report) == {}
    key = lambda b: json.dumps(b, sort_keys=True)  # noqa: E731
    assert sorted(given_out(client, f"?vhost={vhost}")["bindings"], key=key) == sorted(some, key=key)
    report = take_in(client, {"bindings": [binding(vhost, "nope"), binding(vhost, destination="none"),
                                           binding(vhost, destination="none", destination_type="exchange"),
                                           binding(vhost, destination="amq.gen-gone")]})
    assert report["not_carried"] == [
        {"what": f"binding of queue 'q' in vhost '{vhost}'", "why": "there is no exchange 'nope'"},
        {"what": f"binding of queue 'none' in vhost '{vhost}'", "why": "there is no such queue"},
        {"what": f"binding of exchange 'none' in vhost '{vhost}'", "why": "there is no such exchange"}]


def test_a_dry_run_knows_what_it_would_have_made(client):
    v = f"vhost{next(names)}"
    all_of = {"vhosts": [{"name": v}], "exchanges": [exchange(v)], "queues": [queue(v)], "bindings": [binding(v), binding(v, "no")]}
    report = take_in(client, all_of, "?dry_run=yes")
    assert counts(report) == {"vhosts": 1, "exchanges": 1, "queues": 1, "bindings": 1} and report["not_carried_count"] == 1
    assert client.get(f"/definitions?vhost={v}").status == 404


@pytest.mark.parametrize("entry, said", [
    ({"arguments": {"x-message-ttl": -1}}, "invalid arg 'x-message-ttl': {value_negative,-1}"),
    ({"arguments": {"x-dead-letter-routing-key": "k"}}, "invalid arg 'x-dead-letter-routing-key': routing_key_but_no_dlx_defined"),
    ({"arguments": {"x-queue-type": "quorum"}, "durable": False}, "durable a quorum queue is durable and not deleted by itself"),
    ({"arguments": 7}, "arguments must be an object"),
    ({"arguments": {"x": "y" * 9000}}, "arguments must be at most 8192 bytes of JSON"),
    ({"type": "stream"}, "type stream: streams are not supported"),
    ({"durable": 1}, "durable must be true or false"),
    ({"name": "x" * 250}, "with its vhost the name is too long, or begins with two slashes"),
    ({"name": "x" * 256}, "name must be at most 255 bytes"),
    ({"name": ""}, "name must not be empty"),
    ({"name": "a\0b"}, "name must not hold a NUL"),
    ({"name": None}, "name must be a string"),
])
def test_a_queue_that_cannot_be_made_is_told(client, vhost, entry, said):
    report = take_in(client, {"queues": [queue(vhost, **entry)]})
    assert [e["why"] for e in report["not_carried"]] == [said] and counts(report) == {}
    assert given_out(client, f"?vhost={vhost}")["queues"] == []


@pytest.mark.parametrize("entry, said", [
    ({"type": "x-delayed-message"}, "type must be direct, fanout, topic or headers, not x-delayed-message"),
    ({"arguments": {"alternate-exchange": 7}}, "arguments.alternate-exchange must be a string"),
    ({"internal": "yes"}, "internal must be true or false"),
])
def test_an_exchange_that_cannot_be_made_is_told(client, vhost, entry, said):
    report = take_in(client, {"exchanges": [exchange(vhost, **entry)]})
    assert [e["why"] for e in report["not_carried"]] == [said] and counts(report) == {}


def test_what_is_kept_but_changes_nothing_is_told(client, vhost):
    report = take_in(client, {"queues": [queue(vhost, arguments={"x-consumer-timeout": 5, "x-queue-mode": "lazy"})]})
    assert why(report) == {f"queue 'q' in vhost '{vhost}'": "x-consumer-timeout is kept, but changes nothing here"}
    assert counts(report) == {"queues": 1}


def test_the_type_of_newer_exports(client, vhost):
    take_in(client, {"queues": [queue(vhost, "a", type="quorum"), queue(vhost, "b", type="quorum", arguments={"x-max-length": 1}),
                                queue(vhost, "c", type="classic")]})
    assert [q["arguments"] for q in given_out(client, f"?vhost={vhost}")["queues"]] == [
        {"x-queue-type": "quorum"}, {"x-max-length": 1, "x-queue-type": "quorum"}, {}]


def test_the_export_of_one_vhost(client, vhost):
    def without(entry):
        return {k: v for k, v in entry.items() if k != "vhost"}

    mine = {"queues": [without(queue(vhost))], "exchanges": [without(exchange(vhost))], "bindings": [without(binding(vhost))],
            "policies": [{"name": "p", "pattern": "^x", "definition": {"expires": 5000}}], "original_vhost_name": "other"}
    assert counts(take_in(client, mine, f"?vhost={vhost}")) == {"queues": 1, "exchanges": 1, "bindings": 1, "policies": 1}
    assert given_out(client, f"?vhost={vhost}")["queues"] == [queue(vhost)]


def test_what_is_each_vhosts_own_is_left_alone(client, vhost):
    report = take_in(client, {"exchanges": [exchange(vhost, "amq.topic"), exchange(vhost, ""), exchange(vhost, "amq.mine")]})
    assert counts(report) == {} and why(report) == {}


def test_parameters(client, vhost):
    report = take_in(client, {"parameters": [
        {"component": "shovel", "vhost": vhost, "name": "s", "value": {}},
        {"component": "federation-upstream", "vhost": vhost, "name": "f", "value": {}},
        {"component": "mqtt", "vhost": vhost, "name": "m", "value": {}}],
        "global_parameters": [{"name": "cluster_name", "value": "rabbit@x"}, {"name": "else", "value": 1}],
        "permissions": [{"user": "guest", "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}]})
    assert [e["what"].split(" in ")[0] for e in report["not_carried"]] == [
        "shovel 's'", "federation upstream 'f'", "parameter 'm'", "global parameter 'else'"]


def test_permissions_are_told_as_options(client):
    def entry(user, vhost, *patterns):
        return {"user": user, "vhost": vhost, **dict(zip(("configure", "write", "read"), patterns))}
    report = take_in(client, {"vhosts": [{"name": "/"}, {"name": "/2"}], "permissions": [
        entry("admin", "/", ".*", ".*", ".*"), entry("shop", "/", ".*", ".*", ".*"), entry("admin", "/2", ".*", ".*", ".*"),
        entry("both", "/", ".*", "", "^a$"), entry("both", "/2", ".*", ".*", ".*"),
        entry("odd", "/", "a b", ".*", ".*"), entry("odd", "/2", ".*", "x" * 1000, ".*")]}, "?dry_run=yes")
    odd = "--amqp-permission cannot say it: a name or expression holds a space or a quote, or they are too long"
    assert [(e["what"], e["why"]) for e in report["not_carried"]] == [
        ("permissions of user 'shop' in vhost '/'", "nixie serve --amqp-permission 'shop / .* .* .*'"),
        ("permissions of user 'both' in vhost '/'", "nixie serve --amqp-permission 'both / .* ^$ ^a$'"),
        ("permissions of user 'both' in vhost '/2'", "nixie serve --amqp-permission 'both /2 .* .* .*'"),
        ("permissions of user 'odd' in vhost '/'", odd), ("permissions of user 'odd' in vhost '/2'", odd)]


def test_a_long_report_is_cut(client):
    report = take_in(client, {"users": [{"name": f"u{i}"} for i in range(1500)]})
    assert report["not_carried_count"] == 1500 and len(report["not_carried"]) == 1000


@pytest.mark.parametrize("body, field, code", [
    ([], "body", "wrong_type"),
    ({"queues": {}}, "queues", "wrong_type"),
    ({"queues": [7]}, "queues", "wrong_type"),
    ({"queue": []}, "queue", "unknown_field"),
])
def test_what_is_no_definitions_is_refused(client, body, field, code):
    reply = client.post("/definitions", body)
    assert reply.status == 422 and reply.error() == (field, code)


def test_parameters_of_the_query(client):
    assert client.post("/definitions?colour=red", {}).error() == ("colour", "unknown_field")
    assert client.post("/definitions?dry_run=perhaps", {}).status == 422
    assert client.post("/definitions", {}).json["not_carried"] == []
