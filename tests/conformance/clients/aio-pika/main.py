"""aio-pika: connect_robust finds back and declares again by itself."""
import asyncio
import pathlib
import sys

import aio_pika

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import PREFIX, URL, behaviour, restart  # noqa: E402


async def await_message(queue):
    for _ in range(200):
        if (message := await queue.get(fail=False)) is not None:
            return message
        await asyncio.sleep(0.05)
    raise AssertionError(f"no message in {queue}")


async def main():
    connection = await aio_pika.connect_robust(URL, timeout=10)
    channel = await connection.channel()
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{PREFIX}.dead"}

    with behaviour("declare"):
        for _ in range(2):
            exchange = await channel.declare_exchange(f"{PREFIX}.x", aio_pika.ExchangeType.TOPIC, durable=True)
            work = await channel.declare_queue(f"{PREFIX}.work", durable=True, arguments=dead_letters)
            dead = await channel.declare_queue(f"{PREFIX}.dead", durable=True)
        other = await connection.channel()
        try:
            await other.declare_queue(f"{PREFIX}.missing", passive=True)
            raise AssertionError("a missing queue was found")
        except aio_pika.exceptions.ChannelNotFoundEntity:
            pass
        await channel.declare_queue(work.name, passive=True)

    with behaviour("bind"):
        await work.bind(exchange, "order.*")

    with behaviour("confirm"):
        for i in range(10):
            message = aio_pika.Message(f"m{i}".encode(), headers={"n": i, "text": "ü"}, delivery_mode=2, message_id=f"id-{i}")
            await exchange.publish(message, "order.new", timeout=10)

    with behaviour("return"):
        try:
            other = await connection.channel(on_return_raises=True)
            await other.default_exchange.publish(aio_pika.Message(b"x"), f"{PREFIX}.nobody", mandatory=True, timeout=10)
            raise AssertionError("not returned")
        except aio_pika.exceptions.DeliveryError as e:
            assert e.frame.reply_code == 312, e

    got = asyncio.Queue()
    with behaviour("consume"):
        consuming = await connection.channel()
        await consuming.set_qos(prefetch_count=10)
        queue = await consuming.declare_queue(work.name, passive=True)
        tag = await queue.consume(got.put)
        messages = [await asyncio.wait_for(got.get(), 10) for _ in range(10)]
        assert [m.body for m in messages] == [b"m%d" % i for i in range(10)]
        assert messages[3].headers == {"n": 3, "text": "ü"} and messages[3].message_id == "id-3", messages[3]

    with behaviour("ack"):
        for message in messages[:6]:
            await message.ack()

    with behaviour("requeue"):
        await messages[6].nack(requeue=True)
        again = await asyncio.wait_for(got.get(), 10)
        assert again.body == b"m6" and again.redelivered
        await again.ack()

    with behaviour("reject"):
        await messages[7].reject(requeue=False)
        letter = await await_message(dead)
        death = letter.headers["x-death"][0]
        assert letter.body == b"m7" and (death["queue"], death["reason"], death["count"]) == (work.name, "rejected", 1), death
        await letter.ack()
        await messages[8].ack()

    with behaviour("big"):
        body = bytes(range(250)) * 1200
        await channel.default_exchange.publish(aio_pika.Message(body), dead.name, timeout=10)
        letter = await await_message(dead)
        assert letter.body == body
        await letter.ack()

    with behaviour("reconnect"):
        await queue.cancel(tag)
        for i in range(5):
            await exchange.publish(aio_pika.Message(b"r%d" % i, delivery_mode=2), "order.new", timeout=10)
        await asyncio.get_running_loop().run_in_executor(None, restart)
        await asyncio.wait_for(connection.connected.wait(), 20)
        for _ in range(100):  # its channels come back after the connection
            try:
                first = await await_message(work)
                break
            except (aio_pika.exceptions.AMQPError, RuntimeError):
                await asyncio.sleep(0.1)
        rest = [await await_message(work) for _ in range(5)]
        assert (first.body, first.redelivered) == (b"m9", True), first
        assert [m.body for m in rest] == [b"r%d" % i for i in range(5)]
        for message in [first, *rest]:
            await message.ack()
        exchange = await channel.get_exchange(exchange.name)
        await exchange.publish(aio_pika.Message(b"after"), "order.new", timeout=10)
        await (await await_message(work)).ack()
    await connection.close()


asyncio.run(asyncio.wait_for(main(), 60))
