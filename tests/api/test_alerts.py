"""Alerts: told to a receiver of the test's own, signed, repeated, retried, dead in the end; and never to a private address
unless the server allows it."""
import hashlib
import hmac
import http.server
import json
import threading
import time

import pytest

from lib.client import T0, Client, at, seconds
from lib.server import refused

YEAR = 31536000
SECRET = "s3cret"


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it is sent, and answers with `status`."""

    daemon_threads = True

    def __init__(self, status=200):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.got, self.changed = status, [], threading.Condition()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def wait(self, count, timeout=15):
        """All requests so far, once there are that many; never more."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, timeout), f"{len(self.got)} of {count}: {self.got}"
            assert len(self.got) == count, self.got
            return self.got

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.changed:
            self.server.got.append((dict(self.headers), body))
            self.server.changed.notify_all()
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


def connect(server):
    """A client whose requests leave the clock where it is, unless they say otherwise; it stands at T0."""
    c = Client(server)
    c.get("/queues", now=T0)
    return c


@pytest.fixture
def client(start):
    c = connect(start("--alerts-private"))
    yield c
    c.close()


def alert(receiver, kind, **more):
    return {"kind": kind, "url": receiver if isinstance(receiver, str) else receiver.url, "repeat_seconds": 600, **more}


def kill(queue, now=None, **failure):
    """One more dead letter."""
    queue.enqueue("x", now=now, max_retries=1)
    return queue.fail(queue.claim(now=now), now=now, **{"error": "boom", "error_class": "Boom", **failure})


def told(receiver, count):
    """The newest, and that there are so many."""
    return json.loads(receiver.wait(count)[-1][1])


def wait_until(look, timeout=15):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = look()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"still {look()!r}")


def sent(client, **of):
    """The messages in the queue of alerts."""
    return [m for m in client.queue("nixie.alerts").list() if all(m[k] == v for k, v in of.items())]


def settled(client, count=1):
    """They were told, and the server knows it."""
    return wait_until(lambda: len(sent(client, status="succeeded")) == count)


def quiet(client, receiver, count, now):
    """Nothing more is told by then. The looks are made in the turns of these requests."""
    for _ in range(3):
        client.get("/healthz", now=now)
        client.get("/queues", now=now)
    wait_until(lambda: all(m["status"] in ("succeeded", "dead") for m in sent(client)))
    receiver.wait(count)


# -- the kinds: each is told once, and again after its time ------------------------------------------------------------------


def repeats(client, receiver, first, now, holds=True):
    """It was told `first` times by now; again after 600 seconds when it holds on."""
    settled(client, first)
    quiet(client, receiver, first, at(now + 599))
    client.get("/queues", now=at(now + 600))
    if holds:
        receiver.wait(first + 1)
        settled(client, first + 1)
    else:
        quiet(client, receiver, first, at(now + 600))


def test_dead_letter(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=60)], owner="billing")
    kill(q)
    quiet_before = client.get("/queues/nixie.alerts", now=at(59))
    assert quiet_before.status == 404
    client.get("/queues", now=at(60))
    body = told(receiver, 1)
    assert {k: body[k] for k in ("kind", "queue", "owner", "at", "dead", "oldest_death", "soonest_expiry", "causes_total")} == {
        "kind": "dead_letter", "queue": "orders", "owner": "billing", "at": at(60), "dead": 1, "oldest_death": T0,
        "soonest_expiry": None, "causes_total": 1}
    assert body["summary"] == "orders: dead letters: 1, the oldest for 60 seconds"
    assert body["causes"][0]["title"] == "Boom: boom" and body["causes"][0]["count"] == 1
    repeats(client, receiver, 1, 60)


def test_rate(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "rate", per_minute=3)])
    for i in range(3):
        client.get("/queues", now=at(i))
        kill(q, at(i))
    body = told(receiver, 1)
    assert body["deaths_a_minute"] == 3 and body["summary"] == "orders: 3 deaths within a minute"
    settled(client)
    repeats(client, receiver, 1, 2, holds=False)


