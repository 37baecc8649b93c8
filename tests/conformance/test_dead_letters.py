"""What RabbitMQ's own tests say of dead letters, one by one. The numbers are those of docs/amqp.md.

Where RabbitMQ would lose a message, it is gone from AMQP's counts in Nixie, too, but kept as a dead letter of its queue.
"""
import datetime
import time

import pika
import pytest

from lib.brokers import PEER
from tools import differs, kept, until

CC_WITH_KEY = "3.10 takes the header CC away when x-dead-letter-routing-key is set; later releases keep it"
CLIENT_DEATHS = "3.10 reads x-death that a client sent as its own; 4.x, and Nixie, take it for the client's"
LAST_DEATH = "x-last-death-* came with 3.13"


class Pair:
    """A source queue whose dead letters go to another queue, through the default exchange unless it is told otherwise."""

    def __init__(self, amqp, name, kind=None, **arguments):
        self.amqp = amqp
        self.dead = amqp.queue(name("dead"))
        arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": self.dead, **arguments}
        self.source = amqp.queue(name("source"), kind, **{k: v for k, v in arguments.items() if v is not None})

    def publish(self, *bodies, **properties):
        self.amqp.publish(self.source, *bodies, **properties)

    def take(self, n=1):
        return self.amqp.take(self.source, n, auto_ack=False)

    def moved(self, *bodies):
        """These and no others are in the dead-letter queue, in this order."""
        assert self.amqp.bodies(self.dead, len(bodies)) == list(bodies)

    def nothing_moved(self):
        time.sleep(0.1)
        assert self.amqp.count(self.dead) == 0


@pytest.fixture
def pair(amqp, name, kind):
    return Pair(amqp, name, kind)


def exchange_with(amqp, name, kind, **arguments):
    """A source queue with a direct dead-letter exchange, to which the test binds what it likes."""
    exchange = amqp.exchange(name("exchange"))
    source = amqp.queue(name("source"), kind, dead_letter_exchange=exchange, **arguments)
    return source, exchange


def reject_one(amqp, queue):
    message, = amqp.take(queue, auto_ack=False)
    amqp.reject(message, requeue=False)
    amqp.flush()
    return message


# -- what moves a message and what does not --------------------------------------------------------------------------


def test_01_nack_moves_one(amqp, pair):
    pair.publish("1", "2", "3")
    one, two, three = pair.take(3)
    amqp.nack(one, requeue=False)
    pair.moved("1")
    amqp.nack(three, requeue=False)
    amqp.nack(two, requeue=False)
    pair.moved("3", "2")


def test_02_nack_multiple_moves_all_up_to_it(amqp, pair):
    pair.publish("1", "2", "3")
    _, two, three = pair.take(3)
    amqp.nack(two, requeue=False, multiple=True)
    pair.moved("1", "2")
    amqp.ack(three)


def test_03_nack_with_requeue_gives_back(amqp, pair):
    pair.publish("1", "2", "3")
    one, two, three = pair.take(3)
    amqp.nack(two, requeue=True)
    again, = pair.take()
    assert again.body == "2" and again.method.redelivered
    pair.nothing_moved()


def test_04_nack_multiple_with_requeue_keeps_order(amqp, pair):
    pair.publish("1", "2", "3")
    *_, three = pair.take(3)
    amqp.nack(three, requeue=True, multiple=True)
    assert [m.body for m in pair.take(3)] == ["1", "2", "3"]
    pair.nothing_moved()


def test_05_reject_moves_one(amqp, pair):
    pair.publish("1", "2", "3")
    one, two, three = pair.take(3)
    amqp.reject(one, requeue=False)
    pair.moved("1")
    amqp.ack(two)
    amqp.ack(three)
    assert amqp.count(pair.source) == 0


@differs(rabbitmq="3.10 sorts three and more entries by name, so that its search for cycles misses the rejection")
def test_06_a_rejection_in_a_ring_makes_it_no_cycle(amqp, name, kind):
    b, a2, a3 = name("b"), name("a2"), name("a3")
    amqp.queue(b, kind, dead_letter_exchange="", dead_letter_routing_key=a2)
    amqp.queue(a2, kind, dead_letter_exchange="", dead_letter_routing_key=a3, message_ttl=1)
    amqp.queue(a3, kind, dead_letter_exchange="", dead_letter_routing_key=b, message_ttl=1)
    amqp.publish(b, "round")
    for turn in (0, 1, 2):
        message, = amqp.take(b, auto_ack=False)
        if turn:
            assert [(d["queue"], d["reason"], d["count"]) for d in message.deaths] == [
                (a3, "expired", turn), (a2, "expired", turn), (b, "rejected", turn)]
        else:
            assert message.deaths is None
        amqp.reject(message, requeue=False)


