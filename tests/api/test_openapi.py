"""GET /openapi.json says what docs/http-api.md says and what the server does."""
import itertools
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
    found = {(m.lower(), p.split("?")[0]) for m, p in re.findall(r"`(GET|PUT|POST|PATCH|DELETE) (/[^`\s]*)`", text)}
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
    assert len(documented()) >= 42, documented()
    assert documented() <= described, documented() - described
    assert described <= documented(), described - documented()


def test_every_route_answers_with_a_status_it_names(api, client, queue):
    for method, path, op in operations(api):
        where = path.replace("{queue}", queue.name).replace("{id}", "1").replace("{key}", "v1:0000000000000001")
        assert "{" not in where, path
        reply = client.call(method.upper(), where, **({"body": {}} if method in ("post", "put", "patch") else {}))
        assert reply.status != 405, (method, path)
        assert str(reply.status) in op["responses"] or "default" in op["responses"], (method, path, reply)


# How to get each status of each route. Those that concern the transport or the whole server (401, 408, 411, 413, 414, 431, 503,
# 507) are provoked in their own test files.
ELSEWHERE = {"401", "408", "411", "413", "414", "431", "503", "507", "400"}
# Under the test clock a discard has ended before anyone can change it.
TOO_QUICK = {("patch", "/discards/{}"): {"200"}}


def requester(client, queue):
    """A function that makes a request and returns ((method, template, status), reply)."""

    def one(method, template, body=None, mid=None, query="", queue_name=None, key=None, **more):
        path = template.replace("{queue}", queue_name or queue.name).replace("{id}", str(mid)).replace("{key}", str(key)) + query
        if body is not None:
            more["body"] = body
        reply = client.call(method.upper(), path, **more)
        return (method, template, str(reply.status)), reply

    return one


def provoke(client, queue):
    """Runs one request after the other; yields (method, path, status)."""
    q = "/queues/{queue}"
    m = q + "/messages"
    one = requester(client, queue)
    yield one("get", "/")
    yield one("get", "/healthz")
    yield one("get", "/readyz")
    yield one("get", "/metrics")
    yield one("get", "/openapi.json")
    yield one("get", "/queues")
    yield one("get", "/queues", query="?limit=0")
    yield one("get", "/doctor")
    yield one("get", "/doctor", query="?limit=0")
    yield one("get", "/doctor", query="?queue=no-such-queue")
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


def provoke_letters(client, queue):
    """The same for what is done with dead letters."""
    q = "/queues/{queue}"
    m = q + "/messages/{id}"
    one = requester(client, queue)
    nobody = "no-such-queue"
    unknown_key = "v1:0000000000000001"

    queue.put(redrive_limit=1, max_messages=2)
    d = queue.dead("x")
    mid, key = d["id"], d["death"]["group"]
    yield one("get", "/messages/{id}", mid=mid)
    yield one("get", "/messages/{id}", mid=999999999)
    for verb in ("pause", "resume"):
        yield one("post", f"{q}/{verb}", {"reason": "r"})
        yield one("post", f"{q}/{verb}", {"nope": 1})
        yield one("post", f"{q}/{verb}", {}, queue_name=nobody)
    snooze = f"{q}/alerts/snooze"
    yield one("post", snooze, {"seconds": -1})
    yield one("post", snooze, {"seconds": 0}, queue_name=nobody)
    yield one("post", snooze, {"seconds": 0})
    queue.put(redrive_limit=1, max_messages=2, alerts=[{"kind": "rate", "url": "https://example.org/"}])
    yield one("post", snooze, {"seconds": 0})
    for verb, body in (("edit", {"payload": "y"}), ("discard", {"why": "test"}), ("undiscard", {})):
        yield one("post", f"{m}/{verb}", {"nope": 1}, mid=mid)
        yield one("post", f"{m}/{verb}", body, mid=999999999)
        yield one("post", f"{m}/{verb}", body, mid=mid)
        yield one("post", f"{m}/{verb}", body, mid=mid)
    yield one("post", m + "/replay", {}, mid=mid)  # 409: an edited copy is on its way
    queue.enqueue("full")
    yield one("post", m + "/edit", {"payload": "z", "force": True}, mid=mid)
    queue.put(redrive_limit=1)

    yield one("get", "/dead", query=f"?queue={queue.name}")
    yield one("get", "/dead", query="?q=colour:red")
    letters = queue.letters(exact="yes", attempts="yes")
    yield one("post", "/dead", {"queue": queue.name, "letters": letters})
    yield one("post", "/dead", {"queue": queue.name, "letters": [{**letters[0], "created_at_ms": 1}]})
    yield one("post", "/dead", {"queue": queue.name})
    yield one("get", "/groups")
    yield one("get", "/groups", query="?q=colour:red")
    yield one("get", "/groups/{key}", key=key)
    yield one("get", "/groups/{key}", key=unknown_key)
    yield one("patch", "/groups/{key}", {"owner": "ann"}, key=key)
    yield one("patch", "/groups/{key}", {"owner": "ann"}, key=unknown_key)
    yield one("patch", "/groups/{key}", {}, key=key)
    yield one("get", "/audit")
    yield one("get", "/audit", query="?limit=0")
    yield from provoke_jobs(queue, one)


