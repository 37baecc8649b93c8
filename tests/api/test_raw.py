"""Bytes no polite client sends. Whatever comes, the server answers well-formed HTTP or closes, and serves the next one."""
import random
import socket
import time

import pytest

from lib.client import Client, T0
from lib.raw import Raw, request

OK = b'{"payload": "x"}'


@pytest.fixture(autouse=True)
def still_serving(server):
    yield
    client = Client(server, now=T0)
    assert client.get("/healthz").json == {"status": "ok"}
    client.close()


def problem(reply, *statuses):
    assert reply.status in statuses, reply
    assert reply.type() == "application/problem+json" and reply.json["status"] == reply.status, reply


# -- what is not HTTP -----------------------------------------------------------------------------------------------------------

GARBAGE = [b"\x00" * 100, b"\xff" * 100, b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
           b"AMQP\x00\x00\x09\x01", b"SSH-2.0-x\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n",
           b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           b"GET / HTTQ/1.1\r\n\r\n", b"get / HTTP/1.1\r\nHost: x\r\n\r\n", b"FROB / HTTP/1.1\r\nHost: x\r\n\r\n",
           b"GET / HTTP/1.1\r\nHost x\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n",
           b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n",
           b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\nabc",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\nabc",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdefgh\r\n0\r\n\r\n",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc",
           b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc"]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage(server, data):
    """Refused with a 4xx or 5xx, or closed without a word; never taken, never answered 2xx."""
    with Raw(server) as raw:
        raw.send(data)
        raw.half_close()
        answer = raw.rest()
    if answer:
        status = int(answer.split(b" ", 2)[1])
        assert answer.startswith(b"HTTP/1.1 ") and status in (400, 405, 411, 413, 501, 505), answer
        assert b"application/problem+json" in answer, answer


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(server, seed):
    rng = random.Random(seed)
    with Raw(server) as raw:
        raw.send(rng.randbytes(rng.randrange(1, 5000)))
        raw.half_close()
        answer = raw.rest()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer


@pytest.mark.parametrize("seed", range(30))
def test_a_good_request_with_broken_bytes(server, seed):
    """One to three bytes of a good request changed: any answer, as long as it is HTTP."""
    rng = random.Random(seed)
    data = bytearray(request("POST", "/queues/broken/messages", OK, f"X-Now: {T0}", "Connection: close"))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with Raw(server) as raw:
        raw.send(bytes(data))
        raw.half_close()
        answer = raw.rest()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 "), answer


# -- heads ------------------------------------------------------------------------------------------------------------------------


def test_headers_over_the_limit(server):
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz", None, "X-Long: " + "x" * 40000))
        problem(raw.reply(), 431)
        raw.closed()
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz", None, *[f"X-{i}: {i}" for i in range(5000)]))
        problem(raw.reply(), 431)


def test_a_path_over_the_limit(server):
    with Raw(server) as raw:
        raw.send(request("GET", "/queues/" + "x" * 40000))
        problem(raw.reply(), 414)


def test_endless_head(server):
    """Never ends, and is answered long before it could fill memory."""
    with Raw(server) as raw:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            raw.send(b"GET /healthz HTTP/1.1\r\n")
            for i in range(100000):
                raw.send(b"X-%d: %s\r\n" % (i, b"y" * 1000))


def test_30_kib_of_headers_fit(server):
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz", None, "X-Long: " + "x" * 30000))
        assert raw.reply().status == 200


def test_header_names_have_no_case(server):
    with Raw(server) as raw:
        raw.send(b"POST /queues/case/messages HTTP/1.1\r\nhOST: x\r\ncONTENT-lENGTH: 16\r\nx-nOW: 2026-06-01 00:00:09\r\n\r\n" + OK)
        assert raw.reply().json["created_at"] == "2026-06-01 00:00:09"


def test_line_ends(server):
    """An empty line before a request is skipped (RFC 9112, 2.2)."""
    with Raw(server) as raw:
        raw.send(b"\r\n" + request("GET", "/healthz"))
        assert raw.reply().status == 200


# -- bodies ---------------------------------------------------------------------------------------------------------------------------


def test_no_length(server):
    with Raw(server) as raw:
        raw.send(request("POST", "/queues/q/messages"))
        problem(raw.reply(), 411)


def test_too_long_a_body_is_refused_before_it_is_sent(server):
    with Raw(server) as raw:
        raw.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n")
        problem(raw.reply(), 413)
        raw.closed()


def test_too_long_a_chunked_body(server):
    with Raw(server, timeout=20) as raw:
        raw.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        try:
            for _ in range(16 * 20):
                raw.send(chunk)
        except (BrokenPipeError, ConnectionResetError):
            return  # closed before we were through
        problem(raw.reply(), 413)


def test_endless_body(server):
    with Raw(server, timeout=20) as raw:
        raw.send(b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(16 * 1000):
                raw.send(b"10000\r\n" + b" " * 65536 + b"\r\n")


def test_chunked(server):
    with Raw(server) as raw:
        raw.send(b"POST /queues/chunked/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(len(OK)):
            raw.send(b"1;ext=\"q\"\r\n%c\r\n" % OK[i])
        raw.send(b"0\r\nTrailer: x\r\n\r\n")
        assert raw.reply().json["payload"] == "x"
        raw.send(request("GET", "/healthz"))
        assert raw.reply().status == 200


def test_one_byte_at_a_time(server):
    with Raw(server) as raw:
        for b in request("POST", "/queues/bytewise/messages", OK, f"X-Now: {T0}"):
            raw.send(bytes([b]))
        assert raw.reply().status == 201


def test_expect_100_continue(server):
    with Raw(server) as raw:
        raw.send(b"POST /queues/expect/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nExpect: 100-continue\r\n\r\n")
        first = raw.reply()
        assert first.status == 100, first
        raw.send(OK)
        assert raw.reply().status == 201


def test_expect_100_continue_of_a_body_that_is_too_long(server):
    with Raw(server) as raw:
        raw.send(b"POST /queues/expect/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
        problem(raw.reply(), 413, 417)


def test_half_closed_after_the_request(server):
    """The client has said all it has to say, and still gets its answer."""
    with Raw(server) as raw:
        raw.send(request("POST", "/queues/half/messages", OK)).half_close()
        assert raw.reply().status == 201
        assert raw.closed()


def test_half_closed_in_the_middle(server):
    client = Client(server, now=T0)
    for data in (b"POST /queues/half2/mess", request("POST", "/queues/half2/messages", OK)[:-5]):
        with Raw(server) as raw:
            raw.send(data).half_close()
            answer = raw.rest()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
    assert client.get("/queues/half2").status == 404
    client.close()


def test_gone_before_the_answer(server):
    """A client that resets right after sending: its message is accepted or not, nothing else happens."""
    for _ in range(50):
        raw = Raw(server)
        raw.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        raw.send(request("POST", "/queues/reset/messages", OK, f"X-Now: {T0}"))
        raw.close()
    client = Client(server, now=T0)
    q = client.queue("reset")
    q.enqueue("y")
    assert 1 <= q.counts()["pending"] <= 51
    client.close()


# -- connections ----------------------------------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(server):
    with Raw(server) as raw:
        n = 200
        raw.send(b"".join(request("POST", "/queues/pipe/messages", b'{"payload": "%d"}' % i, f"X-Now: {T0}") for i in range(n)))
        replies = [raw.reply() for _ in range(n)]
    assert [r.json["payload"] for r in replies] == [str(i) for i in range(n)]
    ids = [r.json["id"] for r in replies]
    assert ids == sorted(ids)


def test_pipelined_reads_wait_for_what_was_written_before_them(server):
    """A quick reply does not overtake a slow one, and a read after a write sees it."""
    with Raw(server) as raw:
        raw.send(request("POST", "/queues/pipe2/messages", OK, f"X-Now: {T0}") + request("GET", "/queues/pipe2") + request("GET", "/nope")
                 + request("POST", "/queues/pipe2/claim", b"") + request("GET", "/queues/pipe2/messages?status=processing")
                 + request("GET", "/healthz"))
        assert raw.reply().status == 201
        assert raw.reply().json["counts"]["pending"] == 1
        assert raw.reply().status == 404
        assert raw.reply().json["claimed"] is True
        assert raw.reply().json["count"] == 1
        assert raw.reply().json == {"status": "ok"}


def test_a_pipelined_request_waits_behind_a_waiting_claim(live):
    with Raw(live) as raw:
        raw.send(request("POST", "/queues/pipe3/claim", b'{"wait_seconds": 1}') + request("GET", "/healthz"))
        assert raw.reply().json["claimed"] is False
        assert raw.reply().json == {"status": "ok"}


def test_the_request_after_a_refused_one_is_not_taken_from_its_body(server):
    """What looks like a request inside the body of a refused request must never be run."""
    smuggled = request("POST", "/queues/smuggled/messages", OK)
    for head in (b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
                 b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
                 b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled)):
        with Raw(server) as raw:
            raw.send(head + smuggled).half_close()
            raw.rest()
    client = Client(server, now=T0)
    assert client.get("/queues/smuggled").status == 404
    client.close()


def test_http_1_0(server):
    with Raw(server) as raw:
        raw.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert raw.reply().status == 200
        assert raw.closed(), "closed after one request"


def test_connection_close(server):
    with Raw(server) as raw:
        raw.send(request("GET", "/healthz", None, "Connection: close") + request("GET", "/healthz"))
        reply = raw.reply()
        assert reply.status == 200 and reply.headers.get("Connection", "").lower() == "close"
        assert raw.closed(), "nothing is answered after that"


def test_an_http_1_1_request_needs_a_host(server):
    """RFC 9112, 3.2: 400 without one. Being lenient here is common; being wrong about the reply is not."""
    with Raw(server) as raw:
        raw.send(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert raw.reply().status in (200, 400)


def test_absolute_form(server):
    """RFC 9112, 3.2.2: a server must accept the absolute form."""
    with Raw(server) as raw:
        raw.send(b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.reply().status in (200, 400, 404)


def test_many_connections_that_say_nothing(server):
    raws = [Raw(server) for _ in range(300)]
    client = Client(server, now=T0)
    assert client.get("/healthz").status == 200
    client.close()
    for raw in raws:
        raw.close()


def test_a_client_that_does_not_read_is_not_answered_into_memory(server):
    """Many large replies asked for and never read: the server stops reading instead of storing them."""
    client = Client(server, now=T0)
    q = client.queue("noread")
    mid = q.enqueue("x" * 1000000)["id"]

    def resident():
        with open(f"/proc/{server.process.pid}/statm") as f:
            return int(f.read().split()[1]) * 4096

    before = resident()
    with Raw(server) as raw:
        raw.send(request("GET", f"/queues/noread/messages/{mid}") * 300)
        for _ in range(50):
            client.get("/healthz")
        assert resident() - before < 150 * 1024 * 1024
        # And once it reads, it gets everything.
        for _ in range(300):
            assert len(raw.reply().body) > 1000000
    q.delete(discard=True)
    client.close()


# -- time ---------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    from lib.server import Server
    s = Server(tmp_path_factory.mktemp("hasty") / "data", "--request-timeout", 1, "--idle-timeout", 2).start()
    yield s
    s.stop()


@pytest.mark.parametrize("start", [b"G", b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
                                   b"POST /queues/slow/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{",
                                   b"POST /queues/slow/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"])
def test_a_request_that_stops_half_way(hasty, start):
    with Raw(hasty) as raw:
        began = time.monotonic()
        raw.send(start)
        problem(raw.reply(), 408)
        assert raw.closed()
        assert 0.5 < time.monotonic() - began < 4


def test_a_request_that_drips(hasty):
    """A byte now and then does not prolong it."""
    data = request("POST", "/queues/slow/messages", b'{"payload": "' + b"x" * 1000 + b'"}')
    with Raw(hasty, timeout=0.1) as raw:
        began, i = time.monotonic(), 0
        while True:
            assert time.monotonic() - began < 5
            try:
                raw.send(data[i:i + 1])
                i += 1
                if not raw._more():
                    break
            except socket.timeout:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
        assert raw.pending == b"" or raw.pending.startswith(b"HTTP/1.1 408"), raw.pending
        assert time.monotonic() - began > 0.5


def test_an_idle_connection_is_closed_without_a_word(hasty):
    for data in (b"", request("GET", "/healthz")):
        with Raw(hasty) as raw:
            began = time.monotonic()
            if data:
                assert raw.send(data).reply().status == 200
            assert raw.closed()
            assert 0.9 < time.monotonic() - began < 6


def test_a_waiting_claim_is_not_idle(hasty):
    with Raw(hasty) as raw:
        began = time.monotonic()
        raw.send(request("POST", "/queues/w/claim", b'{"wait_seconds": 3}'))
        assert raw.reply().json["claimed"] is False
        assert time.monotonic() - began > 2.5
