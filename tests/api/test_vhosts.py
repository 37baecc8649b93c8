"""Vhosts, and what is set for them."""
import itertools

import pytest

from lib.client import encode

numbers = itertools.count(1)


@pytest.fixture
def vhost():
    """A name nobody else uses. There is no way to delete one."""
    return f"/vhosts-{next(numbers)}"


def path(name, query=""):
    return f"/vhosts/{encode(name)}{query}"


def test_made_changed_shown_listed(client, vhost):
    opaque, read = ({"name": vhost, "client_x_death": how} for how in ("opaque", "read"))
    assert client.get(path(vhost)).status == 404
    r = client.put(path(vhost), {})
    assert (r.status, r.json) == (201, opaque)
    r = client.put(path(vhost), {"client_x_death": "read"})
    assert (r.status, r.json) == (200, read) and client.get(path(vhost)).json == read
    listed = client.get("/vhosts").json
    assert read in listed["vhosts"] and listed["count"] == len(listed["vhosts"])
    assert listed["vhosts"][0] == {"name": "/", "client_x_death": "opaque"}
    assert client.put(path(vhost), {}).json == client.get(path(vhost)).json == opaque
    assert client.post("/definitions", {"exchanges": [{"name": "x", "vhost": vhost, "type": "fanout"}]}).json["exchanges"]["made"] == 1


def test_a_body_is_not_needed(client, vhost):
    assert client.put(path(vhost)).status == 201


@pytest.mark.parametrize("body, field, code", [
    ({"client_x_death": "trusted"}, "client_x_death", "out_of_range"),
    ({"client_x_death": True}, "client_x_death", "wrong_type"),
    ({"colour": "red"}, "colour", "unknown_field"),
    ([], "body", "wrong_type"),
])
def test_a_wrong_body(client, vhost, body, field, code):
    r = client.put(path(vhost), body)
    assert r.status == 422 and [(e["field"], e["code"]) for e in r.json["errors"]] == [(field, code)]
    assert client.get(path(vhost)).status == 404


@pytest.mark.parametrize("name", ["a/b", "x" * 235, b"\xff"])
def test_a_wrong_name(client, name):
    r = client.put(path(name), {})
    assert r.status == 422 and r.json["errors"][0]["field"] == "name" and client.get(path(name)).status == 404


def test_the_longest_name(client):
    assert client.put(path("x" * 234), {}).status in (200, 201)


def test_it_is_on_the_audit(client, vhost):
    client.actor = "ann"
    for body in ({}, {}, {"client_x_death": "read"}):
        client.put(path(vhost, "?reason=as+before"), body)
    entries = client.audit(order="newest", limit=3)
    assert [(e["action"], e["actor"], e["reason"]) for e in entries if e["scope"] == vhost] == [
        ("vhost_changed", "ann", "as before")] * 2


def test_definitions_carry_the_setting(client, vhost):
    entry = {"name": vhost, "metadata": {"client_x_death": "read"}}
    report = client.post("/definitions?dry_run=yes", {"vhosts": [entry]}).json
    assert report["vhosts"] == {"made": 1, "changed": 0, "there": 0} and client.get(path(vhost)).status == 404
    client.post("/definitions", {"vhosts": [entry]})
    assert client.get("/definitions").json["vhosts"][-1] == entry
    report = client.post("/definitions", {"vhosts": [{"name": vhost}]}).json  # says nothing of it
    assert report["vhosts"]["there"] == 1 and client.get(path(vhost)).json["client_x_death"] == "read"
    back = {"name": vhost, "metadata": {"client_x_death": "opaque"}}
    for query in ("?dry_run=yes", ""):
        assert client.post("/definitions" + query, {"vhosts": [back]}).json["vhosts"] == {"made": 0, "changed": 1, "there": 0}
    assert client.get("/definitions").json["vhosts"][-1] == {"name": vhost}
    report = client.post("/definitions", {"vhosts": [{"name": vhost, "metadata": {"client_x_death": 7}}]}).json
    assert report["not_carried"] == [{"what": f"client_x_death of vhost '{vhost}'", "why": "it must be opaque or read"}]
