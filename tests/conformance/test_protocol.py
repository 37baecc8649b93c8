"""What clients of RabbitMQ take for granted, by pika. Errors are in test_errors.py, dead letters in test_dead_letters.py."""
import decimal
import time

import pika
import pytest
from pika import spec

from lib.brokers import PEER
from tools import differs, until
from wire import Wire, get_fields, publish_fields

Properties = pika.BasicProperties


# -- queues ------------------------------------------------------------------------------------------------------------------


def test_declare_again_is_the_same(amqp, name):
    arguments = {"x-max-length": 10, "x-message-ttl": 60000, "x-unknown": "kept"}
    for _ in range(2):
        ok = amqp.channel.queue_declare(name("q"), durable=True, arguments=arguments).method
        assert (ok.queue, ok.message_count, ok.consumer_count) == (name("q"), 0, 0)
    # Integers of another width are the same; what the broker does not know is not compared.
    amqp.channel.queue_declare(name("q"), durable=True, arguments={**arguments, "x-message-ttl": pika.compat.long(60000)})
    amqp.channel.queue_declare(name("q"), durable=True, arguments={"x-max-length": 10, "x-message-ttl": 60000})
    amqp.channel.queue_declare(name("q"), durable=True, arguments={**arguments, "x-queue-type": "classic"})


def test_passive_counts_ready_messages_and_consumers(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", "2", "3")
    amqp.take(queue, 1, auto_ack=False)
    ok = amqp.channel.queue_declare(queue, passive=True).method
    assert (ok.message_count, ok.consumer_count) == (2, 0)
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=1)
    amqp.consume(queue, channel).take()
    ok = amqp.channel.queue_declare(queue, durable=False, passive=True).method  # all else is not looked at
    assert (ok.message_count, ok.consumer_count) == (1, 1)


def test_the_broker_names_queues_and_consumers(amqp):
    queue = amqp.channel.queue_declare("", exclusive=True).method.queue
    assert queue.startswith("amq.gen-") and len(queue) == len("amq.gen-") + 22
    w = Wire(amqp_port(amqp))
    w.send(spec.Queue.Declare(queue="", exclusive=True))
    w.expect(spec.Queue.DeclareOk)
    w.send(spec.Basic.Consume(queue="", consumer_tag=""))
    tag = w.expect(spec.Basic.ConsumeOk).consumer_tag
    assert tag.startswith("amq.ctag-") and len(tag) == len("amq.ctag-") + 22
    w.close()


class amqp_port:
    """Stands for the broker of a connection."""

    def __init__(self, amqp):
        self.amqp_port = amqp.connection._impl.params.port


def test_no_name_is_the_last_queue_of_the_channel(amqp, name):
    channel = amqp.channel
    amqp.queue(name("q"))
    channel.queue_bind("", "amq.direct", "")  # and its name is the key
    amqp.publish(name("q"), "1", exchange="amq.direct")
    assert channel.basic_get("")[2] == b"1"
    assert channel.queue_purge("").method.message_count == 0
    channel.queue_delete("")


def test_line_breaks_are_no_part_of_a_name(amqp, name):
    queue, exchange, none = amqp.queue(name("q")), amqp.exchange(name("x")), name("none")
    w = Wire(amqp_port(amqp))
    w.send(spec.Queue.Declare(queue=f"\r{queue}\n", durable=True), spec.Exchange.Declare(exchange=f"{exchange}\r\n", type="direct", durable=True),
           spec.Queue.Bind(queue=f"{queue}\n", exchange=f"\n{exchange}", routing_key="k"))
    assert w.expect(spec.Queue.DeclareOk).queue == queue
    w.expect(spec.Exchange.DeclareOk), w.expect(spec.Queue.BindOk)
    amqp.publish("k", "1", exchange=exchange)
    assert amqp.bodies(queue, 1) == ["1"]
    w.send(spec.Queue.Declare(queue="\r\n", exclusive=True))
    assert w.expect(spec.Queue.DeclareOk).queue.startswith("amq.gen-")
    w.send(spec.Exchange.Bind(destination=f"{none}\n", source=f"\n{exchange}", routing_key="k"))
    assert f"no exchange '{none}' in vhost" in w.expect(spec.Channel.Close).reply_text
    w.close()


def test_delete_of_what_is_not_there_is_fine(amqp, name):
    channel = amqp.channel
    assert channel.queue_delete(name("q")).method.message_count == 0
    channel.exchange_delete(name("x"))
    amqp.queue(name("there"))
    channel.queue_unbind(name("there"), "amq.direct", "never bound")
    channel.exchange_unbind("amq.fanout", "amq.direct", "never bound")
    channel.queue_unbind(name("q"), "amq.direct", "k")
    channel.queue_unbind(name("there"), name("x"), "k")
    until(lambda: channel.is_open)


