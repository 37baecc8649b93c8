"""Every error of the protocol: its code, what it closes, and its text where clients look at it."""
import re

import pika
import pytest
from pika import spec

from lib.brokers import PEER
from tools import differs, until
from wire import HEADER, Wire


@pytest.fixture
def wire(broker):
    """Sockets of the test: wire() is logged in, wire(login=False) is bare."""
    opened = []

    def factory(**options):
        opened.append(Wire(broker, **options))
        return opened[-1]

    yield factory
    for w in opened:
        w.close()
    assert broker.is_running(), "the server ended by itself"


# -- errors that close the channel ---------------------------------------------------------------------------------------------


def publish(channel, exchange="", key="", headers=None, **properties):
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers, **properties))
    channel.queue_declare("amq.rabbitmq.none", passive=True)  # a publish has no answer; by then it has been looked at


def consume_twice_exclusively(channel, queue):
    channel.basic_consume(queue, lambda *_: None)
    channel.basic_consume(queue, lambda *_: None, exclusive=True)


def ack_twice(channel, queue):
    channel.basic_publish("", queue, b"x")
    tag = until(lambda: channel.basic_get(queue)[0]).delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    channel.basic_qos(prefetch_count=0)


def ack(channel, tag, multiple=False):
    channel.basic_ack(tag, multiple=multiple)
    channel.basic_qos(prefetch_count=0)


def nack(channel, tag):
    channel.basic_nack(tag)
    channel.basic_qos(prefetch_count=0)


def delete_full(channel, queue):
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    channel.queue_delete(queue, if_empty=True)


def delete_used(channel, queue):
    channel.basic_consume(queue, lambda *_: None)
    channel.queue_delete(queue, if_unused=True)


def delete_bound_exchange(channel, queue, exchange):
    channel.exchange_declare(exchange)
    channel.queue_bind(queue, exchange, "key")
    channel.exchange_delete(exchange, if_unused=True)


def tx_then_confirm(channel):
    channel.tx_select()
    channel.confirm_delivery()


def confirm_then_tx(channel):
    channel.confirm_delivery()
    channel.tx_select()


def declare_internal(channel, exchange):
    channel.exchange_declare(exchange, internal=True)
    publish(channel, exchange)


def redeclare(channel, queue, **options):
    channel.queue_declare(queue, **{"durable": True, **options})


def redeclare_exchange(channel, exchange, **options):
    channel.exchange_declare(exchange, "direct")
    channel.exchange_declare(exchange, **options)


