"""What the API shows is byte for byte the same before and after a restart."""
import json
import random

import pytest

from lib.client import Client, T0, at, encode


def picture(client, now):
    """Every reply of every read, as bytes."""
    seen = {}

    def get(path):
        reply = client.get(path, now=now)
        assert reply.status == 200, (path, reply)
        seen[path] = reply.body
        return reply

    queues = get("/queues?limit=1000").json["queues"]
    for q in queues:
        base = "/queues/" + encode(q["queue"])
        get(base)
        for status in ("pending", "processing", "dead", "succeeded"):
            get(f"{base}/messages?status={status}&limit=1000")
        for m in get(f"{base}/messages?limit=1000").json["messages"]:
            get(f"{base}/messages/{m['id']}")
            get(f"{base}/messages/{m['id']}/payload")
            get(f"{base}/messages/{m['id']}/attempts")
    return seen


def differences(a, b):
    return {path: (a.get(path), b.get(path)) for path in set(a) | set(b) if a.get(path) != b.get(path)}


def populate(client, seed):
    """One of everything, then a random walk. Returns the time at its end."""
    rng = random.Random(seed)
    q = client.queue("ünï/odd")
    q.put(max_retries=7, backoff={"kind": "exponential", "base_seconds": 3, "factor": 1.7, "cap_seconds": 99, "jitter": "full"},
          lease_seconds=10, delay_seconds=1, ttl_seconds=5000, max_messages=500, max_bytes=10**9, idempotency_window_seconds=77,
          retention={"succeeded_seconds": 60, "succeeded_max": 3, "dead_seconds": 400})
    client.queue("listed").put(backoff={"kind": "list", "list_seconds": [1, 5, 9], "jitter": "equal"})
    client.queue("empty").put()
    client.queue("gone").enqueue("x")
    client.queue("gone").delete(discard=True)
    now = 0
    for i in range(400):
        now += rng.choice([0, 0, 1, 3])
        q = client.queue(rng.choice(["ünï/odd", "listed", "third"]))
        step = rng.random()
        if step < 0.35:
            fields = {"payload": rng.choice(["", "x", "é\u0000" * rng.randrange(50), "y" * rng.randrange(5000)])}
            if rng.random() < 0.3:
                fields = {"payload_base64": "//8A"}
            for name, value in (("priority", rng.randrange(10)), ("key", "k"), ("headers", {"a": [1, None, "é"]}),
                                ("delay_seconds", rng.randrange(20)), ("ttl_seconds", rng.randrange(1, 200)),
                                ("max_retries", rng.randrange(1, 11)), ("idempotency_key", f"key {rng.randrange(40)}")):
                if rng.random() < 0.25:
                    fields[name] = value
            reply = client.post(q.path + "/messages", fields, now=at(now))
            assert reply.status in (200, 201), reply
        elif step < 0.85:
            for m in q.claim_many(3, now=at(now), worker=rng.choice(["w1", "ünï"]), worker_version="1.2"):
                verb = rng.choice(["succeed", "fail", "fail", "fail", "permanent", "release", "extend", None])
                if verb == "permanent":
                    q.fail(m, now=at(now), permanent=True, error="bad", error_class="E")
                elif verb == "fail":
                    q.fail(m, now=at(now), error="e" * rng.randrange(100), detail="d" * rng.randrange(5000))
                elif verb == "release":
                    q.release(m, now=at(now), delay_seconds=rng.randrange(30))
                elif verb:
                    q.act(m, verb, now=at(now))
        else:
            for d in q.list(now=at(now), status="dead", limit=1) if client.get(q.path, now=at(now)).status == 200 else []:
                q.replay(d, now=at(now), force=True)
    return now


@pytest.mark.parametrize("kill", [False, True], ids=["sigterm", "sigkill"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_restart_changes_nothing_one_can_see(start, seed, kill):
    server = start("--segment-bytes", 1024 * 1024, "--payload-max", 100000)
    client = Client(server, now=T0)
    now = populate(client, seed)
    before = picture(client, at(now))
    states = {s for body in before.values() if body.startswith(b'{"messages"') for s in [m["status"] for m in json.loads(body)["messages"]]}
    assert states == {"pending", "processing", "succeeded", "dead"}, states
    for _ in range(2):
        client.close()
        server.restart(kill=kill)
        assert differences(before, picture(client, at(now))) == {}
    # And it goes on where it was: ids grow, leases still hold, the rest happens as it would have.
    highest = max(m["id"] for body in before.values() if body.startswith(b'{"messages"') for m in json.loads(body)["messages"])
    assert client.queue("third").enqueue("new", now=at(now))["id"] > highest


def test_starting_alone_moves_no_time(start):
    """Under the test clock only X-Now moves the time, so a restart must not end leases by itself."""
    server = start()
    queue = Client(server, now=T0).queue("q")
    queue.enqueue("x")
    c = queue.claim(lease_seconds=10)
    queue.enqueue("y", ttl_seconds=10)
    queue.client.close()
    for kill in (False, True):
        server.restart(kill=kill)
        assert queue.client.get("/readyz", now=None).status == 200
        assert queue.counts(now=at(9)) == {"pending": 1, "ready": 1, "processing": 1, "parked": 0, "dead": 0,
                                           "succeeded": 0, "discarded": 0, "held": 0}
        queue.client.close()
    queue.succeed(c, now=at(9))


def test_leases_and_delays_run_on_while_the_server_is_down(start):
    server = start()
    queue = Client(server, now=T0).queue("q")
    a, b, c = (queue.enqueue(p, **f) for p, f in (("a", {}), ("b", {"delay_seconds": 60}), ("c", {"ttl_seconds": 60, "delay_seconds": 70})))
    queue.claim(lease_seconds=60)
    queue.client.close()
    server.restart(kill=True)
    assert queue.read(a, now=at(60))["error_class"] == "lease_expired"
    assert queue.claim(now=at(60))["id"] == b["id"]
    assert queue.read(c, now=at(60))["reason"] == "expired"


def test_many_restarts(start):
    server = start()
    queue = Client(server, now=T0).queue("q")
    for i in range(15):
        queue.enqueue(str(i))
        queue.client.close()
        server.restart(kill=i % 2 == 0)
    assert [m["payload"] for m in queue.list()] == [str(i) for i in range(15)]
