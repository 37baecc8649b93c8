"""nixie work over time: leases, signals to stop, and a server that goes and comes back."""
import os
import signal
import time

from clitools import wait_until


def waits_for(file):
    """A command that says it runs, and ends when the file is there."""
    return ["sh", "-c", f'echo "$NIXIE_ID"; while [ ! -e {file} ]; do sleep 0.02; done']


def stays_in_processing(cli, id, seconds):
    end = time.monotonic() + seconds  # the time itself is what is tested
    while time.monotonic() < end:
        assert cli.status(id) == "processing"
        time.sleep(0.05)


# -- leases ---------------------------------------------------------------------------------------------------------------

def test_the_lease_is_renewed(cli, tmp_path):
    """The command runs three times as long as its lease."""
    [id] = cli.put("a")
    go = tmp_path / "go"
    worker = cli.work("--until-empty", "--lease", "1", "--", *waits_for(go))
    wait_until(lambda: worker.stdout())
    stays_in_processing(cli, id, seconds=3.5)
    go.touch()
    assert worker.process.wait(20) == 0
    m = cli.message(id)
    assert (m["status"], m["retry_count"], m["deliveries"]) == ("succeeded", 0, 1)


def test_leases_are_renewed_while_others_come_and_go(cli, tmp_path):
    """More results than fit into one exchange do not keep renewals waiting."""
    long = cli.put(*["long"] * 5)
    cli.api("POST", "/messages", [{"payload": "short"}] * 1000)
    go = tmp_path / "go"
    worker = cli.work("--until-empty", "-j", "100", "--lease", "5", "--", "sh", "-c",
                      f'if [ "$(cat)" = long ]; then while [ ! -e {go} ]; do sleep 0.1; done; fi')
    wait_until(lambda: cli.api("GET").json()["counts"]["succeeded"] == 1000, timeout=120)
    go.touch()
    assert worker.process.wait(20) == 0
    for m in map(cli.message, long):
        assert (m["status"], m["retry_count"], m["deliveries"]) == ("succeeded", 0, 1)


def test_a_message_that_is_no_longer_ours(cli, tmp_path):
    """Somebody else settles it: the command is ended, and says nothing about the message any more."""
    [id] = cli.put("a")
    pid = tmp_path / "pid"
    worker = cli.work("--until-empty", "--lease", "2", "--", "sh", "-c", f"echo $$ > {pid}; exec sleep 300")
    wait_until(lambda: pid.exists() and pid.read_text())
    cli.ok("succeed", cli.queue, id)
    assert worker.process.wait(20) == 0
    assert "no longer ours" in worker.stderr() and "0 succeeded, 0 failed, 0 dead, 1 no longer ours" in worker.stderr()
    assert cli.status(id) == "succeeded"
    assert not os.path.exists(f"/proc/{int(pid.read_text())}")


def test_a_result_that_comes_too_late(cli, tmp_path):
    [id] = cli.put("a")
    go = tmp_path / "go"
    worker = cli.work("--until-empty", "--", *waits_for(go))
    wait_until(lambda: worker.stdout())
    cli.ok("fail", cli.queue, id, "--permanent")
    go.touch()
    assert worker.process.wait(20) == 0
    assert f"{id}: no longer ours, its result does not count" in worker.stderr() and "(409)" in worker.stderr()
    assert cli.status(id) == "dead"


def test_renewal_goes_on_when_nobody_reads_our_stderr(cli):
    """A child that fills our stderr waits; leases are renewed all the same."""
    cli.policy(max_retries=1)
    [loud] = cli.put("loud")
    read, write = os.pipe()
    worker = cli.work("--until-empty", "-q", "--lease", "1", "--", "sh", "-c",
                      "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1", stderr=write)
    os.close(write)
    wait_until(lambda: cli.status(loud) == "processing")
    stays_in_processing(cli, loud, seconds=2.5)
    assert worker.process.poll() is None
    got = b""
    while chunk := os.read(read, 65536):
        got += chunk
    os.close(read)
    assert worker.process.wait(20) == 0
    assert got == b"x" * 1000000
    assert cli.message(loud)["detail"] == "x" * 8192


# -- stopping -------------------------------------------------------------------------------------------------------------

