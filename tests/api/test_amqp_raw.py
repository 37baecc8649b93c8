"""AMQP from bare sockets: the handshake, and everything that may be wrong with a frame. After each test the server is alive."""
import concurrent.futures
import socket
import struct
import time

import pytest

from lib.amqp_raw import (BODY, CLOSE_OK, HEADER, HEADER_FRAME, HEARTBEAT, METHOD, AmqpRaw, Closed, ack, cancel, capabilities, channel_open,
                          close, consume, content_header, frame, get, long, message, method, open_vhost, publish, qos, queue_declare, short,
                          start_ok, table, tune_ok)
from lib.client import Client
from lib.server import Server

SPOKEN = b"AMQP\0\0\x09\x01"
CAN_CLOSE = {"properties": capabilities("authentication_failure_close")}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("amqp") / "data", amqp="127.0.0.1:0", test_clock=False) as s:
        yield s


@pytest.fixture
def raw(server):
    opened = []

    def connect():
        opened.append(AmqpRaw(server))
        return opened[-1]

    yield connect
    for r in opened:
        r.s.close()
    AmqpRaw(server).login().is_alive().s.close()
    assert Client(server).get("/healthz").status == 200


@pytest.fixture
def session(raw):
    return raw().login()


# -- the first bytes --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [HEADER, b"AMQP\1\1\0\x09"], ids=["0-9-1", "0-9"])
def test_the_header_is_answered_with_start(raw, header):
    r = raw().send(header)
    channel, arguments = r.method(10, 10)
    assert channel == 0 and arguments[:2] == b"\0\x09"
    size = struct.unpack(">I", arguments[2:6])[0]
    rest = arguments[6 + size:]
    assert rest == long("PLAIN AMQPLAIN") + long("en_US")
    for word in (b"publisher_confirms", b"product", b"version", b"capabilities"):
        assert word in arguments


@pytest.mark.parametrize("header", [b"AMQP\0\1\0\0", b"AMQP\3\1\0\0", b"AMQP\0\0\x09\2", b"AMQP\1\1\x08\0", b"GET / HTTP/1.1\r\n\r\n", b"G",
                                    b"\x16\x03\x01\x02\x00\x01", b"\0\0\0\0\0\0\0\0", b"AMQq", b"A\n"])
def test_another_protocol_is_told_what_is_spoken(raw, header):
    r = raw().send(header)
    assert r.bytes(8) == SPOKEN
    r.is_gone()


def test_a_header_in_pieces(raw):
    r = raw()
    for i in range(8):
        r.send(HEADER[i:i + 1])
        time.sleep(0.005)
    r.method(10, 10)


# -- logging in -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {},
    {"response": b"guest\0guest\0guest"},  # an authorization identity is not looked at
    {"mechanism": "AMQPLAIN", "response": table([("LOGIN", b"S" + long("guest")), ("PASSWORD", b"S" + long("guest"))])[4:]},
    {"mechanism": "AMQPLAIN", "response": table([("PASSWORD", b"x" + long("guest")), ("LOGIN", b"x" + long("guest"))])[4:]},
    {"locale": "en_GB"},
    {"frame_max": 4096},
    {"channel_max": 1, "heartbeat": 65535},
])
def test_ways_to_log_in(raw, options):
    r = raw().login(**options)
    r.channel(1)


def refused(r, sent, code, ids, text=None):
    r.send(HEADER)
    r.method(10, 10)
    r.send(sent)
    return r.closed_with(code, *ids, text=text)


def test_a_wrong_password(raw):
    text = refused(raw(), start_ok(response=b"\0guest\0wrong", **CAN_CLOSE), 403, (0, 0))
    assert text == "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."


def test_a_wrong_password_of_a_client_that_cannot_hear_it(raw):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(start_ok(response=b"\0guest\0wrong"))
    r.is_gone()


@pytest.mark.parametrize("response", [b"", b"guest", b"\0guest"])
def test_an_ill_formed_response(raw, response):
    refused(raw(), start_ok(response=response), 502, (10, 11))


@pytest.mark.parametrize("response", [b"", b"x", table([("LOGIN", b"S" + long("guest"))])[4:],
                                      table([("LOGIN", b"S" + long("guest")), ("PASSWORD", b"l" + bytes(8))])[4:],
                                      table([("LOGIN", b"S" + long("guest")), ("PASSWORD", b"S" + long("guest"))])[4:] + b"\1"])
def test_an_ill_formed_amqplain(raw, response):
    refused(raw(), start_ok(mechanism="AMQPLAIN", response=response), 502, (10, 11))


def test_an_unknown_mechanism(raw):
    refused(raw(), start_ok(mechanism="EXTERNAL", response=b""), 503, (10, 11))


