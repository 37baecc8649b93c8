"""AMQP from bare sockets, in channels: methods that hardly a client sends, limits, much at once, clients that have stopped."""
import socket
import struct
import time

import pytest

from lib.amqp_raw import (BODY, AmqpRaw, ack, cancel, capabilities, consume, content_header, frame, get, long, message, method, publish, qos,
                          queue_declare, short, table)
from lib.client import Client

# -- methods that little is said of -------------------------------------------------------------------------------------------------------


def exchange_declare(channel, name, kind="direct", bits=0, arguments=None):
    return method(channel, 40, 10, b"\0\0" + short(name) + short(kind) + bytes([bits]) + (table() if arguments is None else arguments))


def bind(class_id, channel, destination, source, key="", bits=0, arguments=None):
    return method(channel, class_id, 20 if class_id == 50 else 30,
                  b"\0\0" + short(destination) + short(source) + short(key) + bytes([bits]) + (table() if arguments is None else arguments))


def test_what_hardly_a_client_asks_for(session):
    session.channel(1)
    session.send(method(1, 30, 10, short("/data") + b"\x1f"))
    assert session.method(30, 11) == (1, b"\0\1")
    session.send(method(1, 20, 20, b"\1"))
    assert session.method(20, 21) == (1, b"\1")
    session.send(method(1, 20, 21, b"\1"), method(1, 60, 31, short("unknown")))  # answers to nothing
    session.is_alive()


def test_no_wait_means_no_answer(session):
    session.channel(1)
    session.send(exchange_declare(1, "nowait-x", bits=16), queue_declare(1, "nowait-q", bits=16), bind(50, 1, "nowait-q", "nowait-x", "k", 1),
                 bind(40, 1, "amq.fanout", "nowait-x", "k", 1), method(1, 85, 10, b"\1"), consume(1, "nowait-q", "t", 8),
                 method(1, 60, 30, short("t") + b"\1"), method(1, 50, 30, b"\0\0" + short("nowait-q") + b"\1"), message(1, "k", exchange="nowait-x"))
    session.method(60, 80)  # they came, and this one's confirm is the first
    session.send(get(1, "nowait-q"))
    session.method(60, 71), session.frame(), session.frame()
    session.send(method(1, 60, 100, b"\1"), get(1, "nowait-q"))  # recover-async
    session.method(60, 71), session.frame(), session.frame()
    session.send(method(1, 40, 40, b"\0\0" + short("amq.fanout") + short("nowait-x") + short("k") + b"\1" + table()),
                 method(1, 50, 40, b"\0\0" + short("nowait-q") + b"\4"), method(1, 40, 20, b"\0\0" + short("nowait-x") + b"\2"),
                 exchange_declare(1, "nowait-x", bits=17))
    assert "no exchange 'nowait-x'" in session.channel_closed_with(404)


REPLY_TO = "amq.rabbitmq.reply-to"
WITH_REPLY_TO = publish(1, "", "k") + content_header(1, 0, 1 << 9, short(REPLY_TO))
SINGLE = table([("x-single-active-consumer", b"t\1")])


@pytest.mark.parametrize("data, code, text", [
    (queue_declare(1, "single", SINGLE, 4) + get(1, "single"), 405, "basic.get operations are not supported by queues with single active"),
    (queue_declare(1, "mine", bits=4) + queue_declare(1, "mine"), 405, "cannot obtain exclusive access to locked queue 'mine'"),
    (queue_declare(1, "mine", bits=4) + consume(1, "mine", arguments=table([("x-priority", b"S" + long("high"))])), 406, "x-priority"),
    (consume(1, REPLY_TO), 406, "reply consumer cannot acknowledge"),
    (consume(1, REPLY_TO, bits=2) * 2, 406, "reply consumer already set"),
    (publish(1) + content_header(1, 0, 1 << 8, short(b"\xff\xc3")), 406, "invalid expiration '??'"),  # in UTF-8, whatever it quotes
    (WITH_REPLY_TO, 406, "fast reply consumer does not exist"),
    (message(1, "mine") + queue_declare(1, "mine", bits=4) + message(1, "mine") * 2 + get(1, "mine") * 2 + ack(1, 3, True), 406, "tag 3"),
], ids=["get", "exclusive", "priority", "acks", "twice", "text", "nobody", "tag"])
def test_errors_of_the_channel(session, data, code, text):
    session.channel(1)
    session.send(data)
    while True:
        kind, channel, payload = session.frame()
        if payload[:4] == struct.pack(">HH", 20, 40):
            break
    assert struct.unpack(">H", payload[4:6])[0] == code and text in payload[7:7 + payload[6]].decode()
    session.send(method(1, 20, 41))
    session.is_alive()