def test_new_group(client, receiver):
    q = client.queue("orders")
    kill(q, error_class="Old")
    q.put(now=at(1), alerts=[alert(receiver, "new_group")])
    for i in range(12):
        kill(q, at(2), error_class=f"New{i}", error="x")
    kill(q, at(2), error_class="Old")
    client.get("/queues", now=at(3))
    body = told(receiver, 1)
    assert body["causes_total"] == 12 and len(body["causes"]) == 10
    assert all(c["error_class"].startswith("New") for c in body["causes"])
    settled(client)
    kill(q, at(4), error_class="Another")
    quiet(client, receiver, 1, at(602))
    client.get("/queues", now=at(603))
    body = told(receiver, 2)
    assert [c["error_class"] for c in body["causes"]] == ["Another"]
    settled(client, 2)
    quiet(client, receiver, 2, at(3000))


def test_regressed_group(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "regressed_group")])
    kill(q)
    key = client.groups()[0]["key"]
    client.change_group(key, state="resolved", now=at(10))
    client.get("/queues", now=at(20))
    assert client.get("/queues/nixie.alerts").status == 404
    kill(q, at(30))
    client.get("/queues", now=at(31))
    body = told(receiver, 1)
    assert body["causes_total"] == 1 and body["causes"][0]["key"] == key and body["causes"][0]["total"] == 2
    repeats(client, receiver, 1, 31, holds=False)


def test_oldest_age(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "oldest_age", share=0.5)], retention={"dead_seconds": 10000})
    kill(q)
    client.get("/queues", now=at(4999))
    assert client.get("/queues/nixie.alerts", now=at(4999)).status == 404
    client.get("/queues", now=at(5000))
    assert told(receiver, 1)["soonest_expiry"] == at(10000)
    repeats(client, receiver, 1, 5000)


def test_soonest_expiry(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "soonest_expiry", within_seconds=1000)], retention={"dead_seconds": 10000})
    kill(q)
    assert client.get("/queues/nixie.alerts", now=at(8999)).status == 404
    client.get("/queues", now=at(9000))
    assert told(receiver, 1)["summary"] == "orders: retention discards a dead letter in 1000 seconds"
    repeats(client, receiver, 1, 9000)


def test_breaker_opened(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "breaker_opened")], breaker={"min_outcomes": 2, "open_seconds": 3600})
    for _ in range(2):
        q.enqueue("x")
    for m in q.claim_many(2):
        q.fail(m, error="no", error_class="Timeout")
    body = told(receiver, 1)
    assert (body["breaker"], body["breaker_cause"]) == ("open", "Timeout")
    repeats(client, receiver, 1, 0)


def test_redrive_stopped(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "redrive_stopped")])
    for _ in range(3):
        kill(q)
    job = client.post("/redrives", {"queue": "orders", "all": True, "sample": 2, "stop_if": 0.1}, now=at(1)).json
    for m in q.claim_many(2, now=at(2)):
        q.fail(m, now=at(2), error="boom", error_class="Boom")
    for i in range(3, 6):
        client.get("/queues", now=at(i))
    body = told(receiver, 1)
    assert body["causes"][0]["redrive"] == job["id"] and body["causes"][0]["remaining"] == 1
    settled(client)
    job = client.get(f"/redrives/{job['id']}").json
    assert job["state"] == "stopped"
    repeats(client, receiver, 1, seconds(body["at"]))


# -- what is sent -----------------------------------------------------------------------------------------------------------


def signature(headers, body):
    """What the header must be, at the time that it says."""
    when = headers["Nixie-Signature"].partition(",")[0]
    assert when.startswith("t=")
    return f"{when},v1=" + hmac.new(SECRET.encode(), when[2:].encode() + b"." + body, hashlib.sha256).hexdigest()


def test_the_signature(client, receiver):
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0, secret=SECRET)])
    kill(q)
    headers, body = receiver.wait(1)[0]
    assert headers["Nixie-Signature"] == signature(headers, body)
    assert headers["Content-Type"] == "application/json"
    settled(client)
    m = sent(client)[0]
    assert headers["Nixie-Message"] == str(m["id"])
    assert m["payload"].encode() == body
    assert m["headers"] == {"url": receiver.url, "kind": "dead_letter", "queue": "orders"}
    assert SECRET not in json.dumps(m)


