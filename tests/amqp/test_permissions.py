"""What a user may do in a vhost: expressions for what it configures, writes and reads."""
import contextlib
import itertools

import pika
import pytest

from lib.brokers import NixieBroker

numbers = itertools.count(1)

PERMISSIONS = [
    "ann / ^(amq\\.gen|own) ^(amq\\.default|own|in) ^(amq\\.gen|own|out)",
    "ann team .* .* .*",
    "writer / '' ^(amq\\.default|logs)$ ''",
    "reader / ^$ \"\" out",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    flags = [f for user in ("root", "ann", "writer", "reader") for f in ("--amqp-user", f"{user}:x")]
    flags += [f for line in PERMISSIONS for f in ("--amqp-permission", line)]
    b = NixieBroker(tmp_path_factory.mktemp("permissions"), *flags)
    b.start()
    for vhost in ("team", "other"):
        b.request("PUT", f"/vhosts/{vhost}")
    yield b
    b.stop()


@pytest.fixture
def login(server):
    opened = []

    def factory(user, vhost="/"):
        connection = pika.BlockingConnection(pika.ConnectionParameters(
            "127.0.0.1", server.amqp_port, virtual_host=vhost, credentials=pika.PlainCredentials(user, "x"), heartbeat=0, socket_timeout=5))
        opened.append(connection)
        return connection

    yield factory
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()
    assert server.is_running(), server.stderr()


@pytest.fixture
def root(login):
    return login("root").channel()


@pytest.fixture
def name(root):
    """name(prefix) -> one that is used once; deleted afterwards."""
    made = []

    def factory(prefix):
        made.append(f"{prefix}-{next(numbers)}")
        return made[-1]

    yield factory
    for n in made:
        root.queue_delete(n)
        root.exchange_delete(n)


def refused(connection, what, permission, resource):
    """Only the channel ends."""
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as e:
        what(channel)
    user = connection._impl.params.credentials.username
    assert (e.value.reply_code, e.value.reply_text) == (
        403, f"ACCESS_REFUSED - {permission} access to {resource} in vhost '/' refused for user '{user}'".replace("- any ", "- "))
    assert connection.is_open


def queue(q):
    return f"queue '{q}'"


def exchange(x):
    return f"exchange '{x}'"


def test_vhosts(login):
    login("ann", "team")
    for user, vhost in (("ann", "other"), ("reader", "team")):
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as e:
            login(user, vhost)
        assert f"(530) \"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'\"" in str(e.value)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost none not found"):
        login("ann", "none")
    login("root", "other")


def test_without_a_line_everything_is_allowed(root, name):
    q, x = name("any"), name("x")
    root.queue_declare(q, arguments={"x-dead-letter-exchange": "dlx"})
    root.exchange_declare(x, arguments={"alternate-exchange": "ae"})
    root.queue_bind(q, x)
    root.basic_publish(x, q, b"")
    assert root.basic_get(q, auto_ack=True)[0]


def test_a_vhost_of_ones_own(login):
    channel = login("ann", "team").channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"")
    assert channel.basic_get("q", auto_ack=True)[0]


def test_declaring_and_deleting_queues(login, root, name):
    ann = login("ann")
    mine, other = name("own"), name("other")
    ann.channel().queue_declare(mine)
    refused(ann, lambda c: c.queue_declare(other), "configure", queue(other))
    root.queue_declare(other)
    refused(ann, lambda c: c.queue_declare(other), "configure", queue(other))
    refused(ann, lambda c: c.queue_delete(other), "configure", queue(other))
    refused(ann, lambda c: c.queue_delete("nowhere"), "configure", queue("nowhere"))
    assert root.queue_declare(other, passive=True)
    ann.channel().queue_delete(mine)


def test_passive_declarations_need_any(login, root, name):
    ann = login("ann")
    for prefix in ("own", "in", "out"):
        q = name(prefix)
        root.queue_declare(q)
        ann.channel().queue_declare(q, passive=True)
        x = name(prefix)
        root.exchange_declare(x)
        ann.channel().exchange_declare(x, passive=True)
    for q in (name("other"), "nowhere"):
        refused(ann, lambda c, q=q: c.queue_declare(q, passive=True), "any", queue(q))
        refused(ann, lambda c, q=q: c.exchange_declare(q, passive=True), "any", exchange(q))


def test_names_by_the_server(login):
    ann = login("ann")
    q = ann.channel().queue_declare("", exclusive=True).method.queue
    assert q.startswith("amq.gen-")
    channel = login("writer").channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as e:
        channel.queue_declare("")
    assert "configure access to queue 'amq.gen-" in e.value.reply_text


