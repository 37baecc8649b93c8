"""`x-death` of a published message: opaque, or, in a vhost that is set so, read as the broker's own history."""
import datetime

import pika
import pytest

WHEN = datetime.datetime(2024, 5, 1, 12, 0, 0)


@pytest.fixture
def reads(broker):
    """The vhost / takes clients' word for deaths."""
    broker.request("PUT", "/vhosts/%2F", {"client_x_death": "read"})
    yield
    broker.request("PUT", "/vhosts/%2F", {})


def entry(queue, reason="rejected", **more):
    return {"count": 1, "reason": reason, "queue": queue, "time": WHEN, "exchange": "", "routing-keys": [queue], **more}


def publish(channel, queue, headers):
    channel.basic_publish("", queue, "x", pika.BasicProperties(headers=headers))


def take(channel, queue, requeue=None):
    for _ in range(200):
        method, properties, _ = channel.basic_get(queue)
        if method is not None:
            break
        channel.connection.sleep(0.01)
    assert method is not None, f"nothing came to {queue}"
    if requeue is None:
        channel.basic_ack(method.delivery_tag)
    else:
        channel.basic_reject(method.delivery_tag, requeue=requeue)
    return properties.headers


@pytest.fixture
def pair(channel, queue):
    """A queue, and the one where its dead letters go."""
    dead = queue + ".dead"
    channel.queue_declare(dead, durable=True)
    source = queue + ".source"
    channel.queue_declare(source, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    return source, dead


def told(headers):
    return [(d["queue"], d["reason"], d["count"]) for d in headers["x-death"]]


def test_opaque_unless_it_is_set(broker, channel, pair):
    assert broker.request("GET", "/vhosts/%2F") == {"name": "/", "client_x_death": "opaque"}
    source, dead = pair
    publish(channel, source, {"x-death": [entry(source, count=5)]})
    take(channel, source, requeue=False)
    assert told(take(channel, dead)) == [(source, "rejected", 1)]


def test_counts_go_on(reads, channel, pair):
    source, dead = pair
    publish(channel, source, {"x-death": [entry(source, count=5)], "mine": 1})
    take(channel, source, requeue=False)
    got = take(channel, dead)
    assert got["x-death"] == [entry(source, count=6)] and got["mine"] == 1
    publish(channel, source, got)  # as a worker does that tries again
    take(channel, source, requeue=False)
    assert told(take(channel, dead)) == [(source, "rejected", 7)]


def test_merged_with_the_brokers_own(broker, reads, channel, pair):
    source, dead = pair
    old = [entry("b", "maxlen", exchange="x", **{"routing-keys": ["k", "l"], "original-expiration": "70"}), entry("a", "expired")]
    publish(channel, source, {"x-death": old})
    assert take(channel, source, requeue=True)["x-death"] == old
    listed, = broker.request("GET", f"/queues/{source}/messages?limit=10")["messages"]
    m = broker.request("GET", f"/queues/{source}/messages/{listed['id']}")
    assert [d["queue"] for d in m["properties"]["deaths"]] == ["b", "a"] and "headers" not in m
    take(channel, source, requeue=False)
    got = take(channel, dead)
    assert told(got) == [(source, "rejected", 1), ("b", "maxlen", 1), ("a", "expired", 1)] and got["x-death"][1:] == old
    assert (got["x-first-death-queue"], got["x-first-death-reason"]) == ("a", "expired")
    assert (got["x-last-death-queue"], got["x-last-death-reason"]) == (source, "rejected")


def test_the_first_death_is_the_one_that_is_named(reads, channel, pair):
    source, dead = pair
    publish(channel, source, {"x-death": [entry("b"), entry("a", "expired")],
                              "x-first-death-queue": "b", "x-first-death-reason": "rejected", "x-first-death-exchange": ""})
    take(channel, source, requeue=False)
    got = take(channel, dead)
    assert (got["x-first-death-queue"], got["x-first-death-reason"]) == ("b", "rejected")


def test_a_cycle_is_seen(broker, reads, channel, queue):
    other = queue + ".other"
    channel.queue_declare(other, durable=True, arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 1})
    publish(channel, other, {"x-death": [entry(queue, "expired")]})
    for _ in range(200):
        if broker.letters(other):
            break
        channel.connection.sleep(0.01)
    assert broker.letters(other)[0]["reason"] == "expired" and channel.basic_get(queue)[0] is None
    publish(channel, other, {"x-death": [entry("elsewhere", "expired")]})
    assert told(take(channel, queue)) == [(other, "expired", 1), ("elsewhere", "expired", 1)]


