"""AMQP beside Debian's rabbitmq-server: cycles, latency, and what connections, queues and a deaf consumer cost."""
import contextlib
import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import time

from harness import TICKS, Nixie, Trouble, count, note, pairs, settle_down, spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from lib import rabbitmq  # noqa: E402

PAYLOAD_BYTES = 256
KIB = 1024
PEER_QUEUES = 10  # the peer declares a part of the queues: all would take it minutes and gigabytes


class NixieAmqp(Nixie):
    """Listens for both."""

    def command(self):
        return [*super().command(), "--amqp", "127.0.0.1:0"]

    def start(self):
        process = super().start()
        for line in process.stdout:
            words = line.decode().split()
            if words[:2] == ["listening", "amqp"]:
                self.amqp_port = int(words[2].rpartition(":")[2])
                return process
        raise self.failed("says no `listening amqp`: this build does not speak AMQP")

    def pids(self):
        return [self.pid]


class Rabbit:
    """With its settings as they come, but for ports and folders; processor time and memory are those of the Erlang machine and its children."""

    name = "rabbitmq"

    def __init__(self, settings):
        self.server = rabbitmq.RabbitMQ(pathlib.Path(settings.dir) / f"rabbitmq-{time.monotonic_ns()}", low_memory=False)

    def __enter__(self):
        try:
            self.server.start()
        except RuntimeError as e:
            raise Trouble(str(e))
        self.amqp_port = self.server.amqp_port
        settle_down(self)
        return self

    def __exit__(self, *_):
        self.server.stop()
        subprocess.run(["rm", "-rf", str(self.server.dir)], check=False)

    def pids(self):
        return self.server.pids()

    def cpu_seconds(self):
        return cpu_seconds(self)


def cpu_seconds(server):
    ticks = 0
    for pid in server.pids():
        with contextlib.suppress(FileNotFoundError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own, and of children that have ended
    return ticks / TICKS


def resident(server):
    total = 0
    for pid in server.pids():
        with contextlib.suppress(FileNotFoundError):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) * KIB for line in lines if line.startswith("VmRSS"))
    return total


# -- the programs ------------------------------------------------------------------------------------------


