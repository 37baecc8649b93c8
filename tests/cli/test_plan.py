"""nixie plan: the figures worked out by hand, through the command; and what it is given."""
import json

import pytest

from lib.server import run

NOWHERE = {"NIXIE_SERVER": "http://127.0.0.1:1"}  # arithmetic needs no server


def plan(*args, env=NOWHERE):
    done = run("plan", *args, env=env)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


OUTAGE = ("--rate", "2000/s", "--outage", "600")


@pytest.mark.parametrize("args, horizon, dead, claims", [
    (["--backoff", "fixed:60s", "--attempts", "5"], 240, 720_000, 8_000),
    (["--backoff", "list:30,60,120,240", "--attempts", "5"], 450, 300_000, 8_000),
    (["--backoff", "exp:15s,2,1h", "--attempts", "5"], 450, 300_000, 8_000),
    (["--backoff", "fixed:60s", "--attempts", "20"], 19 * 60, 0, 20_000),
])
def test_an_outage(args, horizon, dead, claims):
    assert plan(*OUTAGE, *args) == {"retry_horizon_seconds": horizon, "outage_dead_letters": dead,
                                    "outage_extra_claims_per_second": claims}


def test_poison():
    figures = plan("--rate", "2000/s", "--poison", "1/100000", "--handler", "2s", "--lease", "60s")
    assert figures == {"poison_per_day": pytest.approx(1728), "poison_workers_after_a_day": pytest.approx(57.6)}
    assert round(figures["poison_workers_after_a_day"]) == 58
    limited = plan("--rate", "2000/s", "--poison", "0.001%", "--handler", "2000ms", "--attempts", "5")
    assert limited == {"poison_per_day": pytest.approx(1728), "poison_workers_limited": pytest.approx(0.2)}


@pytest.mark.parametrize("attempts, dead", [("3", 172.8), ("5", 0.01728)])
def test_chance(attempts, dead):
    for share in ("1%", "0.01", "1/100"):
        figures = plan("--rate", "2000", "--transient", share, "--attempts", attempts)
        assert figures == {"false_dead_letters_per_day": pytest.approx(dead)}


def test_what_does_not_follow_is_left_out():
    assert list(plan("--backoff", "fixed:1m", "--attempts", "2", "--outage", "10m")) == ["retry_horizon_seconds"]
    assert list(plan("--rate", "5", "--poison", "0")) == ["poison_per_day"]
    everything = plan(*OUTAGE, "--backoff", "exp:1s", "--attempts", "3", "--poison", "1%", "--handler", "1s", "--lease", "5m",
                      "--transient", "5%")
    assert list(everything) == ["retry_horizon_seconds", "outage_dead_letters", "outage_extra_claims_per_second",
                                "poison_per_day", "poison_workers_after_a_day", "poison_workers_limited",
                                "false_dead_letters_per_day"]
    assert everything["retry_horizon_seconds"] == 2 + 4


def test_the_table():
    done = run("plan", *OUTAGE, "--backoff", "fixed:60s", "--attempts", "5", "--poison", "1/100000", "--handler", "2s", "--lease",
               "60s", "--transient", "1%", "-o", "table", env=NOWHERE)
    assert done.returncode == 0 and done.stderr == ""
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["FIGURE", "OF"]
    assert [row.split()[0] for row in rows] == ["4m00s", "720,000", "8,000", "1,728", "57.6", "0.2", "0.0173"]
    assert len({row.index(row.split()[1]) for row in rows}) == 1