@pytest.mark.parametrize("tune, text", [
    ({"frame_max": 0}, "frame_max = 0"), ({"frame_max": 131073}, "higher"), ({"frame_max": 4095}, "lower"),
    ({"frame_max": 0xffffffff}, "higher"), ({"channel_max": 0}, "channel_max = 0"), ({"channel_max": 2048}, "higher"),
])
def test_what_is_negotiated_has_bounds(raw, tune, text):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(start_ok())
    r.method(10, 30)
    r.send(tune_ok(**tune))
    r.closed_with(530, 10, 31, text)


def test_a_vhost_that_is_not_there(raw):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(start_ok())
    r.method(10, 30)
    r.send(tune_ok(), open_vhost("nowhere"))
    r.closed_with(530, 10, 40, "vhost nowhere not found")


@pytest.mark.parametrize("sent, ids", [
    (tune_ok(), (10, 31)), (open_vhost(), (10, 40)), (CLOSE_OK, (10, 51)), (channel_open(0), (20, 10)),
    (method(0, 10, 21, long("")), (10, 21)),
], ids=["tune-ok", "open", "close-ok", "channel.open", "secure-ok"])
def test_out_of_order_before_login(raw, sent, ids):
    refused(raw(), sent, 504, ids, "starting")


def test_out_of_order_later(raw):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(start_ok())
    r.method(10, 30)
    r.send(open_vhost())
    r.closed_with(504, 10, 40, "tuning")
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(start_ok())
    r.method(10, 30)
    r.send(tune_ok(), tune_ok())
    r.closed_with(504, 10, 31, "opening")
    r = raw().login()
    r.send(open_vhost())
    r.closed_with(504, 10, 40, "running")


def test_frames_of_a_channel_before_it_is_open(raw):
    refused(raw(), channel_open(1), 505, (0, 0))
    refused(raw(), frame(HEADER_FRAME, 0, b""), 505, (0, 0))


def test_a_large_frame_before_login(raw):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(struct.pack(">BHI", METHOD, 0, 8193))
    r.closed_with(501, 0, 0)


def test_close_is_answered_at_any_time(raw):
    r = raw().send(HEADER)
    r.method(10, 10)
    r.send(close())
    r.method(10, 51)
    r.is_gone()


# -- frames -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [
    frame(METHOD, 0, b"\0\x0a\0\x33", end=b"\xcd"), frame(4, 0, b""), frame(0, 0, b""), frame(9, 0, b""), frame(255, 0, b""),
    struct.pack(">BHI", METHOD, 0, 131073), struct.pack(">BHI", BODY, 1, 0xffffffff), b"GET / HTTP/1.1\r\n\r\n",
], ids=["end", "4", "0", "9", "255", "large", "absurd", "http"])
def test_what_is_no_frame(session, data):
    session.send(data)
    session.closed_with(501, 0, 0)


def test_a_frame_of_the_largest_size_is_read(session):
    session.channel(1)
    session.send(publish(1, key="nobody"), frame(HEADER_FRAME, 1, bytes(131072)))
    session.closed_with(505)


def test_the_negotiated_size_counts(raw):
    r = raw().login(frame_max=4096)
    r.send(struct.pack(">BHI", METHOD, 0, 4097))
    r.closed_with(501)


@pytest.mark.parametrize("data, ids", [
    (frame(METHOD, 0, b""), (0, 0)), (frame(METHOD, 0, b"\0\x0a\0"), (0, 0)), (method(0, 10, 50, b"\0"), (10, 50)),
    (method(0, 10, 51, b"x"), (10, 51)), (method(0, 10, 70, long("s")), (10, 70)),
])
def test_methods_that_do_not_hold_their_arguments(session, data, ids):
    session.send(data)
    session.closed_with(502, *ids)


@pytest.mark.parametrize("class_id, method_id", [(10, 10), (10, 99), (11, 10), (0, 0), (65535, 65535), (60, 60), (10, 60)])
@pytest.mark.parametrize("channel", [0, 1])
def test_methods_that_are_none_of_a_server(session, channel, class_id, method_id):
    session.channel(1)
    session.send(method(channel, class_id, method_id))
    session.closed_with(503, class_id, method_id)


def test_text_that_is_no_utf8(session):
    session.channel(1)
    session.send(queue_declare(1, b"\xff\xfe"))
    session.closed_with(501, 50, 10)


@pytest.mark.parametrize("name", ["//x", "//", "a\0b", "\0"], ids=repr)
def test_names_that_http_could_not_say(session, name):
    session.channel(1)
    session.send(queue_declare(1, name))
    session.channel_closed_with(406)


def test_methods_of_channels_on_channel_0(session):
    session.send(queue_declare(0, "q"))
    session.closed_with(504, 50, 10)