def compile_one(settings, source):
    program = pathlib.Path(settings.dir) / source.stem
    if not program.exists():
        done = subprocess.run(["cc", "-O2", "-o", program, source, "-lrabbitmq", "-lpthread"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Trouble(f"{source.name} does not compile (librabbitmq-dev: scripts/setup conformance):\n{done.stderr}")
    return program


def cycle_source():
    """The program that counts cycles is not part of this tree."""
    given = os.environ.get("AMQP_CYCLE")
    source = pathlib.Path(given or ROOT / "../shared/bench/amqp_cycle.c")
    if not source.is_file():
        if given:
            raise Trouble(f"AMQP_CYCLE: {source} is not there")
        return None
    return source.resolve()


def run(program, *arguments, seconds=300):
    try:
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{program.name} {' '.join(map(str, arguments))}: no end within {seconds} s")
    if done.returncode != 0:
        raise Trouble(f"{program.name} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def running(program, *arguments):
    """A program that says `ready` and then waits for the end of its input."""
    process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if not select.select([process.stdout], [], [], 60)[0] or process.stdout.readline() != b"ready\n":
            raise Trouble(f"{program.name} {' '.join(map(str, arguments))}: not ready")
        yield
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


# -- the lines ---------------------------------------------------------------------------------------------


def cycles_lines(settings, table, window, messages, least_rate, least_cpu):
    source = cycle_source()
    if source is None:
        table.add("9", f"cycles, window {window}", "left out: amqp_cycle.c is not here; name it with AMQP_CYCLE")
        return
    program = compile_one(settings, source)

    def measure(kind, kind_of_queue):
        with kind(settings) as server:
            run(program, server.amqp_port, "warm-up", kind_of_queue, min(2000, messages), PAYLOAD_BYTES, window)
            before = cpu_seconds(server)
            said = run(program, server.amqp_port, "cycles", kind_of_queue, messages, PAYLOAD_BYTES, window)
            cpu = (cpu_seconds(server) - before) / messages * 1e6
        rate = float(said.rpartition(" cycles/s")[0].split()[-1])
        note(f"{kind.name}, window {window}: {count(rate)} cycles/s, {cpu:.1f} us of processor time a message")
        return rate, cpu

    ours, peers = pairs(settings, lambda: measure(NixieAmqp, "quorum"), lambda: measure(Rabbit, "quorum"))
    ratios = [a[0] / b[0] for a, b in zip(ours, peers)]
    table.add("9", f"cycles, window {window}; peer: a quorum queue", f"{count(statistics.median(r for r, _ in ours))}/s",
              f"{count(statistics.median(r for r, _ in peers))}/s", spread(ratios), f">= {least_rate:g} x RabbitMQ",
              statistics.median(ratios) >= least_rate)
    ratios = [b[1] / a[1] if a[1] else float("inf") for a, b in zip(ours, peers)]
    table.add("9" if least_cpu else "", "  processor time of the server a message; ratio: how many times less",
              f"{statistics.median(c for _, c in ours):.1f} us", f"{statistics.median(c for _, c in peers):.1f} us", spread(ratios),
              f">= {least_cpu:g} x" if least_cpu else "", statistics.median(ratios) >= least_cpu if least_cpu else None)


def latency_lines(settings, table, load):
    rate, seconds = 5000, 2 if settings.quick else 8

    def measure(kind):
        with kind(settings) as server:
            run(load, server.amqp_port, "latency", "warm-up", "quorum", rate, 1, PAYLOAD_BYTES)
            found = json.loads(run(load, server.amqp_port, "latency", "latency", "quorum", rate, seconds, PAYLOAD_BYTES))
        note(f"{kind.name}, publish to delivery at {rate}/s: p50 {found['p50_us']:.0f} us, p99 {found['p99_us']:.0f} us, "
             f"worst {found['max_us']:.0f} us")
        return found

    ours, peers = pairs(settings, lambda: measure(NixieAmqp), lambda: measure(Rabbit))
    for what, key in [("median", "p50_us"), ("99th percentile", "p99_us")]:
        table.add("9", f"from publish to delivery at {count(rate)}/s, {what}; peer: a quorum queue",
                  f"{statistics.median(f[key] for f in ours):.0f} us", f"{statistics.median(f[key] for f in peers):.0f} us",
                  spread([a[key] / b[key] for a, b in zip(ours, peers)]))


def idle_lines(settings, table, load):
    connections = 1000

    def measure(kind):
        with kind(settings) as server:
            with running(load, server.amqp_port, "idle", 50):
                time.sleep(0.5)
            time.sleep(1)
            before = resident(server)
            with running(load, server.amqp_port, "idle", connections):
                time.sleep(1)
                each = (resident(server) - before) / connections
        note(f"{kind.name}, {connections} idle connections: {each / KIB:.1f} KiB each")
        return each

    ours, peer = measure(NixieAmqp), measure(Rabbit)
    table.add("9", f"resident memory of an idle connection with a channel, of {count(connections)}", f"{ours / KIB:.1f} KiB",
              f"{peer / KIB:.1f} KiB", f"{ours / peer:.2f}", "<= 20 KiB", ours <= 20 * KIB)


def queues_lines(settings, table, load):
    queues = settings.scaled(100000)

    def measure(kind, n):
        with kind(settings) as server:
            run(load, server.amqp_port, "declare", "warm-up", 100, 8)
            before = resident(server)
            seconds = json.loads(run(load, server.amqp_port, "declare", "queue", n, 8))["seconds"]
            each = (resident(server) - before) / n
        note(f"{kind.name}, {count(n)} durable queues: {seconds:.1f} s, {each / KIB:.2f} KiB each")
        return seconds, each

    ours, each = measure(NixieAmqp, queues)
    peer, peer_each = measure(Rabbit, queues // PEER_QUEUES)
    table.add("9", f"{count(queues)} durable queues declared by 8 connections; peer: {count(queues // PEER_QUEUES)}, classic",
              f"{ours:.1f} s", f"{peer:.1f} s", f"{ours / PEER_QUEUES / peer:.2f} a queue", "< 30 s", ours < 30)
    table.add("9", "  resident memory of each", f"{each / KIB:.2f} KiB", f"{peer_each / KIB:.2f} KiB", f"{each / peer_each:.2f}", "<= 2 KiB",
              each <= 2 * KIB)


def deaf_lines(settings, table, load):
    messages, size, prefetch = settings.scaled(100000), KIB, 1000

    def measure(kind, deaf):
        with kind(settings) as server:
            run(load, server.amqp_port, "fill", "warm-up", 1000, size)
            before = resident(server)
            with running(load, server.amqp_port, "stall", "deaf", prefetch) if deaf else contextlib.nullcontext():
                run(load, server.amqp_port, "fill", "deaf", messages, size)
                time.sleep(1)
                growth = resident(server) - before
        note(f"{kind.name}, {count(messages)} messages of {size} bytes {'for a consumer that does not read' if deaf else 'without a consumer'}: "
             f"{growth / KIB / KIB:.1f} MiB more")
        return growth

    (ours, alone), (peer, peer_alone) = ([measure(kind, True), measure(kind, False)] for kind in (NixieAmqp, Rabbit))
    most = prefetch * (size + KIB) + 8 * KIB * KIB  # what it may hold unread, and the buffers of a socket
    table.add("9", f"{count(messages)} messages of 1 KiB and a consumer (prefetch {count(prefetch)}) that does not read: memory grows by",
              f"{ours / KIB / KIB:.1f} MiB", f"{peer / KIB / KIB:.1f} MiB")
    table.add("9", "  more than without the consumer", f"{(ours - alone) / KIB / KIB:.1f} MiB", f"{(peer - peer_alone) / KIB / KIB:.1f} MiB", "",
              f"<= {most / KIB / KIB:.0f} MiB", ours - alone <= most)


def point_amqp(settings, table):
    print(f"rabbitmq-server {rabbitmq.version()}; Nixie's queues are declared as quorum, too, where the peer's are", flush=True)
    load = compile_one(settings, ROOT / "bench/amqp_load.c")
    cycles_lines(settings, table, 512, settings.scaled(60000), 5, 10)
    cycles_lines(settings, table, 1, settings.scaled(4000), 2, None)
    latency_lines(settings, table, load)
    idle_lines(settings, table, load)
    queues_lines(settings, table, load)
    deaf_lines(settings, table, load)