def test_07_a_hundred_rejections_keep_order(amqp, pair):
    bodies = [str(i) for i in range(100)]
    pair.publish(*bodies)
    for message in amqp.consume(pair.source).take(100):
        amqp.reject(message, requeue=False)
    pair.moved(*bodies)


@differs(rabbitmq="a quorum queue of 3.10 may put the oldest message back at the end", kind="quorum")
def test_08_reject_with_requeue_puts_back_at_the_head(amqp, pair):
    pair.publish("1", "2", "3")
    one, = pair.take()
    amqp.reject(one, requeue=True)
    assert [m.body for m in pair.take(3)] == ["1", "2", "3"]
    pair.nothing_moved()


def test_09_time_to_live_ends_without_a_consumer(amqp, name, kind):
    pair = Pair(amqp, name, kind, message_ttl=1)
    pair.publish("1", "2")
    pair.moved("1", "2")
    assert amqp.count(pair.source) == 0


def test_10_max_length_drops_the_oldest(amqp, name, kind):
    pair = Pair(amqp, name, kind, max_length=1)
    pair.publish("1", "2", "3")
    amqp.await_count(pair.dead, 2)
    pair.moved("1", "2")
    assert [m.body for m in pair.take()] == ["3"]


def test_11_requeue_first_then_reject(amqp, pair):
    pair.publish("body")
    first, = pair.take()
    amqp.reject(first, requeue=True)
    again, = pair.take()
    amqp.reject(again, requeue=False)
    pair.moved("body")


def test_12_got_requeued_and_got_again(amqp, pair):
    pair.publish("1", "2", "3")
    one, two, three = pair.take(3)
    amqp.nack(two, requeue=True, multiple=True)
    pair.nothing_moved()
    one, two = pair.take(2)
    assert [one.body, two.body] == ["1", "2"]
    amqp.nack(two, requeue=False, multiple=True)
    pair.moved("3", "1", "2")  # in the order of their tags


def test_13_consumed_by_two_requeued_and_consumed_again(connect, amqp, name, kind):
    pair = Pair(amqp, name, kind)
    pair.publish("1", "2", "3")
    channel = amqp.open_channel()
    channel.basic_qos(prefetch_count=3, global_qos=False)
    first = amqp.consume(pair.source, channel)
    one, two, three = first.take(3)
    second = amqp.consume(pair.source, channel)
    channel.basic_cancel(first.tag)
    channel.basic_nack(two.tag, multiple=True, requeue=True)
    one, two = second.take(2)
    assert [(m.body, m.method.redelivered) for m in (one, two)] == [("1", True), ("2", True)]
    channel.basic_nack(two.tag, multiple=True, requeue=False)
    bodies = amqp.bodies(pair.dead, 3)  # in the order of tags for each consumer; which of them is first is open
    assert sorted(bodies) == ["1", "2", "3"] and bodies.index("1") < bodies.index("2")


def test_14_reject_publish_dlx_refuses_and_keeps(amqp, name):
    pair = Pair(amqp, name, max_length=1, overflow="reject-publish-dlx")
    pair.publish("1")
    for body in ("2", "3"):
        with pytest.raises(pika.exceptions.NackError):
            pair.publish(body)
    assert [m.body for m in pair.take()] == ["1"]
    two, three = amqp.take(pair.dead, 2)
    assert [two.body, three.body] == ["2", "3"]
    assert two.deaths[0]["reason"] == "maxlen" and two.deaths[0]["queue"] == pair.source


# -- a dead-letter exchange that is not there, or leads nowhere -----------------------------------------------------------


