"""A server with a clock of its own for the tests of what guards a consumer: after each change the equation is checked of every queue."""
import itertools

from lib.client import Client, at

numbers = itertools.count(1)
HOUR = 3600


class Watched(Client):
    """Reads all its queues after each change, and so checks them."""

    def call(self, method, path, *args, **more):
        reply = super().call(method, path, *args, **more)
        if method != "GET":
            self.check_conservation()
        return reply


class World:
    """One server, one client, and a clock that only goes on."""

    def __init__(self, server, begin=0):
        self.server, self.seconds = server, begin
        self.client = Watched(server, now=at(begin))

    def queue(self, name=None, **policy):
        q = self.client.queue(name or f"g{next(numbers)}")
        if policy:
            q.put(**policy)
        return q

    def wait(self, seconds):
        self.seconds += seconds
        self.client.now = at(self.seconds)

    def time(self, seconds=0):
        """So many seconds from now, as the API writes it."""
        return at(self.seconds + seconds)

    def restart(self, kill=True):
        """The server is killed and comes back: whatever the test knows must still be so."""
        before = self.seen()
        self.client.close()
        self.server.restart(kill=kill)
        assert self.seen() == before

    def seen(self):
        """What may not change by a restart."""
        infos = [self.client.get("/queues/" + name).json for name in sorted(self.client.queues)]
        return [{k: v for k, v in i.items() if k != "policy"} for i in infos]

    def close(self):
        self.client.close()


def brakes(queue):
    """The reply to a claim that must get nothing."""
    reply = queue.client.post(queue.path + "/claim")
    assert reply.status == 200 and reply.json["claimed"] is False, reply
    return reply.json


def fill(queue, n, **fields):
    """n messages with payloads 0, 1, ...; their ids."""
    ids = []
    for begin in range(0, n, 1000):
        items = [{"payload": str(i), **fields} for i in range(begin, min(n, begin + 1000))]
        ids += queue.batch(items)["ids"]
    return ids


def ids(messages):
    return [m["id"] for m in messages]


def claim_ids(queue, count=100):
    return ids(queue.claim_many(count))


def fail_next(queue, n=1, error="down", **fields):
    """Claims one after the other and fails each; their ids. Fewer when there is nothing more."""
    failed = []
    for _ in range(n):
        m = queue.claim()
        if m is None:
            break
        queue.fail(m, error=error, **fields)
        failed.append(m["id"])
    return failed


def dies_alone(queue, **fields):
    """Kills the next one that can be claimed."""
    m = queue.claim()
    d = queue.fail(m, permanent=True, **{"error": "boom", **fields})
    assert d["status"] == "dead", d
    return d


__all__ = ["HOUR", "World", "brakes", "claim_ids", "dies_alone", "fail_next", "fill", "ids"]
