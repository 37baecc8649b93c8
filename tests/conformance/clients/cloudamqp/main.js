// @cloudamqp/amqp-client, LavinMQ's client for Node.js.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { PREFIX, URL, behaviour, restart } from '../report.mjs';

const { AMQPClient } = await import(
    new globalThis.URL('../../node/node_modules/@cloudamqp/amqp-client/lib/mjs/index.js', import.meta.url));

async function connect() {
    for (let i = 0; ; i++) {
        try {
            return await new AMQPClient(URL).connect();
        } catch (e) {
            if (i === 100) throw e;
            await sleep(100);
        }
    }
}

async function get(channel, queue) {
    for (let i = 0; i < 200; i++) {
        const message = await channel.basicGet(queue, { noAck: false });
        if (message) return message;
        await sleep(50);
    }
    throw new Error(`no message in ${queue}`);
}

let connection = await connect();
let channel = await connection.channel();
const [exchange, work, dead] = ['x', 'work', 'dead'].map((what) => `${PREFIX}.${what}`);

await behaviour('declare', async () => {
    for (let i = 0; i < 2; i++) {
        await channel.exchangeDeclare(exchange, 'topic', { durable: true });
        await channel.queueDeclare(work, { durable: true }, { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead });
        await channel.queueDeclare(dead, { durable: true });
    }
    const other = await connection.channel();
    await assert.rejects(other.queueDeclare(`${PREFIX}.missing`, { passive: true }), /404/);
    await channel.queueDeclare(work, { passive: true });
});

await behaviour('bind', () => channel.queueBind(work, exchange, 'order.*'));

await behaviour('confirm', async () => {
    await channel.confirmSelect();
    for (let i = 0; i < 10; i++) {
        const options = { deliveryMode: 2, messageId: `id-${i}`, headers: { n: i, text: 'ü' } };
        assert.equal(await channel.basicPublish(exchange, 'order.new', `m${i}`, options), i + 1);
    }
});

await behaviour('return', async () => {
    const returned = new Promise((resolve) => { channel.onReturn = resolve; });
    await channel.basicPublish('', `${PREFIX}.nobody`, 'x', {}, true);
    assert.equal((await returned).replyCode, 312);
});

const consuming = await connection.channel();
const got = [];
const take = async (n) => {
    for (let i = 0; got.length < n && i < 200; i++) await sleep(50);
    assert.ok(got.length >= n, `${got.length} of ${n} messages`);
};
let consumer;

await behaviour('consume', async () => {
    await consuming.prefetch(10);
    consumer = await consuming.basicConsume(work, { noAck: false }, (message) => { got.push(message); });
    await take(10);
    got.forEach((message, i) => {
        assert.equal(message.bodyString(), `m${i}`);
        assert.deepEqual({ ...message.properties.headers }, { n: i, text: 'ü' });
        assert.equal(message.properties.messageId, `id-${i}`);
    });
});

await behaviour('ack', () => got[5].ack(true));

await behaviour('requeue', async () => {
    await got[6].nack(true);
    await take(11);
    assert.equal(got[10].bodyString(), 'm6');
    assert.ok(got[10].redelivered);
    await got[10].ack();
});

await behaviour('reject', async () => {
    await got[7].reject(false);
    const letter = await get(channel, dead);
    const [death] = letter.properties.headers['x-death'];
    assert.deepEqual([letter.bodyString(), death.queue, death.reason, Number(death.count)], ['m7', work, 'rejected', 1]);
    await letter.ack();
    await got[8].ack();
});

await behaviour('big', async () => {
    const body = '0123456789'.repeat(30000);
    await channel.basicPublish('', dead, body);
    const letter = await get(channel, dead);
    assert.equal(letter.bodyString(), body);
    await letter.ack();
});

await behaviour('reconnect', async () => {
    await consumer.cancel();
    for (let i = 0; i < 5; i++) await channel.basicPublish(exchange, 'order.new', `r${i}`, { deliveryMode: 2 });
    await restart();
    connection = await connect();
    channel = await connection.channel();
    const first = await get(channel, work);
    assert.equal(first.bodyString(), 'm9');
    assert.ok(first.redelivered);
    await first.ack();
    for (let i = 0; i < 5; i++) {
        const message = await get(channel, work);
        assert.equal(message.bodyString(), `r${i}`);
        await message.ack();
    }
});
await connection.close();
process.exit(0);
