"""Queues that nobody uses for too long, by a policy, and what a use is."""
import time

import pytest


@pytest.fixture
def policy(broker, queue):
    """policy(milliseconds) for the queue, or None: taken away."""
    def put(ms):
        if ms is None:
            broker.clear_policy(queue)
        else:
            broker.set_policy(queue, f"^{queue}$", {"expires": ms})
    yield put
    put(1000000)
    broker.clear_policy(queue)


def is_there(broker, queue):
    return any(q["queue"] == queue for q in broker.request("GET", "/queues?limit=1000")["queues"])


def is_gone_soon(broker, queue):
    deadline = time.monotonic() + 5
    while is_there(broker, queue) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_there(broker, queue)


def test_a_policy_reaches_a_queue_at_once(broker, queue, policy):
    policy(200)
    assert is_there(broker, queue)
    assert is_gone_soon(broker, queue)


def test_it_reaches_a_queue_that_only_http_knows(broker, policy, channel, queue):
    channel.queue_delete(queue)
    policy(200)
    broker.request("POST", f"/queues/{queue}/messages", {"payload": "x"})
    assert is_gone_soon(broker, queue)


def test_a_shorter_time_and_a_longer_one(broker, queue, policy):
    policy(100000)
    policy(150)
    policy(100000)
    time.sleep(0.4)
    assert is_there(broker, queue)
    policy(150)
    assert is_gone_soon(broker, queue)


def test_a_policy_that_is_taken_away_expires_nothing(broker, queue, policy):
    policy(300)
    policy(None)
    time.sleep(0.6)
    assert is_there(broker, queue)


def test_a_consumer_is_a_use_and_its_end(broker, channel, queue, policy):
    tag = channel.basic_consume(queue, lambda *a: None)
    policy(200)
    time.sleep(0.5)
    assert is_there(broker, queue)
    channel.basic_cancel(tag)
    assert is_gone_soon(broker, queue)


def test_claims_over_http_are_uses(broker, queue, policy):
    policy(400)
    for _ in range(6):
        time.sleep(0.15)
        assert broker.request("POST", f"/queues/{queue}/claim", {})["message"] is None
    broker.request("POST", f"/queues/{queue}/claim", {"wait_seconds": 1})
    assert is_there(broker, queue)
    assert is_gone_soon(broker, queue)


def test_it_is_known_after_a_restart(broker, channel, queue, policy):
    policy(3000)
    channel.connection.close()  # else the server waits for it
    broker.stop()
    broker.start()
    assert is_there(broker, queue)
    assert is_gone_soon(broker, queue)
