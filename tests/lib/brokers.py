"""The server that foreign clients talk to: Nixie, or the peer that PEER names."""
import http.client
import json
import os
import time
import urllib.parse

from .rabbitmq import RabbitMQ
from .server import Server

PEER = os.environ.get("PEER", "nixie")


class NixieBroker(Server):
    """`nixie serve --amqp`; a restart listens on the port it had."""

    name = "nixie"

    def __init__(self, directory, *flags):
        super().__init__(directory / "data", *flags, test_clock=False, log=directory / "log")
        directory.mkdir(parents=True, exist_ok=True)
        self.amqp = None  # here it is asked for by command(), with the port that it had
        self.amqp_port = 0

    def command(self):
        return [*super().command(), "--amqp", f"127.0.0.1:{self.amqp_port}"]

    def wait_ready(self, timeout=20):
        super().wait_ready(timeout)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.stdout.decode().split("\n")[:-1]:
                if line.startswith("listening amqp "):
                    self.amqp_port = int(line.rpartition(":")[2])
                    return self
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"no line `listening amqp ADDR:PORT` within {timeout} s: {self.stdout!r}")

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        assert reply.status // 100 == 2, f"{method} {path}: {reply.status} {text}"
        return json.loads(text) if text else None

    def letters(self, queue):
        """What lies dead in a queue, outside AMQP's counts: oldest first."""
        return self.request("GET", f"/queues/{urllib.parse.quote(queue, safe='')}/messages?status=dead&limit=1000")["messages"]

    def counts(self, queue):
        return self.request("GET", f"/queues/{urllib.parse.quote(queue, safe='')}")

    def check_conservation(self):
        """Whatever clients did: no queue may have lost or made a message."""
        after = ""
        while queues := self.request("GET", f"/queues?limit=1000{after}")["queues"]:
            for queue in queues:
                assert queue["conservation"]["holds"], queue
            after = "&after=" + urllib.parse.quote(queues[-1]["queue"], safe="")

    def set_policy(self, name, pattern, definition, priority=0, apply_to="queues"):
        self.request("PUT", f"/policies/{name}",
                     {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to})

    def clear_policy(self, name):
        self.request("DELETE", f"/policies/{name}")


class RabbitBroker(RabbitMQ):
    name = "rabbitmq"

    def check_conservation(self):
        """It does not count."""

    def set_policy(self, name, pattern, definition, priority=0, apply_to="queues"):
        self.ctl("set_policy", "--priority", str(priority), "--apply-to", apply_to, name, pattern, json.dumps(definition))

    def clear_policy(self, name):
        self.ctl("clear_policy", name)


def make(directory):
    if PEER == "rabbitmq":
        return RabbitBroker(directory)
    if PEER == "nixie":
        return NixieBroker(directory)
    raise ValueError(f"PEER={PEER}: must be nixie or rabbitmq")