# id: (what is done to channel c with queue q and a free name n, code, pattern of the text after the code's name)
SOFT = {
    "publish to no exchange": (lambda c, q, n: publish(c, n, "k"), 404, "no exchange '{n}' in vhost '/'"),
    "bind to no exchange": (lambda c, q, n: c.queue_bind(q, n, "k"), 404, "no exchange '{n}' in vhost '/'"),
    "bind no queue": (lambda c, q, n: c.queue_bind(n, "amq.direct", "k"), 404, "no queue '{n}' in vhost '/'"),
    "bind exchange to none": (lambda c, q, n: c.exchange_bind("amq.fanout", n), 404, "no exchange '{n}' in vhost '/'"),
    "consume no queue": (lambda c, q, n: c.basic_consume(n, print), 404, "no queue '{n}' in vhost '/'"),
    "get from no queue": (lambda c, q, n: c.basic_get(n), 404, "no queue '{n}' in vhost '/'"),
    "purge no queue": (lambda c, q, n: c.queue_purge(n), 404, "no queue '{n}' in vhost '/'"),
    "passive queue": (lambda c, q, n: c.queue_declare(n, passive=True), 404, "no queue '{n}' in vhost '/'"),
    "passive exchange": (lambda c, q, n: c.exchange_declare(n, passive=True), 404, "no exchange '{n}' in vhost '/'"),
    "no queue declared": (lambda c, q, n: c.basic_get(""), 404, "no previously declared queue"),
    "declare default exchange": (lambda c, q, n: c.exchange_declare(""), 403, "operation not permitted on the default exchange"),
    "delete default exchange": (lambda c, q, n: c.exchange_delete(""), 403, "operation not permitted on the default exchange"),
    "bind default exchange": (lambda c, q, n: c.queue_bind(q, "", "k"), 403, "operation not permitted on the default exchange"),
    "delete amq exchange": (lambda c, q, n: c.exchange_delete("amq.direct"), 403, ".*exchange (name )?'amq.direct'"),
    "declare amq exchange": (lambda c, q, n: c.exchange_declare("amq." + n), 403, "exchange name 'amq.{n}' contains reserved prefix 'amq\\.\\*'"),
    "declare amq queue": (lambda c, q, n: c.queue_declare("amq." + n), 403, "queue name 'amq.{n}' contains reserved prefix 'amq\\.\\*'"),
    "publish to internal": (lambda c, q, n: declare_internal(c, n), 403, "cannot publish to internal exchange '{n}' in vhost '/'"),
    "exclusive consumer": (lambda c, q, n: consume_twice_exclusively(c, q), 403, "queue '{q}' in vhost '/' in exclusive use"),
    "other durable": (lambda c, q, n: redeclare(c, q, durable=False), 406, "inequivalent arg 'durable' for queue '{q}' in vhost '/': received 'false' but current is 'true'"),
    "other auto-delete": (lambda c, q, n: redeclare(c, q, auto_delete=True), 406, "inequivalent arg 'auto_delete' for queue '{q}' in vhost '/': received 'true' but current is 'false'"),
    "other arguments": (lambda c, q, n: redeclare(c, q, arguments={"x-max-length": 1}), 406, "inequivalent arg 'x-max-length' for queue '{q}' in vhost '/': received .*1.* but current is none"),
    "other queue type": (lambda c, q, n: redeclare(c, q, arguments={"x-queue-type": "quorum"}), 406, "inequivalent arg 'x-queue-type' for queue '{q}' in vhost '/'"),
    "other exchange type": (lambda c, q, n: redeclare_exchange(c, n, exchange_type="fanout"), 406, "inequivalent arg 'type' for exchange '{n}' in vhost '/': received 'fanout' but current is 'direct'"),
    "other exchange durable": (lambda c, q, n: redeclare_exchange(c, n, durable=True), 406, "inequivalent arg 'durable' for exchange '{n}' in vhost '/': received 'true' but current is 'false'"),
    "bad queue type": (lambda c, q, n: c.queue_declare(n, durable=True, arguments={"x-queue-type": "oops"}), 406, "invalid arg 'x-queue-type' for queue '{n}' in vhost '/'|.*"),
    "transient quorum": (lambda c, q, n: c.queue_declare(n, arguments={"x-queue-type": "quorum"}), 406, "invalid property 'non-durable' for queue '{n}' in vhost '/'"),
    "unknown tag": (lambda c, q, n: ack(c, 7), 406, "unknown delivery tag 7"),
    "unknown tag, multiple": (lambda c, q, n: ack(c, 7, True), 406, "unknown delivery tag 7"),
    "unknown tag, nack": (lambda c, q, n: nack(c, 7), 406, "unknown delivery tag 7"),
    "tag 0": (lambda c, q, n: ack(c, 0), 406, "unknown delivery tag 0"),
    "ack twice": (lambda c, q, n: ack_twice(c, q), 406, "unknown delivery tag 1"),
    "delete a full queue": (lambda c, q, n: delete_full(c, q), 406, "queue '{q}' in vhost '/' not empty"),
    "delete a used queue": (lambda c, q, n: delete_used(c, q), 406, "queue '{q}' in vhost '/' in use"),
    "delete a used exchange": (lambda c, q, n: delete_bound_exchange(c, q, n), 406, "exchange '{n}' in vhost '/' in use"),
    "tx then confirm": (lambda c, q, n: tx_then_confirm(c), 406, "cannot switch from tx to confirm mode"),
    "confirm then tx": (lambda c, q, n: confirm_then_tx(c), 406, "cannot switch from confirm to tx mode"),
    "commit without tx": (lambda c, q, n: c.tx_commit(), 406, "channel is not transactional"),
    "rollback without tx": (lambda c, q, n: c.tx_rollback(), 406, "channel is not transactional"),
    "bad expiration": (lambda c, q, n: publish(c, "", q, expiration="soon"), 406, "invalid expiration 'soon'"),
    "negative expiration": (lambda c, q, n: publish(c, "", q, expiration="-1"), 406, "invalid expiration '-1'"),
    "other user": (lambda c, q, n: publish(c, "", q, user_id="somebody"), 406, "user_id property set to 'somebody' but authenticated user was 'guest'"),
    "CC of a wrong type": (lambda c, q, n: publish(c, "", q, headers={"CC": "x"}), 406, "invalid message"),
    "bad x-match": (lambda c, q, n: c.queue_bind(q, "amq.headers", arguments={"x-match": "some"}), 406, "[Ii]nvalid x-match field value"),
}


