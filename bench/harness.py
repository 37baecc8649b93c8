"""What the points of bench/run share: servers, load, and the table."""
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PAYLOAD_BYTES = 256
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024
START_SECONDS_MAX = 300


class Trouble(Exception):
    """Ends the run with a message."""


def note(text):
    print(f"  {text}", file=sys.stderr, flush=True)


# -- servers ---------------------------------------------------------------------------------------------


class Server:
    """A server process of its own: in a fresh directory that goes with it, or in one it is given."""

    def __init__(self, settings, directory=None):
        self.settings = settings
        self.is_own = directory is None
        self.dir = directory or tempfile.mkdtemp(prefix=f"{self.name}-", dir=settings.dir)
        self.log = open(pathlib.Path(self.dir).with_suffix(".stderr"), "wb")
        begin = time.monotonic()
        self.process = None
        try:
            self.process = self.start()
        except BaseException:
            self.stop()
            raise
        self.ready_seconds = time.monotonic() - begin
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def spawn(self, command, stdout):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=self.log,
                                        cwd=self.dir)
        return self.process

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process is not None and self.process.stdout:
            self.process.stdout.close()
        self.log.close()
        if self.is_own:
            shutil.rmtree(self.dir, ignore_errors=True)
        pathlib.Path(self.log.name).unlink(missing_ok=True)

    def failed(self, what):
        self.log.flush()
        said = pathlib.Path(self.log.name).read_text(errors="replace")[-2000:]
        return Trouble(f"{self.name}: {what}\n{said}")

    # From /proc: processor seconds, bytes by kind, resident memory.

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def io(self):
        lines = pathlib.Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return {name: int(value) for name, value in (line.split(": ") for line in lines)}

    def memory(self):
        """Bytes: VmRSS (all that is resident), RssAnon (its own), VmHWM (the most VmRSS ever was)."""
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines
                if line.startswith(("VmRSS", "RssAnon", "VmHWM"))}


class Listening(Server):
    """A server that says `listening http ADDR:PORT` on stdout."""

    def start(self):
        process = self.spawn(self.command(), subprocess.PIPE)
        reader = threading.Timer(START_SECONDS_MAX, process.kill)
        reader.start()
        try:
            for line in process.stdout:
                words = line.decode().split()
                if words[:2] == ["listening", "http"]:
                    self.address = words[2]
                    return process
        finally:
            reader.cancel()
        raise self.failed(f"did not start (status {process.wait()})")

    def load(self, mode, connections, messages, queue="bench", **options):
        return load(self, [self.settings.build / "nixie", "bench", queue, "--server", f"http://{self.address}"], mode,
                    connections, messages, **options)

    def warm_up(self):
        self.load("cycle", 16, 2000, queue="warm-up")


class Nixie(Listening):
    name = "nixie"

    def command(self):
        return [self.settings.build / "nixie", "serve", "--http", "127.0.0.1:0", "--amqp", "off", "--data", self.dir]

    def request(self, method, path, body=None):
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        if reply.status // 100 != 2:
            raise Trouble(f"{method} {path}: {reply.status} {text[:500]}")
        return text

    def metrics(self):
        """Every sample by its name, without labels: those that have some are added up."""
        found = {}
        for line in self.request("GET", "/metrics").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                name = name.partition("{")[0]
                found[name] = found.get(name, 0) + float(value)
        return found


class Null(Listening):
    name = "null"

    def command(self):
        return [self.settings.build / "bench" / "null_peer"]


