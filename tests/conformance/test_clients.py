"""The ordinary life of each client, one program a client (clients/README.md), a test for each thing it must be able to do."""
import itertools
import os
import pathlib
import select
import shutil
import subprocess
import time

import pytest

from lib.server import environment

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
SECONDS_MAX = 100
PYTHON = "/usr/bin/python3"
JARS = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar"

LIFE = ["declare", "bind", "confirm", "return", "consume", "ack", "requeue", "reject", "big", "reconnect"]
BEHAVIOURS = {
    "aio-pika": LIFE,
    "kombu": LIFE,
    "celery": ["delays", "tasks", "retries", "worker-killed", "reject", "reconnect", "shutdown"],
    # Declares no exchange, binds while it consumes only, asks for no confirms, acks by itself.
    "amqp-tools": ["declare", "publish", "bind", "get", "consume", "big", "reconnect"],
    "java": LIFE,
    "go": LIFE,
    "php": LIFE,
    "amqplib": LIFE,
    "cloudamqp": LIFE,
}
LIGHT = {"amqp-tools", "amqplib"}  # these run with every `make test`
CASES = [pytest.param(client, name, id=f"{client} {name}", marks=[] if client in LIGHT else [pytest.mark.heavy])
         for client, names in BEHAVIOURS.items() for name in names]
numbers = itertools.count(os.getpid())


def build(*command, cwd=None, **variables):
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment(variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout.decode(errors='replace')[-3000:]}"


def node_modules():
    """As package-lock.json says; again only when that changed."""
    there, wanted = HERE / "node/node_modules/.package-lock.json", HERE / "node/package-lock.json"
    if not there.exists() or there.stat().st_mtime < wanted.stat().st_mtime:
        build("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=HERE / "node")
        there.touch()


def command(client, folder):
    """Builds the program in the folder when it needs to be; how to start it."""
    source = CLIENTS / client
    if client == "java":
        build("javac", "-encoding", "UTF-8", "-cp", JARS, "-d", folder, source / "Main.java")
        return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", f"{JARS}:{folder}", "Main"]
    if client == "go":
        shutil.copy(source / "main.go", folder)
        # Debian's packages are a GOPATH; nothing is fetched.
        build("go", "build", "-o", folder / "client", "main.go", cwd=folder, GOPATH="/usr/share/gocode", GO111MODULE="off", GOFLAGS="",
              GOCACHE=str(folder / "cache"), GOPROXY="off")
        return [folder / "client"]
    if client == "php":
        return ["php", "-d", "include_path=/usr/share/php", source / "main.php"]
    if client in ("amqplib", "cloudamqp"):
        node_modules()
        return ["node", source / "main.js"]
    return [PYTHON, source / "main.py"]


class Life:
    """One run of a client: what it said of each behaviour."""

    def __init__(self, client, broker, folder):
        self.said, self.order = {}, []
        with open(folder / "stderr", "wb") as stderr:
            process = subprocess.Popen(
                list(map(str, command(client, folder))), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                env=environment({"AMQP_URL": f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}", "PREFIX": f"{client}-{next(numbers)}",
                                 "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}))
        try:
            self.listen(process, broker)
            self.code = process.wait(10)
        except subprocess.TimeoutExpired:
            self.code = "none: it did not end"
        finally:
            if process.poll() is None:
                process.kill()
            process.stdin.close()
            process.stdout.close()
            process.wait()
            self.stderr = (folder / "stderr").read_text(errors="replace")

    def listen(self, process, broker):
        deadline, buffer = time.monotonic() + SECONDS_MAX, b""
        while time.monotonic() < deadline:
            if not select.select([process.stdout], [], [], 1)[0]:
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                self.hear(line.decode(errors="replace"), process, broker)

    def hear(self, line, process, broker):
        if line == "restart":
            broker.kill()
            broker.start()
            process.stdin.write(b"done\n")
            process.stdin.flush()
        elif line.startswith("ok "):
            self.said[line[3:]] = None
        elif line.startswith("not ok "):
            name, _, why = line[7:].partition(": ")
            self.said[name] = why

    def check(self, name):
        if name not in self.said:
            why = [f"{n}: {why}" for n, why in self.said.items() if why] or [self.stderr[-3000:]]
            pytest.fail(f"it did not come to this; exit code {self.code}; {why[0]}", pytrace=False)
        if self.said[name] is not None:
            pytest.fail(f"{self.said[name]}\n{self.stderr[-3000:]}", pytrace=False)


@pytest.fixture(scope="session")
def lives(broker, tmp_path_factory):
    """Every client lives once; its failure to start is told by each of its tests."""
    known = {}

    def life(client):
        if client not in known:
            try:
                known[client] = Life(client, broker, tmp_path_factory.mktemp(client))
            except Exception as e:
                known[client] = e
        if isinstance(known[client], Exception):
            raise known[client]
        return known[client]

    return life


@pytest.mark.parametrize("client, behaviour", CASES)
def test_client(lives, client, behaviour):
    life = lives(client)
    life.check(behaviour)
    if behaviour == BEHAVIOURS[client][-1]:
        assert life.code == 0, f"exit code {life.code}\n{life.stderr[-3000:]}"
        assert set(life.said) == set(BEHAVIOURS[client])