def provoke_topology(client, queue):
    """The same for policies by pattern, and definitions."""
    one = requester(client, queue)
    yield one("get", "/vhosts")
    yield one("get", "/vhosts", query="?nope=1")
    for body in (None, {}, {"client_x_death": "read"}, {"client_x_death": "x"}, {"nope": 1}):
        yield one("put", "/vhosts/{key}", body, key="api")
    yield one("put", "/vhosts/{key}", {}, key="a%2Fb")
    yield one("get", "/vhosts/{key}", key="api", query="?nope=1")
    for key in ("api", "nowhere"):
        yield one("get", "/vhosts/{key}", key=key)
    policy = {"pattern": "^only-of-test_openapi", "definition": {"max-length": 5}}
    for method, body in (("get", None), ("put", policy), ("delete", None)):
        yield one(method, "/policies/{key}", body, key="api", query="?vhost=none")
        yield one(method, "/policies/{key}", body, key="api", query="?nope=1")
    for query in ("", "?nope=1"):
        yield one("get", "/policies", query=query)
    for _ in range(2):
        yield one("put", "/policies/{key}", policy, key="api")
    yield one("get", "/policies/{key}", key="api")
    yield one("get", "/policies")
    yield one("delete", "/policies/{key}", key="api")
    yield one("delete", "/policies/{key}", key="api")
    for query in ("", "?vhost=none", "?nope=1"):
        yield one("get", "/definitions", query=query)
    yield one("post", "/definitions", {})
    yield one("post", "/definitions", {"nope": 1})


def provoke_jobs(queue, one):
    ids = queue.batch([{"payload": "x"}] * 102)["ids"]
    queue.settle([{"id": m["id"], "action": "fail", "permanent": True} for m in queue.claim_many(1000)])
    bodies = (("/redrives", {"queue": queue.name}), ("/discards", {"queue": queue.name, "why": "test"}))
    for path, more in bodies:
        yield one("post", path, {**more, "all": True, "dry_run": True})
        yield one("post", path, {**more, "filter": "colour:red"})
        yield one("post", path, {**more, "all": True, "queue": "no-such-queue"})
        yield one("get", path)
        yield one("get", path, query="?limit=0")
        yield one("get", path + "/{id}", mid=4294967295)
        yield one("patch", path + "/{id}", {"state": "paused"}, mid=4294967295)
    yield one("get", "/queues/{queue}/classify", query="?class=Timeout")
    yield one("get", "/queues/{queue}/classify", query="?colour=red")
    yield one("get", "/queues/{queue}/classify", queue_name="no-such-queue")
    yield one("post", "/queues/{queue}/purge", {"confirm": "another"})
    yield one("post", "/queues/{queue}/purge", {"confirm": "no-such-queue"}, queue_name="no-such-queue")

    # A job whose letter is on its way has not ended: until there are too many, those of other tests among them.
    for mid in ids[:100]:
        _, reply = result = one("post", "/redrives", {"queue": queue.name, "filter": f"id:{mid}"})
        yield result
        if reply.status == 429:
            break
        job = reply.json["id"]
    yield one("get", "/redrives/{id}", mid=job)
    yield one("patch", "/redrives/{id}", {"rate": 5}, mid=job)
    yield one("patch", "/redrives/{id}", {"rate": "x"}, mid=job)
    for path, more in bodies:
        yield one("post", path, {**more, "filter": f"id:{ids[100]}"})
    yield one("post", "/queues/{queue}/purge", {"confirm": queue.name})
    for m in queue.claim_many(1000):
        queue.succeed(m)
    yield one("patch", "/redrives/{id}", {"state": "paused"}, mid=job)

    _, reply = result = one("post", "/discards", {"queue": queue.name, "filter": f"id:{ids[100]}", "why": "test"})
    yield result
    job = reply.json["id"]
    yield one("get", "/discards/{id}", mid=job)
    yield one("patch", "/discards/{id}", {"rate": "x"}, mid=job)
    yield one("patch", "/discards/{id}", {"state": "cancelled"}, mid=job)
    yield one("patch", "/discards/{id}", {"state": "paused"}, mid=job)
    yield one("post", "/queues/{queue}/purge", {"confirm": queue.name})


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