@pytest.mark.parametrize("odd", ["", "x"])
def test_a_long_text_is_cut_between_characters(session, odd):
    session.channel(1)
    session.send(queue_declare(1, odd + "\u00fc" * 127, bits=1))
    text = session.channel_closed_with(404)
    assert 254 <= len(text.encode()) <= 255 and text.endswith("\u00fc")


def test_what_comes_back_comes_before_its_confirm(session):
    session.channel(1)
    session.send(queue_declare(1, "there", bits=4), method(1, 85, 10, b"\0"))
    session.method(50, 11), session.method(85, 11)
    session.send(*[message(1, "there" if n % 3 else "nowhere", b"%d" % n, bits=1) for n in range(1, 301)])
    returned, confirmed = [], 0
    while confirmed < 300:
        kind, _, payload = session.frame()
        ids = struct.unpack(">HH", payload[:4])
        if ids == (60, 50):
            session.frame()
            returned.append(int(session.frame()[2]))
        else:
            assert ids == (60, 80)
            confirmed, multiple = struct.unpack(">QB", payload[4:])
            assert len(returned) >= confirmed // 3
    assert returned == list(range(3, 301, 3))
    session.send(method(1, 20, 40, b"\0\xc8" + short("") + b"\0\0\0\0"))
    session.method(20, 41)
    session.channel(1)
    session.send(TX_SELECT, message(1, "nowhere", b"1", bits=1), TX_COMMIT)
    session.method(90, 11), session.method(60, 50), session.frame(), session.frame(), session.method(90, 21)


# -- queues -----------------------------------------------------------------------------------------------------------------------------


def test_many_queues_expire_together(amqp_server, session):
    session.channel(1)
    arguments = table([("x-expires", b"l" + struct.pack(">q", 200))])
    session.send(*[queue_declare(1, f"short-{i}", arguments, bits=16) for i in range(2500)], qos(1, 0))
    session.method(60, 11)
    client, end = Client(amqp_server), time.monotonic() + 20
    while [q for q in client.get("/queues?limit=1000").json["queues"] if q["queue"].startswith("short-")]:
        assert time.monotonic() < end
        time.sleep(0.02)
    client.close()


# -- settling more than is done in a turn ------------------------------------------------------------------------------------------------


MANY = 3500


def ready(r, name):
    r.send(queue_declare(1, name, bits=1))
    return struct.unpack(">II", r.method(50, 11)[1][-8:])[0]


@pytest.fixture
def holding(session, request):
    """Holds MANY messages of a queue, whose letters go to the queue "letters"."""
    to_letters = table([("x-dead-letter-exchange", b"S" + long("")), ("x-dead-letter-routing-key", b"S" + long("letters"))])
    session.channel(1)
    session.send(queue_declare(1, "letters"), method(1, 50, 30, b"\0\0" + short("letters") + b"\0"), queue_declare(1, "many", to_letters))
    session.method(50, 11), session.method(50, 31), session.method(50, 11)
    session.send(*[message(1, "many", b"%d" % i) for i in range(MANY)], consume(1, "many", "t"))
    session.method(60, 21)
    for i in range(MANY):
        assert session.delivery()[1:] == (i + 1, b"%d" % i)
    yield session
    other = AmqpRaw(request.getfixturevalue("amqp_server")).login().channel(1)
    other.send(method(1, 50, 40, b"\0\0" + short("many") + b"\0"))
    other.method(50, 41)
    other.s.close()


