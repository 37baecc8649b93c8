"""Celery: a worker with late acks, retries, a task that kills its process, a broker that is killed, and delays by dead letters.

The worker pool is prefork, so that a task can kill its process and not the worker.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from report import PREFIX, URL, behaviour, restart  # noqa: E402

folder = pathlib.Path(tempfile.mkdtemp(prefix="celery-"))
os.environ["NOTES"] = str(folder / "notes")
sys.path.insert(0, str(HERE))
import kombu  # noqa: E402
import tasks  # noqa: E402

LEVELS = 7  # delays up to 2^7 - 1 units
UNIT_MS = 20


def await_notes(*lines, seconds=20):
    notes = folder / "notes"
    deadline = time.monotonic() + seconds
    while True:
        seen = notes.read_text().splitlines() if notes.exists() else []
        if all(seen.count(line) >= lines.count(line) for line in lines):
            return seen
        assert time.monotonic() < deadline, f"{lines} expected, {seen} seen"
        time.sleep(0.1)


def delay_levels(channel):
    """As Celery's native delayed delivery: bit n of a delay decides whether a message waits 2^n in the queue of level n.

    A routing key is the bits, highest first, and then the queue it goes to: 0.1.1.target. A queue's dead letters go to the
    exchange of the next level below.
    """
    def exchange(level):
        return kombu.Exchange(f"{PREFIX}.delay-{level}" if level >= 0 else f"{PREFIX}.delivery", "topic", durable=True, channel=channel)

    exchange(-1).declare()
    for level in range(LEVELS):
        exchange(level).declare()
        kombu.Queue(f"{PREFIX}.delay-{level}", durable=True, channel=channel, queue_arguments={
            "x-message-ttl": 2**level * UNIT_MS, "x-overflow": "reject-publish",
            "x-dead-letter-exchange": exchange(level - 1).name}).queue_declare()
    for level in range(LEVELS):
        before = "*." * (LEVELS - 1 - level)
        kombu.Queue(f"{PREFIX}.delay-{level}", channel=channel).bind_to(exchange(level).name, f"{before}1.#")
        exchange(level - 1).bind_to(exchange(level).name, f"{before}0.#")
    kombu.Queue(f"{PREFIX}.delayed", durable=True, channel=channel).queue_declare()
    kombu.Queue(f"{PREFIX}.delayed", channel=channel).bind_to(exchange(-1).name, f"#.{PREFIX}.delayed")
    return exchange(LEVELS - 1)


def delays():
    """200 messages with delays of all bits: each comes once, not early, with one death for each bit that is set."""
    messages = 200
    with kombu.Connection(URL, transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        first = delay_levels(channel)
        producer = kombu.Producer(channel)
        sent = {}
        for i in range(messages):
            units = i * 37 % 2**LEVELS
            bits = ".".join(format(units, f"0{LEVELS}b"))
            sent[i] = (units, time.time())
            producer.publish({"i": i}, exchange=first, routing_key=f"{bits}.{PREFIX}.delayed", delivery_mode=2, timeout=10)
        got = {}
        queue = kombu.Queue(f"{PREFIX}.delayed", channel=channel)
        deadline = time.monotonic() + 30
        while len(got) < messages:
            assert time.monotonic() < deadline, f"{len(got)} of {messages} messages came"
            message = queue.get()
            if message is None:
                time.sleep(0.02)
                continue
            i = message.payload["i"]
            assert i not in got, f"message {i} came twice"
            got[i] = message
            units, at = sent[i]
            assert time.time() - at >= units * UNIT_MS / 1000 - 0.02, f"message {i} came early"
            deaths = message.headers.get("x-death", [])
            assert len(deaths) == bin(units).count("1"), f"{units}: {deaths}"
            assert all(d["reason"] == "expired" and d["count"] == 1 for d in deaths), deaths
            message.ack()
        assert queue.get() is None


def worker():
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "1", "-P", "prefork", "-n",
                                 f"{PREFIX}@localhost", "--loglevel", "INFO"], cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "C_FORCE_ROOT": "1"})


def main():
    with behaviour("delays"):
        delays()

    process = worker()
    try:
        with behaviour("tasks"):
            for i in range(20):
                tasks.add.apply_async((i, 0), retry=False)
            seen = await_notes(*[f"add {i}" for i in range(20)])
            assert seen == [f"add {i}" for i in range(20)], seen
        with behaviour("retries"):
            tasks.flaky.apply_async()
            await_notes("flaky 0", "flaky 1", "flaky 2")
        with behaviour("worker-killed"):
            tasks.kill_worker_once.apply_async((str(folder / "marker"),))
            await_notes("killing", "survived")
        with behaviour("reject"):
            with kombu.Connection(URL) as connection:
                dead = kombu.Queue(f"{PREFIX}.dead", durable=True, channel=connection.channel())
                dead.queue_declare()
                tasks.refuse.apply_async()
                await_notes("refusing")
                deadline = time.monotonic() + 10
                while (letter := dead.get(no_ack=True)) is None:
                    assert time.monotonic() < deadline, "no dead letter"
                    time.sleep(0.05)
                assert letter.headers["x-death"][0]["reason"] == "rejected"
        with behaviour("reconnect"):
            restart()
            for _ in range(3):
                tasks.add.apply_async((1000, 1), retry=True, retry_policy={"max_retries": 20, "interval_start": 0.2, "interval_max": 0.5})
            await_notes(*["add 1001"] * 3, seconds=30)
        with behaviour("shutdown"):
            process.terminate()  # it ends what it does and goes
            assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        print((folder / "log").read_text(errors="replace")[-4000:], file=sys.stderr)


main()
