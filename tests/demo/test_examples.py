"""The small workers of examples/workers against a real server that is killed and started again."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from lib.client import Client
from lib.server import ROOT

WORKERS = {"worker.sh": ["sh", "curl", "jq"], "worker.py": [], "worker.mjs": ["node"]}


def wait_settled(q):
    """Until nothing is pending or processing: the messages by id."""
    deadline = time.monotonic() + 60
    while True:
        counts = q.counts()
        if counts["pending"] + counts["processing"] == 0:
            return {m["id"]: m for m in q.all()}
        assert time.monotonic() < deadline, q.all()
        time.sleep(0.05)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_does_its_job(name, start, tmp_path):
    for program in WORKERS[name]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    path = ROOT / "examples" / "workers" / name
    assert len(path.read_text().splitlines()) <= 40

    server = start(test_clock=False)
    server.http = f"127.0.0.1:{server.port}"  # of the next start
    client = Client(server)
    q = client.queue("letters/für Ada")
    q.put(max_retries=2, backoff={"kind": "fixed", "base_seconds": 0})
    good = [q.enqueue('{"to": "Ada %d", "text": "it\'s 5 > 4, \\"so\\" 100%% \\u00e9"}' % i)["id"] for i in range(5)]
    torn = q.enqueue('{"to": "Ada", "te')["id"]
    nameless = q.enqueue('{"text": "to whom?"}')["id"]

    out, err = tmp_path / "out", tmp_path / "err"
    worker = subprocess.Popen([path, f"http://127.0.0.1:{server.port}", q.name], stdin=subprocess.DEVNULL,
                              stdout=open(out, "wb"), stderr=open(err, "wb"), start_new_session=True)
    try:
        found = wait_settled(q)
        assert [found[id]["status"] for id in good] == ["succeeded"] * 5, err.read_text()
        assert (found[torn]["status"], found[torn]["reason"]) == ("dead", "permanent"), err.read_text()
        assert (found[nameless]["status"], found[nameless]["reason"]) == ("dead", "max_retries"), err.read_text()
        assert found[nameless]["deliveries"] == 2 and found[nameless]["last_error"] and found[nameless]["error_class"]
        assert sorted(out.read_text().splitlines()) == [f'to Ada {i}: it\'s 5 > 4, "so" 100% é' for i in range(5)]

        client.close()
        server.restart(kill=True)
        late = q.enqueue('{"to": "Ada", "text": "again"}')["id"]
        assert wait_settled(q)[late]["status"] == "succeeded", err.read_text()
        assert worker.poll() is None, err.read_text()
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        client.close()
