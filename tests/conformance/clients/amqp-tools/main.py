"""Debian's amqp-tools: the command line of librabbitmq, which tells the broker nothing of what it can do."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import PREFIX, URL, behaviour, restart  # noqa: E402

QUEUE = f"{PREFIX}.work"


def run(tool, *arguments, code=0, stdin=b""):
    done = subprocess.run([tool, "-u", URL, *arguments], input=stdin, capture_output=True, timeout=10)
    assert done.returncode == code, f"{tool} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout


def await_messages(n):
    """Every publish was its own connection, closed in order; the broker may be a little behind."""
    for _ in range(100):
        done = subprocess.run(["amqp-consume", "-u", URL, "-q", QUEUE, "-c", str(n), "cat"], capture_output=True, timeout=10)
        assert done.returncode == 0, done.stderr
        return done.stdout
    raise AssertionError


with behaviour("declare"):
    for _ in range(2):
        assert run("amqp-declare-queue", "-q", QUEUE, "-d") == QUEUE.encode() + b"\n"
    assert run("amqp-get", "-q", QUEUE, code=2) == b""  # there is no message
    run("amqp-get", "-q", f"{PREFIX}.missing", code=1)

with behaviour("publish"):
    for i in range(10):
        run("amqp-publish", "-r", QUEUE, "-p", "-b", f"m{i}", "-C", "text/plain", "-H", f"n: {i}")

with behaviour("bind"):  # a queue of its own, for as long as it consumes
    consumer = subprocess.Popen(["amqp-consume", "-u", URL, "-e", "amq.topic", "-r", f"{PREFIX}.#", "-c", "1", "cat"], stdout=subprocess.PIPE)
    for _ in range(100):
        run("amqp-publish", "-e", "amq.topic", "-r", f"{PREFIX}.a.b", "-b", "by topic")
        time.sleep(0.05)
        if consumer.poll() is not None:
            break
    output, _ = consumer.communicate(timeout=5)
    assert output == b"by topic", output

with behaviour("get"):
    assert [run("amqp-get", "-q", QUEUE) for _ in range(2)] == [b"m0", b"m1"]

with behaviour("consume"):
    assert await_messages(3) == b"m2m3m4"
    assert run("amqp-consume", "-q", QUEUE, "-p", "1", "-c", "1", "cat") == b"m5"
    assert run("amqp-consume", "-q", QUEUE, "-A", "-c", "4", "cat") == b"m6m7m8m9"

with behaviour("big"):
    body = os.urandom(100000).hex().encode()  # on the command line it would be too long
    run("amqp-publish", "-r", QUEUE, "-p", stdin=body)
    assert run("amqp-get", "-q", QUEUE) == body

with behaviour("reconnect"):
    run("amqp-publish", "-r", QUEUE, "-p", "-l", stdin=b"r0\nr1\nr2\n")
    time.sleep(1)  # it does not ask for confirms
    restart()
    assert await_messages(3) == b"r0\nr1\nr2\n"
