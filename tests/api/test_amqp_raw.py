"""AMQP from bare sockets: the handshake, and everything that may be wrong with a frame. After each test the server is alive."""
import concurrent.futures
import socket
import struct
import time

import pytest

from lib.amqp_raw import (BODY, CLOSE_OK, HEADER, HEADER_FRAME, HEARTBEAT, METHOD, AmqpRaw, Closed, capabilities, channel_open, close,
                          content_header, frame, long, method, open_vhost, publish, queue_declare, short, start_ok, table, tune_ok)

SPOKEN = b"AMQP\0\0\x09\x01"
CAN_CLOSE = {"properties": capabilities("authentication_failure_close")}


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


def test_many_connections_that_leave(amqp_server, raw):
    def visit(i):
        try:
            s = socket.create_connection(("127.0.0.1", amqp_server.amqp_port), 10)
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
