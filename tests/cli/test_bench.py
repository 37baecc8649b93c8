"""nixie bench: what it sends. What it measures is for bench/."""
import json

import pytest


def keys(cli):
    messages = cli.api("GET", "/messages?limit=1000").json()["messages"]
    return [m.get("key") for m in messages]


@pytest.mark.parametrize("mode, batch", [("enqueue", []), ("batch-enqueue", ["-b", "7"]), ("batch-enqueue", ["-b", "1"])])
def test_keys_go_round(cli, mode, batch):
    done = cli.run("bench", cli.queue, "-m", mode, *batch, "-c", "1", "-n", "14", "--size", "5", "--keys", "3", "--first-key", "8", "-o", "json")
    assert done.returncode == 0 and json.loads(done.stdout), done.stderr
    assert keys(cli) == [f"{8 + i % 3:010}" for i in range(14)]


def test_without_keys(cli):
    assert cli.run("bench", cli.queue, "-m", "enqueue", "-n", "5").returncode == 0
    assert keys(cli) == [None] * 5


def test_cycles_of_an_ordered_queue(cli):
    """No claim brings too little: there are more keys than messages at work."""
    cli.policy(order="block")
    done = cli.run("bench", cli.queue, "-m", "batch-cycle", "-c", "4", "-b", "10", "-n", "400", "--keys", "1000")
    assert done.returncode == 0, done.stderr
    counts = cli.api("GET").json()["counts"]
    assert counts["succeeded"] == 400 and counts["pending"] == 0
