"""HTTPS with a certificate made here."""
import ssl
import subprocess

import pytest

from lib.client import Client, T0, tls_context
from lib.raw import Raw, request
from lib.server import Server, refused


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key),
                    "-out", str(cert)], check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def secure(pair, tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("secure") / "data", "--tls-cert", pair[0], "--tls-key", pair[1]).start()
    yield s
    s.stop()


@pytest.fixture
def https(secure, pair):
    c = Client(secure, now=T0, tls=tls_context(pair[0]))
    yield c
    assert secure.is_running(), secure.stderr()
    c.check_conservation()
    c.close()


def test_a_cycle(https):
    q = https.queue("cycle")
    m = q.enqueue("hello")
    assert q.succeed(q.claim())["id"] == m["id"]


def test_large_bodies_both_ways(https):
    q = https.queue("large")
    text = "0123456789" * 100000
    for _ in range(3):
        m = q.enqueue(text)
        assert q.payload(m) == text.encode()
    assert [len(m["payload"]) for m in q.claim_many(10)] == [len(text)] * 3
    q.delete(discard=True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(secure, pair, version):
    context = tls_context(pair[0])
    context.minimum_version = context.maximum_version = version
    client = Client(secure, tls=context)
    assert client.get("/healthz").status == 200
    client.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TLS 1.1 itself
def test_old_versions_are_refused(secure, pair):
    context = tls_context(pair[0])
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        Client(secure, tls=context).get("/healthz")


def test_plain_http_gets_no_answer_in_the_clear(secure, https):
    with Raw(secure) as raw:
        raw.send(request("GET", "/healthz"))
        answer = raw.rest()
        assert b"200" not in answer and b"ok" not in answer
    assert https.get("/healthz").status == 200


def test_broken_handshakes(secure, https):
    for data in (b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\xff" * 1000, b""):
        with Raw(secure) as raw:
            raw.send(data).half_close()
            raw.rest()
    assert https.get("/healthz").status == 200


def test_garbage_after_the_handshake(secure, https, pair):
    with Raw(secure, tls=tls_context(pair[0])) as raw:
        raw.send(b"\x00\x01\x02rubbish\r\n\r\n")
        answer = raw.rest()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400"), answer
    assert https.get("/healthz").status == 200


def test_pipelining_and_waiting(secure, pair):
    with Raw(secure, tls=tls_context(pair[0])) as raw:
        raw.send(b"".join(request("POST", "/queues/tlspipe/messages", b'{"payload": "%d"}' % i) for i in range(50)))
        assert [raw.reply().json["payload"] for _ in range(50)] == [str(i) for i in range(50)]


def test_half_a_pair_or_a_broken_one_is_refused(pair, tmp_path):
    cert, key = pair
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    for flags in (("--tls-cert", cert), ("--tls-key", key), ("--tls-cert", cert, "--tls-key", tmp_path / "none"),
                  ("--tls-cert", broken, "--tls-key", key), ("--tls-cert", cert, "--tls-key", broken), ("--tls-cert", cert, "--tls-key", cert)):
        code, out, err = refused(tmp_path / "data", *flags)
        assert "listening" not in out and err.strip(), flags
