"""One server with both front ends for all tests of this folder. What foreign clients expect of AMQP alone is in tests/conformance."""
import contextlib
import itertools

import pika
import pytest

from lib.brokers import NixieBroker

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    b = NixieBroker(tmp_path_factory.mktemp("broker"))
    b.start()
    yield b
    b.stop()


@pytest.fixture
def connect(broker):
    opened = []

    def factory(name=None):
        parameters = pika.ConnectionParameters(
            "127.0.0.1", broker.amqp_port, heartbeat=0, blocked_connection_timeout=10, socket_timeout=5, stack_timeout=10,
            client_properties={"connection_name": name} if name else None)
        connection = pika.BlockingConnection(parameters)
        connection.call_later(60, connection.close)  # a test that waits for what never comes fails
        opened.append(connection)
        return connection

    yield factory
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):
            if connection.is_open:
                connection.close()
    assert broker.is_running(), f"the server ended by itself\n{broker.stderr()}"


@pytest.fixture
def channel(connect):
    c = connect("worker-1").channel()
    c.confirm_delivery()
    return c


@pytest.fixture
def queue(channel):
    """A durable queue nobody else uses."""
    name = f"amqp-{next(numbers)}"
    channel.queue_declare(name, durable=True)
    return name
