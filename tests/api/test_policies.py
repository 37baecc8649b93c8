"""Policies by pattern: RabbitMQ's, which give settings to all queues and exchanges whose names match."""
import itertools

import pytest

from lib.client import encode

names = itertools.count(1)


@pytest.fixture
def policy(client):
    """A name nobody else uses, of a pattern nobody else's queue matches; gone afterwards."""
    name = f"policy/{next(names)}"
    yield name
    client.delete(f"/policies/{encode(name)}")


def path(name, query=""):
    return f"/policies/{encode(name)}{query}"


def body(**more):
    return {"pattern": "^only-here", "definition": {"max-length": 5}, **more}


def test_made_changed_shown_listed_deleted(client, policy):
    first = {"vhost": "/", "name": policy, "pattern": "^only-here", "apply-to": "all", "priority": 0, "definition": {"max-length": 5}}
    r = client.put(path(policy), body())
    assert r.status == 201 and r.json == first
    second = {**first, "apply-to": "queues", "priority": -7, "definition": {"dead-letter-exchange": "", "ha-mode": "all"}}
    r = client.put(path(policy), {k: second[k] for k in ("pattern", "apply-to", "priority", "definition")})
    assert r.status == 200 and r.json == second
    assert client.get(path(policy)).json == second
    for query in ("", "?vhost=%2F"):
        listed = client.get("/policies" + query).json
        assert second in listed["policies"] and listed["count"] == len(listed["policies"])
    assert client.get("/policies?vhost=nowhere").json == {"policies": [], "count": 0}
    assert client.delete(path(policy)).status == 204
    assert client.get(path(policy)).status == client.delete(path(policy)).status == 404
    assert second not in client.get("/policies").json["policies"]


@pytest.mark.parametrize("change, field, code", [
    ({"pattern": None}, "pattern", "wrong_type"),
    ({"pattern": "a("}, "pattern", "bad_regex"),
    ({"pattern": "x" * 1025}, "pattern", "too_long"),
    ({"apply-to": "streams"}, "apply-to", "out_of_range"),
    ({"priority": 1.5}, "priority", "wrong_type"),
    ({"priority": 2**31}, "priority", "out_of_range"),
    ({"definition": {}}, "definition", "required"),
    ({"definition": []}, "definition", "required"),
    ({"definition": "x"}, "definition", "wrong_type"),
    ({"definition": {"message-ttl": -1}}, "definition", "out_of_range"),
    ({"definition": {"expires": 0}}, "definition", "out_of_range"),
    ({"definition": {"overflow": "drop"}}, "definition", "out_of_range"),
    ({"definition": {"dead-letter-exchange": 7}}, "definition", "out_of_range"),
    ({"definition": {"x": "y" * 9000}}, "definition", "too_long"),
    ({"colour": "red"}, "colour", "unknown_field"),
])
def test_what_is_wrong_is_named(client, policy, change, field, code):
    r = client.put(path(policy), body(**change))
    assert r.status == 422 and r.error() == (field, code), r
    assert client.get(path(policy)).status == 404


def test_what_is_missing_is_named(client, policy):
    for name in ("pattern", "definition"):
        r = client.put(path(policy), {k: v for k, v in body().items() if k != name})
        assert r.status == 422 and r.error() == (name, "required")
    assert client.put(path(policy), []).error() == ("body", "wrong_type")
    assert client.put(path(policy)).status == 400


def test_names_and_parameters(client):
    assert client.put(path("x" * 256), body()).error() == ("name", "too_long")
    assert client.put("/policies/%FF", body()).error() == ("name", "bad_encoding")
    assert client.put(path("x", "?colour=red"), body()).error() == ("colour", "unknown_field")
    assert client.put(path("x", "?vhost=nowhere"), body()).status == 404
    assert client.get(path("x", "?reason=why")).error() == ("reason", "unknown_field")


def test_a_queue_shows_what_holds(client, policy):
    q = client.queue(f"only-here-{next(names)}")
    q.put()
    assert q.info()["amqp"] is None
    client.put(path(policy), body(definition={"max-length": 5, "dead-letter-exchange": "d"}))
    amqp = q.info()["amqp"]
    assert amqp["policy"] == policy and amqp["effective"] == {"max-length": 5, "dead-letter-exchange": "d"}
    assert (amqp["durable"], amqp["type"], amqp["arguments"]) == (True, "classic", {})
    # Of several the one with the highest priority.
    other = policy + "-other"
    client.put(path(other), body(definition={"max-length": 7}, priority=1))
    assert q.info()["amqp"]["policy"] == other
    client.put(path(other), body(definition={"max-length": 7}, priority=1, **{"apply-to": "exchanges"}))
    assert q.info()["amqp"]["policy"] == policy
    assert client.delete(path(other)).status == 204
    client.delete(path(policy))
    assert q.info()["amqp"] is None


def test_changes_are_on_the_audit(client, policy):
    client.actor = "ann"
    client.put(path(policy, "?reason=too+long"), body())
    client.put(path(policy), body(priority=3))
    client.delete(path(policy, "?reason=done"))
    entries = client.audit(order="newest", limit=3)
    assert [(e["action"], e["actor"], e["reason"]) for e in reversed(entries)] == [
        ("policy_changed", "ann", "too long"), ("policy_changed", "ann", None), ("policy_deleted", "ann", "done")]


def test_policies_survive_a_restart(start):
    from lib.client import Client
    server = start()
    with_client = Client(server)
    made = with_client.put("/policies/p", body(priority=9)).json
    with_client.close()
    server.stop()
    server.start()
    with_client = Client(server)
    assert with_client.get("/policies").json == {"policies": [made], "count": 1}
    with_client.close()
