"""pika with less ceremony: one connection, one channel, and waiting with an end."""
import contextlib
import time

import pika
import pytest

from lib.brokers import PEER

SECONDS_MAX = 8  # no broker needs as long for anything tested here

differs = pytest.mark.differs
only_nixie = pytest.mark.only("nixie")
only = pytest.mark.only


def until(question, what="it", seconds=SECONDS_MAX):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(0.02)
    return answer


class Message:
    """What was delivered or got."""

    def __init__(self, method, properties, body):
        self.method, self.properties, self.body = method, properties, body.decode("latin-1")
        self.tag, self.headers = method.delivery_tag, properties.headers or {}

    def __repr__(self):
        return f"<{self.body[:40]!r} {self.method} {self.headers}>"

    @property
    def deaths(self):
        return self.headers.get("x-death")


class Consumer:
    def __init__(self, amqp, channel, queue, **options):
        self.amqp, self.got, self.cancelled = amqp, [], []
        channel.add_on_cancel_callback(self.cancelled.append)
        self.tag = channel.basic_consume(queue, lambda c, m, p, b: self.got.append(Message(m, p, b)), **options)

    def take(self, n=1, seconds=SECONDS_MAX):
        """The next n messages, waiting for them."""
        deadline = time.monotonic() + seconds
        while len(self.got) < n:
            assert time.monotonic() < deadline, f"{len(self.got)} of {n} messages within {seconds} s: {self.got}"
            self.amqp.connection.process_data_events(time_limit=0.05)
        taken, self.got = self.got[:n], self.got[n:]
        return taken

    def none(self, seconds=0.2):
        """Nothing comes for a while."""
        self.amqp.connection.process_data_events(time_limit=seconds)
        assert self.got == []


class Amqp:
    """A connection with a channel in confirm mode: what was published has arrived when the call returns."""

    def __init__(self, broker, **parameters):
        parameters = {"host": "127.0.0.1", "port": broker.amqp_port, "heartbeat": 0, "blocked_connection_timeout": 10,
                      "socket_timeout": 5, "stack_timeout": 10, **parameters}
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(**parameters))
        # No reply is waited for for ever: a broker that does not answer fails the test.
        self.connection._impl._adapter_call_later(2 * SECONDS_MAX, self.give_up)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def give_up(self):
        if self.connection._impl._transport is not None:  # else the broker was killed, and pika has not noticed yet
            self.connection._impl._terminate_stream(TimeoutError("no answer from the broker"))

    def close(self):
        with contextlib.suppress(pika.exceptions.AMQPError, TimeoutError):
            if self.connection.is_open:
                self.connection.close()

    def open_channel(self):
        """A second channel, without confirms."""
        return self.connection.channel()

    # -- topology ----------------------------------------------------------------------------------------------------

    def queue(self, name, kind=None, durable=True, **arguments):
        """queue("q", max_length=1): x-max-length. Returns the name."""
        arguments = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        if kind is not None:
            arguments["x-queue-type"] = kind
        self.channel.queue_declare(name, durable=durable, arguments=arguments)
        return name

    def exchange(self, name, kind="direct", **options):
        self.channel.exchange_declare(name, kind, durable=True, **options)
        return name

    def bind(self, queue, exchange, key="", **options):
        self.channel.queue_bind(queue, exchange, key, **options)

    def count(self, queue):
        """Messages that are ready."""
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def consumers(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.consumer_count

    def await_count(self, queue, n):
        until(lambda: self.count(queue) == n, f"{n} messages in {queue}")

    # -- messages ----------------------------------------------------------------------------------------------------

    def publish(self, queue, *bodies, exchange="", mandatory=False, **properties):
        properties = pika.BasicProperties(**{"delivery_mode": 2, **properties})
        for body in bodies:
            self.channel.basic_publish(exchange, queue, body, properties, mandatory=mandatory)

    def get(self, queue, auto_ack=False):
        """The next message, or None."""
        method, properties, body = self.channel.basic_get(queue, auto_ack=auto_ack)
        return None if method is None else Message(method, properties, body)

    def take(self, queue, n=1, auto_ack=True):
        """The next n messages by basic.get, waiting for them."""
        return [until(lambda: self.get(queue, auto_ack), f"message {i + 1} of {n} in {queue}") for i in range(n)]

    def bodies(self, queue, n):
        """The next n, which must be all."""
        bodies = [m.body for m in self.take(queue, n)]
        assert self.get(queue, True) is None
        return bodies

    def consume(self, queue, channel=None, **options):
        return Consumer(self, channel or self.channel, queue, **options)

    def ack(self, message, **options):
        self.channel.basic_ack(message.tag, **options)

    def nack(self, message, requeue, multiple=False):
        self.channel.basic_nack(message.tag, multiple=multiple, requeue=requeue)

    def reject(self, message, requeue):
        self.channel.basic_reject(message.tag, requeue=requeue)

    def flush(self):
        """What was sent on the channel has been done when this returns."""
        self.channel.basic_qos(prefetch_count=0)


def kept(broker, queue, *bodies):
    """Where RabbitMQ loses messages, Nixie keeps them as dead letters of the queue, which AMQP does not count."""
    if PEER == "nixie":
        def there():
            return [letter["payload"] for letter in broker.letters(queue)] == list(bodies)
        try:
            until(there, seconds=3)
        except AssertionError:
            raise AssertionError(f"dead letters of {queue}: {broker.letters(queue)}, expected {bodies}") from None