def test_15_exchange_that_is_not_there(broker, amqp, name, kind):
    exchange, dead = name("exchange"), amqp.queue(name("dead"))
    source = amqp.queue(name("source"), kind, dead_letter_exchange=exchange, dead_letter_routing_key=dead)
    amqp.publish(source, "1", "2")
    reject_one(amqp, source)
    until(lambda: amqp.count(source) == 1)
    kept(broker, source, "1")
    amqp.exchange(exchange)
    amqp.bind(dead, exchange, dead)
    reject_one(amqp, source)
    assert amqp.bodies(dead, 1) == ["2"]
    assert amqp.count(source) == 0
    kept(broker, source, "1")


def test_16_original_key_with_nothing_bound(broker, amqp, name, kind):
    source, exchange = exchange_with(amqp, name, kind)
    dead = amqp.queue(name("dead"))
    amqp.publish(source, "1", "2")
    reject_one(amqp, source)
    time.sleep(0.2)
    kept(broker, source, "1")
    amqp.bind(dead, exchange, source)
    reject_one(amqp, source)
    message, = amqp.take(dead)
    assert (message.body, message.method.routing_key, message.method.exchange) == ("2", source, exchange)
    assert amqp.count(source) == 0 and amqp.count(dead) == 0


def test_17_no_key_routes_by_cc(amqp, name, kind):
    source, exchange = exchange_with(amqp, name, kind)
    cc = amqp.queue(name("cc"))
    dead = amqp.queue(name("dead"))
    amqp.bind(dead, exchange, cc)
    amqp.publish(source, "1", headers={"CC": [cc]})
    assert amqp.bodies(cc, 1) == ["1"]
    reject_one(amqp, source)
    message, = amqp.take(dead)
    assert message.deaths[0]["routing-keys"] == [source, cc]


def test_18_no_key_routes_by_bcc(amqp, name, kind):
    source, exchange = exchange_with(amqp, name, kind)
    bcc = amqp.queue(name("bcc"))
    dead = amqp.queue(name("dead"))
    amqp.bind(dead, exchange, bcc)
    amqp.publish(source, "1", headers={"BCC": [bcc]})
    reject_one(amqp, source)
    message, = amqp.take(dead)
    assert message.body == "1" and "BCC" not in message.headers


# -- cycles ------------------------------------------------------------------------------------------------------------------


def test_19_max_length_into_itself(broker, amqp, name, kind):
    source = amqp.queue(name("source"), kind, max_length=1, dead_letter_exchange="")
    amqp.publish(source, "1", "2")
    until(lambda: amqp.count(source) == 1)
    message, = amqp.take(source)
    assert message.body == "2"
    time.sleep(0.1)
    assert amqp.count(source) == 0
    kept(broker, source, "1")


def test_20_time_to_live_into_itself(broker, amqp, name, kind):
    source = amqp.queue(name("source"), kind, message_ttl=1, dead_letter_exchange="")
    amqp.publish(source, "1", "2")
    amqp.await_count(source, 0)
    time.sleep(0.1)
    assert amqp.count(source) == 0
    kept(broker, source, "1", "2")


def test_21_rejection_into_itself_goes_round(amqp, name, kind):
    source = amqp.queue(name("source"), kind, dead_letter_exchange="")
    amqp.publish(source, "1")
    for turn in range(4):
        message = reject_one(amqp, source)
        assert message.body == "1"
        assert (message.deaths or [{"count": 0}])[0]["count"] == turn
        assert not message.method.redelivered
    assert amqp.bodies(source, 1) == ["1"]


# -- policies --------------------------------------------------------------------------------------------------------------


def test_22_policy_after_declare_and_delivery(broker, amqp, name, kind, policy):
    source, dead = amqp.queue(name("source"), kind), amqp.queue(name("dead"))
    amqp.publish(source, "1", "2")
    one, two = amqp.take(source, 2, auto_ack=False)
    amqp.nack(one, requeue=False)
    amqp.flush()
    assert amqp.count(source) == 0
    kept(broker, source, "1")
    policy(name("policy"), f"^{source}$", {"dead-letter-exchange": "", "dead-letter-routing-key": dead})
    amqp.nack(two, requeue=False)
    assert amqp.bodies(dead, 1) == ["2"]