def test_many_acknowledged_at_once(amqp_server, holding):
    """What is sent behind comes after; a client that leaves meanwhile has acknowledged them all."""
    holding.send(ack(1, MANY - 1000, True), ack(1, MANY - 1000))
    assert f"unknown delivery tag {MANY - 1000}" in holding.channel_closed_with(406)
    holding.send(method(1, 20, 41))
    holding.channel(1)
    assert ready(holding, "many") == 1000
    holding.send(message(1, "many") * (MANY - 1000), consume(1, "many", "t"))
    holding.method(60, 21)
    for _ in range(MANY):
        tag = holding.delivery()[1]
    holding.send(ack(1, tag, True))
    holding.s.shutdown(socket.SHUT_WR)
    holding.is_gone()
    other = AmqpRaw(amqp_server).login().channel(1)
    assert ready(other, "many") == 0
    other.s.close()


def test_many_rejected_at_once(holding):
    holding.send(method(1, 60, 120, struct.pack(">QB", 0, 1)))
    assert ready(holding, "letters") == MANY
    holding.send(consume(1, "letters", "letters", 2))
    holding.method(60, 21)
    assert [holding.delivery()[2] for _ in range(MANY)] == [b"%d" % i for i in range(MANY)]


def test_many_recovered_at_once(holding):
    holding.send(cancel(1, "t"), method(1, 60, 110, b"\1"))
    holding.method(60, 31), holding.method(60, 111)
    assert ready(holding, "many") == MANY
    holding.send(consume(1, "many", "again", 2))
    holding.method(60, 21)
    assert [holding.delivery()[2] for _ in range(MANY)] == [b"%d" % i for i in range(MANY)]


# -- transactions -----------------------------------------------------------------------------------------------------------------------


TX_SELECT, TX_COMMIT, TX_ROLLBACK = method(1, 90, 10), method(1, 90, 20), method(1, 90, 30)


@pytest.fixture
def acknowledging(session):
    """A transaction that acknowledges the only message of queue "tx", by a consumer with a prefetch of 1."""
    session.channel(1)
    session.send(queue_declare(1, "tx"), method(1, 50, 30, b"\0\0" + short("tx") + b"\0"), message(1, "tx", b"1"), TX_SELECT, qos(1, 1),
                 consume(1, "tx", "t"))
    for ids in (50, 11), (50, 31), (90, 11), (60, 11), (60, 21):
        session.method(*ids)
    assert session.delivery() == (1, 1, b"1")
    session.send(ack(1, 1))
    return session


def test_a_transaction_outlives_its_consumer(acknowledging):
    r = acknowledging
    r.send(cancel(1, "t"), consume(1, "tx", "t"), TX_COMMIT)
    for ids in (60, 31), (60, 21), (90, 21):
        r.method(*ids)
    r.send(message(1, "tx", b"2"), TX_COMMIT)
    r.method(90, 21)
    assert r.delivery() == (1, 2, b"2")  # the new one has none yet
    r.send(ack(1, 2), cancel(1, "t"), TX_ROLLBACK, ack(1, 2), TX_COMMIT)
    for ids in (60, 31), (90, 31), (90, 21):
        r.method(*ids)
    r.send(queue_declare(1, "tx", bits=1))
    assert r.method(50, 11)[1][-8:] == bytes(8)


def test_a_transaction_outlives_the_queue(acknowledging):
    r = acknowledging
    r.send(method(1, 50, 40, b"\0\0" + short("tx") + b"\0"), TX_COMMIT)
    for ids in (50, 41), (90, 21):
        r.method(*ids)
    r.is_alive()


