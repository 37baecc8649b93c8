"""SIGTERM: what is in flight ends well, what comes later is refused, and the exit code is 0."""
import http.client
import signal
import threading
import time

import pytest

from lib.client import Client, T0
from lib.raw import Raw, request


def ended(server, within=10):
    began = time.monotonic()
    code = server.process.wait(within)
    log = server.stderr()
    server.wait()
    assert code == 0, log
    return time.monotonic() - began


def until_refused(server):
    """The drain has begun when new connections are refused."""
    deadline = time.monotonic() + 10
    while True:
        assert time.monotonic() < deadline
        try:
            server.connect().close()
        except (ConnectionRefusedError, ConnectionResetError):
            return


def test_idle(start):
    server = start()
    client = Client(server, now=T0)
    client.queue("q").enqueue("x")
    server.terminate()
    assert ended(server) < 5, "idle connections hold nothing up"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_both_signals(start, sig):
    server = start()
    server.process.send_signal(sig)
    ended(server)


def test_with_a_waiting_claim(start):
    server = start(test_clock=False)
    client = Client(server)
    with Raw(server) as raw:
        raw.send(request("POST", "/queues/q/claim", b'{"wait_seconds": 20}'))
        deadline = time.monotonic() + 5
        while client.get("/queues/q").status != 200:
            assert time.monotonic() < deadline
        server.terminate()
        reply = raw.reply()
        assert reply.status in (200, 503), reply
        if reply.status == 200:
            assert reply.json == {"claimed": False, "message": None}
        assert raw.closed()
    assert ended(server) < 5, "a waiting claim is answered, not waited for"


def test_a_half_sent_request_is_finished(start):
    server = start()
    data = request("POST", "/queues/q/messages", b'{"payload": "half"}', f"X-Now: {T0}")
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz")).reply()
        raw.send(data[:-5])
        server.terminate()
        until_refused(server)
        raw.send(data[-5:])
        reply = raw.reply()
        assert reply.status in (201, 503), reply
    ended(server)
    server.start()
    reply2 = Client(server, now=T0).get("/queues/q")
    if reply.status == 201:
        assert reply2.json["counts"]["pending"] == 1
    else:
        assert reply2.status == 404


def test_a_half_sent_request_that_never_ends_is_cut(start):
    server = start("--request-timeout", 2)
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz")).reply()
        raw.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        server.terminate()
        assert raw.reply().status in (408, 503)
    assert ended(server) < 5


@pytest.mark.parametrize("round", range(5))
def test_enqueues_in_flight_are_acknowledged_and_durable_or_refused(start, round):
    server = start()
    acknowledged, refusals, unknown = [], [], []
    enough = threading.Event()

    def work(n):
        client = Client(server, now=T0)
        for i in range(100000):
            name = f"{n}-{i}"
            try:
                reply = client.post("/queues/q/messages", {"payload": name})
            except (OSError, http.client.HTTPException) as e:
                (refusals if isinstance(e, ConnectionRefusedError) else unknown).append(name)
                return
            if reply.status == 201:
                acknowledged.append(name)
            else:
                assert reply.status == 503, reply
                refusals.append(name)
                return
            if len(acknowledged) > 200 * (round + 1):
                enough.set()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    assert enough.wait(20)
    server.terminate()
    for t in threads:
        t.join()
    ended(server)
    server.start()
    q = Client(server, now=T0).queue("q")
    there = [m["payload"] for m in q.all()]
    assert len(there) == len(set(there))
    assert set(acknowledged) <= set(there)
    assert set(there) <= set(acknowledged) | set(unknown)
    assert not set(refusals) & set(there)


def test_not_ready_while_draining(start):
    """A connection that is busy keeps the drain going; another one that was open already asks /readyz."""
    server = start()
    with Raw(server) as busy, Raw(server) as other:
        other.send(request("GET", "/readyz"))
        assert other.reply().status == 200
        busy.send(request("GET", "/healthz")).reply()
        busy.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n")
        other.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")  # in flight, so not closed as idle
        server.terminate()
        until_refused(server)
        other.send(b"\r\n")
        reply = other.reply()
        assert reply.status == 503 and "drain" in reply.body.decode().lower(), reply
        busy.send(b'{"payload": "x"}')
        assert busy.reply().status in (201, 503)
    ended(server)


def test_a_second_signal_does_not_hurt(start):
    server = start()
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz")).reply()
        raw.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n")
        server.terminate()
        server.terminate()
        raw.close()
        code = server.process.wait(10)
        server.wait()
        assert code in (0, -signal.SIGTERM), "a second signal may end it at once"
