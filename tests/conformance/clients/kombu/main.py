"""kombu over py-amqp, which is also what Celery speaks."""
import pathlib
import socket
import sys
import time

import kombu

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import PREFIX, URL, behaviour, restart  # noqa: E402

exchange = kombu.Exchange(f"{PREFIX}.x", "topic", durable=True)
work = kombu.Queue(f"{PREFIX}.work", exchange, "order.*", durable=True,
                   queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{PREFIX}.dead",
                                    "x-message-ttl": 2**32})  # py-amqp writes it with the letter L
dead = kombu.Queue(f"{PREFIX}.dead", durable=True)


def connect():
    connection = kombu.Connection(URL, transport_options={"confirm_publish": True}, heartbeat=0, connect_timeout=5)
    connection.ensure_connection(max_retries=50, interval_start=0.1, interval_step=0.1, interval_max=0.5)
    return connection


def await_message(queue, channel):
    for _ in range(200):
        if (message := queue(channel).get()) is not None:
            return message
        time.sleep(0.05)
    raise AssertionError(f"no message in {queue.name}")


def take(connection, got, n):
    deadline = time.monotonic() + 10
    while len(got) < n and time.monotonic() < deadline:
        try:
            connection.drain_events(timeout=1)
        except socket.timeout:
            pass
    assert len(got) >= n, f"{len(got)} of {n} messages"


connection = connect()
channel = connection.channel()

with behaviour("declare"):
    for _ in range(2):
        exchange(channel).declare()
        work(channel).queue_declare()
        dead(channel).queue_declare()
    try:
        kombu.Queue(f"{PREFIX}.missing", channel=connection.channel()).queue_declare(passive=True)
        raise AssertionError("a missing queue was found")
    except connection.channel_errors as e:
        assert e.code == 404, e
    work(channel).queue_declare(passive=True)

with behaviour("bind"):
    work(channel).queue_bind()

producer = kombu.Producer(channel)

with behaviour("confirm"):
    for i in range(10):
        producer.publish({"n": i}, exchange=exchange, routing_key="order.new", headers={"n": i, "text": "ü"}, delivery_mode=2,
                         message_id=f"id-{i}", timeout=10)

with behaviour("return"):
    returned = []
    asking = kombu.Producer(connection.channel(), on_return=lambda error, *_: returned.append(error))
    asking.publish("x", routing_key=f"{PREFIX}.nobody", mandatory=True, timeout=10)
    assert returned and returned[0].reply_code == 312, returned

got = []
with behaviour("consume"):
    consuming = connection.channel()
    consumer = kombu.Consumer(consuming, [work(consuming)], on_message=got.append, prefetch_count=10, auto_declare=False)
    consumer.consume()
    take(connection, got, 10)
    assert [m.payload for m in got] == [{"n": i} for i in range(10)]
    assert got[3].headers == {"n": 3, "text": "ü"} and got[3].properties["message_id"] == "id-3"

with behaviour("ack"):
    for message in got[:6]:
        message.ack()

with behaviour("requeue"):
    got[6].requeue()
    take(connection, got, 11)
    assert got[10].payload == {"n": 6} and got[10].delivery_info["redelivered"]
    got[10].ack()

with behaviour("reject"):
    got[7].reject()
    letter = await_message(dead, channel)
    death = letter.headers["x-death"][0]
    assert letter.payload == {"n": 7} and (death["queue"], death["reason"], death["count"]) == (work.name, "rejected", 1), death
    letter.ack()
    got[8].ack()

with behaviour("big"):
    body = "x" * 300000
    producer.publish(body, routing_key=dead.name, timeout=10)
    letter = await_message(dead, channel)
    assert letter.payload == body
    letter.ack()

with behaviour("reconnect"):
    consumer.cancel()
    for i in range(5):
        producer.publish({"r": i}, exchange=exchange, routing_key="order.new", delivery_mode=2, timeout=10)
    restart()
    try:
        producer.publish({"lost": 1}, exchange=exchange, routing_key="order.new", timeout=10)
        raise AssertionError("the connection outlived the broker")
    except connection.recoverable_connection_errors:
        pass
    connection = connect()
    channel = connection.channel()
    first = await_message(work, channel)
    rest = [await_message(work, channel) for _ in range(5)]
    assert first.payload == {"n": 9} and first.delivery_info["redelivered"]
    assert [m.payload for m in rest] == [{"r": i} for i in range(5)]
    for message in [first, *rest]:
        message.ack()
connection.close()
