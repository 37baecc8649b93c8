"""AMQP as `nixie serve` has it: flags, users, TLS, a full disk, what idle connections cost, stopping."""
import re
import resource
import socket
import struct
import subprocess
import time

import pytest

from lib.amqp_raw import (BODY, HEADER, METHOD, AmqpRaw, Closed, capabilities, channel_open, consume, content_header, frame,
                          method, publish, queue_declare, short)
from lib.client import tls_context
from lib.server import NIXIE, Server, refused

MIB = 1024 * 1024
HAS_SANITIZER = "asan" in NIXIE or "tsan" in NIXIE  # which takes memory of its own


@pytest.fixture
def serve(tmp_path):
    started = []

    def factory(*flags, name="data", **options):
        started.append(Server(tmp_path / name, *flags, **{"amqp": "127.0.0.1:0", "test_clock": False, **options}).start())
        return started[-1]

    yield factory
    for s in started:
        s.stop()


def said(server, kind):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        found = re.search(rf"^listening {kind} 127\.0\.0\.1:(\d+)$", server.stdout.decode(), re.M)
        if found:
            return int(found.group(1))
        time.sleep(0.01)
    raise AssertionError(server.stdout)


# -- flags ------------------------------------------------------------------------------------------------------------------------------


def test_it_says_where(serve):
    server = serve()
    assert re.fullmatch(r"listening http 127\.0\.0\.1:\d+\nlistening amqp 127\.0\.0\.1:\d+\n", server.stdout.decode())


def test_it_can_be_off(serve):
    assert "amqp" not in serve(amqp="off").stdout.decode()


def test_a_port_that_is_taken(serve, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, stderr = refused(tmp_path / "refused", amqp=address)
        assert code == 1 and "cannot listen on 127.0.0.1" in stderr


def test_the_default_port_is_not_insisted_on(serve):
    """Whoever has it: this test, or another program of this machine."""
    try:
        taken = socket.create_server(("127.0.0.1", 5672))
    except OSError:
        taken = None
    server = serve(amqp=None)
    assert "amqp" not in server.stdout.decode()
    assert "WARN cannot listen on 127.0.0.1 port 5672" in server.stderr()
    if taken:
        taken.close()


@pytest.mark.parametrize("flags", [["--amqp", "x"], ["--amqp", "127.0.0.1:70000"], ["--amqps", "127.0.0.1:0"], ["--amqp-user", "joe"],
                                   ["--amqp-user", ":secret"], ["--amqp-user", "joe:"], ["--amqp-product", ""],
                                   ["--amqp-permission", "guest / .* .*"], ["--amqp-permission", "guest / .* .* .* .*"],
                                   ["--amqp-permission", "guest / ( .* .*"], ["--amqp-permission", "joe / .* .* .*"],
                                   ["--amqp-permission", "guest / .* .* .*", "--amqp-permission", "guest / a b c"],
                                   ["--amqp-permission", "guest / .* .* .*", "--amqp-user", "joe:secret"]])
def test_wrong_flags(tmp_path, flags):
    code, _, stderr = refused(tmp_path / "data", *flags)
    assert code == 2 and flags[0] in stderr
    assert "secret" not in stderr


def login(server, user, password):
    r = AmqpRaw(server)
    try:
        r.login(response=f"\0{user}\0{password}")
    except Closed:
        return False
    finally:
        r.s.close()
    return True


def test_users(serve):
    server = serve("--amqp-user", "ann:secret", "--amqp-user", "bob:with:colon", env={"NIXIE_AMQP_USER": "eve:old"})
    assert login(server, "ann", "secret") and login(server, "bob", "with:colon")
    for user, password in [("guest", "guest"), ("eve", "old"), ("ann", ""), ("ann", "secre"), ("ann", "secrett"), ("bob", "secret"),
                           ("", ""), ("ann:", "secret")]:
        assert not login(server, user, password), user
    assert "secret" not in server.stderr()


def test_a_user_of_the_environment(serve):
    server = serve(env={"NIXIE_AMQP_USER": "eve:old"})
    assert login(server, "eve", "old") and not login(server, "guest", "guest")


def test_permissions(serve):
    """What they allow and refuse is in tests/amqp. A flag goes before the environment; guest may have some."""
    server = serve("--amqp-permission", "guest  /   .* .* .*", env={"NIXIE_AMQP_PERMISSION": "guest shop .* .* .*"})
    assert login(server, "guest", "guest")
    server = serve(name="other", env={"NIXIE_AMQP_PERMISSION": "guest shop .* .* .*"})
    with pytest.raises(AssertionError, match="NOT_ALLOWED - access to vhost '/' refused for user 'guest'"):
        login(server, "guest", "guest")


def test_the_product_can_be_named(serve):
    r = AmqpRaw(serve("--amqp-product", "Nixie")).send(HEADER)
    _, arguments = r.method(10, 10)
    assert short("product") + b"S\0\0\0\5Nixie" in arguments
    assert re.search(rb"version" + rb"S\0\0\0.(\d+)\.(\d+)\.(\d+)", arguments)
    r.s.close()


def test_amqps(serve, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key),
                    "-out", str(cert)], check=True, capture_output=True)
    server = serve("--tls-cert", cert, "--tls-key", key, "--amqps", "127.0.0.1:0")
    context = tls_context(cert)
    r = AmqpRaw(server, port=said(server, "amqps"), tls=context).login()
    r.is_alive().s.close()
    AmqpRaw(server).login().is_alive().s.close()  # the other port speaks plainly
    plain = AmqpRaw(server, port=said(server, "amqps")).send(HEADER)
    with pytest.raises(Closed):
        while True:
            plain.bytes(1)


