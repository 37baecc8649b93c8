"""Cause groups: GET /groups, GET and PATCH /groups/{key}."""
import urllib.parse

import pytest

from lib.client import T0, Client, at


def die(queue, error="connection to 10.0.0.1 timed out", error_class="Timeout", now=T0, version=None, **fields):
    queue.enqueue("x", now=now)
    who = {} if version is None else {"worker": "w", "worker_version": version}
    m = queue.claim(now=now, **who)
    return queue.fail(m, now=now, permanent=True, error=error, error_class=error_class, **fields)


def titles(groups):
    return [g["title"] for g in groups]


def test_one_cause_is_one_group(queue):
    ids = [die(queue, error=f"connection to 10.0.0.{i} timed out after {i} ms", now=at(i))["id"] for i in range(5)]
    [g] = queue.groups(now=at(10))
    assert g == {
        "key": g["key"], "queue": queue.name, "title": g["title"], "error_class": "Timeout", "reason": "permanent", "count": 5,
        "open": 0, "total": 5, "last_hour": 5, "last_day": 5, "first_seen": T0, "last_seen": at(4), "versions": [], "state": "open",
        "state_at": g["state_at"], "owner": None, "note": None, "regressed_at": None, "quiet_seconds": None, "newest_id": ids[-1],
        "oldest_id": ids[0]}
    assert g["title"].startswith("Timeout: ") and "10.0.0" not in g["title"]
    assert queue.client.group(g["key"], now=at(10)) == g
    assert {m["death"]["group"] for m in queue.letters(now=at(10))} == {g["key"]}
    assert [m["id"] for m in queue.letters(f"group:{g['key']}", now=at(10), order="oldest")] == ids
    assert queue.info(now=at(10))["groups"] == 1


def test_other_causes_are_other_groups(client, queue):
    die(queue)
    die(queue, error_class="Refused")
    die(queue, error="something else entirely")
    queue.dead("x", error="connection to 10.0.0.1 timed out", error_class="Timeout")  # for another reason
    other = client.queue(queue.name + "-other")
    die(other)
    assert len(queue.groups()) == 4 and len(other.groups()) == 1
    assert len({g["key"] for g in queue.groups() + other.groups()}) == 5


def test_a_fingerprint_of_the_worker_decides(queue):
    a = die(queue, error="one", error_class="A", fingerprint="F")
    b = die(queue, error="two", error_class="B", fingerprint="F")
    c = die(queue, error="one", error_class="A", fingerprint="G")
    assert a["death"]["group"] == b["death"]["group"] != c["death"]["group"]
    queue.enqueue("x")
    m = queue.claim()
    queue.settle([{"id": m["id"], "lease": m["lease"], "action": "fail", "permanent": True, "error": "three", "fingerprint": "F"}])
    assert queue.read(m)["death"]["group"] == a["death"]["group"]
    reply = queue.client.post(f"{queue.path}/messages/{m['id']}/fail", {"fingerprint": 7})
    assert reply.status == 422 and reply.error() == ("fingerprint", "wrong_type")


def test_counts_by_version(queue):
    for version in ("1.4", "1.4", "1.5"):
        last = die(queue, version=version)
    queue.replay(last)
    [g] = queue.groups()
    assert g["versions"] == [{"version": "1.4", "count": 2, "total": 2}, {"version": "1.5", "count": 0, "total": 1}]
    assert (g["count"], g["open"], g["total"]) == (2, 1, 3)


def test_the_last_hour_and_day(queue):
    die(queue)
    die(queue, now=at(1800))
    seen = []
    for t in (1801, 3500, 5600, 86000, 90000):
        [g] = queue.groups(now=at(t))
        seen.append((g["last_hour"], g["last_day"], g["total"]))
    assert seen[0] == seen[1] == (2, 2, 2)
    assert seen[2][0] <= 1 and seen[2][1:] == (2, 2)
    assert seen[3] == (0, 2, 2) and seen[4] == (0, 0, 2)