@pytest.mark.parametrize("bad", [
    "text", 7, {}, {"queue": "a"}, entry("a", "because"), entry("a", count=0), entry("a", count=-1), entry("a", count="1"),
    entry("a", time="now"), entry(7), entry("a" * 256), entry("a", exchange=1), entry("a", **{"routing-keys": "a"}),
    entry("a", **{"routing-keys": [1]}), entry("a", **{"original-expiration": 5}), entry(b"\xff")], ids=str)
def test_what_is_no_death_is_passed_over(reads, channel, pair, bad):
    source, dead = pair
    publish(channel, source, {"x-death": [bad, entry("good", count=3)]})
    take(channel, source, requeue=False)
    assert told(take(channel, dead)) == [(source, "rejected", 1), ("good", "rejected", 3)]


@pytest.mark.parametrize("value", ["text", 1, {"queue": "a"}, [], [7], None], ids=str)
def test_what_is_no_history_is_the_clients(reads, channel, pair, value):
    source, dead = pair
    publish(channel, source, {"x-death": value, "x-first-death-queue": "a", "x-first-death-reason": "expired"})
    assert take(channel, source, requeue=True)["x-death"] == value
    take(channel, source, requeue=False)
    got = take(channel, dead)
    assert told(got) == [(source, "rejected", 1)] and got["x-first-death-queue"] == source


def test_it_is_bounded(reads, channel, pair):
    source, dead = pair
    publish(channel, source, {"x-death": [entry(f"q{i}") for i in range(40)]})
    take(channel, source, requeue=False)
    got = told(take(channel, dead))
    assert len(got) == 16 and got[0][0] == source and got[1][0] == "q0" and got[-1][0] == "q39"
    long = "k" * 255
    publish(channel, source, {"x-death": [entry(f"q{i}" + "n" * 200, **{"routing-keys": [long] * 60}) for i in range(3)]})
    take(channel, source, requeue=False)
    assert [q.rstrip("n") for q, _, _ in told(take(channel, dead))] == [source, "q0", "q2"]


def test_in_a_transaction(reads, channel, connect, pair):
    source, dead = pair
    tx = connect().channel()
    tx.tx_select()
    publish(tx, source, {"x-death": [entry(source, count=2)]})
    tx.tx_commit()
    take(channel, source, requeue=False)
    assert told(take(channel, dead)) == [(source, "rejected", 3)]


def test_headers_exchanges_see_them(reads, channel, queue):
    exchange = queue + ".headers"
    channel.exchange_declare(exchange, "headers")
    channel.queue_bind(queue, exchange, arguments={"x-match": "all-with-x", "x-first-death-queue": "a"})
    channel.basic_publish(exchange, "", "x", pika.BasicProperties(headers={"x-death": [entry("a")]}))
    assert told(take(channel, queue)) == [("a", "rejected", 1)]
    channel.exchange_delete(exchange)


def test_a_vhost_of_its_own_and_a_restart(broker, connect, queue):
    name = f"v-{queue}"
    broker.request("PUT", f"/vhosts/{name}", {"client_x_death": "read"})
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, virtual_host=name)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        publish(channel, "q", {"x-death": [entry("a", count=9)]})
        assert told(take(channel, "q", requeue=True)) == [("a", "rejected", 9)]
    broker.stop()
    broker.start()
    assert broker.request("GET", f"/vhosts/{name}")["client_x_death"] == "read"
    assert {"name": "/", "client_x_death": "opaque"} in broker.request("GET", "/vhosts")["vhosts"]
