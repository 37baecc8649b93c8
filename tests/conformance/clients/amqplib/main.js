// amqplib, the client for Node.js that most programs use.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { PREFIX, URL, behaviour, deferred, restart } from '../report.mjs';

const amqp = createRequire(new globalThis.URL('../../node/package.json', import.meta.url))('amqplib');

async function connect() {
    for (let i = 0; ; i++) {
        try {
            const connection = await amqp.connect(URL);
            connection.on('error', () => {});
            return connection;
        } catch (e) {
            if (i === 100) throw e;
            await sleep(100);
        }
    }
}

async function get(channel, queue) {
    for (let i = 0; i < 200; i++) {
        const message = await channel.get(queue);
        if (message) return message;
        await sleep(50);
    }
    throw new Error(`no message in ${queue}`);
}

let connection = await connect();
let channel = await connection.createConfirmChannel();
channel.on('error', () => {});
const [exchange, work, dead] = ['x', 'work', 'dead'].map((what) => `${PREFIX}.${what}`);

await behaviour('declare', async () => {
    for (let i = 0; i < 2; i++) {
        await channel.assertExchange(exchange, 'topic', { durable: true });
        await channel.assertQueue(work, { durable: true, deadLetterExchange: '', deadLetterRoutingKey: dead });
        await channel.assertQueue(dead, { durable: true });
    }
    const other = await connection.createChannel();
    other.on('error', () => {});
    await assert.rejects(other.checkQueue(`${PREFIX}.missing`), (e) => e.code === 404);
    await channel.checkQueue(work);
});

await behaviour('bind', () => channel.bindQueue(work, exchange, 'order.*'));

await behaviour('confirm', async () => {
    for (let i = 0; i < 10; i++) {
        const options = { persistent: true, messageId: `id-${i}`, headers: { n: i, text: 'ü', list: [1, null, { deep: true }] } };
        channel.publish(exchange, 'order.new', Buffer.from(`m${i}`), options);
    }
    await channel.waitForConfirms();
});

await behaviour('return', async () => {
    const returned = once(channel, 'return');
    channel.publish('', `${PREFIX}.nobody`, Buffer.from('x'), { mandatory: true });
    await channel.waitForConfirms();
    assert.equal((await returned)[0].fields.replyCode, 312);
});

const consuming = await connection.createChannel();
consuming.on('error', () => {});
const got = [];
const take = async (n) => {
    for (let i = 0; got.length < n && i < 200; i++) await sleep(50);
    assert.ok(got.length >= n, `${got.length} of ${n} messages`);
};

await behaviour('consume', async () => {
    await consuming.prefetch(10);
    await consuming.consume(work, (message) => got.push(message), { consumerTag: 'one' });
    await take(10);
    got.forEach((message, i) => {
        assert.equal(message.content.toString(), `m${i}`);
        assert.deepEqual({ ...message.properties.headers }, { n: i, text: 'ü', list: [1, null, { deep: true }] });
        assert.equal(message.properties.messageId, `id-${i}`);
    });
});

await behaviour('ack', async () => consuming.ack(got[5], true));

await behaviour('requeue', async () => {
    consuming.nack(got[6], false, true);
    await take(11);
    assert.equal(got[10].content.toString(), 'm6');
    assert.ok(got[10].fields.redelivered);
    consuming.ack(got[10]);
});

await behaviour('reject', async () => {
    consuming.reject(got[7], false);
    const letter = await get(channel, dead);
    const [death] = letter.properties.headers['x-death'];
    assert.deepEqual([letter.content.toString(), death.queue, death.reason, death.count], ['m7', work, 'rejected', 1]);
    channel.ack(letter);
    consuming.ack(got[8]);
});

await behaviour('big', async () => {
    const body = Buffer.alloc(300000, '0123456789');
    channel.sendToQueue(dead, body);
    const letter = await get(channel, dead);
    assert.ok(letter.content.equals(body));
    channel.ack(letter);
    await channel.waitForConfirms();
});

await behaviour('reconnect', async () => {
    await consuming.cancel('one');
    for (let i = 0; i < 5; i++) channel.publish(exchange, 'order.new', Buffer.from(`r${i}`), { persistent: true });
    await channel.waitForConfirms();
    const closed = deferred();
    connection.on('close', closed.resolve);
    await restart();
    await closed.promise;
    connection = await connect();
    channel = await connection.createChannel();
    const first = await get(channel, work);
    assert.equal(first.content.toString(), 'm9');
    assert.ok(first.fields.redelivered);
    channel.ack(first);
    for (let i = 0; i < 5; i++) {
        const message = await get(channel, work);
        assert.equal(message.content.toString(), `r${i}`);
        channel.ack(message);
    }
    await channel.close();
});
await connection.close();
process.exit(0);