@pytest.mark.parametrize("policy_first", [True, False], ids=["23_before", "24_after"])
def test_23_24_arguments_come_before_a_policy(amqp, name, kind, policy, policy_first):
    source, by_argument, by_policy = name("source"), amqp.queue(name("argument")), amqp.queue(name("policy"))

    def set_policy():
        policy(name("policy"), f"^{source}$", {"dead-letter-exchange": "", "dead-letter-routing-key": by_policy})

    def declare():
        amqp.queue(source, kind, dead_letter_exchange="", dead_letter_routing_key=by_argument)

    for step in (set_policy, declare) if policy_first else (declare, set_policy):
        step()
    amqp.publish(source, "1")
    reject_one(amqp, source)
    assert amqp.bodies(by_argument, 1) == ["1"]
    assert amqp.count(by_policy) == 0


# -- x-death ---------------------------------------------------------------------------------------------------------------


def check_death(message, queue, reason, keys, count=1, exchange=""):
    first = message.deaths[0]
    died = first["time"]
    assert isinstance(died, datetime.datetime)
    assert abs((datetime.datetime.utcnow() - died).total_seconds()) < 60
    assert {k: v for k, v in first.items() if k not in ("time", "original-expiration")} == {
        "queue": queue, "reason": reason, "exchange": exchange, "count": count, "routing-keys": keys}
    return first


def test_25_entry_of_a_rejection(amqp, pair):
    pair.publish("1", content_type="text/plain", message_id="m", correlation_id="c", reply_to="r", priority=3, app_id="a", type="t",
                 user_id="guest", timestamp=1234567890, headers={"mine": "kept"})
    reject_one(amqp, pair.source)
    message, = amqp.take(pair.dead)
    assert "original-expiration" not in check_death(message, pair.source, "rejected", [pair.source])
    assert len(message.deaths) == 1
    assert message.headers["x-first-death-reason"] == "rejected"
    assert message.headers["x-first-death-queue"] == pair.source
    assert message.headers["x-first-death-exchange"] == ""
    assert message.headers["mine"] == "kept"
    p = message.properties
    assert (p.content_type, p.message_id, p.correlation_id, p.reply_to, p.priority, p.app_id, p.type, p.user_id, p.timestamp,
            p.delivery_mode) == ("text/plain", "m", "c", "r", 3, "a", "t", "guest", 1234567890, 2)
    assert not message.method.redelivered and message.method.routing_key == pair.dead and message.method.exchange == ""


def test_26_entry_of_a_queues_time_to_live(amqp, name, kind):
    pair = Pair(amqp, name, kind, message_ttl=1)
    pair.publish("1")
    message, = amqp.take(pair.dead)
    assert "original-expiration" not in check_death(message, pair.source, "expired", [pair.source])


def test_27_entry_of_an_expiration(amqp, pair):
    pair.publish("1", expiration="1")
    message, = amqp.take(pair.dead)
    assert check_death(message, pair.source, "expired", [pair.source])["original-expiration"] == "1"
    assert message.properties.expiration is None


def test_28_entry_of_max_length(amqp, name, kind):
    pair = Pair(amqp, name, kind, max_length=1)
    pair.publish("1", "2")
    message, = amqp.take(pair.dead)
    assert message.body == "1"
    check_death(message, pair.source, "maxlen", [pair.source])


def test_29_the_same_death_again_is_counted(amqp, name, kind):
    source = amqp.queue(name("source"), kind, dead_letter_exchange="")
    amqp.publish(source, "1")
    reject_one(amqp, source)
    once = reject_one(amqp, source)
    check_death(once, source, "rejected", [source], count=1)
    twice, = amqp.take(source)
    check_death(twice, source, "rejected", [source], count=2)
    assert len(twice.deaths) == 1
    assert twice.deaths[0]["time"] == once.deaths[0]["time"]


def test_30_two_queues_two_entries_newest_first(amqp, name, kind):
    last = amqp.queue(name("last"))
    middle = amqp.queue(name("middle"), kind, dead_letter_exchange="", dead_letter_routing_key=last, message_ttl=1)
    source = amqp.queue(name("source"), kind, dead_letter_exchange="", dead_letter_routing_key=middle)
    amqp.publish(source, "1")
    reject_one(amqp, source)
    message, = amqp.take(last)
    check_death(message, middle, "expired", [middle])
    assert [(d["queue"], d["reason"], d["count"], d["routing-keys"]) for d in message.deaths] == [
        (middle, "expired", 1, [middle]), (source, "rejected", 1, [source])]


