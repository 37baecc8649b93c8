"""What the tests of the commands that act on dead letters share: letters, workers, and a person at a terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import requests

from lib.server import NIXIE, environment


def bury(cli, count, payload="x", error="Timeout", version="1.4.2", text=None, worker="grave", **fields):
    """Makes dead letters, each by one failure; returns their ids. `error` is its class."""
    payloads = [payload(i) if callable(payload) else payload for i in range(count)]
    ids = []
    for start in range(0, count, 1000):
        made = cli.api("POST", "/messages", [{"payload": p, **fields} for p in payloads[start:start + 1000]])
        assert made.status_code == 201, made.text
        ids += made.json()["ids"]
    left = set(ids)
    while left:
        taken = cli.api("POST", "/claim", {"count": 1000, "worker": worker, "worker_version": version}).json()["messages"]
        assert taken, f"{len(left)} cannot be claimed"
        items = [{"id": m["id"], "lease": m["lease"], "action": "fail", "permanent": True, "error": text or f"no answer for {m['id']}",
                  "error_class": error} for m in taken]
        done = cli.api("POST", "/settle", {"items": items}).json()
        assert all(r.get("status") == "dead" for r in done["results"]), done
        left -= {m["id"] for m in taken}
    return ids


def get(cli, path):
    return requests.get(f"{cli.url}{path}", timeout=30).json()


def jobs(cli, kind="redrives"):
    """Those of the queue, newest first."""
    return [j for j in get(cli, f"/{kind}?limit=1000")[kind] if j["queue"] == cli.queue]


def counts(cli, queue=None):
    c = type(cli)(cli.url, cli.tmp, cli.env)
    c.queue = queue or cli.queue
    return c.api("GET").json()["counts"]


class Mortuary:
    """Dead letters on the server of a Cli."""

    def __init__(self, cli):
        self.cli = cli

    def api(self, method, path, body=None, **headers):
        reply = requests.request(method, self.cli.url + path, json=body, headers=headers, timeout=30)
        assert reply.status_code < 300, (reply.status_code, reply.text)
        return reply.json() if reply.content else None

    def fail(self, queue=None, worker="w1", version="1.4", retry_after=0, permanent=False, **failure):
        """Claims the first message and lets it fail; returns the message as it is then."""
        cli = self.cli if queue is None else self._other(queue)
        reply = cli.api("POST", "/claim", {"worker": worker, "worker_version": version}).json()
        assert reply["claimed"], "nothing to claim"
        body = {"lease": reply["message"]["lease"], "permanent": permanent, **failure}
        if not permanent:
            body["retry_after_seconds"] = retry_after
        return cli.api("POST", f"/messages/{reply['message']['id']}/fail", body).json()

    def die(self, payload="p", attempts=1, queue=None, worker="w1", version="1.4", error_class="Timeout", error="no answer",
            detail=None, message=None, **failure):
        """Enqueues a message (the fields of `message` with it) that dies at its last attempt; returns its id."""
        cli = self.cli if queue is None else self._other(queue)
        body = dict(message or {})
        if "payload_base64" not in body:
            body["payload"] = payload
        id = cli.api("POST", "/messages", body).json()["id"]
        if detail is not None:
            failure["detail"] = detail
        for attempt in range(1, attempts + 1):
            dead = self.fail(queue, worker, version, permanent=attempt == attempts, error_class=error_class, error=error,
                             **failure)
        assert dead["id"] == id and dead["status"] == "dead", dead
        return id

    def die_many(self, n, payload="p", error_class="Timeout", error="no answer", **fields):
        """n letters that died at once; returns their ids."""
        return bury(self.cli, n, lambda i: f"{payload}{i}", error_class, "1.4", text=error, worker="w1", **fields)

    def letters(self, **query):
        """All dead letters of the queue as the server exports them, oldest death first."""
        found, cursor = [], None
        while True:
            query.update({"queue": self.cli.queue, "attempts": "yes", "exact": "yes", "order": "oldest", "limit": 1000})
            if cursor is not None:
                query["cursor"] = cursor
            reply = requests.get(self.cli.url + "/dead", params=query, timeout=30)
            assert reply.status_code == 200, reply.text
            page = reply.json()
            found += page["letters"]
            cursor = page["next"]
            if cursor is None:
                return found

    def group_of(self, id):
        return self.api("GET", f"/messages/{id}")["death"]["group"]

    def _other(self, queue):
        other = type(self.cli)(self.cli.url, self.cli.tmp)
        other.queue = queue
        return other


class Worker(threading.Thread):
    """Claims and settles from a queue until it is stopped: what `fails` says of a message is its end. What a server that goes away
    does not answer is left to its lease."""

    def __init__(self, cli, queue=None, fails=lambda message: False, version="1.4.3"):
        super().__init__(daemon=True)
        self.cli = type(cli)(cli.url, cli.tmp, cli.env)
        self.cli.queue = queue or cli.queue
        self.fails, self.version = fails, version
        self.seen, self.stopped = [], threading.Event()
        self.start()

    def run(self):
        while not self.stopped.is_set():
            try:
                reply = self.cli.api("POST", "/claim", {"count": 100, "lease_seconds": 3, "wait_seconds": 1, "worker": "w",
                                                          "worker_version": self.version})
                taken = reply.json()["messages"]
                items = [{"id": m["id"], "lease": m["lease"], **self.outcome(m)} for m in taken]
                if items:
                    self.cli.api("POST", "/settle", {"items": items})
                elif "paused" in reply.json():
                    self.stopped.wait(0.1)
                self.seen += [m["id"] for m in taken]
            except requests.RequestException:
                self.stopped.wait(0.05)

    def outcome(self, message):
        if self.fails(message):
            return {"action": "fail", "permanent": True, "error": "still broken", "error_class": "StillBroken"}
        return {"action": "succeed"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.join(20)


class Terminal:
    """A nixie command whose standard streams are one terminal; `stdout` may be a file instead."""

    def __init__(self, cli, *args, columns=160, stdout=None, env=None):
        self.main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen([NIXIE, *map(str, args)], env=environment({**cli.env, **(env or {})}), stdin=side,
                                        stdout=stdout or side, stderr=side, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)
        self.text = ""

    def read(self, timeout):
        """False at the end."""
        if not select.select([self.main], [], [], timeout)[0]:
            raise AssertionError(f"silent for {timeout} s after {self.text!r}")
        try:
            chunk = os.read(self.main, 65536)
        except OSError:
            return False
        self.text += chunk.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(chunk)

    def until(self, pattern, timeout=20):
        """Reads until the pattern is found; returns the match."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline and self.read(timeout), f"no {pattern!r} in {self.text!r}"
        return found

    def type(self, keys):
        os.write(self.main, keys.encode())

    def end(self, timeout=60):
        """Reads to the end; returns the exit code and all that was shown."""
        deadline = time.monotonic() + timeout
        while self.read(timeout):
            assert time.monotonic() < deadline, self.text
        os.close(self.main)
        return self.process.wait(20), self.text

    def lines(self):
        """What stood on the terminal, each drawing of a line as a line."""
        return [line for line in re.split("\n|\r\x1b\\[K", self.text) if line]


class Running:
    """A nixie command without a terminal, its standard input open and silent."""

    def __init__(self, cli, *args, **options):
        self.process = subprocess.Popen([NIXIE, *map(str, args)], env=environment(cli.env), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.said = b""

    def until(self, pattern, timeout=20):
        """Reads standard error until the pattern is found; returns the match."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.said.decode())):
            pipe = self.process.stderr.fileno()
            left = deadline - time.monotonic()
            chunk = os.read(pipe, 65536) if left > 0 and select.select([pipe], [], [], left)[0] else b""
            assert chunk, f"no {pattern!r} in {self.said!r}"
            self.said += chunk
        return found

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout=60):
        """Returns exit code, standard output, standard error."""
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out.decode(), (self.said + err).decode()
