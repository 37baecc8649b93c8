"""GET /audit: who did what, and why; and who a request says it is."""
import json

import pytest

from lib.client import T0, Client, at, check_entry


@pytest.fixture
def ann(client):
    client.actor = "ann"
    return client


def entries(queue, **params):
    return queue.client.audit(queue=queue.name, limit=1000, **params)


def told(queue, **params):
    return [(e["action"], e["target"], e["count"], e["reason"]) for e in entries(queue, **params)]


# -- what is on it ------------------------------------------------------------------------------------------------------------


def test_every_act_on_a_letter(ann, queue):
    d = queue.dead("x", now=at(1))
    mid = str(d["id"])
    queue.edit(d, payload="y", reason="typing error")
    queue.discard(d, why="duplicate", reason="copied")
    queue.undiscard(d, reason="oops")
    queue.replay(d, force=True, reason="fixed")
    assert [e[:2] for e in told(queue)] == [("edit", mid), ("discard", mid), ("undiscard", mid), ("replay", mid)]
    assert [e["reason"] for e in entries(queue)] == ["typing error", "copied", "oops", "fixed"]
    for e in entries(queue):
        assert (e["actor"], e["at"], e["queue"], e["count"], e["scope"]) == ("ann", T0, queue.name, 1, None), e


def test_acts_on_a_queue(ann, queue):
    reason = "?reason=load%20test"
    ann.put(queue.path + reason, {})
    ann.put(queue.path, {"max_retries": 5})
    queue.pause(reason="down")
    queue.resume()
    assert ann.delete(queue.path + reason).status == 204
    assert [(e["action"], e["reason"]) for e in entries(queue)] == [
        ("queue_created", "load test"), ("queue_changed", None), ("queue_paused", "down"), ("queue_resumed", None),
        ("queue_deleted", "load test")]
    assert {(e["actor"], e["target"]) for e in entries(queue)} == {("ann", None)}


def test_traffic_is_not_on_it(queue):
    m = queue.enqueue("x", max_retries=2)
    queue.release(queue.claim())
    queue.fail(queue.claim())
    queue.fail(queue.claim(now=at(2)), now=at(2))
    assert queue.read(m)["status"] == "dead"
    queue.enqueue("y")
    queue.succeed(queue.claim(now=at(3)))
    assert entries(queue) == []


def test_what_was_refused_is_not_on_it(queue):
    m = queue.enqueue("x")
    queue.replay(m, expect=409)
    queue.discard(m, expect=409)
    queue.delete(expect=409)
    assert queue.client.put(queue.path, {"max_retries": 0}).status == 422
    assert entries(queue) == []


# -- who ----------------------------------------------------------------------------------------------------------------------


def actor_of(client, name, **more):
    """Of a change that is made for it."""
    q = client.queue(name)
    policy = {} if client.get(q.path).status == 404 else {"max_retries": q.info()["policy"]["max_retries"] + 1}
    assert client.put(q.path, policy, **more).status in (200, 201)
    return client.audit(queue=name)[-1]["actor"]


def test_who_it_is(start):
    open_to_all = Client(start(), now=T0)
    assert actor_of(open_to_all, "q") == "anonymous"
    assert actor_of(open_to_all, "q", headers={"nixie-actor": "  ann  "}) == "ann"
    open_to_all.close()
    with_token = Client(start("--token", "secret"), now=T0, token="secret")
    assert actor_of(with_token, "q") == "token"
    assert actor_of(with_token, "q", headers={"Nixie-Actor": "ann"}) == "ann"
    with_token.close()
    named = Client(start("--token", "secret", "--token-name", "ops team"), now=T0, token="secret")
    assert actor_of(named, "q") == "ops team"
    named.close()


def test_the_name_of_the_token_may_come_from_the_environment(start):
    c = Client(start("--token", "secret", env={"NIXIE_TOKEN_NAME": "pager"}), now=T0, token="secret")
    assert actor_of(c, "q") == "pager"
    c.close()


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_bad_name_of_the_token_is_refused(tmp_path, name):
    from lib.server import refused
    code, _, stderr = refused(tmp_path / "data", "--token-name", name)
    assert code == 2 and "--token-name" in stderr


def test_names_of_actors(client, queue):
    for good in ("a", "é" * 64, "x" * 128, "ann (on call)"):
        assert actor_of(client, queue.name, headers={"Nixie-Actor": good.encode()}) == good
    queue.dead("x")
    d = queue.letters()[0]
    n = client.audit(order="newest", limit=1)[0]["number"]
    for bad, code in ((b"", "out_of_range"), (b"x" * 129, "too_long"), (b"\xff", "bad_encoding")):
        h = {"Nixie-Actor": bad}
        for reply in (client.put(queue.path, {}, headers=h), client.delete(queue.path, headers=h),
                      client.post(queue.path + "/pause", headers=h), client.post(queue.path + "/resume", headers=h),
                      client.patch("/groups/" + d["death"]["group"], {"state": "open"}, headers=h),
                      client.post("/dead", {"queue": queue.name, "letters": [letter()]}, headers=h),
                      client.post(f"{queue.path}/messages/{d['id']}/replay", {}, headers=h)):
            assert reply.status == 422 and reply.error() == ("Nixie-Actor", code), (bad, reply)
    assert client.audit(order="newest", limit=1)[0]["number"] == n
    reply = client.raw("PUT", queue.path, b"{}", {"Nixie-Actor": "a"})
    assert reply.status == 200