@pytest.mark.parametrize("case", SOFT, ids=lambda case: case.replace(" ", "-"))
def test_closes_the_channel_only(amqp, name, case):
    action, code, text = SOFT[case]
    queue, free = amqp.queue(name("q")), name("free")
    channel = amqp.open_channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        action(channel, queue, free)
    pattern = text.replace("{q}", re.escape(queue)).replace("{n}", re.escape(free))
    code_name, _, explanation = closed.value.reply_text.partition(" - ")
    assert closed.value.reply_code == code, closed.value
    assert code_name == {403: "ACCESS_REFUSED", 404: "NOT_FOUND", 406: "PRECONDITION_FAILED"}[code]
    assert re.match(pattern, explanation), explanation
    assert amqp.count(queue) in (0, 1)  # the other channel and the connection go on


@differs(rabbitmq="3.10 closes the connection with 503; later releases the channel with 406")
def test_unknown_exchange_type(amqp, name):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        amqp.open_channel().exchange_declare(name("x"), "oops")
    assert closed.value.reply_code == 406 and "unknown exchange type 'oops'" in closed.value.reply_text


LOCKED = {
    "declare": lambda c, q: c.queue_declare(q, exclusive=True), "passive": lambda c, q: c.queue_declare(q, passive=True),
    "bind": lambda c, q: c.queue_bind(q, "amq.direct"), "unbind": lambda c, q: c.queue_unbind(q, "amq.direct", "k"),
    "consume": lambda c, q: c.basic_consume(q, print), "get": lambda c, q: c.basic_get(q), "purge": lambda c, q: c.queue_purge(q),
    "delete": lambda c, q: c.queue_delete(q)}


@pytest.mark.parametrize("action", LOCKED)
def test_exclusive_queue_of_another_connection(connect, amqp, name, action):
    queue = amqp.channel.queue_declare(name("q"), exclusive=True).method.queue
    amqp.bind(queue, "amq.direct", "k")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        LOCKED[action](connect().channel, queue)
    assert closed.value.reply_code == 405
    assert closed.value.reply_text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'.")


def test_close_names_the_method(wire, name):
    w = wire()
    w.send(spec.Queue.Declare(queue=name("q"), passive=True))
    close = w.expect(spec.Channel.Close)
    assert (close.class_id, close.method_id) == (50, 10)
    # Until it is answered, whatever comes on the channel is passed over.
    w.send(spec.Queue.Declare(queue=name("other")))
    w.send(spec.Channel.CloseOk())
    w.send(spec.Channel.Open())
    w.expect(spec.Channel.OpenOk)
    w.send(spec.Queue.Declare(queue=name("other"), passive=True))
    assert w.expect(spec.Channel.Close).reply_code == 404


def test_no_wait_still_closes(wire, name):
    w = wire()
    w.send(spec.Queue.Declare(queue=name("q"), passive=True, nowait=True))
    assert w.expect(spec.Channel.Close).reply_code == 404


