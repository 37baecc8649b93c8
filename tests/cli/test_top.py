"""nixie top, on a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from lib.server import NIXIE, environment

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")


class Top:
    def __init__(self, cli, *args, rows=24, columns=130, term="xterm", env=None):
        self.fd, terminal = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(terminal)
        self.terminal = terminal
        self.process = subprocess.Popen([NIXIE, "top", *args], stdin=terminal, stdout=terminal, stderr=subprocess.PIPE,
                                        env=environment({**cli.env, "TERM": term, **(env or {})}))
        self.said = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def key(self, key):
        os.write(self.fd, key)

    def text(self):
        return ESCAPES.sub(b" ", self.said)

    def wait(self, pattern, timeout=15):
        """Until the terminal showed it; what came before is forgotten."""
        deadline = time.monotonic() + timeout
        while not (m := re.search(pattern, self.text(), re.S)):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern} is not shown: {self.text()[-2000:]!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.said += os.read(self.fd, 65536)
        self.said = b""
        return m

    def end(self, timeout=10):
        """Its exit code; the terminal must be as it was."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.fd], [], [], 0.05)[0]:
                self.said += os.read(self.fd, 65536)
        code = self.process.wait(0.1)
        assert termios.tcgetattr(self.terminal) == self.before
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.terminal)
        os.close(self.fd)


@pytest.fixture
def top(own_server):
    made = []

    def make(*args, **options):
        made.append(Top(own_server.cli, *args, **options))
        return made[-1]
    yield make
    for t in made:
        t.close()


def kill(cli, error_class="Timeout"):
    cli.api("POST", "/messages", {"payload": "x", "max_retries": 1})
    m = cli.api("POST", "/claim", {}).json()["message"]
    cli.api("POST", f"/messages/{m['id']}/fail", {"error": "boom", "error_class": error_class})


def test_the_queues(own_server, top):
    cli = own_server.cli
    t = top()
    t.wait(rb"there are no queues yet")
    kill(cli)
    cli.api("POST", "/messages", {"payload": "x"})
    t.wait(rb"READY PROCESSING +DEAD DEATHS/MIN|" + cli.queue.encode())
    t.key(b"s")
    t.wait(rb"deaths/min")
    kill(cli)
    t.wait(rb"\b2\b")
    cli.api("POST", "/pause", {})
    t.wait(rb"paused")
    t.key(b"q")
    assert t.end() == 0


def test_a_row(own_server, top):
    cli = own_server.cli
    kill(cli)
    cli.api("POST", "/messages", {"payload": "x"})
    t = top()
    t.wait(rb"READY PROCESSING +DEAD DEATHS/MIN +OLDEST CONSUMERS +STATE +QUEUE.* 1 +0 +1 +0 +\ds +0 +- +"
           + cli.queue.encode())
    t.key(b"q")
    assert t.end() == 0


def test_the_causes(own_server, top):
    kill(own_server.cli, "Timeout")
    t = top()
    t.wait(own_server.cli.queue.encode())
    t.key(b"\t")
    t.wait(rb"causes by last_seen.*Timeout: boom")
    t.key(b"s")
    t.wait(rb"count")
    t.key(b"\t")
    t.wait(rb"queues by dead")
    t.key(b"\x03")
    assert t.end() == 0


def test_a_name_is_harmless(own_server, top):
    own_server.cli.queue = "bell\x07 and \x1b[31mred"
    own_server.cli.api("PUT", "", {})
    t = top()
    t.wait(rb"bell\\x07 and \\x1b")
    t.key(b"q")
    assert t.end() == 0


def test_a_small_and_a_changing_terminal(own_server, top):
    kill(own_server.cli)
    t = top(rows=4, columns=20)
    t.wait(rb"nixie top")
    t.resize(30, 140)
    t.process.send_signal(signal.SIGWINCH)
    t.wait(rb"QUEUE")
    t.resize(1, 1)
    t.process.send_signal(signal.SIGWINCH)
    t.key(b"q")
    assert t.end() == 0


def test_a_server_that_goes_and_comes_back(own_server, top):
    own_server.cli.api("PUT", "", {})
    t = top()
    t.wait(own_server.cli.queue.encode())
    own_server.stop()
    t.wait(rb"connect")
    own_server.start()
    t.wait(own_server.cli.queue.encode())
    t.key(b"q")
    assert t.end() == 0


def test_without_a_terminal(cli):
    assert "needs a terminal" in cli.fails(2, "top")


def test_a_terminal_nobody_knows(own_server, top):
    # ncurses itself forgets some memory when it gives up.
    t = top(term="no-such-terminal", env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert t.end() == 2
    assert b"TERM" in t.process.stderr.read()