def test_a_transaction_that_fails_gives_back(acknowledging):
    r = acknowledging
    r.send(message(1, "key", exchange="none"), TX_COMMIT)
    r.channel_closed_with(404)
    r.send(method(1, 20, 41))
    r.channel(1)
    r.send(queue_declare(1, "tx", bits=1))
    assert r.method(50, 11)[1][-8:] == bytes(3) + b"\1" + bytes(4)


# -- what a client may take ---------------------------------------------------------------------------------------------------------------


def with_headers(headers):
    return publish(1, "amq.direct", "k") + content_header(1, 0, 1 << 13, headers)


LARGE, ARGUMENTS = table([("a", b"S" + long("a" * 9000))]), "the arguments are larger than 8192 bytes"


@pytest.mark.parametrize("data, text", [
    (publish(1) + content_header(1, 1024 * 1024 + 1), "message size 1048577 is larger than configured max size 1048576"),
    (with_headers(table([("a", b"S" + long("a" * 66000))])), "its properties are larger than 65536 bytes"),
    (with_headers(table([("a", b"S" + long("\1" * 12000))])), "its headers are larger than 65536 bytes"),
    (with_headers(table([("CC", b"A" + long((b"S" + long("k")) * 32)), ("BCC", b"A" + long((b"S" + long("k")) * 32))])), "more than 63 keys"),
    (with_headers(table([("CC", b"A" + long(b"S" + long("k" * 256)))])), "CC and BCC must be arrays"),
    (queue_declare(1, "large", LARGE), ARGUMENTS), (exchange_declare(1, "large", arguments=LARGE), ARGUMENTS),
    (bind(40, 1, "amq.direct", "amq.fanout", arguments=LARGE), ARGUMENTS),
    (queue_declare(1, "large", bits=20) + bind(50, 1, "large", "amq.fanout", arguments=LARGE), ARGUMENTS),
], ids=["body", "properties", "headers", "keys", "key", "queue", "exchange", "exchanges", "binding"])
def test_limits(session, data, text):
    session.channel(1)
    session.send(data)
    assert text in session.channel_closed_with(406)
    session.send(method(1, 20, 41))
    session.is_alive()


def test_as_many_consumers_as_there_may_be(raw):
    """And their queue's end is told to each of them."""
    channels, each = range(1, 11), 1000
    r = raw().login(properties=capabilities("consumer_cancel_notify"))
    for n in channels:
        r.channel(n)
    r.send(queue_declare(1, "many", table([("x-single-active-consumer", b"t\1")])))
    r.method(50, 11)
    for n in channels:
        r.send(*[consume(n, "many", f"{i}".rjust(255), bits=8) for i in range(each)], qos(n, 0))
        r.method(60, 11)
    r.send(method(1, 50, 40, b"\0\0" + short("many") + b"\0"))
    for _ in range(len(channels) * each):
        assert r.method(60, 30)[1][-1] == 1
    r.method(50, 41)
    r.send(queue_declare(1, "many", bits=4), *[consume(1, "many", bits=8)] * (len(channels) * each + 1))
    r.method(50, 11)
    r.closed_with(530, 60, 20, "number of consumers (10000)")


def test_what_a_transaction_settles_is_bounded(session):
    session.channel(1)
    n = 10001
    session.send(queue_declare(1, "tx-many", bits=4), message(1, "tx-many") * n, TX_SELECT, consume(1, "tx-many"))
    session.method(50, 11), session.method(90, 11), session.method(60, 21)
    for _ in range(n):
        session.delivery()
    session.send(ack(1, n - 1, True), TX_ROLLBACK, ack(1, n, True), TX_COMMIT)
    session.method(90, 31)
    assert "more than 10000 acknowledgements" in session.channel_closed_with(406)
    session.send(method(1, 20, 41))
    session.channel(1)
    assert ready(session, "tx-many") == n