def shown(q):
    return [a.get("secret") for a in q.info()["policy"]["alerts"]]


def test_a_secret_is_not_shown_and_can_be_put_back(client, receiver):
    q = client.queue("orders")
    first = alert(receiver, "dead_letter", after_seconds=0, secret=SECRET)
    q.put(alerts=[first, alert(receiver, "new_group")])
    assert shown(q) == ["***", None]
    assert SECRET not in client.get("/queues").body.decode()
    d = q.info()["policy"]
    reply = client.put(q.path + "?dry_run=true", d)
    assert (reply.status, reply.json) == (200, {"dry_run": True, "action": "none"})
    q.put(**d)
    assert client.put(q.path + "?dry_run=true", {**d, "alerts": [first, d["alerts"][1]]}).json["action"] == "none"
    assert client.put(q.path + "?dry_run=true", {**d, "alerts": [{**first, "secret": "x"}, d["alerts"][1]]}).json["action"] == "change"
    assert client.put(q.path + "?dry_run=true", {**d, "owner": "ann"}).json["action"] == "change"
    assert client.put("/queues/nobody-made-it?dry_run=true", {}).json["action"] == "create"
    assert client.get("/queues/nobody-made-it").status == 404
    q.put(**{**d, "max_retries": 2, "alerts": [{**first, "secret": "***", "after_seconds": 1}]})
    assert shown(q) == ["***"] and q.info()["policy"]["alerts"][0]["after_seconds"] == 1

    q.put(**{**d, "alerts": [{**first, "secret": "***"}]})
    kill(q)
    headers, body = receiver.wait(1)[0]
    assert headers["Nixie-Signature"] == signature(headers, body), "by the secret that was given first"


def test_a_mask_without_a_secret_is_refused(client, receiver):
    q = client.queue("orders")
    masked = alert(receiver, "rate", secret="***")
    for alerts in (None, [alert(receiver, "rate")], [{**masked, "url": "https://example.org/", "secret": SECRET}]):
        if alerts is not None:
            q.put(alerts=alerts)
        reply = client.put(q.path, {"alerts": [masked]})
        [error] = reply.json["errors"]
        assert (reply.status, error["field"], error["code"]) == (422, "alerts[0].secret", "required")


def test_without_a_secret_there_is_no_signature(client, receiver):
    q = client.queue('a "quoted" \\ näme')
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0)])
    kill(q)
    headers, body = receiver.wait(1)[0]
    assert "Nixie-Signature" not in headers
    assert json.loads(body)["queue"] == q.name and json.loads(body)["causes_total"] == 1


def test_one_alert_a_kind_and_address(client, receiver):
    other = Receiver()
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0), alert(other, "dead_letter", after_seconds=0),
                  alert(receiver, "new_group")])
    for i in range(5):
        kill(q, error_class=f"C{i}")
    client.get("/queues", now=at(1))
    wait_until(lambda: len(receiver.got) == 2 and len(other.got) == 1)
    settled(client, 3)
    quiet(client, receiver, 2, at(2))
    other.wait(1)
    other.close()


# -- when it cannot be told -------------------------------------------------------------------------------------------------


def alert_of(client):
    return client.queue("nixie.alerts").read(sent(client)[0]["id"])


def test_a_receiver_that_recovers(client, receiver):
    receiver.status = 500
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0, repeat_seconds=YEAR)])
    kill(q)
    receiver.wait(1)
    m = wait_until(lambda: sent(client, retry_count=1))[0]
    assert alert_of(client)["error_class"] == "Http500" and m["last_error"] == "the receiver answered 500"
    receiver.status = 302
    client.get("/queues", now=at(900))
    receiver.wait(2)
    wait_until(lambda: alert_of(client).get("error_class") == "Http302")
    receiver.status = 204
    client.get("/queues", now=at(1800))
    got = receiver.wait(3)
    settled(client)
    assert len({headers["Nixie-Message"] for headers, _ in got}) == 1


