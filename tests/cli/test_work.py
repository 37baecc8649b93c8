"""nixie work: what a command sees, and what becomes of its message."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from clitools import wait_until

from lib.server import NIXIE, environment, run


def outcome(cli, id):
    m = cli.message(id)
    return m["status"], m.get("reason"), m.get("error_class"), m["last_error"]


# -- what the command sees ------------------------------------------------------------------------------------------------

def test_payload_and_environment(cli):
    [id] = cli.ok("enqueue", cli.queue, "-", "-H", "X-Event=push", "-H", "a.b=1 2", "-k", "k ü", stdin="p ä\n".encode())
    id = id["id"]
    cli.put("second")
    worker = cli.work_all("--", "sh", "-c", 'cat; echo; env | grep "^NIXIE_"')
    assert worker.code == 0
    first, second = worker.stdout().split("second\n")
    assert first.startswith("p ä\n\n")
    env = dict(line.split("=", 1) for line in first.splitlines() if line.startswith("NIXIE_"))
    del env["NIXIE_SERVER"]
    assert json.loads(env.pop("NIXIE_HEADERS")) == {"X-Event": "push", "a.b": "1 2"}
    assert env == {"NIXIE_ID": str(id), "NIXIE_QUEUE": cli.queue, "NIXIE_ATTEMPT": "1", "NIXIE_KEY": "k ü",
                   "NIXIE_LEASE": cli_lease(env), "NIXIE_HEADER_X_EVENT": "push", "NIXIE_HEADER_A_B": "1 2"}
    assert "NIXIE_KEY=" not in second and "NIXIE_HEADER_" not in second and "NIXIE_HEADERS={}" in second
    assert "2 succeeded, 0 failed, 0 dead" in worker.stderr()


def cli_lease(env):
    assert env["NIXIE_LEASE"]
    return env["NIXIE_LEASE"]


def test_a_worker_in_a_worker_does_not_inherit(cli):
    cli.put("a")
    worker = cli.work("--until-empty", "--", "sh", "-c", "env", env={"NIXIE_KEY": "old", "NIXIE_HEADER_OLD": "old", "OTHER": "kept"})
    assert worker.process.wait(20) == 0
    assert "old" not in worker.stdout() and "OTHER=kept" in worker.stdout()


def test_headers_that_are_no_strings(cli):
    cli.put("a", headers={"n": 5, "o": {"x": [1, None]}, "nul": "a\0b", "": "empty"})
    worker = cli.work_all("--", "sh", "-c", 'env | grep "^NIXIE_HEADER"')
    env = dict(line.split("=", 1) for line in worker.stdout().splitlines())
    assert json.loads(env["NIXIE_HEADERS"])["nul"] == "a\0b"
    assert env["NIXIE_HEADER_N"] == "5" and json.loads(env["NIXIE_HEADER_O"]) == {"x": [1, None]}
    assert "NIXIE_HEADER_NUL" not in env and env["NIXIE_HEADER_"] == "empty"


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x1b" * 300, bytes(range(256)) * 4000, b"x" * 1048576],
                         ids=["empty", "small", "binary", "largest"])
def test_any_payload(cli, tmp_path, data):
    file, copy = tmp_path / "in", tmp_path / "copy"
    file.write_bytes(data)
    cli.ok("enqueue", cli.queue, "-f", file)
    assert cli.work_all("--", "sh", "-c", f"cat > {copy}").code == 0
    assert copy.read_bytes() == data


def test_big_payload_that_is_not_read(cli, tmp_path):
    file = tmp_path / "in"
    file.write_bytes(b"x" * 1000000)
    ids = [cli.ok("enqueue", cli.queue, "-f", file)[0]["id"] for _ in range(3)]
    assert cli.work_all("--", "true").code == 0
    assert [cli.status(id) for id in ids] == ["succeeded"] * 3
    ids = [cli.ok("enqueue", cli.queue, "-f", file)[0]["id"] for _ in range(2)]
    assert cli.work_all("--", "sh", "-c", "head -c 10 >/dev/null; exec <&-; sleep 0.1; exit 0").code == 0
    assert [cli.status(id) for id in ids] == ["succeeded"] * 2


def test_output_passes_through(cli):
    cli.put("a")
    worker = cli.work_all("-q", "--", "sh", "-c", "echo to-out; echo to-err >&2")
    assert worker.stdout() == "to-out\n" and worker.stderr() == "to-err\n"


def test_the_child_has_no_other_descriptor(cli, script):
    cli.put("a", "b")
    look = script("import os\nos.write(1, b'%a\\n' % sorted(int(fd) for fd in os.listdir('/proc/self/fd')))", sys.executable)
    read, write = os.pipe()
    worker = cli.work("--until-empty", "-j", "2", "--", look, pass_fds=[read, write])
    assert worker.process.wait(20) == 0
    os.close(read)
    os.close(write)
    # 3 is the directory that is being listed
    assert worker.stdout() == "[0, 1, 2, 3]\n" * 2


def test_the_child_has_default_signals_and_its_own_group(cli):
    cli.put("a")
    worker = cli.work_all("--", "sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f1,5 /proc/$$/stat")
    _, blocked, _, ignored, pid, group = worker.stdout().split()
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & 1 << (signal.SIGPIPE - 1) == 0
    assert pid == group


# -- what becomes of the message --------------------------------------------------------------------------------------------

def test_exit_codes(cli):
    cli.policy(max_retries=1)
    ids = {code: cli.put(str(code))[0] for code in (0, 1, 3, 64, 65, 66, 126, 255)}
    worker = cli.work_all("--", "sh", "-c", "exit $(cat)")
    assert worker.code == 0
    assert outcome(cli, ids[0]) == ("succeeded", None, None, None)
    assert outcome(cli, ids[65]) == ("dead", "permanent", "exit 65", "ended with exit status 65")
    for code in (1, 3, 64, 66, 126, 255):
        assert outcome(cli, ids[code]) == ("dead", "max_retries", f"exit {code}", f"ended with exit status {code}")
    assert "1 succeeded, 0 failed, 7 dead" in worker.stderr()


@pytest.mark.parametrize("name", ["SEGV", "ABRT", "KILL", "TERM", "PIPE", "USR1", "HUP", "INT"])
def test_signals(cli, name):
    cli.policy(max_retries=1)
    [id] = cli.put("x")
    cli.work_all("--", "sh", "-c", f"kill -{name} $$")
    assert outcome(cli, id) == ("dead", "max_retries", f"SIG{name}", f"killed by SIG{name}")


def test_failed_is_retried(cli):
    cli.policy(max_retries=3, backoff={"kind": "fixed", "base_seconds": 0})
    [id] = cli.put("x")
    worker = cli.work_all("--", "sh", "-c", 'test "$NIXIE_ATTEMPT" = 3')
    assert cli.status(id) == "succeeded"
    assert cli.events(id) == ["claimed", "failed", "claimed", "failed", "claimed", "succeeded"]
    assert "1 succeeded, 2 failed, 0 dead" in worker.stderr()
    assert f"{id}: failed, will be retried (exit 1: ended with exit status 1)" in worker.stderr()


def test_error_is_the_last_line_and_detail_the_end(cli):
    cli.policy(max_retries=1)
    [a, b] = cli.put("a", "b")
    said = 'printf "first\\nTraceback: äö\\n\\n   \\n" >&2; exit 2'
    cli.work_all("--", "sh", "-c", said)
    m = cli.message(a)
    assert m["last_error"] == "Traceback: äö" and m["detail"] == "first\nTraceback: äö\n\n   \n"
    assert cli.message(b)["error_class"] == "exit 2"


def test_detail_is_the_last_8_kib(cli, script):
    cli.policy(max_retries=1)
    [id] = cli.put("a")
    text = "".join(f"line {i} ä\n" for i in range(10000)) + "the end"
    noisy = script(f"import sys\nsys.stderr.write(''.join(f'line {{i}} ä\\n' for i in range(10000)) + 'the end')\nsys.exit(9)",
                   sys.executable)
    worker = cli.work_all("-q", "--", noisy)
    m = cli.message(id)
    assert m["last_error"] == "the end"
    assert text.endswith(m["detail"]) and 8192 - 2 <= len(m["detail"].encode()) <= 8192
    assert worker.stderr() == text


def test_stderr_of_any_bytes(cli):
    cli.policy(max_retries=1)
    [id] = cli.put("a")
    cli.work_all("--", "sh", "-c", r"printf 'bad \377\300 \033[31m\000 end' >&2; exit 1")
    m = cli.message(id)
    assert m["detail"] == m["last_error"] == "bad \ufffd\ufffd \x1b[31m\0 end"


def test_one_long_line(cli):
    cli.policy(max_retries=1)
    [id] = cli.put("a")
    cli.work_all("-q", "--", "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
    m = cli.message(id)
    assert m["last_error"] == "x" * 4096 and m["detail"] == "x" * 8192


def test_a_child_that_leaves_a_daemon_behind(cli):
    """The daemon holds the pipe of stderr open: the message does not wait for it."""
    [id] = cli.put("a")
    worker = cli.work_all("--", "sh", "-c", "sleep 300 & echo $!", timeout=15)
    assert cli.status(id) == "succeeded"
    os.kill(int(worker.stdout()), signal.SIGKILL)


def test_kill_after(cli):
    cli.policy(max_retries=1)
    [id] = cli.put("a")
    worker = cli.work_all("--kill-after", "1", "--", "sh", "-c", "echo working >&2; sleep 300 & wait", timeout=15)
    assert outcome(cli, id) == ("dead", "max_retries", "timeout", "ended because it ran longer than 1 s")
    assert cli.message(id)["detail"] == "working\n"
    assert "1 dead" in worker.stderr()


def test_kill_after_of_a_stubborn_child(cli, script):
    """It ignores SIGTERM, and so does what it started: SIGKILL for the whole group."""
    cli.policy(max_retries=1)
    [id] = cli.put("a")
    pids = cli.tmp / "pids"
    stubborn = script(f"trap '' TERM; sleep 300 & echo $$ $! > {pids}; while :; do sleep 300; done")
    cli.work_all("--kill-after", "1", "--", stubborn, timeout=30)
    assert outcome(cli, id)[2] == "timeout"
    for pid in map(int, pids.read_text().split()):
        wait_until(lambda: not os.path.exists(f"/proc/{pid}") or
                   open(f"/proc/{pid}/stat").read().rsplit(")")[-1].split()[0] == "Z")


def test_a_command_that_cannot_be_started(cli, script):
    """A script whose interpreter is missing: no message pays for it, and the worker ends."""
    [id] = cli.put("a")
    worker = cli.work_all("--", script("", "/no/such/interpreter"))
    assert worker.code == 1 and "cannot start" in worker.stderr() and "1 released" in worker.stderr()
    m = cli.message(id)
    assert (m["status"], m["retry_count"]) == ("pending", 0)


def test_headers_that_do_not_fit(fake):
    big = {"h": "x" * 3000000}
    settled = []

    def reply(method, path, body):
        settled.extend(body["items"])
        if settled:
            return 200, {"results": [{"id": 1, "status": "dead"}], "messages": []}
        return 200, {"results": [], "messages": [{"id": 1, "lease": "1-1", "payload": "", "attempt": 1, "headers": big}]}
    worker = fake(reply).cli.work_all("--", "true")
    assert worker.code == 0
    assert settled[0]["error_class"] == "E2BIG" and settled[0]["action"] == "fail"


# -- many at once -------------------------------------------------------------------------------------------------------------

def test_each_message_once(cli):
    ids = []
    for i in range(3):
        ids += cli.api("POST", "/messages", [{"payload": str(i)}] * 100).json()["ids"]
    worker = cli.work_all("-j", "8", "--", "sh", "-c", 'echo "$NIXIE_ID"')
    assert sorted(map(int, worker.stdout().split())) == ids
    assert "300 succeeded, 0 failed, 0 dead" in worker.stderr()
    assert cli.api("GET").json()["counts"]["succeeded"] == 300


def test_jobs_run_at_the_same_time(cli, tmp_path):
    """Each of four waits until four are there."""
    cli.put(*"abcd")
    meet = f'touch {tmp_path}/here-$NIXIE_ID; while [ $(ls {tmp_path} | grep -c here) -lt 4 ]; do sleep 0.01; done'
    assert cli.work_all("-j", "4", "--", "sh", "-c", meet, timeout=30).code == 0
    assert cli.api("GET").json()["counts"]["succeeded"] == 4


def test_no_more_than_jobs(cli, tmp_path):
    cli.api("POST", "/messages", [{"payload": ""}] * 30)
    count = f'touch {tmp_path}/run-$NIXIE_ID; ls {tmp_path} | grep -c run; sleep 0.05; rm {tmp_path}/run-$NIXIE_ID'
    worker = cli.work_all("-j", "3", "--", "sh", "-c", count)
    assert max(map(int, worker.stdout().split())) <= 3


def test_two_workers_share(cli):
    ids = cli.api("POST", "/messages", [{"payload": ""}] * 100).json()["ids"]
    workers = [cli.work("--until-empty", "-j", "2", "--", "sh", "-c", 'echo "$NIXIE_ID"') for _ in range(2)]
    for w in workers:
        assert w.process.wait(60) == 0
    assert sorted(int(id) for w in workers for id in w.stdout().split()) == ids


def test_order(cli):
    low = cli.put("1", "2")
    high = cli.put("3", priority=9)
    worker = cli.work_all("--", "sh", "-c", 'echo "$NIXIE_ID"')
    assert list(map(int, worker.stdout().split())) == high + low


# -- how it ends by itself ------------------------------------------------------------------------------------------------------

def test_once(cli):
    ids = cli.put("a", "b")
    worker = cli.work("--once", "-j", "4", "--", "true")
    assert worker.process.wait(20) == 0
    assert [cli.status(id) for id in ids] == ["succeeded", "pending"]


def test_once_waits(cli):
    worker = cli.work("--once", "--", "cat")
    wait_until(lambda: cli.api("GET").status_code == 200)  # its claim waits: the queue is there
    cli.put("late")
    assert worker.process.wait(20) == 0 and worker.stdout() == "late"


def test_once_until_empty_with_nothing_is_4(cli):
    cli.policy()
    assert cli.work_all("--once").code == 2  # no command
    assert cli.work_all("--once", "--", "true").code == 4


def test_until_empty_takes_what_its_commands_enqueue(cli, script):
    """A command puts a message into its own queue: it is not empty then."""
    cli.put("3")
    again = script(f'n=$(cat); [ "$n" = 0 ] || {NIXIE} enqueue -q "$NIXIE_QUEUE" $((n - 1)) > /dev/null; echo "$n"')
    worker = cli.work_all("--", again)
    assert worker.stdout() == "3\n2\n1\n0\n"
    cli.policy()
    assert cli.work_all("--", "true").code == 0  # nothing at all


def test_until_empty_without_the_queue_is_4(cli):
    worker = cli.work_all("--", "true")
    assert worker.code in (0, 4)


def test_the_story_names_the_worker(cli):
    ids = cli.put("a", "b")
    cli.work("--once", "--worker", "w ü", "--worker-version", "1.2", "--", "false").process.wait(20)
    assert cli.story(ids[0])[0]["worker"] == "w ü"
    cli.work_all("--", "false")
    assert re.fullmatch(r".+:\d+", cli.story(ids[1])[0]["worker"])


def test_wrong_token_is_6(start):
    server = start("--token", "secret", test_clock=False)
    done = run("work", "q", "--", "true", env={"NIXIE_SERVER": f"http://{server.host}:{server.port}"})
    assert done.returncode == 6 and "(401)" in done.stderr and "--token-file" in done.stderr


def test_no_nixie_there_is_4(fake):
    done = fake(lambda *_: (404, b"not here", "text/plain")).cli.run("work", "q", "--", "true")
    assert done.returncode == 4 and "is that a Nixie server?" in done.stderr


def test_standard_descriptors_that_are_closed(cli):
    [id] = cli.put("a")
    code = f'exec "{NIXIE}" work "{cli.queue}" --until-empty -- sh -c "cat >/dev/null; exit 0" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", code], env=environment(cli.env), timeout=30).returncode == 0
    assert cli.status(id) == "succeeded"


# -- again at once ----------------------------------------------------------------------------------------------------------

COUNT = 'echo run >> "$0"; test $(wc -l < "$0") -gt "$1"'  # fails so often


def runs(path):
    return len(path.read_text().split()) if path.exists() else 0


@pytest.mark.parametrize("fails, succeeds", [(0, True), (1, True), (3, True), (4, False)])
def test_retry_now_is_one_attempt(cli, tmp_path, fails, succeeds):
    log = tmp_path / "runs"
    [id] = cli.put("p", max_retries=1)
    worker = cli.work_all("--retry-now", "3", "--", "sh", "-c", COUNT, str(log), str(fails))
    assert worker.code == 0 and runs(log) == min(fails, 3) + 1
    m = cli.message(id)
    assert (m["status"], m["deliveries"]) == ("succeeded" if succeeds else "dead", 1)
    assert cli.events(id)[-1] == ("succeeded" if succeeds else "failed")
    assert worker.stderr().count("run again") == min(fails, 3)


def test_retry_now_gives_each_run_the_same(cli, tmp_path):
    [id] = cli.put("payload", max_retries=1, key="K", headers={"X": "1"})
    script = 'echo "$(cat) $NIXIE_ID $NIXIE_ATTEMPT $NIXIE_KEY $NIXIE_HEADER_X"; exit 1'
    worker = cli.work_all("--retry-now", "2", "--", "sh", "-c", script)
    assert worker.stdout() == f"payload {id} 1 K 1\n" * 3


def test_retry_now_tells_of_the_last_run(cli, tmp_path):
    [id] = cli.put("p", max_retries=1)
    script = 'echo run >> "$0"; n=$(wc -l < "$0"); echo "error $n" >&2; exit $n'
    cli.work_all("--retry-now", "2", "--", "sh", "-c", script, str(tmp_path / "runs"))
    m = cli.message(id)
    assert (m["error_class"], m["last_error"], m["detail"]) == ("exit 3", "error 3", "error 3\n")


def test_retry_now_waits_between(cli, tmp_path):
    cli.put("p", max_retries=1)
    script = 'date +%s%N >> "$0"; exit 1'
    cli.work_all("--retry-now", "2", "--retry-now-delay", "300ms", "--", "sh", "-c", script, str(tmp_path / "times"))
    times = [int(t) for t in (tmp_path / "times").read_text().split()]
    assert len(times) == 3 and all(b - a >= 300e6 for a, b in zip(times, times[1:]))


@pytest.mark.parametrize("script, error_class", [("exit 65", "exit 65"), ("sleep 60", "timeout")])
def test_retry_now_not_after_what_will_not_pass(cli, tmp_path, script, error_class):
    log = tmp_path / "runs"
    [id] = cli.put("p", max_retries=1)
    cli.work_all("--retry-now", "3", "--kill-after", "1", "--", "sh", "-c", f'echo run >> "$0"; {script}', str(log))
    assert runs(log) == 1 and outcome(cli, id)[2] == error_class


def test_retry_now_after_a_signal_of_somebody_elses(cli, tmp_path):
    log = tmp_path / "runs"
    [id] = cli.put("p", max_retries=1)
    cli.work_all("--retry-now", "1", "--", "sh", "-c", 'echo run >> "$0"; kill -SEGV $$', str(log))
    assert runs(log) == 2 and outcome(cli, id)[2] == "SIGSEGV"


def test_retry_now_ends_with_the_worker(cli, tmp_path):
    log = tmp_path / "runs"
    [id] = cli.put("p", max_retries=5)
    worker = cli.work("--retry-now", "5", "--retry-now-delay", "1h", "--", "sh", "-c", 'echo run >> "$0"; exit 3', str(log))
    wait_until(lambda: "run again" in worker.stderr())
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(10) == 0
    m = cli.message(id)
    assert (m["status"], m["retry_count"], m["error_class"], runs(log)) == ("pending", 1, "exit 3", 1)


def test_retry_now_renews_the_lease_and_ends_when_it_is_lost(cli, tmp_path):
    log = tmp_path / "runs"
    [id] = cli.put("p", max_retries=5)
    worker = cli.work("--lease", "3", "--retry-now", "5", "--retry-now-delay", "1h", "--", "sh", "-c", 'echo run >> "$0"; exit 3',
                      str(log))
    wait_until(lambda: "run again" in worker.stderr())
    first = cli.message(id)["updated_at"]
    wait_until(lambda: cli.message(id)["updated_at"] > first)
    assert cli.status(id) == "processing"
    assert cli.api("POST", f"/messages/{id}/succeed").status_code == 200
    wait_until(lambda: "no longer ours" in worker.stderr())
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(10) == 0
    assert runs(log) == 1 and cli.status(id) == "succeeded"


@pytest.mark.parametrize("args", [("--retry-now", "101"), ("--retry-now", "-1"), ("--retry-now-delay", "x"),
                                  ("--retry-now-delay", "2h"), ("--retry-now-delay", "5us"), ("--retry-now-delay", "ms")])
def test_retry_now_usage(cli, args):
    assert args[0] in cli.fails(2, "work", cli.queue, *args, "--", "true")