def test_what_a_connection_keeps_is_bounded(session):
    """128 MiB of transactions, and of messages that lack their end."""
    def begin(n):
        session.channel(n)
        session.send(publish(n, "amq.direct"), content_header(n, 1000001), frame(BODY, n, bytes(100000)) * 10)

    for n in 1, 2:
        session.channel(n)
        session.send(method(n, 90, 10), message(n, "key", bytes(120000), exchange="amq.direct") * 550)
        session.method(90, 11)
    for n in 3, 4, 5:
        begin(n)
    assert "larger than 134217728 bytes" in session.channel_closed_with(406, 5)
    session.send(frame(BODY, 3, b"x"), frame(BODY, 4, b"x"), method(5, 20, 41))
    for n in 6, 7, 8:  # there is room again
        begin(n)
    session.channel_closed_with(406, 8)
    session.send(method(1, 90, 30))
    session.method(90, 31)
    for n in range(9, 20):
        begin(n)
    session.is_alive()


def test_a_client_may_write_before_it_reads_the_next(raw):
    """One of a single thread, with no prefetch limit and much to read: it sends an answer for each before it reads on."""
    r = raw()
    r.s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    r.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    r.login().channel(1)
    r.send(queue_declare(1, "questions", bits=4), queue_declare(1, "answers", bits=4), message(1, "questions", bytes(300)) * 20000,
           consume(1, "questions"))
    r.method(50, 11), r.method(50, 11), r.method(60, 21)
    for n in range(1, 4001):
        assert r.delivery()[1] == n
        r.send(message(1, "answers", bytes(5000)), ack(1, n))


# -- clients that do nothing --------------------------------------------------------------------------------------------------------------


def test_a_machine_that_is_gone_is_found_out(amqp_server, session):
    """Without heartbeats the system asks for it: its timer for that runs (kind 2), when nothing is under way."""
    ends = f":{amqp_server.amqp_port:04X} ", f":{session.s.getsockname()[1]:04X} "

    def timer():
        with open("/proc/net/tcp") as f:
            return next(line.split()[5][:2] for line in f if line.find(ends[0]) < line.find(ends[1]) and ends[0] in line)

    end = time.monotonic() + 10
    while timer() != "02":
        assert time.monotonic() < end
        time.sleep(0.02)


def is_left_alone(amqp_server, r, name):
    """Its exclusive queue goes with it, and what it held goes back."""
    other = AmqpRaw(amqp_server).login().channel(1)
    end = time.monotonic() + 20
    while True:
        other.send(queue_declare(1, name, bits=1))
        _, arguments = other.method(50, 11)
        if struct.unpack(">II", arguments[-8:]) == (100, 0):
            break
        assert time.monotonic() < end
        time.sleep(0.05)
    other.s.close()
    r.s.close()


@pytest.mark.parametrize("sends", [False, True], ids=["silent", "sending"])
def test_a_client_that_has_stopped_holds_nothing(amqp_server, raw, sends):
    """Its system keeps the connection; there is more for it than may pile up."""
    name = f"stopped-{sends}"
    other = raw().login().channel(1)
    other.send(queue_declare(1, name), *[message(1, name, bytes(100000))] * 100)
    other.method(50, 11)
    r = raw().login(heartbeat=1).channel(1)
    r.send(consume(1, name))
    r.method(60, 21)
    if sends:  # and is not read, after a while
        other.send(queue_declare(1, name, bits=1))
        other.method(50, 11)
        r.send(*[qos(1, 0)] * 1000)
    is_left_alone(amqp_server, r, name)


def test_a_client_that_reads_slowly_stays(amqp_server, raw):
    r = raw().login(heartbeat=1).channel(1)
    r.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    r.send(queue_declare(1, "slow"), *[message(1, "slow", bytes(100000))] * 100, consume(1, "slow"))
    r.method(50, 11)
    r.method(60, 21)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert r.s.recv(20000)
        time.sleep(0.05)
