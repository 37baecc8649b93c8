"""What the tests of dead letters share: messages that die as the test wants."""
import json

import requests


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
        ids = []
        while n > 0:
            count = min(n, 1000)
            items = [{"payload": f"{payload}{i}", **fields} for i in range(count)]
            ids += self.cli.api("POST", "/messages", items).json()["ids"]
            claimed = self.cli.api("POST", "/claim", {"count": count, "worker": "w1", "worker_version": "1.4"}).json()["messages"]
            done = self.cli.api("POST", "/settle", {"items": [
                {"id": m["id"], "lease": m["lease"], "action": "fail", "permanent": True, "error_class": error_class,
                 "error": error} for m in claimed]}).json()["results"]
            assert len(done) == count and all(r["status"] == "dead" for r in done)
            n -= count
        return ids

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


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]
