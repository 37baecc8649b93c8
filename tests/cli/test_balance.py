"""nixie balance: the equation of every queue, added up by the client."""
import json

import pytest

TERMS_IN = ("accepted", "moved_in")
TERMS_OUT = ("pending", "processing", "parked", "dead", "succeeded_total", "discarded_total", "moved_out")


def queue(name="q", **terms):
    return {"queue": name, "conservation": {**dict.fromkeys(TERMS_IN + TERMS_OUT, 0), "holds": True, **terms}}


def test_it_holds(cli):
    ids = cli.put("a", "b", "c", "d")
    cli.ok("claim", cli.queue, "--count", "3")
    cli.ok("succeed", cli.queue, str(ids[0]))
    cli.ok("fail", cli.queue, str(ids[1]), "--permanent")
    done = cli.run("balance", cli.queue)
    assert done.returncode == 0 and "holds for 1 of 1 queues" in done.stderr
    assert json.loads(done.stdout) == {"queue": cli.queue, **dict.fromkeys(TERMS_IN + TERMS_OUT, 0), "accepted": 4, "pending": 1,
                                       "processing": 1, "dead": 1, "succeeded_total": 1, "holds": True}
    head, row = cli.table("balance", cli.queue)
    assert head.split()[-2:] == ["HOLDS", "QUEUE"] and row.split() == [*"401101100", "true", cli.queue]


def test_all_queues(cli):
    cli.put("x")
    rows = cli.ok("balance")
    assert cli.queue in [r["queue"] for r in rows] and all(r["holds"] for r in rows)
    for r in rows:
        assert sum(r[k] for k in TERMS_IN) == sum(r[k] for k in TERMS_OUT)


def test_no_such_queue(cli):
    assert "no-such-queue" in cli.fails(4, "balance", "no-such-queue")
    cli.fails(2, "balance", "")


@pytest.mark.parametrize("broken, said", [
    (queue(accepted=3, dead=2), "q: 3 came in, and 2 are accounted for"),
    (queue(accepted=3, dead=2, holds=False), "q: 3 came in, and 2 are accounted for"),
    ({"queue": "q", "conservation": {"holds": True}}, "q: a term is missing"),
    ({"queue": "q"}, "q: a term is missing"),
    (queue(dead=-1), "q: a term is missing"),
    (queue(accepted=2**62, moved_in=2**62), "q: a term is missing"),
])
def test_it_does_not_hold(fake, broken, said):
    f = fake(lambda *_: (200, {"queues": [queue("fine", accepted=1, pending=1), broken], "count": 2}))
    done = f.cli.run("balance")
    assert done.returncode == 1 and said in done.stderr and "holds for 1 of 2 queues" in done.stderr
    assert [json.loads(line)["holds"] for line in done.stdout.splitlines()] == [True, False]


def test_many_pages(own_server):
    cli = own_server.cli
    for i in range(1001):
        cli.queue = f"q{i}"
        cli.policy()
    assert [r["queue"] for r in cli.ok("balance")] == [f"q{i}" for i in range(1001)]


def test_a_list_that_goes_round(fake):
    f = fake(lambda *_: (200, {"queues": [queue()] * 1000, "count": 1000}))
    assert "does not go on" in f.cli.fails(1, "balance", "-q")
