#!/usr/bin/env node
// A worker in JavaScript (Node 18 or newer), no packages: worker.mjs URL QUEUE
// It works on up to 10 messages at a time and makes one request a round: settle these, claim more.
const [url, queue] = process.argv.slice(2);
const settleUrl = `${url.replace(/\/$/, '')}/queues/${encodeURIComponent(queue)}/settle`;

async function handle(text) { // your work goes here; doing it twice must do no harm
  const letter = JSON.parse(text);
  if (!letter.to) throw new TypeError('letter has no "to"');
  console.log(`to ${letter.to}: ${letter.text}`);
}

async function work({ id, lease, payload }) {
  try {
    await handle(payload);
    return { id, lease, action: 'succeed' };
  } catch (e) {
    const permanent = e instanceof SyntaxError; // bad data never gets better
    return { id, lease, action: 'fail', permanent,
      error: e.message, error_class: e.name, detail: e.stack };
  }
}

let items = [];
for (;;) {
  try {
    const claim = { count: 10, wait_seconds: 20, lease_seconds: 60, worker: 'worker.mjs' };
    const reply = await fetch(settleUrl, { method: 'POST',
      headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ items, claim }) });
    if (!reply.ok) throw new Error(`HTTP ${reply.status}: ${await reply.text()}`);
    const { results, messages } = await reply.json();
    for (const r of results) if (r.error) console.error(`message ${r.id}: ${r.error.title}`);
    items = await Promise.all(messages.map(work));
  } catch (e) { // no server: what was done is settled in the next round
    console.error(e.cause?.message ?? e.message);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
