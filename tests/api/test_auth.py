"""The token, and what is open without it."""
import pytest

from lib.client import Client, T0

PLAIN = "correct-horse-battery"
GUARDED = [("GET", "/"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/queues"), ("GET", "/queues/q"), ("PUT", "/queues/q"),
           ("DELETE", "/queues/q"), ("POST", "/queues/q/messages"), ("GET", "/queues/q/messages"), ("POST", "/queues/q/claim"),
           ("POST", "/queues/q/settle"), ("GET", "/queues/q/messages/1"), ("GET", "/queues/q/messages/1/payload"),
           ("GET", "/queues/q/messages/1/attempts"), ("POST", "/queues/q/messages/1/succeed"), ("POST", "/queues/q/messages/1/fail"),
           ("POST", "/queues/q/messages/1/extend"), ("POST", "/queues/q/messages/1/release"), ("POST", "/queues/q/messages/1/replay"),
           ("POST", "/queues/q/messages/1/edit"), ("POST", "/queues/q/messages/1/discard"), ("POST", "/queues/q/messages/1/undiscard"),
           ("GET", "/messages/1"), ("GET", "/dead"), ("POST", "/dead"), ("GET", "/groups"), ("GET", "/groups/v1:1"),
           ("PATCH", "/groups/v1:1"), ("POST", "/redrives"), ("GET", "/redrives"), ("GET", "/redrives/1"), ("PATCH", "/redrives/1"),
           ("POST", "/discards"), ("GET", "/discards"), ("GET", "/discards/1"), ("PATCH", "/discards/1"), ("GET", "/audit"),
           ("POST", "/queues/q/pause"), ("POST", "/queues/q/resume"), ("POST", "/queues/q/purge")]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    from lib.server import Server
    s = Server(tmp_path_factory.mktemp("guarded") / "data", "--token", PLAIN).start()
    yield s
    s.stop()


def test_every_route_needs_it(guarded):
    client = Client(guarded, now=T0)
    for method, path in GUARDED + [("GET", "/nothing"), ("PATCH", "/queues")]:
        reply = client.call(method, path)
        assert reply.status == 401, (method, path, reply)
        assert reply.headers.get("WWW-Authenticate", "").lower().startswith("bearer"), reply.headers.items()


@pytest.mark.parametrize("value", ["Bearer wrong", "Bearer " + PLAIN + "x", "Bearer " + PLAIN[:-1], "Bearer", "Bearer ", PLAIN, "Basic " + PLAIN,
                                   "Bearer  " + PLAIN + " " + PLAIN, "Bearer " + PLAIN.upper(), ""])
def test_a_wrong_one(guarded, value):
    client = Client(guarded, now=T0)
    reply = client.get("/queues", headers={"Authorization": value})
    assert reply.status == 401, reply
    assert PLAIN not in reply.body.decode()


def test_the_right_one(guarded):
    client = Client(guarded, now=T0, token=PLAIN)
    q = client.queue("q")
    m = q.enqueue("x")
    assert q.claim()["id"] == m["id"]
    assert client.get("/nothing").status == 404
    assert client.get("/queues", headers={"Authorization": "bearer " + PLAIN}).status == 200, "schemes have no case (RFC 9110, 11.1)"


def test_health_needs_none(guarded):
    client = Client(guarded)
    assert client.get("/healthz").json == {"status": "ok"}
    assert client.get("/readyz").status == 200


def test_a_refused_request_changes_nothing(guarded):
    Client(guarded, now=T0).post("/queues/untouched/messages", {"payload": "x"})
    assert Client(guarded, now=T0, token=PLAIN).get("/queues/untouched").status == 404


def test_token_from_a_file(start, tmp_path):
    file = tmp_path / "token"
    file.write_text(PLAIN + "\n")
    server = start("--token-file", file)
    assert Client(server).get("/queues").status == 401
    assert Client(server, token=PLAIN).get("/queues").status == 200


def test_token_from_the_environment(start):
    server = start(env={"NIXIE_TOKEN": PLAIN})
    assert Client(server).get("/queues").status == 401
    assert Client(server, token=PLAIN).get("/queues").status == 200


def test_the_token_is_not_in_the_log(guarded):
    client = Client(guarded, token=PLAIN)
    client.get("/queues")
    client.get("/queues", headers={"Authorization": "Bearer almost-" + PLAIN})
    assert PLAIN not in guarded.stderr() and PLAIN.encode() not in guarded.stdout