@pytest.mark.parametrize("kind", [HEADER_FRAME, BODY])
def test_content_on_channel_0(session, kind):
    session.send(frame(kind, 0, b""))
    session.closed_with(505)


def test_heartbeats_belong_to_channel_0(session):
    session.send(frame(HEARTBEAT, 0, b""), frame(HEARTBEAT, 0, b"more than nothing"))
    session.is_alive()
    session.send(frame(HEARTBEAT, 1, b""))
    session.closed_with(505)


def test_update_secret_is_answered(session):
    session.send(method(0, 10, 70, long("new") + short("why")))
    assert session.method(10, 71) == (0, b"")
    session.is_alive()


# -- channels ---------------------------------------------------------------------------------------------------------------------------


def test_a_channel_that_is_not_open(session):
    session.send(queue_declare(7, "q"))
    session.closed_with(504, 50, 10, "expected 'channel.open'")


def test_a_channel_that_is_opened_twice(session):
    session.channel(1)
    session.send(channel_open(1))
    session.closed_with(504, 20, 10, "second 'channel.open' seen")


def test_more_channels_than_negotiated(raw):
    r = raw().login(channel_max=3)
    for i in 1, 2, 3:
        r.channel(i)
    r.send(method(2, 20, 40, b"\0\xc8" + short("") + b"\0\0\0\0"))
    r.method(20, 41)
    r.channel(2)
    r.send(channel_open(4))
    r.closed_with(530, 20, 10)


def test_as_many_channels_as_there_may_be(session):
    session.send(*[channel_open(n) for n in range(1, 2048)])
    for n in range(1, 2048):
        assert session.method(20, 11)[0] == n
    session.send(channel_open(2048))
    session.closed_with(530, 20, 10)


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


@pytest.mark.parametrize("data, code", [
    (content_header(1, 0), 505), (frame(BODY, 1, b"x"), 505),
    (publish(1) + frame(BODY, 1, b"x"), 505), (publish(1) + publish(1), 505), (publish(1) + queue_declare(1, "q"), 505),
    (publish(1) + content_header(1, 1, class_id=61), 505), (publish(1) + content_header(1, 2) + content_header(1, 2), 505),
    (publish(1) + content_header(1, 1) + frame(BODY, 1, b"xx"), 501), (publish(1) + frame(HEADER_FRAME, 1, b""), 502),
    (publish(1) + content_header(1, 0, flags=1, values=b"\0\0"), 502), (publish(1) + content_header(1, 0, flags=1 << 13, values=b"\0\0\0\5"), 502),
    (publish(1) + content_header(1, 1 << 40), 501),
])
def test_content_out_of_order(session, data, code):
    session.channel(1)
    session.send(data)
    session.closed_with(code)


# -- methods that little is said of --------------------------------------------------------------------------------------------------------


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
    (WITH_REPLY_TO, 406, "fast reply consumer does not exist"),
    (message(1, "mine") + queue_declare(1, "mine", bits=4) + message(1, "mine") * 2 + get(1, "mine") * 2 + ack(1, 3, True), 406, "tag 3"),
], ids=["get", "exclusive", "priority", "acks", "twice", "nobody", "tag"])
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


# -- queues -----------------------------------------------------------------------------------------------------------------------------


def test_many_queues_expire_together(server, session):
    session.channel(1)
    arguments = table([("x-expires", b"l" + struct.pack(">q", 200))])
    session.send(*[queue_declare(1, f"short-{i}", arguments, bits=16) for i in range(2500)], qos(1, 0))
    session.method(60, 11)
    client, end = Client(server), time.monotonic() + 20
    while [q for q in client.get("/queues?limit=1000").json["queues"] if q["queue"].startswith("short-")]:
        assert time.monotonic() < end
        time.sleep(0.02)
    client.close()


# -- settling more than is done in a turn ----------------------------------------------------------------------------------------------


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
    other = AmqpRaw(request.getfixturevalue("server")).login().channel(1)
    other.send(method(1, 50, 40, b"\0\0" + short("many") + b"\0"))
    other.method(50, 41)
    other.s.close()


def test_many_acknowledged_at_once(server, holding):
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
    other = AmqpRaw(server).login().channel(1)
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


# -- tables -----------------------------------------------------------------------------------------------------------------------------


def nested(letter, levels):
    data = b""
    for _ in range(levels):
        data = table(b"\1a" + b"F" + data) if letter == b"F" and data else table(data) if letter == b"F" else long(b"A" + data if data else b"")
    return data if letter == b"F" else table(b"\1a" + b"A" + data)