# -- content on the wire ------------------------------------------------------------------------------------------------------------------


def send_message(r, body, channel=1, key="q"):
    frames = [frame(BODY, channel, body[i:i + 131064]) for i in range(0, len(body), 131064)]
    r.send(publish(channel, key=key), content_header(channel, len(body), flags=1 << 12, values=b"\2"), *frames)


def counts(r):
    """How many are ready."""
    r.send(queue_declare(1, "q", bits=1))
    return struct.unpack(">II", r.method(50, 11)[1][-8:])[0]


def confirming(server, queue="q", **options):
    r = AmqpRaw(server).login(**options).channel(1)
    r.send(queue_declare(1, queue, bits=2))
    r.method(50, 11)
    r.send(method(1, 85, 10, b"\0"))
    r.method(85, 11)
    return r


def test_a_full_disk_blocks_publishers_until_there_is_room(serve):
    server = serve("--segment-bytes", MIB, "--payload-max", 200000, "--data-max-bytes", 12 * MIB)
    can = {"properties": capabilities("connection.blocked")}
    r = confirming(server, **can)
    silent = confirming(server)
    idle = AmqpRaw(server).login(**can)
    send_message(silent, b"first")
    silent.method(60, 80)
    body = bytes(150000)
    blocked = refusals = 0
    for _ in range(200):
        send_message(r, body)
        kind, channel, payload = r.frame()
        while payload[:4] == struct.pack(">HH", 60, 120):
            refusals += 1
            kind, channel, payload = r.frame()
        if payload[:4] == struct.pack(">HH", 10, 60):
            assert (kind, channel, payload[4:]) == (METHOD, 0, short("low on disk"))
            blocked = 1
            break
        assert payload[:4] == struct.pack(">HH", 60, 80)
    assert blocked and refusals <= 200
    send_message(silent, b"second")  # told nothing, and not read
    with pytest.raises(TimeoutError):
        silent.s.settimeout(1)
        silent.frame()
    silent.s.settimeout(20)

    r.s.settimeout(20)
    other = AmqpRaw(server).login().channel(1)
    other.send(method(1, 50, 30, b"\0\0" + short("q") + b"\0"))
    other.method(50, 31)
    while True:  # what was published meanwhile may have been refused
        _, _, payload = r.frame()
        if payload[:4] == struct.pack(">HH", 10, 61):
            break
        assert payload[:4] in (struct.pack(">HH", 60, 120), struct.pack(">HH", 60, 80))
    send_message(r, b"after")
    kind, _, payload = r.frame()
    assert payload[:4] == struct.pack(">HH", 60, 80), payload
    silent.method(60, 80)
    idle.is_alive()  # and was told nothing
    for c in r, silent, idle, other:
        c.s.close()


