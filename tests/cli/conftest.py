"""The command line against a real server on the real clock; and against replies that no server should send."""
import itertools

import pytest
from clitools import Cli, Fake

names = itertools.count(1)


@pytest.fixture
def cli(live, tmp_path):
    c = Cli(f"http://{live.host}:{live.port}", tmp_path)
    c.workers = []
    yield c
    for w in c.workers:
        if w.process.poll() is None:
            w.process.kill()
            w.process.wait()


@pytest.fixture
def own_server(start, tmp_path):
    """A server that the test may stop; .cli is for it. Its port stays the same over restarts."""
    server = start(test_clock=False)
    server.http = f"{server.host}:{server.port}"
    server.cli = Cli(f"http://{server.http}", tmp_path)
    server.cli.workers = []
    yield server
    for w in server.cli.workers:
        if w.process.poll() is None:
            w.process.kill()
            w.process.wait()


@pytest.fixture
def script(tmp_path):
    """Makes an executable script: script(text) -> path."""
    def make(text, interpreter="/bin/sh"):
        path = tmp_path / f"script{next(names)}"
        path.write_text(f"#!{interpreter}\n{text}\n")
        path.chmod(0o755)
        return path
    return make


@pytest.fixture
def fake(tmp_path):
    """fake(reply) -> a Fake, with .cli for it."""
    made = []

    def make(reply):
        f = Fake(reply)
        f.cli = Cli(f.url, tmp_path)
        f.cli.queue = "q"
        f.cli.workers = []
        made.append(f)
        return f

    yield make
    for f in made:
        for w in f.cli.workers:
            if w.process.poll() is None:
                w.process.kill()
                w.process.wait()
        f.stop()