@differs(rabbitmq=CLIENT_DEATHS)
def test_31_deaths_a_client_sends_are_its_own(amqp, name, kind):
    pair = Pair(amqp, name, kind, message_ttl=100)
    pair.publish("1")
    message, = amqp.take(pair.dead)
    again = amqp.queue(name("again"), kind, dead_letter_exchange="", dead_letter_routing_key=pair.dead)
    amqp.publish(again, "1", headers=message.headers)
    got = reject_one(amqp, again)
    assert got.deaths[0]["reason"] == "expired"  # as it was sent
    message, = amqp.take(pair.dead)
    check_death(message, again, "rejected", [again])
    assert len(message.deaths) == 1


def test_32_cc_stays_without_a_key(amqp, name, kind):
    source, exchange = exchange_with(amqp, name, kind)
    dead = amqp.queue(name("dead"))
    amqp.bind(dead, exchange, source)
    amqp.publish(source, "1", headers={"CC": ["other"]})
    reject_one(amqp, source)
    message, = amqp.take(dead)
    assert message.headers["CC"] == ["other"]
    assert message.deaths[0]["routing-keys"] == [source, "other"]


@differs(rabbitmq=CC_WITH_KEY)
def test_33_cc_stays_with_a_key(amqp, pair, name):
    other = amqp.queue(name("other"))
    pair.publish("1", headers={"CC": [other]})
    assert amqp.bodies(other, 1) == ["1"]
    reject_one(amqp, pair.source)
    message, = amqp.take(pair.dead)
    assert amqp.count(other) == 0  # its keys do not route any more
    assert message.headers["CC"] == [other]


def test_34_bcc_is_shown_nowhere(amqp, name, kind):
    source, exchange = exchange_with(amqp, name, kind)
    dead = amqp.queue(name("dead"))
    amqp.bind(dead, exchange, source)
    amqp.publish(source, "1", headers={"CC": ["cc"], "BCC": ["bcc"]})
    reject_one(amqp, source)
    message, = amqp.take(dead)
    assert "BCC" not in message.headers
    assert message.deaths[0]["routing-keys"] == [source, "cc"]


def firsts(message):
    return [message.headers.get(f"x-first-death-{what}") for what in ("reason", "queue", "exchange")]


def test_35_first_death_is_never_changed(amqp, name, kind):
    source, second = name("source"), name("second")
    amqp.queue(source, kind, dead_letter_exchange="", dead_letter_routing_key=second)
    amqp.queue(second, kind, dead_letter_exchange="", dead_letter_routing_key=source, message_ttl=1)
    amqp.publish(source, "1")
    reject_one(amqp, source)  # and back by its time to live
    back = reject_one(amqp, source)
    assert firsts(back) == ["rejected", source, ""]
    again, = amqp.take(source)
    assert firsts(again) == ["rejected", source, ""]
    assert [(d["queue"], d["reason"], d["count"]) for d in again.deaths] == [(second, "expired", 2), (source, "rejected", 2)]


@differs(rabbitmq=LAST_DEATH)
def test_35_last_death_is_the_newest(amqp, name, kind):
    last = amqp.queue(name("last"))
    middle = amqp.queue(name("middle"), kind, dead_letter_exchange="", dead_letter_routing_key=last, message_ttl=1)
    source = amqp.queue(name("source"), kind, dead_letter_exchange="", dead_letter_routing_key=middle)
    amqp.publish(source, "1")
    reject_one(amqp, source)
    message, = amqp.take(last)
    assert firsts(message) == ["rejected", source, ""]
    assert [message.headers.get(f"x-last-death-{what}") for what in ("reason", "queue", "exchange")] == ["expired", middle, ""]


def test_36_headers_exchange_sees_the_first_death(amqp, name, kind):
    exchange = amqp.exchange(name("exchange"), "headers")
    source = amqp.queue(name("source"), kind, dead_letter_exchange=exchange)
    expired, rejected = amqp.queue(name("expired")), amqp.queue(name("rejected"))
    amqp.bind(expired, exchange, arguments={"x-match": "all-with-x", "x-first-death-reason": "expired", "x-first-death-queue": source})
    amqp.bind(rejected, exchange, arguments={"x-match": "any-with-x", "x-first-death-reason": "rejected"})
    amqp.publish(source, "old", expiration="0")
    assert amqp.bodies(expired, 1) == ["old"]
    amqp.publish(source, "bad")
    reject_one(amqp, source)
    assert amqp.bodies(rejected, 1) == ["bad"]