def test_who_is_blocked_need_not_beat(serve):
    """It is not read, so that its heartbeats would not be heard; those of the server go on."""
    server = serve("--segment-bytes", MIB, "--payload-max", 200000, "--data-max-bytes", 12 * MIB)
    r = confirming(server, heartbeat=1, properties=capabilities("connection.blocked"))
    payload = b""
    while payload[:4] != struct.pack(">HH", 10, 60):
        if payload[:4] in (b"", struct.pack(">HH", 60, 80)):
            send_message(r, bytes(150000))
        _, _, payload = r.frame()
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        r.frame()
    r.s.close()


def test_what_is_published_before_leaving_is_kept(serve):
    server = serve()
    r = confirming(server)
    r.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(500):
        send_message(r, b"%d" % i)
    r.s.shutdown(socket.SHUT_WR)
    with pytest.raises(Closed):
        while True:
            r.frame()
    r = AmqpRaw(server).login().channel(1)
    r.send(queue_declare(1, "q", bits=1))
    _, arguments = r.method(50, 11)
    assert struct.unpack(">II", arguments[-8:]) == (500, 0)
    r.s.close()


def test_stopping_confirms_first(serve):
    server = serve()
    r = confirming(server)
    for i in range(300):
        send_message(r, bytes(1000))
    r.method(60, 80)
    server.terminate()
    confirmed = 1
    while True:
        _, channel, payload = r.frame()
        if channel == 0:
            break
        assert payload[:4] == struct.pack(">HH", 60, 80)
        confirmed = struct.unpack(">Q", payload[4:12])[0]
    assert payload[:6] == struct.pack(">HHH", 10, 50, 320)
    r.s.close()
    assert server.wait() == 0
    server.start()
    r = AmqpRaw(server).login().channel(1)
    r.send(queue_declare(1, "q", bits=1))
    _, arguments = r.method(50, 11)
    assert struct.unpack(">II", arguments[-8:])[0] >= confirmed
    r.s.close()


def test_a_publisher_that_does_not_read_its_confirms_is_read_no_more(serve):
    server = serve()
    r = confirming(server)
    r.s.settimeout(2)
    message = publish(1, "amq.direct", "x" * 200, bits=1) + content_header(1, 1000) + frame(BODY, 1, bytes(1000))  # comes back, each
    sent = 0
    try:
        while sent < 100 * MIB:
            sent += r.s.send(message * 100)
    except TimeoutError:
        pass
    assert sent < 60 * MIB
    assert HAS_SANITIZER or memory_kib(server) < 100 * 1024
    r.s.close()


def test_consumers_that_do_not_read_cost_what_may_pile_up(serve):
    """No prefetch limit, and many channels: it is the connection's output that is bounded."""
    server = serve()
    r = confirming(server)
    for _ in range(300):
        send_message(r, bytes(100000))
    while r.method(60, 80)[1][:8] != struct.pack(">Q", 300):
        pass
    before = memory_kib(server)
    there = [AmqpRaw(server).login() for _ in range(5)]
    for c in there:
        c.send(*[channel_open(n) + consume(n, "q", bits=8) for n in range(1, 51)])
    last, ready, end = 300, counts(r), time.monotonic() + 20
    while ready == 300 or ready != last:  # until no more is handed out
        assert time.monotonic() < end
        time.sleep(0.2)
        last, ready = ready, counts(r)
    assert HAS_SANITIZER or memory_kib(server) - before < 5 * 1024
    assert ready > 0
    for c in (r, *there):
        c.s.close()


# -- what is idle --------------------------------------------------------------------------------------------------------------------------


def memory_kib(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def test_idle_connections_cost_little(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    server = serve()
    if HAS_SANITIZER:
        pytest.skip("memory of a sanitizer")
    n = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    for _ in range(20):
        AmqpRaw(server).login().channel(1).s.close()
    before = memory_kib(server)
    there = [AmqpRaw(server).login(heartbeat=60).channel(1) for _ in range(n)]
    time.sleep(2.5)  # buffers go when they were not used for a second
    each = (memory_kib(server) - before) / n
    for r in there:
        r.s.close()
    assert each < 20, f"{each} KiB for an idle connection"
