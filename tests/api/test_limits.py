"""Connections and requests in flight."""
import threading
import time

from lib.client import Client, T0
from lib.raw import Raw, request


def poll(condition, what, timeout=10):
    """Asks again and again until it is so; for what no event tells."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what


def test_connections_max(start):
    server = start("--connections-max", 5)
    raws = [Raw(server) for _ in range(5)]
    for raw in raws:
        assert raw.send(request("GET", "/healthz")).reply().status == 200
    with Raw(server) as sixth:
        reply = sixth.reply()
        assert reply.status == 503 and int(reply.headers.get("Retry-After")) >= 0, reply
        assert reply.type() == "application/problem+json"
        assert sixth.closed()
    for raw in raws:
        assert raw.send(request("GET", "/healthz")).reply().status == 200, "those inside are served on"
    raws.pop().close()

    def admitted():
        with Raw(server) as raw:
            # It may be refused before the request is out; then the answer is 503 or nothing at all.
            try:
                return b" 200 " in raw.send(request("GET", "/healthz", None, "Connection: close")).rest()
            except (ConnectionResetError, BrokenPipeError):
                return False

    poll(admitted, "a place that became free is given again")
    for raw in raws:
        raw.close()


def test_inflight_max(start):
    server = start("--inflight-max", 3, test_clock=False)
    waiting = [Raw(server) for _ in range(3)]
    client = Client(server)
    q = client.queue("q")
    for i, raw in enumerate(waiting):
        raw.send(request("POST", f"/queues/w{i}/claim", b'{"wait_seconds": 20}'))
        poll(lambda: client.get(f"/queues/w{i}").status == 200, "the claim waits")
    reply = client.post(q.path + "/messages", {"payload": "x"})
    assert reply.status == 503 and int(reply.headers.get("Retry-After")) >= 0, reply
    reply = client.post(q.path + "/claim", {"wait_seconds": 1})
    assert reply.status == 503, reply
    assert client.get("/healthz").status == 200
    assert client.get(q.path).status in (404, 503), "a refused request changes nothing"
    waiting.pop().close()
    poll(lambda: client.post(q.path + "/messages", {"payload": "x"}).status == 201, "room again")
    for raw in waiting:
        raw.close()


def test_overload_is_answered_and_survived(start):
    """Far more at once than --inflight-max: each request gets 201 or 503, and the 201s are all there."""
    server = start("--inflight-max", 4)
    done = []

    def work(n):
        client = Client(server, now=T0)
        for i in range(50):
            done.append(client.post("/queues/q/messages", {"payload": f"{n}-{i}"}).status)
        client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(done) <= {201, 503} and 201 in done, set(done)
    assert Client(server, now=T0).queue("q").counts()["pending"] == done.count(201)