def test_exclusive_goes_with_its_connection(connect, name):
    first, second = connect(), connect()
    first.channel.queue_declare(name("q"), exclusive=True)
    first.close()
    assert second.channel.queue_declare(name("q"), exclusive=True).method.queue == name("q")  # at once


def test_exclusive_is_never_durable(amqp, name):
    for durable in (True, False, True):
        amqp.channel.queue_declare(name("q"), durable=durable, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="405"):
        amqp.open_channel().queue_declare(name("q"))


def test_auto_delete_goes_with_its_last_consumer(connect, amqp, name):
    amqp.channel.queue_declare(name("q"), auto_delete=True)
    amqp.close()
    amqp = connect()
    assert amqp.count(name("q")) == 0  # it had none yet
    one, two = amqp.consume(name("q")), amqp.consume(name("q"))
    amqp.channel.basic_cancel(one.tag)
    assert amqp.consumers(name("q")) == 1
    amqp.channel.basic_cancel(two.tag)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        amqp.open_channel().queue_declare(name("q"), passive=True)


def test_queue_expires_when_unused(amqp, name):
    queue = amqp.queue(name("q"), expires=300)
    for _ in range(3):
        time.sleep(0.2)
        amqp.get(queue)  # is use
    time.sleep(0.7)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        amqp.open_channel().queue_declare(queue, passive=True)