def test_reply_text_fits_a_short_string(wire):
    w = wire()
    w.send(spec.Queue.Declare(queue="q" * 255, passive=True))
    text = w.expect(spec.Channel.Close).reply_text
    assert len(text) <= 255 and text.startswith("NOT_FOUND - no queue 'qqq")


# -- errors that close the connection ------------------------------------------------------------------------------------------


def twice(*methods):
    return lambda w, q: w.send(*methods, *methods)


HARD = {
    "consumer tag twice": (lambda w, q: w.send(spec.Basic.Consume(queue=q, consumer_tag="t", nowait=True),
                                               spec.Basic.Consume(queue=q, consumer_tag="t")), 530, "attempt to reuse consumer tag 't'"),
    "immediate": (lambda w, q: (w.send(spec.Basic.Publish(routing_key=q, immediate=True)),
                                w.send_frame(2, 1, b"\0\x3c\0\0" + b"\0" * 8 + b"\0\0")), 540, "immediate=true"),
    "prefetch size": (lambda w, q: w.send(spec.Basic.Qos(prefetch_size=1)), 540, r"prefetch_size!=0 \(1\)"),
    "recover without requeue": (lambda w, q: w.send(spec.Basic.Recover(requeue=False)), 540, "requeue=false"),
    "flow off": (lambda w, q: w.send(spec.Channel.Flow(active=False)), 540, "active=false"),
    "channel that is not open": (lambda w, q: w.send(spec.Queue.Declare(queue=q), channel=2), 504, "expected 'channel.open'"),
    "channel opened twice": (lambda w, q: w.send(spec.Channel.Open()), 504, "second 'channel.open' seen"),
    "method instead of header": (lambda w, q: w.send(spec.Basic.Publish(routing_key=q), spec.Queue.Declare(queue=q)), 505, None),
    "header without method": (lambda w, q: w.send_frame(2, 1, b"\0\x3c\0\0" + b"\0" * 8 + b"\0\0"), 505, None),
    "body without header": (lambda w, q: w.send_frame(3, 1, b"x"), 505, None),
    "header of another class": (lambda w, q: (w.send(spec.Basic.Publish(routing_key=q)),
                                              w.send_frame(2, 1, b"\0\x32\0\0" + b"\0" * 8 + b"\0\0")), 505, None),
    "bad frame end": (lambda w, q: w.send_frame(8, 0, b"", end=b"\0"), 501, None),
    "frame too big": (lambda w, q: w.send_bytes(b"\3\0\1\x00\x10\x00\x00" + b"x" * 4096), 501, None),
    "unknown frame type": (lambda w, q: w.send_frame(7, 0, b""), 501, None),
    "start-ok again": (lambda w, q: w.send(spec.Connection.StartOk(client_properties={}, response=""), channel=0), 504, None),
}


@pytest.mark.parametrize("case", HARD, ids=lambda case: case.replace(" ", "-"))
def test_closes_the_connection(amqp, wire, name, case):
    action, code, text = HARD[case]
    queue = amqp.queue(name("q"))
    w = wire()
    action(w, queue)
    found = w.read()
    while not isinstance(getattr(found, "method", None), spec.Connection.Close):
        assert found is not None, "the socket was closed without a word"
        found = w.read()
    assert found.method.reply_code == code, found
    if text:
        assert re.search(" - " + text, found.method.reply_text), found
    w.send(spec.Connection.CloseOk(), channel=0)
    assert w.read() is None
    assert amqp.count(queue) == 0  # others go on


@differs(rabbitmq="its reader ends without a word")
def test_unknown_method(wire):
    w = wire()
    w.send_frame(1, 1, b"\0\x3c\0\xff")
    assert w.expect(spec.Connection.Close).reply_code in (503, 540)


@differs(rabbitmq="it waits for the rest of a body that has come already")
def test_body_longer_than_said(wire, amqp, name):
    w = wire()
    w.send(spec.Basic.Publish(routing_key=amqp.queue(name("q"))))
    w.send_frame(2, 1, b"\0\x3c\0\0" + b"\0" * 7 + b"\1" + b"\0\0")
    w.send_frame(3, 1, b"xx")
    assert w.closes_with(501)


