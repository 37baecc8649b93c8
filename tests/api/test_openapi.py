"""GET /openapi.json says what docs/http-api.md says and what the server does."""
import re

import pytest

from lib.client import at
from lib.server import ROOT

METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


@pytest.fixture
def api(client):
    reply = client.get("/openapi.json")
    assert reply.status == 200 and reply.type() == "application/json"
    return reply.json


def plain(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


def documented():
    """(method, path) of every route that docs/http-api.md names."""
    text = (ROOT / "docs" / "http-api.md").read_text()
    found = {(m.lower(), p.split("?")[0]) for m, p in re.findall(r"`(GET|PUT|POST|DELETE) (/[^`\s]*)`", text)}
    found |= {("post", "/queues/{queue}/messages/{id}/" + verb) for verb in ("succeed", "fail", "extend", "release")}
    return {(m, plain(p)) for m, p in found if "VERB" not in p}


def operations(api):
    for path, item in api["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def test_its_own_form(api):
    assert re.fullmatch(r"3\.0\.\d+", api["openapi"])
    assert api["info"]["title"] and api["info"]["version"]
    ids = [op["operationId"] for _, _, op in operations(api) if "operationId" in op]
    assert len(ids) == len(set(ids))
    for method, path, op in operations(api):
        assert op["responses"], (method, path)
        item = api["paths"][path]
        params = {resolve(api, p)["name"] for p in item.get("parameters", []) + op.get("parameters", [])
                  if resolve(api, p)["in"] == "path"}
        assert params == set(re.findall(r"\{([^}]*)\}", path)), (method, path)
        for status, response in op["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d|[1-5]XX|default", status), (method, path, status)
            assert resolve(api, response)["description"], (method, path, status)


def resolve(api, thing):
    seen = set()
    while "$ref" in thing:
        ref = thing["$ref"]
        assert ref not in seen and ref.startswith("#/"), ref
        seen.add(ref)
        target = api
        for part in ref[2:].split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        thing = target
    return thing


def test_every_reference_leads_somewhere(api):
    def walk(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                resolve(api, value)
            for v in value.values():
                walk(v)
        elif isinstance(value, list):
            for v in value:
                walk(v)

    walk(api)


def test_the_same_routes_as_the_document(api):
    described = {(method, plain(path)) for method, path, _ in operations(api)}
    assert len(documented()) >= 18, documented()
    assert documented() <= described, documented() - described
    assert described <= documented(), described - documented()


def test_every_route_answers_with_a_status_it_names(api, client, queue):
    for method, path, op in operations(api):
        where = path.replace("{queue}", queue.name).replace("{id}", "1")
        assert "{" not in where, path
        reply = client.call(method.upper(), where, **({"body": {}} if method in ("post", "put") else {}))
        assert reply.status != 405, (method, path)
        assert str(reply.status) in op["responses"] or "default" in op["responses"], (method, path, reply)


# How to get each status of each route. Those that concern the transport or the whole server (401, 408, 411, 413, 414, 431, 503,
# 507) are provoked in their own test files.
ELSEWHERE = {"401", "408", "411", "413", "414", "431", "503", "507", "400"}


def provoke(client, queue):
    """Runs one request after the other; yields (method, path, status)."""
    q = "/queues/{queue}"
    m = q + "/messages"

    def one(method, template, body=None, mid=None, query="", queue_name=None, **more):
        path = template.replace("{queue}", queue_name or queue.name).replace("{id}", str(mid)) + query
        if body is not None:
            more["body"] = body
        reply = client.call(method.upper(), path, **more)
        return (method, template, str(reply.status)), reply

    yield one("get", "/")
    yield one("get", "/healthz")
    yield one("get", "/readyz")
    yield one("get", "/metrics")
    yield one("get", "/openapi.json")
    yield one("get", "/queues")
    yield one("get", "/queues", query="?limit=0")
    yield one("get", q)
    yield one("put", q, {})
    yield one("put", q, {"max_messages": 8})
    yield one("put", q, {"nope": 1})
    yield one("get", q)
    yield one("post", m, {"payload": "x"})
    yield one("post", m, {"payload": "k", "idempotency_key": "k", "max_retries": 1})
    yield one("post", m, {"payload": "k", "idempotency_key": "k"})
    yield one("post", m, {})
    yield one("get", m)
    yield one("get", m, query="?limit=0")
    yield one("get", m, queue_name="no-such-queue")
    yield one("post", m, [{"payload": str(i)} for i in range(6)])
    yield one("post", m, {"payload": "full"})
    yield one("delete", q)
    yield one("post", q + "/claim", {"count": 0})
    _, reply = result = one("post", q + "/claim", {"count": 8})
    yield result
    ids = [x["id"] for x in reply.json["messages"]]
    for verb in ("succeed", "fail", "extend", "release", "replay"):
        yield one("post", m + "/{id}/" + verb, {"nope": 1}, mid=ids[0])
        yield one("post", m + "/{id}/" + verb, {}, mid=999999999)
    yield one("post", m + "/{id}/succeed", {}, mid=ids[0])
    yield one("post", m + "/{id}/succeed", {}, mid=ids[0])
    yield one("post", m + "/{id}/fail", {}, mid=ids[1])
    yield one("post", m + "/{id}/fail", {}, mid=ids[1])
    yield one("post", m + "/{id}/replay", {}, mid=ids[1])
    yield one("post", m + "/{id}/replay", {}, mid=ids[1])
    yield one("post", m + "/{id}/extend", {}, mid=ids[2])
    yield one("post", m + "/{id}/release", {}, mid=ids[2])
    yield one("post", m + "/{id}/extend", {}, mid=ids[2])
    yield one("post", m + "/{id}/release", {}, mid=ids[2])
    yield one("post", q + "/settle", {"items": []})
    yield one("post", q + "/settle", {"items": 7})
    for suffix in ("", "/payload", "/attempts"):
        yield one("get", m + "/{id}" + suffix, mid=ids[0])
        yield one("get", m + "/{id}" + suffix, mid=999999999)
    yield one("delete", q, query="?discard=true")
    yield one("delete", q)
    yield one("delete", q, query="?discard=maybe")
    yield one("post", q + "/settle", {"items": []}, queue_name="no-such-queue")
    yield one("post", q + "/claim", {}, queue_name="no-such-queue", now=at(0))


def test_every_status_it_names_really_happens(api, client, queue):
    """And none happens that it does not name."""
    named = {}
    for method, path, op in operations(api):
        named[method, plain(path)] = set(op["responses"])
    happened = {}
    for (method, template, status), reply in provoke(client, queue):
        happened.setdefault((method, plain(template)), set()).add(status)
        assert status in named[method, plain(template)], (method, template, status, reply)
    missing = {route: named[route] - happened.get(route, set()) - ELSEWHERE - {"default"} for route in named}
    assert not any(missing.values()), {route: sorted(s) for route, s in missing.items() if s}


def test_message_fields_are_the_documented_ones(api):
    from lib.client import ALWAYS, SOMETIMES
    schemas = api["components"]["schemas"]
    messages = [s for s in schemas.values() if {"retry_count", "retry_after"} <= set(s.get("properties", {}))]
    assert messages, list(schemas)
    assert set(messages[0]["properties"]) == ALWAYS | SOMETIMES