def test_purge_leaves_what_is_delivered(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", "2", "3")
    one, = amqp.take(queue, auto_ack=False)
    assert amqp.channel.queue_purge(queue).method.message_count == 2
    amqp.nack(one, requeue=True)
    assert amqp.bodies(queue, 1) == ["1"]


def test_names_of_any_utf8(amqp, name):
    queue = amqp.queue(name("q") + " /?# ü 漢 🐰")
    amqp.publish(queue, "1")
    assert amqp.bodies(queue, 1) == ["1"]


# -- exchanges and routing -----------------------------------------------------------------------------------------------------


def test_predeclared_exchanges(amqp):
    for exchange, kind in [("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"), ("amq.headers", "headers"),
                           ("amq.match", "headers")]:
        amqp.channel.exchange_declare(exchange, kind, passive=True)
        amqp.channel.exchange_declare(exchange, kind, durable=True)
    amqp.channel.exchange_declare("amq.rabbitmq.trace", "topic", durable=True, internal=True)


def routed(amqp, queues):
    """Names of the queues that got the message."""
    return "".join(sorted(letter for letter, queue in queues.items() if amqp.get(queue, True)))


def test_direct_and_fanout(amqp, name):
    direct, fanout = amqp.exchange(name("direct")), amqp.exchange(name("fanout"), "fanout")
    queues = {letter: amqp.queue(name(letter)) for letter in "abc"}
    for letter, key in [("a", "k"), ("b", "k"), ("b", "l"), ("c", "m")]:
        amqp.bind(queues[letter], direct, key)
        amqp.bind(queues[letter], fanout, key)
    for key, to in [("k", "ab"), ("l", "b"), ("m", "c"), ("K", ""), ("", "")]:
        amqp.publish(key, "x", exchange=direct)
        assert routed(amqp, queues) == to, key
    amqp.publish("whatever", "x", exchange=fanout)
    assert routed(amqp, queues) == "abc"
    amqp.channel.queue_unbind(queues["b"], direct, "k")
    amqp.publish("k", "x", exchange=direct)
    assert routed(amqp, queues) == "a"


@pytest.mark.parametrize("pattern, matches, others", [
    ("a.b", ["a.b"], ["a", "a.b.c", "b", ""]),
    ("*", ["a"], ["a.b", ""]),
    ("*.b", ["a.b", ".b"], ["b", "a.b.c", "a.c"]),
    ("#", ["", "a", "a.b", "a.b.c"], []),
    ("a.#", ["a", "a.b", "a.b.c"], ["b.a", "aa"]),
    ("#.a", ["a", "b.a", "c.b.a"], ["a.b"]),
    ("a.*.#.b", ["a.x.b", "a.x.y.b", "a.x.y.z.b"], ["a.b", "a.x"]),
    ("#.#", ["", "a", "a.b"], []),
    ("*.*", ["a.b", "."], ["a", "a.b.c"]),
    ("#.a.#.b.#", ["a.b", "x.a.y.b.z", "a.a.b.b"], ["b.a", "a"]),
    ("", [""], ["a"]),
    ("a*", ["a*"], ["ab", "a.b"]),
], ids=repr)
def test_topic(amqp, name, pattern, matches, others):
    exchange, queue = amqp.exchange(name("x"), "topic"), amqp.queue(name("q"))
    amqp.bind(queue, exchange, pattern)
    for key in matches + others:
        amqp.publish(key, "x", exchange=exchange)
        assert (amqp.get(queue, True) is not None) == (key in matches), key


HEADERS = [
    ({"a": 1, "b": "x"}, [{"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}], [{"a": 1}, {"a": 1, "b": "y"}, {"a": "1", "b": "x"}, {}]),
    ({"x-match": "all", "a": 1, "b": "x"}, [{"a": 1, "b": "x"}], [{"a": 1}]),
    ({"x-match": "any", "a": 1, "b": "x"}, [{"a": 1}, {"b": "x"}, {"a": 2, "b": "x"}], [{}, {"a": 2}, {"c": 1}]),
    ({"x-match": "all", "x-a": 1, "b": 1}, [{"b": 1}, {"x-a": 2, "b": 1}], [{"x-a": 1}]),
    ({"x-match": "any", "x-a": 1, "b": 1}, [{"b": 1}], [{"x-a": 1}]),
    ({"x-match": "all-with-x", "x-a": 1, "b": 1}, [{"x-a": 1, "b": 1}], [{"b": 1}, {"x-a": 2, "b": 1}]),
    ({"x-match": "any-with-x", "x-a": 1, "b": 1}, [{"x-a": 1}, {"b": 1}], [{"x-a": 2}, {}]),
    ({"a": None}, [{"a": 1}, {"a": "x"}, {"a": None}], [{"b": 1}, {}]),
    ({}, [{}, {"a": 1}], []),
    ({"x-match": "any"}, [], [{}, {"a": 1}]),
]


@pytest.mark.parametrize("arguments, matches, others", HEADERS, ids=lambda v: repr(v)[:60])
def test_headers(amqp, name, arguments, matches, others):
    exchange, queue = amqp.exchange(name("x"), "headers"), amqp.queue(name("q"))
    amqp.bind(queue, exchange, arguments=arguments)
    for headers in matches + others:
        amqp.publish("any key", "x", exchange=exchange, headers=headers)
        assert (amqp.get(queue, True) is not None) == (headers in matches), headers


def test_alternate_exchange(amqp, name):
    other = amqp.exchange(name("other"), "fanout")
    exchange = amqp.exchange(name("x"), arguments={"alternate-exchange": other})
    queues = {letter: amqp.queue(name(letter)) for letter in "ab"}
    amqp.bind(queues["a"], exchange, "k")
    amqp.bind(queues["b"], other)
    amqp.publish("k", "x", exchange=exchange)
    assert routed(amqp, queues) == "a"
    amqp.publish("l", "x", exchange=exchange, mandatory=True)  # it counts as routed
    assert routed(amqp, queues) == "b"


def test_alternate_exchanges_in_a_ring(amqp, name):
    one = amqp.exchange(name("one"), arguments={"alternate-exchange": name("two")})
    amqp.exchange(name("two"), arguments={"alternate-exchange": one})
    with pytest.raises(pika.exceptions.UnroutableError):
        amqp.publish("k", "x", exchange=one, mandatory=True)


def test_exchange_to_exchange(amqp, name):
    source, target, queue = amqp.exchange(name("source"), "topic"), amqp.exchange(name("target")), amqp.queue(name("q"))
    amqp.channel.exchange_bind(target, source, "a.*")
    amqp.channel.exchange_bind(source, target, "a.b")  # a ring is no harm
    amqp.bind(queue, target, "a.b")
    amqp.publish("a.b", "1", exchange=source)
    amqp.publish("a.c", "2", exchange=source)
    assert amqp.bodies(queue, 1) == ["1"]
    amqp.channel.exchange_unbind(target, source, "a.*")
    amqp.publish("a.b", "3", exchange=source)
    assert amqp.count(queue) == 0


def test_a_queue_gets_one_copy(amqp, name):
    exchange, queue = amqp.exchange(name("x"), "topic"), amqp.queue(name("q"))
    for key in ("a.*", "*.b", "#"):
        amqp.bind(queue, exchange, key)
    amqp.publish("a.b", "x", exchange=exchange, headers={"CC": ["a.c", "x.b"]})
    assert amqp.bodies(queue, 1) == ["x"]


def test_cc_and_bcc(amqp, name):
    queues = {letter: amqp.queue(name(letter)) for letter in "abc"}
    amqp.publish(queues["a"], "x", headers={"CC": [queues["b"]], "BCC": [queues["c"]], "mine": 1})
    for queue in queues.values():
        message, = amqp.take(queue)
        assert message.headers == {"CC": [queues["b"]], "mine": 1}
        assert message.method.routing_key == queues["a"]


def test_auto_delete_exchange_goes_with_its_last_binding(amqp, name):
    amqp.channel.exchange_declare(name("x"), auto_delete=True)
    amqp.queue(name("q"))
    amqp.bind(name("q"), name("x"), "k")
    amqp.bind(name("q"), name("x"), "l")
    amqp.channel.queue_unbind(name("q"), name("x"), "k")
    amqp.channel.exchange_declare(name("x"), passive=True)
    amqp.channel.queue_delete(name("q"))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        amqp.open_channel().exchange_declare(name("x"), passive=True)


def test_bindings_go_with_their_queue_and_exchange(amqp, name):
    exchange, queue = amqp.exchange(name("x"), "fanout"), amqp.queue(name("q"))
    amqp.bind(queue, exchange)
    amqp.channel.queue_delete(queue)
    amqp.queue(queue)
    with pytest.raises(pika.exceptions.UnroutableError):
        amqp.publish("", "x", exchange=exchange, mandatory=True)
    amqp.bind(queue, exchange)
    amqp.channel.exchange_delete(exchange)
    amqp.exchange(exchange, "fanout")
    with pytest.raises(pika.exceptions.UnroutableError):
        amqp.publish("", "x", exchange=exchange, mandatory=True)


def test_internal_exchange_takes_from_exchanges(amqp, name):
    amqp.channel.exchange_declare(name("in"), "fanout", internal=True)
    amqp.channel.exchange_bind(name("in"), "amq.direct", name("key"))
    amqp.bind(amqp.queue(name("q")), name("in"))
    amqp.publish(name("key"), "x", exchange="amq.direct")
    assert amqp.bodies(name("q"), 1) == ["x"]


# -- publishing ---------------------------------------------------------------------------------------------------------------


def wire_with_confirms(amqp):
    w = Wire(amqp_port(amqp))
    w.send(spec.Confirm.Select())
    w.expect(spec.Confirm.SelectOk)
    return w


def await_confirms(w, n):
    """Reads until everything up to n is answered; the tags that were nacked."""
    answered, nacked = 0, set()
    while answered < n:
        method = w.read().method
        assert isinstance(method, (spec.Basic.Ack, spec.Basic.Nack)), method
        tags = range(answered + 1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
        answered += len(tags)
        if isinstance(method, spec.Basic.Nack):
            nacked.update(tags)
    return nacked


def test_confirms_count_from_one(amqp, name):
    w, queue = wire_with_confirms(amqp), amqp.queue(name("q"))
    for i in range(50):
        w.publish(queue, b"%d" % i, properties=Properties(delivery_mode=2))
    assert await_confirms(w, 50) == set()
    assert amqp.bodies(queue, 50) == [str(i) for i in range(50)]
    w.close()


def test_return_comes_before_the_confirm(amqp, name):
    w = wire_with_confirms(amqp)
    w.send(spec.Basic.Publish(exchange="amq.direct", routing_key=name("nobody"), mandatory=True))
    w.send_frame(2, 1, b"\0\x3c\0\0" + b"\0" * 7 + b"\4" + b"\0\0")
    w.send_frame(3, 1, b"back")
    returned = w.expect(spec.Basic.Return)
    assert (returned.reply_code, returned.reply_text, returned.exchange, returned.routing_key) == (
        312, "NO_ROUTE", "amq.direct", name("nobody"))
    assert w.read().body_size == 4 and w.read().fragment == b"back"
    assert w.expect(spec.Basic.Ack).delivery_tag == 1
    w.close()


def test_unroutable_without_mandatory_is_confirmed(amqp, name):
    amqp.publish(name("nobody"), "x", exchange="amq.direct")


def test_reject_publish_nacks(amqp, name):
    queue = amqp.queue(name("q"), max_length=2, overflow="reject-publish")
    amqp.publish(queue, "1", "2")
    with pytest.raises(pika.exceptions.NackError):
        amqp.publish(queue, "3")
    assert amqp.bodies(queue, 2) == ["1", "2"]
    amqp.publish(queue, "4")


def test_one_queue_that_refuses_nacks_though_another_keeps(amqp, name):
    full, other = amqp.queue(name("full"), max_length=0, overflow="reject-publish"), amqp.queue(name("other"))
    exchange = amqp.exchange(name("x"), "fanout")
    amqp.bind(full, exchange)
    amqp.bind(other, exchange)
    with pytest.raises(pika.exceptions.NackError):
        amqp.publish("", "1", exchange=exchange)
    assert amqp.bodies(other, 1) == ["1"]


def test_dropped_and_expired_are_confirmed(amqp, name):
    amqp.publish(amqp.queue(name("short"), max_length=0), "1")
    amqp.publish(amqp.queue(name("q")), "1", expiration="0")
    assert amqp.count(name("short")) == 0
    amqp.await_count(name("q"), 0)  # within its millisecond a consumer might still have taken it


@pytest.mark.parametrize("size", [0, 1, 131072 - 8, 131072 - 7, 2 * (131072 - 8), 1000000])
def test_bodies_of_many_frames(amqp, name, size):
    queue = amqp.queue(name("q"))
    body = bytes(i * 7919 % 251 for i in range(size))
    amqp.publish(queue, body)
    method, _, got = amqp.channel.basic_get(queue)
    assert got == body
    amqp.channel.basic_ack(method.delivery_tag)
    amqp.publish(queue, body, "after")
    one, two = amqp.consume(queue).take(2)
    assert one.body.encode("latin-1") == body and two.body == "after"


def test_frames_of_channels_may_alternate(amqp, name):
    w, queue = Wire(amqp_port(amqp)), amqp.queue(name("q"))
    w.send(spec.Channel.Open(), channel=2)
    w.expect(spec.Channel.OpenOk)
    for channel in (1, 2):
        w.send(spec.Basic.Publish(routing_key=queue), channel=channel)
    for channel in (2, 1):
        w.send_frame(2, channel, b"\0\x3c\0\0" + b"\0" * 7 + b"\4" + b"\0\0")
    for channel, half in [(1, b"on"), (2, b"tw"), (2, b"o!"), (1, b"e!")]:
        w.send_frame(3, channel, half)
    assert sorted(m.body for m in amqp.take(queue, 2)) == ["one!", "two!"]
    w.close()


def test_all_properties(amqp, name):
    queue = amqp.queue(name("q"))
    given = {"content_type": "application/x", "content_encoding": "gzip", "headers": {"a": 1}, "delivery_mode": 2, "priority": 7,
             "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1234567890, "type": "t",
             "user_id": "guest", "app_id": "app", "cluster_id": "cl"}
    amqp.publish(queue, "x", **given)
    message, = amqp.take(queue)
    assert {k: getattr(message.properties, k) for k in given} == given
    amqp.channel.basic_publish("", queue, b"bare")
    message, = amqp.take(queue)
    assert message.headers == {} and message.properties.delivery_mode is None and message.properties.content_type is None


FIELDS = [
    ("A", "A", [("S", b"text"), ("I", 1), ("F", [("k", "t", 1)]), ("A", [])]), ("D", "D", (2, 314)), ("F", "F", [("deep", "F", [("x", "l", -1)])]),
    ("I", "I", -2**31), ("S", "S", "ü\0".encode()), ("T", "T", 2**40), ("V", "V", None), ("d", "d", 0.1),
    ("empty", "F", []), ("f", "f", 0.5), ("l", "l", -2**63), ("t", "t", 1), ("x", "x", b"\0\xff"),
]
MORE = [("B", "B", 255), ("b", "b", -128), ("i", "i", 2**32 - 1), ("s", "s", -2**15), ("u", "u", 2**16 - 1)]


def test_all_types_of_fields(amqp, name):
    w, queue = Wire(amqp_port(amqp)), amqp.queue(name("q"))
    publish_fields(w, queue, FIELDS)
    until(lambda: amqp.count(queue) == 1)
    assert sorted(get_fields(w, queue)) == sorted(FIELDS)
    w.close()


@pytest.mark.parametrize("fields", [MORE, [("L", "L", 2**62)]], ids=["narrow", "L"])
def test_rare_types_of_fields_keep_their_values(amqp, name, fields):
    """Their letter may become another one that more clients know."""
    w, queue = Wire(amqp_port(amqp)), amqp.queue(name("q"))
    publish_fields(w, queue, fields)
    until(lambda: amqp.count(queue) == 1)
    assert [(n, v) for n, _, v in sorted(get_fields(w, queue))] == [(n, v) for n, _, v in fields]
    w.close()


@pytest.mark.differs(rabbitmq="sends the letters that came")
def test_narrow_numbers_go_out_as_l(amqp, name):
    """Some clients read the narrow ones as something else: s is a short string to py-amqp."""
    w, queue = Wire(amqp_port(amqp)), amqp.queue(name("q"))
    publish_fields(w, queue, [*MORE, ("deep", "A", [("F", [("k", "s", -1)])])])
    until(lambda: amqp.count(queue) == 1)
    expected = [(n, "l", v) for n, _, v in MORE] + [("deep", "A", [("F", [("k", "l", -1)])])]
    assert sorted(get_fields(w, queue)) == sorted(expected)
    w.close()


def test_python_values_in_headers(amqp, name):
    queue = amqp.queue(name("q"))
    headers = {"text": "ü", "int": 1, "big": 2**40, "true": True, "none": None, "bytes": b"\xff", "decimal": decimal.Decimal("3.14"),
               "list": [1, "a", [2]], "dict": {"k": {"v": [None]}}}
    amqp.publish(queue, "x", headers=headers)
    assert amqp.take(queue)[0].headers == headers


def test_big_headers(amqp, name):
    queue = amqp.queue(name("q"))
    headers = {f"header-{i}": "v" * 500 for i in range(100)}
    amqp.publish(queue, "x", headers=headers)
    assert amqp.take(queue)[0].headers == headers


def test_expiration(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", expiration="100")
    amqp.publish(queue, "2")
    assert amqp.count(queue) == 2
    until(lambda: amqp.count(queue) == 1)
    assert amqp.bodies(queue, 1) == ["2"]


def test_priorities(amqp, name):
    queue = amqp.queue(name("q"), max_priority=5)
    for body, priority in [("a1", 1), ("b5", 5), ("c0", None), ("d5", 5), ("e9", 9), ("f3", 3)]:
        amqp.publish(queue, body, **({} if priority is None else {"priority": priority}))
    assert amqp.bodies(queue, 6) == ["b5", "d5", "e9", "f3", "a1", "c0"]


def test_no_priorities_unless_asked(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1")
    amqp.publish(queue, "2", priority=9)
    assert amqp.bodies(queue, 2) == ["1", "2"]


# -- consuming ---------------------------------------------------------------------------------------------------------------------


def test_get(amqp, name):
    queue = amqp.queue(name("q"))
    assert amqp.get(queue) is None
    amqp.publish(queue, "1", "2", "3")
    one = amqp.get(queue)
    assert (one.body, one.tag, one.method.redelivered, one.method.exchange, one.method.routing_key, one.method.message_count) == (
        "1", 1, False, "", queue, 2)
    assert amqp.get(queue, auto_ack=True).tag == 2  # a tag goes to those, too
    assert amqp.get(queue).tag == 3


def test_prefetch_of_each_consumer(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"123456789")
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=2)
    first = amqp.consume(queue, channel)
    channel.basic_qos(prefetch_count=3)  # for those that come later
    second = amqp.consume(queue, channel)
    assert len(first.take(2)) == 2
    three = second.take(3)
    first.none()
    second.none()
    channel.basic_ack(three[0].tag)
    second.take(1)
    first.none()
    assert amqp.count(queue) == 3
    amqp.get(queue)  # is not bound by it
    assert amqp.count(queue) == 2


def test_prefetch_of_the_channel(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"123456789")
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=3, global_qos=True)
    consumers = [amqp.consume(queue, channel) for _ in range(2)]

    def got():
        amqp.connection.process_data_events(time_limit=0.1)
        return [m for c in consumers for m in c.got]

    until(lambda: len(got()) >= 3)
    assert len(got()) == 3
    channel.basic_ack(max(m.tag for m in got()), multiple=True)
    until(lambda: len(got()) == 6)
    assert len(got()) == 6


def test_prefetch_can_be_raised(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"12345")
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=1, global_qos=True)
    consumer = amqp.consume(queue, channel)
    consumer.take(1)
    consumer.none()
    channel.basic_qos(prefetch_count=3, global_qos=True)
    consumer.take(2)
    consumer.none()


def test_consumers_take_turns(amqp, name):
    queue = amqp.queue(name("q"))
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=10)
    consumers = [amqp.consume(queue, channel) for _ in range(2)]
    amqp.publish(queue, *"1234567890")
    until(lambda: amqp.connection.process_data_events(0.05) or sum(len(c.got) for c in consumers) == 10)
    assert [len(c.got) for c in consumers] == [5, 5]


def test_priority_of_consumers(amqp, name):
    queue = amqp.queue(name("q"))
    low, high = amqp.open_channel(), amqp.open_channel()
    for channel in (low, high):
        channel.basic_qos(prefetch_count=2)
    first = amqp.consume(queue, low)
    second = amqp.consume(queue, high, arguments={"x-priority": 10})
    amqp.publish(queue, *"123")
    assert [m.body for m in second.take(2)] == ["1", "2"]
    assert [m.body for m in first.take(1)] == ["3"]


def test_single_active_consumer(amqp, name):
    queue = amqp.queue(name("q"), single_active_consumer=True)
    first, second = amqp.consume(queue), amqp.consume(queue)
    amqp.publish(queue, "1", "2")
    first.take(2)
    second.none()
    amqp.channel.basic_cancel(first.tag)
    amqp.publish(queue, "3")
    assert second.take()[0].body == "3"


def test_ack_multiple(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"12345")
    messages = amqp.take(queue, 5, auto_ack=False)
    amqp.ack(messages[2], multiple=True)
    amqp.channel.basic_nack(0, multiple=True, requeue=True)  # 0: all that are out
    assert amqp.bodies(queue, 2) == ["4", "5"]
    amqp.channel.basic_ack(0, multiple=True)  # none is out: fine
    amqp.flush()


def test_tags_are_of_the_channel(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", "2")
    one, two = amqp.take(queue, auto_ack=False), amqp.open_channel().basic_get(queue)
    assert one[0].tag == two[0].delivery_tag == 1


def test_recover(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", "2", "3")
    amqp.ack(amqp.take(queue, 2, auto_ack=False)[0])
    amqp.channel.basic_recover(requeue=True)
    assert [(m.body, m.method.redelivered) for m in amqp.take(queue, 2)] == [("2", True), ("3", False)]


def test_cancel_leaves_what_is_out(amqp, name):
    queue = amqp.queue(name("q"))
    w = Wire(amqp_port(amqp))
    amqp.publish(queue, "1")
    w.send(spec.Basic.Consume(queue=queue, consumer_tag="t"))
    w.expect(spec.Basic.ConsumeOk)
    tag = w.expect(spec.Basic.Deliver).delivery_tag
    w.read(), w.read()
    w.send(spec.Basic.Cancel(consumer_tag="t"))
    w.expect(spec.Basic.CancelOk)
    w.send(spec.Basic.Cancel(consumer_tag="unknown"))
    assert w.expect(spec.Basic.CancelOk).consumer_tag == "unknown"
    assert amqp.count(queue) == 0
    w.send(spec.Basic.Ack(delivery_tag=tag), spec.Basic.Qos())
    w.expect(spec.Basic.QosOk)
    w.close()
    time.sleep(0.1)
    assert amqp.count(queue) == 0


def test_cancel_is_told_when_the_queue_goes(connect, name):
    one, two = connect(), connect()
    consumer = one.consume(one.queue(name("q")))
    two.channel.queue_delete(name("q"))
    until(lambda: one.connection.process_data_events(0.05) or consumer.cancelled)
    assert consumer.cancelled[0].method.consumer_tag == consumer.tag
    assert one.channel.is_open


def test_cancel_is_not_told_to_those_who_know_no_such_thing(amqp, name):
    w = Wire(amqp_port(amqp))  # without capabilities
    w.send(spec.Basic.Consume(queue=amqp.queue(name("q")), consumer_tag="t"))
    w.expect(spec.Basic.ConsumeOk)
    amqp.channel.queue_delete(name("q"))
    w.send(spec.Basic.Qos())
    w.expect(spec.Basic.QosOk)
    w.close()


def test_no_ack_consumer(amqp, name):
    queue = amqp.queue(name("q"))
    consumer = amqp.consume(queue, auto_ack=True)
    amqp.publish(queue, *"123")
    assert [m.body for m in consumer.take(3)] == ["1", "2", "3"]
    amqp.close()


@pytest.mark.parametrize("end", ["channel", "connection", "socket"])
def test_what_was_out_comes_back(connect, amqp, name, end):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"12345")
    other = connect()
    assert other.take(queue, auto_ack=False)[0].body == "1"
    assert [m.body for m in other.consume(queue).take(4)] == ["2", "3", "4", "5"]
    if end == "socket":
        w = Wire(amqp_port(amqp))
        other.close()
        until(lambda: amqp.count(queue) == 5)
        for _ in range(5):
            w.send(spec.Basic.Get(queue=queue))
            w.expect(spec.Basic.GetOk)
            w.read(), w.read()
        w.close()
    else:
        other.channel.close() if end == "channel" else other.close()
    until(lambda: amqp.count(queue) == 5)
    assert [(m.body, m.method.redelivered) for m in amqp.take(queue, 5)] == [(b, True) for b in "12345"]


def test_requeue_keeps_the_place(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, *"12345")
    one, two, three = amqp.take(queue, 3, auto_ack=False)
    amqp.nack(three, requeue=True)
    amqp.nack(one, requeue=True)
    assert [m.body for m in amqp.take(queue, 3)] == ["1", "3", "4"]
    amqp.nack(two, requeue=True)
    assert amqp.bodies(queue, 2) == ["2", "5"]


def test_no_more_deliveries_than_prefetch_after_requeue(amqp, name):
    queue = amqp.queue(name("q"))
    amqp.publish(queue, "1", "2")
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=1)
    consumer = amqp.consume(queue, channel)
    for turn in range(5):
        message, = consumer.take()
        assert message.body == "1" and message.method.redelivered == (turn > 0)
        consumer.none(0.02)
        channel.basic_nack(message.tag, requeue=True)


# -- transactions -------------------------------------------------------------------------------------------------------------------


def test_tx_commit_and_rollback(amqp, name):
    queue = amqp.queue(name("q"))
    channel = amqp.open_channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    assert amqp.count(queue) == 0
    channel.tx_commit()
    assert amqp.count(queue) == 2
    channel.basic_publish("", queue, b"3")
    channel.tx_rollback()
    assert amqp.count(queue) == 2
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()  # the ack, too: the message is out still
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    assert amqp.bodies(queue, 1) == ["2"]


def test_tx_ends_with_its_channel(amqp, name):
    queue = amqp.queue(name("q"))
    channel = amqp.open_channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"1")
    channel.close()
    assert amqp.count(queue) == 0


# -- connections --------------------------------------------------------------------------------------------------------------------


def test_heartbeats_come_from_the_broker(amqp):
    w = Wire(amqp_port(amqp), heartbeat=1)
    start = time.monotonic()
    while b"\x08\0\0\0\0\0\0\xce" not in w.buffer:
        assert time.monotonic() - start < 3 and w.fill()
    w.close()


def test_silence_ends_the_connection(amqp, name):
    w = Wire(amqp_port(amqp), heartbeat=1)
    w.send(spec.Queue.Declare(queue=name("q"), exclusive=True))
    start = time.monotonic()
    while w.fill():
        assert time.monotonic() - start < 6
    assert time.monotonic() - start > 1
    w.close()


def test_heartbeats_keep_the_connection(connect, name):
    amqp = connect(heartbeat=1)
    for _ in range(4):
        amqp.connection.process_data_events(time_limit=1)
    assert amqp.count(amqp.queue(name("q"))) == 0


def test_no_heartbeat_no_end(amqp, name):
    w = Wire(amqp_port(amqp), heartbeat=0)
    time.sleep(3)
    w.send(spec.Basic.Qos())
    w.expect(spec.Basic.QosOk)
    w.close()


def test_many_channels(amqp, name):
    queue = amqp.queue(name("q"))
    channels = [amqp.open_channel() for _ in range(200)]
    for channel in channels:
        channel.basic_publish("", queue, b"x")
    until(lambda: amqp.count(queue) == 200)
    channels[7].close()
    amqp.open_channel()


def test_update_secret(amqp):
    w = Wire(amqp_port(amqp))
    w.send_frame(1, 0, b"\0\x0a\0\x46" + b"\0\0\0\5guest" + b"\3why")
    found = b""
    while b"\0\x0a\0\x47" not in found:
        assert w.fill()
        found = w.buffer
    w.close()


def test_direct_reply_to(connect, name):
    client, server = connect(), connect()
    channel = client.open_channel()
    answers = client.consume("amq.rabbitmq.reply-to", channel, auto_ack=True)
    queue = server.queue(name("q"))
    channel.basic_publish("", queue, b"question", Properties(reply_to="amq.rabbitmq.reply-to"))
    asked, = server.take(queue)
    assert asked.properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    for there in ("amq.rabbitmq.reply-to", asked.properties.reply_to):  # clients ask so whether they may use it
        for passive in (True, False):
            ok = server.channel.queue_declare(there, passive=passive).method
            assert (ok.queue, ok.message_count, ok.consumer_count) == (there, 0, 1)
    server.publish(asked.properties.reply_to, "answer")
    assert answers.take()[0].body == "answer"


# -- durability ------------------------------------------------------------------------------------------------------------------------


def test_what_was_confirmed_survives_a_kill(broker, connect, name):
    before = connect()
    queue, exchange = before.queue(name("q"), max_priority=3), before.exchange(name("x"), "topic")
    before.bind(queue, exchange, "a.#")
    before.channel.queue_declare(name("transient"))
    before.channel.exchange_declare(name("transient"))
    before.publish("a.1", "1", exchange=exchange, headers={"k": [1, {"v": None}]}, message_id="m", priority=1)
    before.publish("a.2", "2", exchange=exchange)
    before.ack(before.take(queue, auto_ack=False)[0])
    before.publish("a.3", "3", exchange=exchange, headers={"k": 1}, content_type="text/x", priority=2)
    before.take(queue, auto_ack=False)
    before.flush()
    broker.kill()
    broker.start()
    after = connect()
    after.publish("a.4", "4", exchange=exchange)
    messages = after.take(queue, 3)
    assert [m.body for m in messages] == ["3", "2", "4"]
    assert messages[0].headers == {"k": 1} and messages[0].properties.content_type == "text/x"
    for declare in ("queue_declare", "exchange_declare"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            getattr(after.open_channel(), declare)(name("transient"), passive=True)


def test_what_was_committed_survives_a_kill(broker, connect, name):
    before = connect()
    queue = before.queue(name("q"))
    before.publish(queue, "0", "1")
    channel = before.open_channel()
    channel.tx_select()
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    for body in (b"2", b"3"):
        channel.basic_publish("", queue, body, Properties(delivery_mode=2))
    channel.tx_commit()
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    channel.basic_publish("", queue, b"4", Properties(delivery_mode=2))
    before.flush()
    broker.kill()
    broker.start()
    assert connect().bodies(queue, 3) == ["1", "2", "3"]


@pytest.mark.only("nixie")
def test_http_and_amqp_see_one_queue(broker, amqp, name):
    queue = amqp.queue(name("q"))
    broker.request("POST", f"/queues/{queue}/messages", {"payload": "from http", "headers": {"k": "v"}})
    message, = amqp.take(queue)
    assert message.body == "from http" and message.headers["k"] == "v"
    amqp.publish(queue, "from amqp", headers={"n": 1, "s": "t"})
    claimed = broker.request("POST", f"/queues/{queue}/claim")["message"]
    assert claimed["payload"] == "from amqp" and claimed["headers"]["s"] == "t"
    assert amqp.count(queue) == 0
    broker.request("POST", f"/queues/{queue}/messages/{claimed['id']}/succeed")
    assert PEER == "nixie"