# -- the rest --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["maxlen", "rejected", "expired by ttl", "expired by expiration"])
def test_38_no_dead_letter_exchange_is_counted(broker, amqp, name, kind, reason):
    arguments = {"maxlen": {"max_length": 1}, "expired by ttl": {"message_ttl": 0}}.get(reason, {})
    properties = {"expiration": "0"} if reason == "expired by expiration" else {}
    source = amqp.queue(name("source"), kind, **arguments)
    bodies = [str(i) for i in range(100)]
    channel = amqp.open_channel()
    for body in bodies:
        channel.basic_publish("", source, body, pika.BasicProperties(delivery_mode=2, **properties))
    channel.queue_declare(source, passive=True)
    amqp.publish(source, "last", **properties)
    if reason == "rejected":
        for message in amqp.take(source, 101, auto_ack=False):
            amqp.reject(message, requeue=False)
    left = 1 if reason == "maxlen" else 0
    amqp.await_count(source, left)
    if PEER == "nixie":
        def ends():
            queue = broker.counts(source)
            return queue["counts"]["dead"], queue["conservation"]["discarded_total"]
        until(lambda: sum(ends()) == 101 - left)
        assert ends() == ((101, 0) if reason == "rejected" else (0, 101 - left))  # decided by nobody; decided by the queue's arguments
        assert broker.counts(source)["conservation"]["holds"]


def test_40_published_by_another_connection(connect, name, kind):
    here, there = connect(), connect()
    dead = there.queue(name("dead"))
    source = here.queue(name("source"), kind, dead_letter_exchange="", dead_letter_routing_key=dead)
    consumer = there.consume(dead)
    there.publish(source, "1")
    reject_one(here, source)
    message, = consumer.take()
    assert message.body == "1" and message.deaths[0]["queue"] == source


# -- delivery limit, and more that clients rely on ------------------------------------------------------------------------


def returns(amqp, queue, n):
    """Takes the message and gives it back n times; what each delivery said of the deliveries before it."""
    seen = []
    for _ in range(n):
        message, = amqp.take(queue, auto_ack=False)
        seen.append((message.headers.get("x-delivery-count", 0), message.method.redelivered))
        amqp.nack(message, requeue=True)
    return seen


def test_41_delivery_limit_allows_one_more_delivery(amqp, name):
    pair = Pair(amqp, name, "quorum", delivery_limit=2)
    pair.publish("poison")
    assert returns(amqp, pair.source, 3) == [(0, False), (1, True), (2, True)]
    message, = amqp.take(pair.dead)
    check_death(message, pair.source, "delivery_limit", [pair.source])
    assert not message.method.redelivered


@differs(rabbitmq="3.10 says x-delivery-count 0 in the first delivery, later releases nothing")
def test_41_first_delivery_says_no_count(amqp, name):
    queue = amqp.queue(name("q"), "quorum")
    amqp.publish(queue, "1")
    assert "x-delivery-count" not in amqp.take(queue)[0].headers


def test_42_delivery_limit_counts_lost_connections(connect, amqp, name):
    pair = Pair(amqp, name, "quorum", delivery_limit=1)
    pair.publish("poison")
    for _ in range(2):
        worker = connect()
        worker.take(pair.source, auto_ack=False)
        worker.close()
    assert amqp.take(pair.dead)[0].deaths[0]["reason"] == "delivery_limit"


@differs(rabbitmq="no limit unless one is set; 20 for quorum queues came with 4.0")
def test_43_delivery_limit_of_quorum_queues_is_20(amqp, name):
    pair = Pair(amqp, name, "quorum")
    pair.publish("poison")
    returns(amqp, pair.source, 21)
    assert amqp.take(pair.dead)[0].deaths[0]["reason"] == "delivery_limit"


def test_44_delivery_limit_of_classic_queues_is_none(amqp, name):
    pair = Pair(amqp, name, "classic")
    pair.publish("poison")
    returns(amqp, pair.source, 30)
    assert amqp.take(pair.source, auto_ack=False)[0].body == "poison"
    pair.nothing_moved()