def problems(api, schema, value, where="reply"):
    """What of the value is not as the schema says; knows the few words of JSON Schema that are used here."""
    schema = resolve(api, schema)
    if value is None and schema.get("nullable"):
        return
    for part in schema.get("allOf", []):
        yield from problems(api, part, value, where)
    if "oneOf" in schema and sum(not list(problems(api, one, value, where)) for one in schema["oneOf"]) != 1:
        yield f"{where}: not one of {len(schema['oneOf'])}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{where}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not in {schema['enum']}"
    if kind in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where}: {value!r} is out of range"
    if kind == "string" and not re.search(schema.get("pattern", ""), value):
        yield f"{where}: {value!r} has another form"
    if kind == "array":
        for i, item in enumerate(value):
            yield from problems(api, schema["items"], item, f"{where}[{i}]")
    if kind == "object":
        for name in set(schema.get("required", [])) - set(value):
            yield f"{where}: {name} is missing"
        for name, member in value.items():
            more = schema.get("additionalProperties", "properties" not in schema)
            if name in schema.get("properties", {}):
                yield from problems(api, schema["properties"][name], member, f"{where}.{name}")
            elif isinstance(more, dict):
                yield from problems(api, more, member, f"{where}.{name}")
            elif not more:
                yield f"{where}: {name} is not described"


def closed(api):
    """The same with what allOf joins as one object, so that a member nobody describes is found."""
    def join(value):
        if isinstance(value, list):
            return [join(v) for v in value]
        if not isinstance(value, dict):
            return value
        parts = [resolve(api, p) for p in value.get("allOf", [])]
        if len(parts) < 2:
            return {k: join(v) for k, v in value.items()}
        return {"type": "object", "properties": {k: join(v) for p in parts for k, v in p["properties"].items()},
                "required": [k for p in parts for k in p.get("required", [])]}

    return join(api)


def check_reply(api, method, template, reply):
    """The reply's body is what the description says of that status."""
    response = resolve(api, api["paths"][template][method]["responses"].get(str(reply.status), {"description": ""}))
    content = response.get("content", {})
    assert reply.body == b"" or reply.type() in content, (method, template, reply)
    if reply.body and reply.type().endswith("json"):
        found = list(problems(api, content[reply.type()]["schema"], reply.json))
        assert not found, (method, template, reply.status, found[:5], reply)


def test_every_status_it_names_really_happens(api, client, queue):
    """And none happens that it does not name; and what is replied is what it describes."""
    strict = closed(api)
    named = {}
    for method, path, op in operations(api):
        named[method, plain(path)] = set(op["responses"])
    happened = {}
    letters = client.queue(queue.name + "-letters")
    for (method, template, status), reply in itertools.chain(provoke(client, queue), provoke_letters(client, letters), provoke_topology(client, queue)):
        happened.setdefault((method, plain(template)), set()).add(status)
        assert status in named[method, plain(template)], (method, template, status, reply)
        check_reply(strict, method, template, reply)
    missing = {route: named[route] - happened.get(route, set()) - ELSEWHERE - TOO_QUICK.get(route, set()) - {"default"}
               for route in named}
    assert not any(missing.values()), {route: sorted(s) for route, s in missing.items() if s}


def test_message_fields_are_the_documented_ones(api):
    from lib.client import ALWAYS, SOMETIMES
    schemas = api["components"]["schemas"]
    messages = [s for s in schemas.values() if {"retry_count", "retry_after"} <= set(s.get("properties", {}))]
    assert messages, list(schemas)
    assert set(messages[0]["properties"]) == ALWAYS | SOMETIMES
