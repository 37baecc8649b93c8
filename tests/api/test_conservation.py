"""The equation after every step of longer stories. (Each other test checks it once more at its end.)"""
import random

import pytest

from lib.client import at


def terms(queue, now=None):
    c = queue.info(**({"now": now} if now else {}))["conservation"]
    assert c["holds"]
    return tuple(c[k] for k in ("accepted", "pending", "processing", "dead", "succeeded_total", "discarded_total"))


def test_step_by_step(queue):
    queue.put(retention={"dead_seconds": 1000, "succeeded_seconds": 10})
    assert terms(queue) == (0, 0, 0, 0, 0, 0)
    queue.batch([{"payload": str(i), "max_retries": 2} for i in range(4)])
    assert terms(queue) == (4, 4, 0, 0, 0, 0)
    a, b, c = queue.claim_many(3)
    assert terms(queue) == (4, 1, 3, 0, 0, 0)
    queue.succeed(a)
    assert terms(queue) == (4, 1, 2, 0, 1, 0)
    queue.fail(b)
    assert terms(queue) == (4, 2, 1, 0, 1, 0)
    queue.fail(c, permanent=True)
    assert terms(queue) == (4, 2, 0, 1, 1, 0)
    queue.replay(c)
    assert terms(queue) == (4, 3, 0, 0, 1, 0)
    assert all([queue.claim(now=at(2), lease_seconds=5) for _ in range(3)])
    assert terms(queue, at(6)) == (4, 0, 3, 0, 1, 0)
    # One of them dies of its second failure, the others come back.
    assert terms(queue, at(7)) == (4, 2, 0, 1, 1, 0)
    assert terms(queue, at(2000)) == (4, 2, 0, 0, 1, 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_random_walk(queue, seed):
    rng = random.Random(seed)
    queue.put(max_retries=2, retention={"dead_seconds": 500, "succeeded_seconds": 50, "succeeded_max": 5}, lease_seconds=20)
    now = 0
    for _ in range(300):
        now += rng.choice([0, 0, 0, 1, 5, 30])
        step = rng.randrange(8)
        if step < 2:
            queue.batch([{"payload": str(now), **({"ttl_seconds": 40} if rng.random() < 0.2 else {})}
                         for _ in range(rng.randrange(1, 5))], now=at(now))
        elif step < 6:
            for m in queue.claim_many(rng.randrange(1, 4), now=at(now)):
                verb = rng.choice(["succeed", "fail", "release", "extend", None])
                if verb:
                    queue.act(m, verb, now=at(now))
        else:
            for d in queue.list(now=at(now), status="dead", limit=2):
                queue.replay(d, now=at(now), force=True)
        terms(queue, at(now))
    info = queue.info()
    by_state = {s: len(queue.list(status=s, limit=1000)) for s in ("pending", "processing", "dead", "succeeded")}
    assert by_state == {s: info["counts"][s] for s in by_state}
