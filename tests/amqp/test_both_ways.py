"""A queue of AMQP is a queue of Nixie: what one side does, the other sees."""

import pika
import pytest


def publish(channel, queue, body, **properties):
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, **properties))


def get(channel, queue):
    method, properties, body = channel.basic_get(queue)
    assert method is not None
    return method, properties, body


def claim(broker, queue):
    return broker.request("POST", f"/queues/{queue}/claim", {})["message"]


def test_published_over_amqp_and_worked_over_http(broker, channel, queue):
    publish(channel, queue, "hello", headers={"a": 1, "b": {"c": [True, "x"]}}, content_type="text/plain")
    m = claim(broker, queue)
    assert m["payload"] == "hello" and m["headers"] == {"a": 1, "b": {"c": [True, "x"]}}
    broker.request("POST", f"/queues/{queue}/messages/{m['id']}/succeed", {"lease": m["lease"]})
    assert channel.basic_get(queue)[0] is None


def test_enqueued_over_http_and_consumed_over_amqp(broker, channel, queue):
    broker.request("POST", f"/queues/{queue}/messages", {"payload": "hi", "headers": {"n": 5, "s": "t"}})
    method, properties, body = get(channel, queue)
    assert (method.exchange, method.routing_key, body) == ("", queue, b"hi")
    assert properties.headers == {"n": 5, "s": "t"} and properties.delivery_mode == 2
    channel.basic_ack(method.delivery_tag)


def test_a_queue_made_over_http_takes_the_first_arguments(broker, channel):
    broker.request("POST", "/queues/of-http/messages", {"payload": "x"})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as e:
        channel.connection.channel().queue_declare("of-http", durable=False)
    assert e.value.reply_code == 406 and "inequivalent arg 'durable'" in e.value.reply_text
    channel.queue_declare("of-http", durable=True, arguments={"x-max-length": 7})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as e:
        channel.queue_declare("of-http", durable=True)
    assert "inequivalent arg 'x-max-length'" in e.value.reply_text


def test_bytes_and_every_property_survive(channel, queue):
    body = bytes(range(256)) * 700  # more than one frame
    properties = pika.BasicProperties(
        content_type="application/x", content_encoding="none", headers={"k": "v"}, delivery_mode=1, priority=3, correlation_id="c",
        reply_to="r", message_id="m", timestamp=1700000000, type="t", user_id="guest", app_id="a", cluster_id="")
    channel.basic_publish("", queue, body, properties)
    _, got, received = get(channel, queue)
    assert received == body and got == properties


def test_the_worker_in_the_story_is_the_connection(broker, channel, queue):
    publish(channel, queue, "poison")
    method, _, _ = get(channel, queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_get(queue)  # an answer: the reject is done
    letter, = broker.letters(queue)
    assert letter["reason"] == "rejected"
    story = broker.request("GET", f"/queues/{queue}/messages/{letter['id']}/attempts")["attempts"]
    assert [line["event"] for line in story] == ["claimed", "failed"] and story[0]["worker"] == "worker-1"


def test_failure_over_http_for_a_delivery(broker, channel, queue):
    publish(channel, queue, "x")
    got = []
    channel.basic_consume(queue, lambda c, m, p, b: got.append((m, p)), arguments={"x-nixie-ids": True})
    while not got:
        channel.connection.process_data_events(time_limit=1)
    method, properties = got[0]
    id, lease = properties.headers["x-nixie-id"], properties.headers["x-nixie-lease"]
    broker.request("POST", f"/queues/{queue}/messages/{id}/fail",
                   {"lease": lease, "error_class": "Boom", "error": "it broke", "permanent": True})
    channel.basic_ack(method.delivery_tag)  # changes nothing, and is no error
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    letter, = broker.letters(queue)
    assert (letter["error_class"], letter["last_error"], letter["reason"]) == ("Boom", "it broke", "permanent")


def test_failure_story_in_a_republish(broker, channel, queue):
    publish(channel, queue, "x", headers={"x-error-class": "Boom", "x-error": "it broke"})
    method, _, _ = get(channel, queue)
    channel.basic_nack(method.delivery_tag, requeue=False)
    channel.basic_get(queue)
    letter, = broker.letters(queue)
    group, = [g for g in broker.request("GET", "/groups?limit=1000")["groups"] if g["queue"] == queue]
    assert letter["reason"] == "rejected" and group["error_class"] == "Boom"


def test_a_queue_deleted_over_http_ends_its_consumers(broker, channel, queue):
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(queue, lambda *_: None)
    broker.request("DELETE", f"/queues/{queue}")
    while not cancelled:
        channel.connection.process_data_events(time_limit=1)
    assert channel.queue_declare(queue, durable=True).method.consumer_count == 0


def test_messages_come_back_when_a_connection_ends(broker, connect, channel, queue):
    for i in range(5):
        publish(channel, queue, str(i))
    other = connect()
    held = other.channel()
    got = [held.basic_get(queue)[2] for _ in range(3)]
    other.close()
    again = [get(channel, queue) for _ in range(5)]
    assert got == [b"0", b"1", b"2"] and [body for _, _, body in again] == [b"0", b"1", b"2", b"3", b"4"]
    assert [m.redelivered for m, _, _ in again] == [True, True, True, False, False]


def test_direct_reply_to(connect, channel, queue):
    answers = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda c, m, p, b: answers.append((p.correlation_id, b)), auto_ack=True)
    publish(channel, queue, "question", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    server = connect().channel()
    _, properties, body = get(server, queue)
    address = properties.reply_to
    assert body == b"question" and address.startswith("amq.rabbitmq.reply-to.")
    assert server.queue_declare(address, passive=True).method.consumer_count == 1
    server.basic_publish("", address, b"answer", pika.BasicProperties(correlation_id=properties.correlation_id))
    while not answers:
        channel.connection.process_data_events(time_limit=1)
    assert answers == [("7", b"answer")]
    channel.close()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as e:
        server.queue_declare(address, passive=True)
    assert e.value.reply_code == 404