def test_what_became_of_its_letters(queue):
    a, b, c = die(queue), die(queue), die(queue)
    queue.replay(a)
    queue.discard(b, why="test")
    [g] = queue.groups()
    assert (g["count"], g["open"], g["total"], g["newest_id"], g["oldest_id"]) == (1, 1, 3, c["id"], c["id"])
    queue.undiscard(b)
    assert queue.groups()[0]["count"] == 2
    queue.succeed(queue.claim())
    [g] = queue.groups()
    assert (g["count"], g["open"]) == (2, 0)


# -- lists --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(queue):
    """Three groups: B died first and most often, C last."""
    for i in range(3):
        die(queue, error="b", error_class="B", now=at(i))
    die(queue, error="a", error_class="A", now=at(5))
    for i in range(2):
        die(queue, error="c", error_class="C", now=at(7 + i))
    queue.client.now = at(10)
    return queue


@pytest.mark.parametrize("sort,wanted", [(None, "CAB"), ("last_seen", "CAB"), ("count", "BCA"), ("first_seen", "CAB"),
                                         ("title", "ABC")])
def test_order(three, sort, wanted):
    groups = three.groups(**({} if sort is None else {"sort": sort}))
    assert "".join(g["error_class"] for g in groups) == wanted


def test_pages(three):
    whole = three.groups(sort="title")
    q = f'queue:"{three.name}"'
    for limit in (1, 2, 3):
        pages = []
        for offset in range(0, 4, limit):
            query = urllib.parse.urlencode({"q": q, "sort": "title", "limit": limit, "offset": offset})
            reply = three.client.get("/groups?" + query)
            assert reply.json["total"] == 3
            pages += reply.json["groups"]
        assert pages == whole
    assert three.groups(offset=3) == []


def test_filters(three):
    a, b, _ = three.groups(sort="title")
    three.client.change_group(b["key"], state="acknowledged", owner="ann")
    for q, wanted in (("error:B", "B"), ("state:acknowledged", "B"), ("state:open", "CA"), ("owner:ann", "B"), ("count:>=2", "CB"),
                      ("reason:permanent", "CAB"), ("reason:expired", ""), (f"group:{a['key']}", "A"), ("-error:A", "CB"),
                      ("message:*a", "A")):
        assert "".join(g["error_class"] for g in three.groups(q)) == wanted, q


BAD_FILTERS = [("colour:red", 0, 6), ("state:lost", 6, 4), ("payload.x:1", 0, None), ("age:>1h", 0, None), (" ", None, None)]


@pytest.mark.parametrize("q,position,length", BAD_FILTERS, ids=[q for q, _, _ in BAD_FILTERS])
def test_an_ill_formed_filter_says_where(client, q, position, length):
    reply = client.get("/groups?" + urllib.parse.urlencode({"q": q}))
    assert reply.status == 422 and reply.error() == ("q", "bad_filter"), reply
    e = reply.json["errors"][0]
    assert position is None or e["position"] == position, e
    assert length is None or e["length"] == length, e