def test_stop_while_idle(cli):
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        worker = cli.work("--", "true")
        wait_until(lambda: cli.api("GET").status_code == 200)
        started = time.monotonic()
        assert worker.stop(sig) == 0
        assert time.monotonic() - started < 5  # not the whole long poll
        assert "0 succeeded, 0 failed, 0 dead" in worker.stderr()
        assert cli.ok("queues", cli.queue, "--delete") == []


def test_the_claim_of_a_stopped_worker_is_gone(cli):
    """A message that comes afterwards is for the next one."""
    worker = cli.work("--", "true")
    wait_until(lambda: cli.api("GET").status_code == 200)
    assert worker.stop() == 0
    [id] = cli.put("a")
    assert cli.status(id) == "pending"


def test_first_stop_lets_children_finish(cli, tmp_path):
    ids = cli.put("a", "b", "c")
    go = tmp_path / "go"
    worker = cli.work("-j", "2", "--", *waits_for(go))
    wait_until(lambda: len(worker.stdout().split()) == 2)
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping when what runs is done" in worker.stderr())
    assert worker.process.poll() is None
    go.touch()
    assert worker.process.wait(20) == 0
    assert [cli.status(id) for id in ids] == ["succeeded", "succeeded", "pending"]
    assert "2 succeeded" in worker.stderr()


def test_second_stop_ends_children_and_releases(cli, tmp_path):
    [id] = cli.put("a")
    worker = cli.work("--", *waits_for(tmp_path / "never"))
    wait_until(lambda: worker.stdout())
    worker.process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in worker.stderr())
    assert worker.stop(signal.SIGINT) == 0
    m = cli.message(id)
    assert (m["status"], m["retry_count"], m["last_error"]) == ("pending", 0, None)
    assert cli.events(id) == ["claimed", "released"]
    assert "1 released" in worker.stderr()


def test_third_stop_kills(cli, tmp_path):
    [id] = cli.put("a")
    worker = cli.work("--", "sh", "-c", "trap '' TERM; echo $NIXIE_ID; while :; do sleep 300; done")
    wait_until(lambda: worker.stdout())
    for said in ("stopping", "ending"):
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: said in worker.stderr())
    assert worker.stop(timeout=4) == 0
    assert cli.events(id) == ["claimed", "released"]