def letter():
    return {"id": 1, "payload": "x", "status": "dead", "max_retries": 1, "reason": "permanent", "created_at": T0, "died_at": T0}


def test_why_is_bounded(client, queue):
    for method, body in (("PUT", {}), ("DELETE", None)):
        for text, code in (("x" * 1025, "too_long"), ("%ff", "bad_encoding")):
            reply = client.call(method, f"{queue.path}?reason={text}", **({"body": body} if body is not None else {}))
            assert reply.status == 422 and reply.error() == ("reason", code), reply
        reply = client.call(method, f"{queue.path}?nope=1", **({"body": body} if body is not None else {}))
        assert reply.status == 422 and reply.error() == ("nope", "unknown_field"), reply
    assert client.get(queue.path).status == 404


# -- pages --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(queue):
    queue.put()
    for i in range(25):
        queue.client.actor = "ab"[i % 2]
        queue.pause() if i % 2 else queue.resume()
        queue.client.actor = None
        queue.put(max_retries=i + 1)
    return queue


def test_numbers_have_no_gaps(many):
    after = entries(many)[0]["number"] - 1
    numbers = [e["number"] for e in many.client.audit(after=after, limit=1000)]
    assert numbers == list(range(after + 1, after + 1 + len(numbers)))


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_leafing(many, limit):
    whole = entries(many)
    assert len(whole) >= 26
    params = {"queue": many.name, "limit": limit}
    for order, cursor in (("oldest", "after"), ("newest", "before")):
        seen, more = [], {}
        while True:
            reply = many.client.get("/audit?" + "&".join(f"{k}={v}" for k, v in {**params, "order": order, **more}.items()))
            seen += reply.json["entries"]
            if reply.json["next"] is None:
                break
            more = {cursor: reply.json["next"]}
        assert seen == (whole if order == "oldest" else whole[::-1]), order


def test_filters(many):
    everything = entries(many)
    for params, wanted in (({"actor": "a"}, lambda e: e["actor"] == "a"),
    ({"action": "queue_paused"}, lambda e: e["action"] == "queue_paused"),
                           ({"actor": "b", "action": "queue_resumed"}, lambda e: False),
                           ({"after": everything[9]["number"]}, lambda e: e["number"] > everything[9]["number"])):
        assert entries(many, **params) == [e for e in everything if wanted(e)], params
    below = everything[9]["number"]
    assert entries(many, order="newest", before=below) == everything[8::-1]
    assert many.client.audit(queue="no such queue") == []
    assert many.client.audit(after=2**53 - 1) == []


def test_one_entry_a_line(many):
    whole = entries(many)
    path = f"/audit?queue={many.name}&limit=10"
    lines, more = [], ""
    while True:
        reply = many.client.get(path + more, headers={"Accept": "text/html, Application/X-NDJSON;q=0.9"})
        assert reply.status == 200 and reply.type() == "application/x-ndjson", reply
        assert reply.body.endswith(b"\n")
        lines += reply.body.decode().splitlines()
        if reply.headers.get("Nixie-Next") is None:
            break
        more = f"&after={reply.headers['Nixie-Next']}"
    seen = [json.loads(line) for line in lines]
    assert seen == whole
    for e in seen:
        check_entry(e)
    reply = many.client.get("/audit?queue=nothing", headers={"Accept": "application/x-ndjson"})
    assert reply.status == 200 and reply.body == b""


def test_other_media_types_get_json(client):
    for accept in ("*/*", "application/json", "application/x-ndjsonx", "application/x-ndjso", "x/application/x-ndjson", ""):
        assert client.get("/audit?limit=1", headers={"Accept": accept}).type() == "application/json", accept


BAD = [("limit=0", "limit"), ("limit=1001", "limit"), ("order=random", "order"), ("after=x", "after"), ("after=-1", "after"),
       ("before=0&order=newest", "before"), ("before=5", "before"), ("after=5&order=newest", "after"), ("action=", "action"),
       ("action=none", "action"),
       ("action=Replay", "action"), ("queue=%ff", "queue"), ("actor=%ff", "actor"), ("actor=" + "x" * 129, "actor"),
       ("who=ann", "who"),
       ("after=9007199254740992", "after")]


@pytest.mark.parametrize("query,field", BAD, ids=[q[:20] for q, _ in BAD])
def test_bad_queries(client, query, field):
    reply = client.get("/audit?" + query)
    assert reply.status == 422 and reply.error()[0] == field, reply


def test_the_audit_survives_a_restart(start):
    server = start()
    client = Client(server, now=T0, actor="ann")
    queue = client.queue("q")
    d = queue.dead("x")
    queue.discard(d, why="test", reason="r")
    queue.put(max_retries=4)
    before = client.audit()
    assert len(before) == 2
    client.close()
    server.restart(kill=True)
    assert client.audit() == before
    queue.put(max_retries=5)
    assert client.audit()[-1]["number"] == before[-1]["number"] + 1
    client.close()