def test_dead_letter_exchanges(login, root, name):
    ann = login("ann")
    good = {"x-dead-letter-exchange": "own-dlx"}
    q = name("own")
    ann.channel().queue_declare(q, arguments=good)
    ann.channel().queue_declare(q, arguments=good)
    refused(ann, lambda c: c.queue_declare("own-2", arguments={"x-dead-letter-exchange": "other"}), "write", exchange("other"))
    default = name("own")
    ann.channel().queue_declare(default, arguments={"x-dead-letter-exchange": ""})  # amq.default
    there = name("own")
    root.queue_declare(there, arguments={"x-dead-letter-exchange": "other"})
    ann.channel().queue_declare(there, arguments={"x-dead-letter-exchange": "other"})  # it is not made


def test_exchanges(login, root, name):
    ann = login("ann")
    x, other = name("own"), name("other")
    ann.channel().exchange_declare(x)
    refused(ann, lambda c: c.exchange_declare(other), "configure", exchange(other))
    root.exchange_declare(other)
    refused(ann, lambda c: c.exchange_delete(other), "configure", exchange(other))
    ann.channel().exchange_delete(x)
    ann.channel().exchange_declare(name("own"), arguments={"alternate-exchange": "in-ae"})
    refused(ann, lambda c: c.exchange_declare("own-ae", arguments={"alternate-exchange": "other"}), "write", exchange("other"))


def publish_to(x):
    def publish(channel):
        channel.confirm_delivery()
        channel.basic_publish(x, "", b"")
    return publish


def test_publishing(login, root, name):
    ann, writer = login("ann"), login("writer")
    x, other = name("in"), name("other")
    root.exchange_declare(x)
    root.exchange_declare(other)
    root.exchange_declare("logs")
    channel = ann.channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish(x, "", b"")
        channel.basic_publish("", "anything", b"")
    refused(ann, publish_to(other), "write", exchange(other))
    refused(ann, publish_to("nowhere"), "write", exchange("nowhere"))
    refused(login("reader"), publish_to(""), "write", exchange("amq.default"))
    channel = writer.channel()
    channel.confirm_delivery()
    channel.basic_publish("logs", "", b"")
    channel.basic_publish("", "anything", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.basic_publish("logs2", "", b"")


def test_publishing_in_a_transaction(login):
    def publish(channel):
        channel.tx_select()
        channel.basic_publish("other", "", b"")
        channel.tx_commit()
    refused(login("ann"), publish, "write", exchange("other"))


def test_reading(login, root, name):
    reader, ann = login("reader"), login("ann")
    q, other = name("out"), name("other")
    for n in (q, other):
        root.queue_declare(n)
        root.basic_publish("", n, b"")
    assert reader.channel().basic_get(q, auto_ack=True)[0]
    reader.channel().basic_consume(q, lambda *a: None)
    reader.channel().queue_purge(q)
    for user in (reader, ann):
        for n in (other, "nowhere"):
            refused(user, lambda c, n=n: c.basic_get(n), "read", queue(n))
            refused(user, lambda c, n=n: c.basic_consume(n, lambda *a: None), "read", queue(n))
            refused(user, lambda c, n=n: c.queue_purge(n), "read", queue(n))


@pytest.mark.parametrize("what", ["bind", "unbind"])
def test_bindings(login, root, name, what):
    ann = login("ann")
    q, x, closed = name("in"), name("out"), name("closed")
    root.queue_declare(q)
    root.queue_declare(closed)
    for n in (x, closed, q):
        root.exchange_declare(n)

    def of_queue(queue, exchange):
        return lambda c: getattr(c, "queue_" + what)(queue, exchange, "k")

    def of_exchange(destination, source):
        return lambda c: getattr(c, "exchange_" + what)(destination, source, "k")

    of_queue(q, x)(ann.channel())
    of_exchange(q, x)(ann.channel())
    refused(ann, of_queue(closed, x), "write", queue(closed))
    refused(ann, of_queue(q, closed), "read", exchange(closed))
    refused(ann, of_queue(q, q), "read", exchange(q))
    refused(ann, of_exchange(closed, x), "write", exchange(closed))
    refused(ann, of_exchange(q, closed), "read", exchange(closed))


def test_answers_need_no_queue(login):
    channel = login("ann").channel()
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *a: None, auto_ack=True)
    channel.basic_publish("", "own-requests", b"", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    channel.connection.process_data_events(0.1)
    assert channel.is_open