def test_nohup(cli):
    worker = cli.work("--once", "--", "true", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until(lambda: cli.api("GET").status_code == 200)
    worker.process.send_signal(signal.SIGHUP)
    [id] = cli.put("a")
    assert worker.process.wait(20) == 0
    assert cli.status(id) == "succeeded"


def test_ctrl_c_does_not_reach_the_children(cli, tmp_path):
    """The terminal sends SIGINT to the whole foreground group; a child is not in it."""
    [id] = cli.put("a")
    go = tmp_path / "go"
    worker = cli.work("--", *waits_for(go), start_new_session=True)
    wait_until(lambda: worker.stdout())
    os.killpg(worker.process.pid, signal.SIGINT)
    wait_until(lambda: "stopping" in worker.stderr())
    go.touch()
    assert worker.process.wait(20) == 0
    assert cli.status(id) == "succeeded"


# -- the server goes away ---------------------------------------------------------------------------------------------------

def test_it_waits_for_a_server(own_server):
    """Started before the server is there, and again while it is gone."""
    c = own_server.cli
    own_server.stop()
    worker = c.work("--", "cat")
    wait_until(lambda: "trying again until it answers" in worker.stderr())
    own_server.start()
    c.put("one")
    wait_until(lambda: worker.stdout() == "one")
    own_server.restart(kill=True)
    c.put("two")
    wait_until(lambda: worker.stdout() == "onetwo")
    assert "the server answers again" in worker.stderr()
    assert worker.stop() == 0
    assert c.api("GET").json()["counts"]["succeeded"] == 2


def test_a_result_survives_a_restart(own_server, tmp_path):
    """The command ends while the server is down; its result arrives when it is back."""
    c = own_server.cli
    ids = c.put("a", "b", "c")
    go, done = tmp_path / "go", tmp_path / "done"
    worker = c.work("-j", "3", "--", "sh", "-c", f'echo "$NIXIE_ID"; while [ ! -e {go} ]; do sleep 0.02; done; touch {done}-$NIXIE_ID')
    wait_until(lambda: len(worker.stdout().split()) == 3)
    own_server.kill()
    go.touch()
    wait_until(lambda: all(os.path.exists(f"{done}-{id}") for id in ids))
    wait_until(lambda: "trying again" in worker.stderr())
    own_server.start()
    wait_until(lambda: [c.status(id) for id in ids] == ["succeeded"] * 3)
    assert [c.message(id)["deliveries"] for id in ids] == [1, 1, 1]
    assert worker.stop() == 0
    assert "3 succeeded, 0 failed, 0 dead" in worker.stderr()


def test_many_messages_over_kills(own_server):
    """Every message succeeds, whatever was under way when the server was killed; a few may be handed out twice."""
    c = own_server.cli
    c.policy(lease_seconds=2, max_retries=10, backoff={"kind": "fixed", "base_seconds": 0})
    for _ in range(4):
        c.api("POST", "/messages", [{"payload": ""}] * 100)
    worker = c.work("-j", "4", "--lease", "2", "--", "sh", "-c", "sleep 0.01; echo $NIXIE_ID")
    for part in (50, 150, 250):
        wait_until(lambda: len(worker.stdout().split()) >= part, timeout=60)
        own_server.restart(kill=True)
    wait_until(lambda: c.api("GET").json()["counts"]["succeeded"] == 400, timeout=60)
    assert worker.stop() == 0
    counts = c.api("GET").json()["conservation"]
    assert counts["accepted"] == counts["succeeded_total"] == 400 and counts["holds"]


def test_second_stop_does_not_wait_for_a_server(own_server, tmp_path):
    c = own_server.cli
    c.put("a")
    worker = c.work("--", *waits_for(tmp_path / "go"))
    wait_until(lambda: worker.stdout())
    own_server.kill()
    (tmp_path / "go").touch()
    wait_until(lambda: "trying again" in worker.stderr())
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in worker.stderr())
    assert worker.stop() == 7
    assert "1 with a result the server did not get" in worker.stderr()


def test_a_deleted_queue(cli, tmp_path):
    """Its messages are not ours any more, new ones in a new queue of that name are."""
    cli.put("a")
    go = tmp_path / "go"
    worker = cli.work("--", *waits_for(go))
    wait_until(lambda: worker.stdout())
    cli.ok("queues", cli.queue, "--delete", "--discard", "--yes")
    go.touch()
    wait_until(lambda: "no longer ours" in worker.stderr())
    [id] = cli.put("b")
    wait_until(lambda: cli.status(id) == "succeeded")
    assert worker.stop() == 0


# -- what it costs ----------------------------------------------------------------------------------------------------------

def test_idle_costs_nothing(cli):
    """A worker that waits neither spins nor asks all the time."""
    worker = cli.work("-j", "4", "--", "true")
    wait_until(lambda: cli.api("GET").status_code == 200)
    time.sleep(1)  # the time itself is what is measured
    fields = open(f"/proc/{worker.process.pid}/stat").read().rsplit(")")[-1].split()
    assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < 0.3
    assert worker.stop() == 0


def test_busy_child_costs_nothing(cli, tmp_path):
    cli.put("a")
    go = tmp_path / "go"
    worker = cli.work("--until-empty", "--", *waits_for(go))
    wait_until(lambda: worker.stdout())
    before = sum(map(int, open(f"/proc/{worker.process.pid}/stat").read().rsplit(")")[-1].split()[11:13]))
    time.sleep(1)
    after = sum(map(int, open(f"/proc/{worker.process.pid}/stat").read().rsplit(")")[-1].split()[11:13]))
    assert (after - before) / os.sysconf("SC_CLK_TCK") < 0.1
    go.touch()
    assert worker.process.wait(20) == 0


def test_no_descriptor_leaks(cli):
    worker = cli.work("-j", "4", "--", "true")

    def after(count):
        cli.api("POST", "/messages", [{"payload": ""}] * 100)
        wait_until(lambda: cli.api("GET").json()["counts"]["succeeded"] == count, timeout=60)
        return len(os.listdir(f"/proc/{worker.process.pid}/fd"))

    early = after(100)
    assert after(200) <= early + 1  # a connection more or less
    assert worker.stop() == 0