# -- the handshake ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"AMQP\0\0\x08\x00", b"HTTP/1.1", b"GET / HT", b"\x16\x03\1\0\0\0\0\0"],
                         ids=["0.8.0", "words", "http", "tls"])
def test_other_protocol_is_told_ours(wire, header):
    w = wire(login=False)
    w.send_bytes(header)
    while len(w.buffer) < 8 and w.fill():
        pass
    assert w.buffer == HEADER
    assert not w.fill()


def test_start_says_what_it_can(wire):
    start = wire(login=False).start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split())
    assert b"en_US" in start.locales.split()
    assert {"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
            "consumer_priorities", "authentication_failure_close", "per_consumer_qos"} <= {
        name for name, value in start.server_properties["capabilities"].items() if value is True}
    assert all(start.server_properties[name] for name in ("product", "version"))


def test_tune(wire):
    w = wire(login=False)
    w.start_ok(locale="en_GB")
    offered = w.tune()
    assert (offered.channel_max, offered.frame_max, offered.heartbeat) == (2047, 131072, 60)


def test_amqplain(wire):
    response = "\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest"
    w = wire(login=False)
    w.start_ok("AMQPLAIN", response)
    w.tune()


def test_wrong_password(broker):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("guest", "wrong"))
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as refused:
        pika.BlockingConnection(parameters)
    assert "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.'" in str(
        refused.value)


def test_wrong_password_of_a_client_that_knows_no_close(wire):
    w = wire(login=False)
    w.start_ok(response="\0guest\0wrong")
    assert w.read() is None


def test_unknown_vhost(connect):
    with pytest.raises((pika.exceptions.ProbableAccessDeniedError, pika.exceptions.ConnectionClosedByBroker)) as refused:
        connect(virtual_host="nowhere")
    assert "530" in str(refused.value) and "NOT_ALLOWED - vhost nowhere not found" in str(refused.value)


def refused_before_it_is_open(w, code):
    """RabbitMQ logs why and closes the socket; saying why is better."""
    found = w.read()
    if PEER == "nixie" or found is not None:
        assert isinstance(getattr(found, "method", None), spec.Connection.Close) and found.method.reply_code == code, found


def test_unknown_mechanism(wire):
    w = wire(login=False)
    w.start_ok("OOPS")
    refused_before_it_is_open(w, 503)


@pytest.mark.parametrize("values", [{"frame_max": 1024}, {"frame_max": 1 << 20}, {"channel_max": 65535}], ids=str)
def test_what_cannot_be_agreed(wire, values):
    w = wire(login=False)
    w.start_ok()
    offered = w.expect(spec.Connection.Tune)
    values = {"channel_max": offered.channel_max, "frame_max": offered.frame_max, "heartbeat": 0, **values}
    w.send(spec.Connection.TuneOk(**values), channel=0)
    w.send(spec.Connection.Open(), channel=0)
    refused_before_it_is_open(w, 530)


def test_more_channels_than_agreed(wire):
    w = wire(channel_max=2)
    w.send(spec.Channel.Open(), channel=2)
    w.expect(spec.Channel.OpenOk)
    w.send(spec.Channel.Open(), channel=3)
    w.closes_with(530)


def test_small_frames(wire, amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "x" * 10000)
    w = wire(frame_max=4096)
    w.send(spec.Basic.Get(queue=queue, no_ack=True))
    w.expect(spec.Basic.GetOk)
    assert w.read().body_size == 10000
    sizes = [len(w.read().fragment) for _ in range(3)]
    assert sizes == [4088, 4088, 1824]


def test_close_is_answered(wire):
    w = wire()
    w.send(spec.Channel.Close(200, "bye", 0, 0))
    w.expect(spec.Channel.CloseOk)
    w.send(spec.Connection.Close(200, "bye", 0, 0), channel=0)
    w.expect(spec.Connection.CloseOk)