def test_a_receiver_that_is_down(client, receiver):
    url = receiver.url
    receiver.close()
    q = client.queue("orders")
    q.put(alerts=[alert(url, "dead_letter", after_seconds=0, repeat_seconds=YEAR)])
    kill(q)
    for i in range(1, 11):
        wait_until(lambda: sent(client, retry_count=i))
        client.get("/queues", now=at(1000 * i))
    m = alert_of(client)
    assert (m["status"], m["reason"], m["error_class"]) == ("dead", "max_retries", "Connect")
    assert client.letters("queue:nixie.alerts")[0]["id"] == m["id"]


def test_it_is_withdrawn_with_the_policy(client, receiver):
    receiver.status = 500
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0)])
    kill(q)
    wait_until(lambda: sent(client, retry_count=1))
    q.put(alerts=None)
    client.get("/queues", now=at(900))
    wait_until(lambda: sent(client, status="dead"))
    assert alert_of(client)["error_class"] == "Withdrawn"
    receiver.wait(1)


def test_nobody_else_sends_by_this_queue(client, receiver):
    q = client.queue("nixie.alerts")
    q.enqueue("{}", headers={"url": receiver.url, "kind": "rate", "queue": "nixie.alerts"})
    q.enqueue("{}")
    wait_until(lambda: len(sent(client, status="dead")) == 2)
    receiver.wait(0)


# -- snooze -----------------------------------------------------------------------------------------------------------------


def test_snooze(client, receiver):
    q = client.queue("orders")
    path = "/queues/orders/alerts/snooze"
    assert client.post(path, {"seconds": 60}).status == 404
    q.put()
    assert client.post(path, {"seconds": 60}).status == 409
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0)])
    reply = client.post(path, {"seconds": 100})
    assert reply.status == 200 and reply.json["alerts_snoozed_until"] == at(100)
    kill(q)
    client.get("/queues", now=at(99))
    assert client.get("/queues/nixie.alerts", now=at(99)).status == 404
    assert client.get("/queues/orders", now=at(99)).json["alerts_snoozed_until"] == at(100)
    client.get("/queues", now=at(100))
    receiver.wait(1)
    assert client.get("/queues/orders", now=at(100)).json["alerts_snoozed_until"] is None
    settled(client)
    client.post(path, {"seconds": 3600}, now=at(101))
    quiet(client, receiver, 1, at(1000))
    client.post(path, {"seconds": 0}, now=at(1000))
    receiver.wait(2)


@pytest.mark.parametrize("body, field", [
    ({}, "seconds"), ({"seconds": -1}, "seconds"), ({"seconds": "1"}, "seconds"), ({"seconds": 2592001}, "seconds"),
    ({"seconds": 1, "nope": 1}, "nope"), ([], "body")])
def test_bad_snoozes(client, receiver, body, field):
    client.queue("orders").put(alerts=[alert(receiver, "rate")])
    reply = client.post("/queues/orders/alerts/snooze", body)
    assert reply.status == 422 and reply.error()[0] == field


# -- private addresses ------------------------------------------------------------------------------------------------------

PRIVATE = ["http://127.0.0.1/", "http://127.1:80/", "https://0x7f000001/x", "http://2130706433/", "http://10.1.2.3/", "http://172.16.0.1/",
           "http://172.31.255.255/", "http://192.168.1.1:8080/", "http://169.254.169.254/latest/meta-data", "http://100.64.0.1/",
           "http://0.0.0.0/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[::1]/", "http://[::]/",
           "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fd00::1]/", "http://[ff02::1]/",
           "http://[::ffff:127.0.0.1]/", "http://[::ffff:a00:1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/",
           "http://user:pw@127.0.0.1/", "http://example.org@10.0.0.1/"]
PUBLIC = ["http://192.0.2.1/", "https://172.32.0.1/", "http://9.255.255.255/", "http://[2001:db8::1]/", "https://example.org/10.0.0.1",
          "http://[::ffff:8.8.8.8]/", "https://localhost/", "http://10.0.0.1.example.org/"]


