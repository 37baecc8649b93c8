// What the programs for Node.js share: lines about behaviours.
import readline from 'node:readline';

export const URL = process.env.AMQP_URL;
export const PREFIX = process.env.PREFIX;

// Everything after one that fails would fail, too, and only hide why.
export async function behaviour(name, what) {
    const limit = setTimeout(() => fail(name, new Error('no end within 40 s')), 40000);
    try {
        await what();
    } catch (e) {
        fail(name, e);
    }
    clearTimeout(limit);
    console.log(`ok ${name}`);
}

function fail(name, e) {
    console.log(`not ok ${name}: ${String(e.message || e).replaceAll('\n', ' ')}`);
    console.error(e);
    process.exit(1);
}

export function deferred() {
    const d = {};
    d.promise = new Promise((resolve, reject) => Object.assign(d, { resolve, reject }));
    return d;
}

export async function restart() {
    const lines = readline.createInterface({ input: process.stdin });
    console.log('restart');
    await new Promise((resolve) => lines.once('line', resolve));
    lines.close();
}
