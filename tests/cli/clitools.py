"""What the tests of the command line share: commands, workers, and a server that says what the test wants."""
import http.server
import itertools
import json
import signal
import subprocess
import threading
import time
import urllib.parse

import requests

from lib.server import NIXIE, environment, run

names = itertools.count(1)


def wait_until(what, timeout=15):
    """Polls until what() is true; returns what it was."""
    deadline = time.monotonic() + timeout
    while not (value := what()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.01)
    return value


class Cli:
    """nixie commands on one queue of one server, and a plain look at what became of it."""

    def __init__(self, url, tmp_path, env=None):
        self.url, self.tmp = url, tmp_path
        self.queue = f"cli/{next(names)}"
        self.env = {"NIXIE_SERVER": url, **(env or {})}

    def run(self, *args, stdin=b"", env=None, timeout=30):
        return run(*args, stdin=stdin, env={**self.env, **(env or {})}, timeout=timeout)

    def ok(self, *args, **options):
        """The command must succeed; returns its output's lines as JSON."""
        done = self.run(*args, **options)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def table(self, *args, **options):
        done = self.run(*args, "-o", "table", **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def fails(self, code, *args, **options):
        done = self.run(*args, **options)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert done.stderr.startswith("nixie: "), done.stderr
        assert "\x1b" not in done.stderr
        return done.stderr

    # -- the API, for setting up and looking ------------------------------------------------------------------------

    def api(self, method, path="", body=None):
        return requests.request(method, f"{self.url}/queues/{urllib.parse.quote(self.queue, safe='')}{path}", json=body,
                                timeout=30)

    def put(self, *payloads, **fields):
        """Enqueues; returns the ids."""
        return [self.api("POST", "/messages", {"payload": p, **fields}).json()["id"] for p in payloads]

    def policy(self, **policy):
        assert self.api("PUT", "", policy).status_code in (200, 201)

    def message(self, id):
        return self.api("GET", f"/messages/{id}").json()

    def status(self, id):
        return self.message(id)["status"]

    def story(self, id):
        return self.api("GET", f"/messages/{id}/attempts").json()["attempts"]

    def events(self, id):
        return [e["event"] for e in self.story(id)]

    # -- workers ----------------------------------------------------------------------------------------------------

    def work(self, *args, **options):
        return Worker(self, args, **options)

    def work_all(self, *args, timeout=60):
        """Works until the queue is empty; returns the finished worker."""
        worker = self.work("--until-empty", *args)
        worker.code = worker.process.wait(timeout)
        return worker


class Worker:
    """A running `nixie work QUEUE ...`; its output goes to files."""

    def __init__(self, cli, args, env=None, **options):
        self.number = next(names)
        self.out, self.err = cli.tmp / f"work{self.number}.out", cli.tmp / f"work{self.number}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **options}
            self.process = subprocess.Popen([NIXIE, "work", cli.queue, *map(str, args)],
                                            env=environment({**cli.env, **(env or {})}), **options)
        cli.workers.append(self)

    def stdout(self):
        return self.out.read_text()

    def stderr(self):
        return self.err.read_text(errors="replace")

    def stop(self, signal=signal.SIGTERM, timeout=20):
        self.process.send_signal(signal)
        return self.process.wait(timeout)


class Fake:
    """A server that answers what the test says: reply(method, path, body) returns (status, value or bytes), or None to hang up,
    or a number of seconds of silence."""

    def __init__(self, reply):
        fake = self
        self.requests = []
        self.silence = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(body) if body else None
                fake.requests.append((self.command, self.path, body, dict(self.headers)))
                answer = reply(self.command, self.path, body)
                if isinstance(answer, (int, float)):
                    fake.silence.wait(answer)
                    answer = None
                if answer is None:
                    self.close_connection = True
                    return
                status, value, *kind = answer
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind[0] if kind else "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.silence.set()
        self.server.shutdown()
        self.server.server_close()