def test_private_addresses_are_refused_when_the_policy_is_set(start):
    client = connect(start())
    for url in PRIVATE:
        reply = client.put("/queues/q", {"alerts": [{"kind": "rate", "url": PUBLIC[0]}, {"kind": "rate", "url": url}]})
        assert reply.status == 422 and reply.error() == ("alerts[1].url", "not_allowed"), (url, reply)
    assert client.get("/queues/q").status == 404
    for url in PUBLIC:
        reply = client.put("/queues/q", {"alerts": [{"kind": "rate", "url": url}]})
        assert reply.status in (200, 201), (url, reply)
    client.close()


def test_they_are_allowed_by_a_flag(client):
    for url in PRIVATE:
        assert client.put("/queues/q", {"alerts": [{"kind": "rate", "url": url}]}).status in (200, 201), url
    assert client.put("/queues/q", {"alerts": [{"kind": "rate", "url": "http://a b/"}]}).status == 422
    assert client.put("/queues/q", {"alerts": [{"kind": "rate", "url": "http://[::1/"}]}).status == 422


def test_and_again_when_it_is_called(start, receiver):
    """A name is not looked up when the policy is set: where it leads is seen when it is called."""
    client = connect(start())
    q = client.queue("orders")
    q.put(alerts=[alert(receiver.url.replace("127.0.0.1", "localhost"), "dead_letter", after_seconds=0)])
    kill(q)
    wait_until(lambda: sent(client, status="dead"))
    m = alert_of(client)
    assert (m["reason"], m["error_class"]) == ("permanent", "AddressRefused")
    receiver.wait(0)
    client.close()


def test_a_proxy_of_the_environment_is_not_asked(start, receiver):
    client = connect(start("--alerts-private", env={"http_proxy": "http://127.0.0.1:1"}))
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0)])
    kill(q)
    receiver.wait(1)
    client.close()


# -- the life of the server -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
def test_a_restart(start, receiver, killed):
    receiver.status = 500
    server = start("--alerts-private")
    client = connect(server)
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=0)])
    kill(q)
    receiver.wait(1)
    wait_until(lambda: sent(client, retry_count=1))
    client.close()
    server.restart(kill=killed)
    receiver.status = 200
    client.get("/queues", now=at(900))
    # The one that waited for its retry, and one of the server that does not remember having told.
    wait_until(lambda: len(receiver.got) == 3)
    settled(client, 2)
    client.close()


def test_stopping_breaks_off_a_call_and_gives_it_back(start):
    hung = threading.Event()
    came = threading.Event()

    class Hangs(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            came.set()
            hung.wait(20)

        def log_message(self, *args):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hangs)
    receiver.daemon_threads = True
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    server = start("--alerts-private")
    client = connect(server)
    q = client.queue("orders")
    q.put(alerts=[alert(f"http://127.0.0.1:{receiver.server_address[1]}/", "dead_letter", after_seconds=0, repeat_seconds=YEAR)])
    kill(q)
    assert came.wait(15)
    client.close()
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 8
    hung.set()
    receiver.shutdown()
    receiver.server_close()
    server.start()
    m = sent(client)[0]  # it may have been tried again already, in vain
    story = client.get(f"/queues/nixie.alerts/messages/{m['id']}/attempts").json["attempts"]
    assert [line["event"] for line in story][:2] == ["claimed", "released"], story
    client.close()


def test_on_the_real_clock(start, receiver):
    client = Client(start("--alerts-private", test_clock=False))
    q = client.queue("orders")
    q.put(alerts=[alert(receiver, "dead_letter", after_seconds=1)])
    q.enqueue("x", max_retries=1)
    q.fail(q.claim(), error="boom")
    assert told(receiver, 1)["queue"] == "orders"
    settled(client)
    client.close()


def test_the_flag_takes_no_value(tmp_path):
    assert refused(tmp_path / "data", "--alerts-private=no")[0] == 2