class Redis(Server):
    name = "redis"
    settings_given = {"appendonly": "yes", "appendfsync": "always", "save": "", "no-appendfsync-on-rewrite": "no",
                      "auto-aof-rewrite-percentage": "0", "bind": "127.0.0.1", "daemonize": "no"}

    def start(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = ["redis-server", "--port", str(self.port), "--dir", self.dir]
        for name, value in self.settings_given.items():
            command += [f"--{name}", value]
        process = self.spawn(command, self.log)
        while process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.sendall(b"PING\r\n")
                    if s.recv(16).startswith(b"+PONG"):
                        return process
            except OSError:
                pass
            time.sleep(0.01)
        raise self.failed("did not start")

    def load(self, mode, connections, messages, **options):
        command = [self.settings.build / "bench" / "redis_peer", "--port", str(self.port)]
        return load(self, command, "enqueue" if mode == "latency" else mode, connections, messages, **options)

    def warm_up(self):
        self.load("cycle", 16, 2000)


def load(server, command, mode, connections, messages, batch=None, seconds=None, size=PAYLOAD_BYTES, keys=None, first_key=None):
    """Runs the load generator; what it reports, and the server's share of the processors meanwhile."""
    command = [*command, "--mode", mode, "--connections", str(connections), "--size", str(size), "-o", "json"]
    command += ["--for", str(seconds)] if seconds else ["--messages", str(messages)]
    if batch:
        command += ["--batch", str(batch)]
    if keys:
        command += ["--keys", str(keys), "--first-key", str(first_key or 0)]
    cpu, io = server.cpu_seconds(), server.io()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise server.failed(f"{mode} with {connections} connections: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    result["server_cpu_seconds"] = server.cpu_seconds() - cpu
    result["disk_bytes"] = server.io()["write_bytes"] - io["write_bytes"]
    return result


def probe(settings, payload, count, mib):
    """What the disk does by itself, in a file allocated as the log allocates its own."""
    command = [settings.build / "bench" / "fsync_probe", "--dir", settings.dir, "--bytes", str(payload), "--count", str(count),
               "--mib", str(mib)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def settle_down(server):
    """Until the process uses next to no processor time."""
    for _ in range(100):
        before = server.cpu_seconds()
        time.sleep(0.2)
        if server.cpu_seconds() - before < 0.01:
            return


# -- the table -------------------------------------------------------------------------------------------


def spread(values, form="{:.2f}"):
    """The median, and in brackets the smallest and the largest."""
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))}..{form.format(max(values))})"


def count(value):
    return f"{value:,.0f}"


class Table:
    def __init__(self):
        self.rows = []

    def add(self, point, line, ours, peer="", ratio="", target="", met=None):
        """`met` is None for what is there to explain the other lines."""
        self.rows.append((point, line, ours, peer, ratio, target, {None: "", True: "yes", False: "NO"}[met]))

    def add_rates(self, point, line, ours, peers, least):
        ratios = [a / b for a, b in zip(ours, peers)]
        self.add(point, line, f"{count(statistics.median(ours))}/s", f"{count(statistics.median(peers))}/s",
                 spread(ratios), f">= {least:g} x Redis" if least else "",
                 statistics.median(ratios) >= least if least else None)

    def print(self):
        head = ("point", "what", "Nixie", "peer", "ratio", "target", "met")
        widths = [max(len(row[i]) for row in [head, *self.rows]) for i in range(len(head))]
        for row in [head, tuple("-" * w for w in widths), *self.rows]:
            print("| " + " | ".join(text.ljust(w) for text, w in zip(row, widths)) + " |")


def pairs(settings, run_ours, run_peer):
    """Both, alternately, each time in the other order; two lists of what came."""
    ours, peers = [], []
    for i in range(settings.pairs):
        for run, results in [(run_ours, ours), (run_peer, peers)][:: 1 if i % 2 == 0 else -1]:
            results.append(run())
    return ours, peers


def on_fresh(settings, kind, mode, connections, messages, **options):
    """One run on a server that was started for it."""
    with kind(settings) as server:
        server.warm_up()
        result = server.load(mode, connections, messages, **options)
        cpu = result["server_cpu_seconds"] / result["requests"] * 1e6
        generator = result["generator_cpu_seconds"] / result["requests"] * 1e6
        note(f"{kind.name} {mode} x{connections}: {count(result['messages_per_second'])} messages/s; "
             f"processor time a request: server {cpu:.1f} us, generator {generator:.1f} us")
        return result


def rates(results):
    return [r["messages_per_second"] for r in results]