def test_a_queues_policy(cli):
    cli.policy(max_retries=5, lease_seconds=60, backoff={"kind": "fixed", "base_seconds": 60})
    done = run("plan", *OUTAGE, "--poison", "1/100000", "--handler", "2s", "--queue", cli.queue, env=cli.env)
    assert done.returncode == 0
    figures = json.loads(done.stdout)
    assert figures["retry_horizon_seconds"] == 240 and figures["outage_dead_letters"] == 720_000
    assert figures["poison_workers_after_a_day"] == pytest.approx(57.6)
    assert "5 attempts, a lease of 60 s" in done.stderr and '"fixed"' in done.stderr

    # What is given comes first.
    figures = plan(*OUTAGE, "--queue", cli.queue, "--attempts", "20", "-q", env=cli.env)
    assert figures["retry_horizon_seconds"] == 19 * 60 and figures["outage_dead_letters"] == 0
    figures = plan("--queue", cli.queue, "--backoff", "fixed:1s", "-q", env=cli.env)
    assert figures == {"retry_horizon_seconds": 4}


def test_a_jitter_counts_with_its_average(cli):
    cli.policy(max_retries=5, backoff={"kind": "fixed", "base_seconds": 60, "jitter": "full"})
    assert plan("--queue", cli.queue, env=cli.env) == {"retry_horizon_seconds": 120}


def test_guards_in_the_policy_do_not_confuse_it(cli):
    cli.policy(breaker={}, rules=[{"error": "x*", "action": "dead"}], retry_budget=0.2, allow_from=["a"], owner="ops")
    assert plan("--queue", cli.queue, env=cli.env) == {"retry_horizon_seconds": 2 + 4}


def test_no_such_queue(cli, fake):
    assert "no such queue" in cli.fails(4, "plan", "--queue", "cli/never used")
    f = fake(lambda *_: (200, {"queue": "q", "policy": {"max_retries": "many"}}))
    assert "its policy is not one that this program knows" in f.cli.fails(1, "plan", "--queue", "q")
    f = fake(lambda *_: (200, {"queue": "q"}))
    f.cli.fails(1, "plan", "--queue", "q")


@pytest.mark.parametrize("args, said", [
    ([], "nothing follows from that"),
    (["--rate", "2000"], "nothing follows from that"),
    (["--rate", "-1"], "--rate -1: must be messages a second"),
    (["--rate", "2000/m"], "--rate 2000/m: must be"),
    (["--rate", "1e3"], "--rate 1e3: must be"),
    (["--rate", "inf"], "--rate inf: must be"),
    (["--rate", "1."], "--rate 1.: must be"),
    (["--outage", "5x"], "--outage 5x: must be a time"),
    (["--outage", "366d"], "at most 365d"),
    (["--handler", ""], "--handler : must be a time"),
    (["--poison", "101%"], "--poison 101%: must be a share"),
    (["--poison", "1/0"], "--poison 1/0: must be a share"),
    (["--poison", "1/2/3"], "--poison 1/2/3: must be a share"),
    (["--transient", "2"], "--transient 2: must be a share"),
    (["--transient", "1%x"], "must be a share"),
    (["--attempts", "0"], "--attempts 0: must be a whole number from 1 to 250"),
    (["--attempts", "251"], "--attempts 251: must be"),
    (["--lease", "13h"], "--lease 13h: must be"),
    (["--backoff", "60s"], "--backoff 60s: must be fixed:TIME, exp:BASE,FACTOR,CAP or list:TIME"),
    (["--backoff", "fixed:"], "--backoff fixed:: must be"),
    (["--backoff", "fixed:1,2"], "must be fixed:TIME"),
    (["--backoff", "exp:1s,0.9"], "must be fixed:TIME"),
    (["--backoff", "exp:1s,2,1h,1h"], "must be fixed:TIME"),
    (["--backoff", "exp:1s,x"], "must be fixed:TIME"),
    (["--backoff", "list:1,,2"], "must be fixed:TIME"),
    (["--backoff", "list:200ms"], "must be fixed:TIME"),
    (["--backoff", "list:" + ",".join(["1"] * 33)], "must be fixed:TIME"),
    (["--backoff", "fixed:" + "1" * 100], "must be fixed:TIME"),
    (["extra"], "extra: one argument too many"),
])
def test_wrong_usage(args, said):
    done = run("plan", *args, env=NOWHERE)
    assert done.returncode == 2, (done.returncode, done.stdout)
    assert said in done.stderr and done.stdout == ""