@differs(rabbitmq="3.10 takes a negative limit for one that every return exceeds; 4.x, and Nixie, for none")
def test_45_delivery_limit_minus_one_is_none(amqp, name):
    pair = Pair(amqp, name, "quorum", delivery_limit=-1)
    pair.publish("poison")
    returns(amqp, pair.source, 25)
    assert amqp.take(pair.source, auto_ack=False)[0].body == "poison"


def test_46_max_length_bytes(amqp, name):
    pair = Pair(amqp, name, max_length_bytes=1000)
    pair.publish("a" * 600, "b" * 300, "c" * 600)
    pair.moved("a" * 600)
    pair.publish("d" * 1500)  # too big by itself: all before it go, then it
    pair.moved("b" * 300, "c" * 600, "d" * 1500)
    assert amqp.count(pair.source) == 0


def test_47_fanout_to_many(amqp, name, kind):
    exchange = amqp.exchange(name("exchange"), "fanout")
    targets = [amqp.queue(name(f"dead{i}")) for i in range(3)]
    for target in targets:
        amqp.bind(target, exchange)
    source = amqp.queue(name("source"), kind, dead_letter_exchange=exchange)
    amqp.publish(source, "1")
    reject_one(amqp, source)
    assert [amqp.bodies(t, 1) for t in targets] == [["1"]] * 3


def test_48_alternate_exchange_of_the_dead_letter_exchange(amqp, name, kind):
    other = amqp.exchange(name("other"), "fanout")
    exchange = amqp.exchange(name("exchange"), arguments={"alternate-exchange": other})
    dead = amqp.queue(name("dead"))
    amqp.bind(dead, other)
    source = amqp.queue(name("source"), kind, dead_letter_exchange=exchange)
    amqp.publish(source, "1")
    reject_one(amqp, source)
    assert amqp.bodies(dead, 1) == ["1"]


def test_49_purge_and_delete_move_nothing(amqp, pair):
    pair.publish("1", "2")
    assert amqp.channel.queue_purge(pair.source).method.message_count == 2
    pair.publish("3")
    assert amqp.channel.queue_delete(pair.source).method.message_count == 1
    pair.nothing_moved()


def test_50_queue_that_expires_moves_nothing(amqp, name):
    pair = Pair(amqp, name, expires=200)
    pair.publish("1")
    time.sleep(0.6)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        amqp.count(pair.source)
    assert closed.value.reply_code == 404
    amqp.channel = amqp.open_channel()
    assert amqp.count(pair.dead) == 0


def test_51_the_shorter_time_to_live_counts(amqp, name):
    pair = Pair(amqp, name, message_ttl=60000)
    pair.publish("1", expiration="1")
    assert amqp.take(pair.dead)[0].deaths[0]["original-expiration"] == "1"


@differs(rabbitmq="a classic queue looks at its head only: what expires behind a message that lives longer waits for it")
def test_52_expires_on_time_behind_one_that_lives_longer(amqp, name):
    pair = Pair(amqp, name)
    pair.publish("long", expiration="60000")
    pair.publish("short", expiration="1")
    amqp.await_count(pair.dead, 1)
    pair.moved("short")
    assert amqp.count(pair.source) == 1


def test_53_ring_without_a_rejection_is_cut_at_its_first_return(broker, amqp, name, kind):
    work, retry = name("work"), name("retry")
    amqp.queue(work, kind, dead_letter_exchange="", dead_letter_routing_key=retry, message_ttl=1)
    amqp.queue(retry, kind, dead_letter_exchange="", dead_letter_routing_key=work, message_ttl=1)
    amqp.publish(work, "1")
    until(lambda: amqp.count(work) + amqp.count(retry) == 0)
    time.sleep(0.2)
    assert amqp.count(work) + amqp.count(retry) == 0
    kept(broker, retry, "1")


def test_54_unacked_messages_do_not_expire(amqp, name):
    pair = Pair(amqp, name, message_ttl=150)
    pair.publish("1")
    message, = pair.take()
    time.sleep(0.4)
    pair.nothing_moved()
    amqp.nack(message, requeue=True)
    pair.moved("1")