@pytest.mark.parametrize("arguments", [
    b"\0\0\0\1", b"\xff\xff\xff\xff", table(b"\1"), table(b"\1az"), table(b"\1aS\xff\xff\xff\xff"), table(b"\1aI\0\0"),
    table(b"\1aF\0\0\0\2\1b"), nested(b"F", 33), nested(b"F", 10000), nested(b"A", 33), nested(b"A", 20000),
], ids=["short", "long", "key", "letter", "string", "number", "inner", "33 tables", "10000 tables", "33 arrays", "20000 arrays"])
def test_tables_that_lie(session, arguments):
    session.channel(1)
    session.send(queue_declare(1, "q", arguments))
    session.closed_with(502, 50, 10)
    assert len(arguments) < 131072


def test_tables_that_lie_before_login(raw):
    refused(raw(), start_ok(properties=nested(b"F", 1000)), 502, (10, 11))


# -- floods and silence -----------------------------------------------------------------------------------------------------------------


def test_a_failed_connection_is_not_listened_to(session):
    session.send(frame(4, 0, b""), queue_declare(1, "q") * 1000)
    _, arguments = session.method(10, 50)
    assert arguments[:2] == struct.pack(">H", 501)
    start = time.monotonic()
    session.is_gone()
    assert time.monotonic() - start < 9, "the grace is a few seconds"


def test_a_failed_connection_may_still_close(session):
    session.send(queue_declare(7, "q"), close())
    session.method(10, 50)
    session.method(10, 51)
    session.is_gone()


def test_a_handshake_that_is_never_finished(raw):
    stages = [b"", b"AMQ", HEADER, HEADER + start_ok(), HEADER + start_ok() + tune_ok(), HEADER + start_ok()[:-3]]
    waiting = [raw().send(s) for s in stages]
    start = time.monotonic()
    for r in waiting:
        r.s.settimeout(20)
        with pytest.raises(Closed):
            while True:
                r.bytes(1)
    assert 8 < time.monotonic() - start < 15


def test_many_connections_that_leave(server, raw):
    def visit(i):
        try:
            s = socket.create_connection(("127.0.0.1", server.amqp_port), 10)
            s.sendall([HEADER, HEADER[:i % 8], b"x" * i, HEADER + start_ok() + tune_ok() + open_vhost() + channel_open(1)][i % 4])
            if i % 3 == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        except OSError:
            pass

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(400)))


def test_a_flood_that_is_not_read(session):
    """What the server has to say is bounded by what the client reads."""
    session.s.settimeout(1)
    secret = method(0, 10, 70, long("new") + short("why"))
    sent = 0
    try:
        while sent < 256 * 1024 * 1024:
            session.s.sendall(secret * 4000)
            sent += len(secret) * 4000
    except TimeoutError:
        pass
    assert sent < 200 * 1024 * 1024, "reading stops when nobody reads the answers"


def test_a_silent_client_is_gone_after_its_heartbeats(raw):
    r = raw().login(heartbeat=1)
    start = time.monotonic()
    beats = 0
    with pytest.raises(Closed):
        while True:
            assert r.frame() == (HEARTBEAT, 0, b"")
            beats += 1
    assert 2 <= time.monotonic() - start < 5 and beats >= 3


def test_a_client_with_heartbeats_stays(raw):
    r = raw().login(heartbeat=1)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        r.send(frame(HEARTBEAT, 0, b""))
        assert r.frame()[0] == HEARTBEAT
    r.is_alive()


def test_a_machine_that_is_gone_is_found_out(server, session):
    """Without heartbeats the system asks for it: its timer for that runs (kind 2), when nothing is under way."""
    ends = f":{server.amqp_port:04X} ", f":{session.s.getsockname()[1]:04X} "

    def timer():
        with open("/proc/net/tcp") as f:
            return next(line.split()[5][:2] for line in f if line.find(ends[0]) < line.find(ends[1]) and ends[0] in line)

    end = time.monotonic() + 10
    while timer() != "02":
        assert time.monotonic() < end
        time.sleep(0.02)


def is_left_alone(server, r, name):
    """Its exclusive queue goes with it, and what it held goes back."""
    other = AmqpRaw(server).login().channel(1)
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
def test_a_client_that_has_stopped_holds_nothing(server, raw, sends):
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
    is_left_alone(server, r, name)


def test_a_client_that_reads_slowly_stays(server, raw):
    r = raw().login(heartbeat=1).channel(1)
    r.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    r.send(queue_declare(1, "slow"), *[message(1, "slow", bytes(100000))] * 100, consume(1, "slow"))
    r.method(50, 11)
    r.method(60, 21)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert r.s.recv(20000)
        time.sleep(0.05)


def test_stopping_tells_everybody(start):
    server = start(amqp="127.0.0.1:0")
    sessions = [AmqpRaw(server).login() for _ in range(3)]
    half = AmqpRaw(server).send(HEADER)
    half.method(10, 10)
    server.terminate()
    for s in sessions:
        s.closed_with(320, 0, 0, "shutdown")
    half.is_gone()
    assert server.wait() == 0