BAD = [("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("offset=1000001", "offset"), ("sort=size", "sort"),
       ("sort=", "sort"), ("all=perhaps", "all"), ("q=%ff", "q"), ("nope=1", "nope"), ("all=yes&all=no", "all")]


@pytest.mark.parametrize("query,field", BAD, ids=[q for q, _ in BAD])
def test_bad_queries(client, query, field):
    reply = client.get("/groups?" + query)
    assert reply.status == 422 and reply.error()[0] == field, reply


# -- state, owner, note -------------------------------------------------------------------------------------------------------


def test_each_can_be_changed_alone(queue):
    die(queue)
    client, [g] = queue.client, queue.groups()
    client.actor = "ann"
    changed = client.change_group(g["key"], now=at(5), state="acknowledged")
    assert changed == {**g, "state": "acknowledged", "state_at": at(5)}
    changed = client.change_group(g["key"], now=at(6), owner="bob")
    assert changed == {**g, "state": "acknowledged", "state_at": at(5), "owner": "bob"}
    changed = client.change_group(g["key"], now=at(7), note="see the runbook\n", reason="why not")
    assert changed == {**g, "state": "acknowledged", "state_at": at(5), "owner": "bob", "note": "see the runbook\n"}
    assert client.group(g["key"], now=at(7)) == changed
    changed = client.change_group(g["key"], now=at(8), owner=None, note=None, state="open")
    assert (changed["owner"], changed["note"], changed["state"]) == (None, None, "open")
    entries = [e for e in client.audit(queue=queue.name, action="group")]
    assert [(e["actor"], e["target"]) for e in entries] == [("ann", g["key"])] * 4 and entries[2]["reason"] == "why not"


def test_what_was_said_outlives_the_letters(queue):
    d = die(queue)
    [g] = queue.groups()
    queue.client.change_group(g["key"], state="acknowledged", owner="ann", note="known")
    queue.replay(d)
    assert queue.groups()[0]["state"] == "acknowledged", "its letter is on its way"
    queue.succeed(queue.claim())
    assert queue.groups() == [] and queue.info()["groups"] == 0
    [g] = queue.groups(all="yes")
    assert (g["state"], g["owner"], g["note"], g["count"], g["open"], g["total"]) == ("resolved", "ann", "known", 0, 0, 1)
    assert queue.client.group(g["key"]) == g


def test_a_resolved_cause_that_comes_again(queue):
    d = die(queue)
    [g] = queue.groups()
    queue.client.change_group(g["key"], now=at(10), state="resolved")
    queue.discard(d, why="fixed", now=at(20))
    die(queue, now=at(7200))
    [g] = queue.groups(now=at(7200))
    assert (g["state"], g["regressed_at"], g["quiet_seconds"], g["count"], g["total"]) == ("open", at(7200), 7200, 1, 2)


BAD_CHANGES = [({}, "state"), ({"reason": "x"}, "state"), ({"state": "closed"}, "state"), ({"state": None}, "state"),
               ({"state": 1}, "state"), ({"owner": 7}, "owner"), ({"owner": "x" * 129}, "owner"), ({"note": []}, "note"),
               ({"note": "x" * 4097}, "note"), ({"owner": "a", "reason": "x" * 1025}, "reason"),
               ({"owner": "a", "nope": 1}, "nope"),
               ([], "body"), ("open", "body")]


@pytest.mark.parametrize("body,field", BAD_CHANGES, ids=[str(b)[:30] for b, _ in BAD_CHANGES])
def test_bad_changes(queue, body, field):
    die(queue)
    [g] = queue.groups()
    reply = queue.client.patch("/groups/" + g["key"], body)
    assert reply.status == 422 and reply.error()[0] == field, reply
    assert queue.groups() == [g]


def test_the_longest_texts(queue):
    die(queue)
    [g] = queue.groups()
    changed = queue.client.change_group(g["key"], owner="é" * 64, note="n" * 4096)
    assert (changed["owner"], changed["note"]) == ("é" * 64, "n" * 4096)


def test_unknown_groups(client):
    for key in ("v1:0000000000000001", "v1:", "v1", "v2:0000000000000001", "x", "v1%3A00000000000000zz", "v1:0000000000000001%20",
                "%ff", "v1:000000000000000G", "v1:00000000000000001"):
        for reply in (client.get("/groups/" + key), client.patch("/groups/" + key, {"state": "open"})):
            assert reply.status == 404 and reply.json["title"] == "no such group", (key, reply)


def test_a_key_may_be_encoded(queue):
    die(queue)
    [g] = queue.groups()
    for key in (g["key"], urllib.parse.quote(g["key"], safe=""), g["key"].replace("v", "%76")):
        assert queue.client.get("/groups/" + key).json == g


def test_groups_survive_a_restart(start):
    server = start()
    client = Client(server, now=T0)
    queue = client.queue("q")
    for i in range(4):
        die(queue, error=f"e{'xy'[i % 2]}", version=f"1.{i}")
    client.change_group(queue.groups()[0]["key"], state="acknowledged", owner="ann", note="n")
    before = client.groups(all="yes")
    client.close()
    server.restart(kill=True)
    assert client.groups(all="yes") == before and len(before) == 2
    client.close()