def test_55_time_to_live_starts_anew_in_the_target(amqp, name):
    last = amqp.queue(name("last"))
    target = amqp.queue(name("target"), dead_letter_exchange="", dead_letter_routing_key=last, message_ttl=400)
    source = amqp.queue(name("source"), dead_letter_exchange="", dead_letter_routing_key=target)
    amqp.publish(source, "1", expiration="100")
    amqp.await_count(target, 1)
    time.sleep(0.15)
    assert amqp.count(target) == 1
    message, = amqp.take(last)
    assert [(d["queue"], d.get("original-expiration")) for d in message.deaths] == [(target, None), (source, "100")]


def test_60_a_dead_letter_goes_behind_what_was_there_before(amqp, pair):
    pair.publish("older")
    amqp.publish(pair.dead, "younger")
    reject_one(amqp, pair.source)
    amqp.await_count(pair.dead, 2)
    pair.moved("younger", "older")


def test_61_rejected_into_its_own_queue_goes_to_the_end(amqp, name, kind):
    source = amqp.queue(name("source"), kind, dead_letter_exchange="")
    amqp.publish(source, "1", "2", "3")
    reject_one(amqp, source)
    amqp.await_count(source, 3)
    assert amqp.bodies(source, 3) == ["2", "3", "1"]


@pytest.mark.only("nixie")
def test_62_what_could_not_be_routed_is_told_and_can_be_sent_again(broker, amqp, name, kind):
    source = amqp.queue(name("source"), kind, dead_letter_exchange=name("nowhere"))
    exchange = amqp.exchange(name("exchange"), "topic")
    amqp.bind(source, exchange, "k.*")
    amqp.publish("k.1", "1", exchange=exchange, headers={"mine": [1]}, message_id="m")
    reject_one(amqp, source)
    letter, = until(lambda: broker.letters(source))
    assert letter["reason"] == "rejected" and letter["death"]["unroutable"] is True
    broker.request("POST", f"/queues/{source}/messages/{letter['id']}/replay")
    again, = amqp.take(source)
    assert (again.method.exchange, again.method.routing_key, again.headers, again.properties.message_id) == (
        exchange, "k.1", {"mine": [1]}, "m")
    assert not again.method.redelivered and broker.letters(source) == []


@pytest.mark.parametrize("arguments", [
    {"dead_letter_exchange": 1}, {"dead_letter_exchange": "", "dead_letter_routing_key": 1}, {"dead_letter_routing_key": "q"},
    {"message_ttl": -1}, {"message_ttl": "1"}, {"expires": 0}, {"max_length": -1}, {"max_length_bytes": "x"}, {"overflow": "oops"},
    {"message_ttl": 315360000001}], ids=str)
def test_56_bad_arguments_are_refused(amqp, name, arguments):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        amqp.queue(name("q"), **arguments)
    assert closed.value.reply_code == 406
    # 3.10 says "invalid type 'signedint' for arg 'x-...'" of some.
    assert closed.value.reply_text.startswith("PRECONDITION_FAILED - invalid ") and "arg 'x-" in closed.value.reply_text


def test_57_reject_in_a_transaction(amqp, pair):
    pair.publish("1")
    channel = amqp.open_channel()
    channel.tx_select()
    method, _, _ = until(lambda: [p for p in [channel.basic_get(pair.source)] if p[0]])[0]
    channel.basic_reject(method.delivery_tag, requeue=False)
    pair.nothing_moved()
    channel.tx_commit()
    pair.moved("1")


def test_58_a_consumer_without_acks_kills_nothing(amqp, pair):
    consumer = amqp.consume(pair.source, auto_ack=True)
    pair.publish("1")
    consumer.take()
    pair.nothing_moved()
    assert amqp.count(pair.source) == 0


def test_59_dead_letters_survive_a_kill(broker, connect, name, kind):
    before = connect()
    pair = Pair(before, name, kind)
    pair.publish("1", "2")
    reject_one(before, pair.source)
    before.await_count(pair.dead, 1)
    message, = before.take(pair.dead, auto_ack=False)
    before.nack(message, requeue=True)
    before.flush()
    if PEER == "rabbitmq":
        time.sleep(1)  # it moves dead letters without waiting for the disk
    broker.kill()
    broker.start()
    after = connect()
    after.await_count(pair.dead, 1)
    after.await_count(pair.source, 1)
    message, = after.take(pair.dead)
    assert message.body == "1" and message.deaths[0]["count"] == 1
    assert after.bodies(pair.source, 1) == ["2"]
