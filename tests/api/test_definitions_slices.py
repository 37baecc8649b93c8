"""A big file of definitions is taken in piece by piece: others are served between, and nothing of it is lost."""
import json

import pytest

from lib.client import Client
from lib.raw import Raw, request

QUEUES = 10000


@pytest.fixture(scope="module")
def big():
    return json.dumps({
        "vhosts": [{"name": "/"}],
        "exchanges": [{"name": "x", "type": "direct"}],
        "queues": [{"name": f"q{i}", "arguments": {"x-max-length": 7}} for i in range(QUEUES)],
        "bindings": [{"source": "x", "destination": f"q{i}", "destination_type": "queue", "routing_key": "k"} for i in range(QUEUES)],
    }).encode()


@pytest.fixture
def server(start):
    return start(test_clock=False)


def begun(server, client, big):
    """Its request is out, and some of it is done."""
    raw = Raw(server)
    raw.send(request("POST", "/definitions?reason=we+move", big))
    for _ in range(10000):
        if client.get("/queues?limit=1").json["queues"]:
            break
    return raw


def is_whole(client):
    counts = client.get("/definitions").json
    return len(counts["queues"]) == len(counts["bindings"]) == QUEUES


def test_others_are_served_between(server, big):
    client = Client(server)
    with begun(server, client, big) as raw:
        served = 0
        while client.get(f"/queues/q{QUEUES - 1}").status == 404:
            client.post("/queues/q0/messages", {"payload": "x"})
            served += 1
        reply = raw.reply()
        assert reply.status == 200 and reply.json["queues"]["made"] == reply.json["bindings"]["made"] == QUEUES
    assert served >= 2 and is_whole(client)  # each waits for the disk
    client.close()


def test_what_is_made_meanwhile_is_there(server, big):
    client = Client(server)
    with begun(server, client, big) as raw:
        mine = {"queues": [{"name": f"q{QUEUES - 1}", "arguments": {"x-max-length": 7}}],
                "bindings": [{"source": "x", "destination": f"q{QUEUES - 1}", "destination_type": "queue", "routing_key": "k"}]}
        assert client.post("/definitions", mine).json["bindings"]["made"] == 1
        reply = raw.reply()
        assert [reply.json[s]["there"] for s in ("queues", "bindings")] == [1, 1]
    assert is_whole(client)
    client.close()


def test_it_ends_without_its_client(server, big):
    client = Client(server)
    begun(server, client, big).s.close()
    for _ in range(10000):
        if is_whole(client):
            break
    assert is_whole(client)
    client.close()


def test_a_stop_waits_for_it(start, big, tmp_path):
    server = start(test_clock=False, data=tmp_path / "kept")
    client = Client(server)
    with begun(server, client, big) as raw:
        server.terminate()
        assert raw.reply().json["queues"]["made"] == QUEUES
    client.close()
    assert server.wait() == 0
    client = Client(start(test_clock=False, data=tmp_path / "kept"))
    assert is_whole(client)
    client.close()


def test_a_client_that_says_no_more_is_answered(server, big):
    client = Client(server)
    with begun(server, client, big) as raw:
        raw.half_close()
        assert raw.reply().json["queues"]["made"] == QUEUES
    client.close()


def test_only_so_many_at_once(server, big):
    client = Client(server)
    raws = [Raw(server) for _ in range(4)]
    whole = request("POST", "/definitions", big)
    for raw in raws:
        raw.send(whole[:-1])
    for raw in raws:
        raw.send(whole[-1:])
    seen = [client.post("/definitions", {})]
    while seen[-1].status == 200 and len(seen) < 500:
        seen.append(client.post("/definitions", {}))
    r = seen[-1]
    assert r.status == 503 and r.json["title"] == "too many imports" and r.headers.get("Retry-After") == "1"
    assert sum(raw.reply().json["queues"]["made"] for raw in raws) == QUEUES
    for raw in raws:
        raw.s.close()
    assert client.post("/definitions", {}).status == 200 and is_whole(client)
    client.close()
