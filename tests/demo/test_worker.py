"""examples/webhooks/worker on its own: what it answers, and that it counts each message once."""
import http.server
import json
import os
import signal
import subprocess
import threading

import pytest

from lib.server import ROOT

WORKER = ROOT / "examples" / "webhooks" / "worker"
PUSH = json.dumps({"repository": {"full_name": "ada/engine"}})


@pytest.fixture
def work(tmp_path):
    """work(payload, event, id=1, owners=None): what became of the worker."""
    def one(payload, event="issues", id=1, owners=None):
        env = {"PATH": os.environ["PATH"], "NIXIE_ID": str(id), "WEBHOOKS_DIGEST": str(tmp_path / "digest")}
        if event is not None:
            env["NIXIE_HEADER_X_GITHUB_EVENT"] = event
        if owners:
            env["WEBHOOKS_OWNERS"] = owners
        return subprocess.run([WORKER], input=payload, text=True, capture_output=True, env=env, timeout=30)
    return one


def lines(tmp_path):
    return (tmp_path / "digest").read_text().splitlines()


def test_a_redelivery_counts_once(work, tmp_path):
    for id in (1, 2, 1, 12, 2):
        assert work(PUSH, "push", id).returncode == 0
    assert [line.split("\t")[0] for line in lines(tmp_path)] == ["1", "2", "12"]
    report = subprocess.run([WORKER, "--report"], env={"WEBHOOKS_DIGEST": str(tmp_path / "digest")}, text=True,
                            capture_output=True, check=True).stdout
    assert report.split() == ["3", "ada/engine", "push", "3", "in", "all"]


def test_a_line_that_was_torn_is_replaced(work, tmp_path):
    (tmp_path / "digest").write_text("1\tada/engine\tpush\t-\n2\tada/en")
    assert work(PUSH, "push", 2).returncode == 0
    assert lines(tmp_path) == ["1\tada/engine\tpush\t-", "2\tada/engine\tpush\t-"]


@pytest.mark.parametrize("payload, event, why", [
    (PUSH[:20], "push", "not a whole JSON document"),
    ("", "push", "not a whole JSON document"),
    ("[1]", "push", "not a JSON object"),
    (PUSH, "party", "unknown event: party"),
    (PUSH, None, "unknown event: (none)"),
])
def test_what_never_works_is_bad_data(work, tmp_path, payload, event, why):
    done = work(payload, event)
    assert done.returncode == 65 and why in done.stderr
    assert not (tmp_path / "digest").exists()


def test_poison_kills_it(work, tmp_path):
    assert work('{"poison": true}').returncode == -signal.SIGSEGV
    assert not (tmp_path / "digest").exists()


@pytest.fixture
def owners():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b"team-a")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_dependency_that_is_down_means_try_again(work, tmp_path, owners):
    owners.status = 503
    done = work(PUSH, "push", owners=owners.url)
    assert done.returncode == 75 and "HTTP 503" in done.stderr
    assert work(PUSH, "issues", id=2, owners=owners.url).returncode == 0, "only push and release ask"
    owners.status = 404
    assert work(PUSH, "push", owners=owners.url).returncode == 65
    owners.status = 200
    assert work(PUSH, "push", owners=owners.url).returncode == 0
    assert lines(tmp_path) == ["2\tada/engine\tissues\t-", "1\tada/engine\tpush\tteam-a"]


def test_a_dependency_that_is_gone_means_try_again(work):
    assert work(PUSH, "release", owners="http://127.0.0.1:1").returncode == 75
