"""The golden path, from the page at 03:00 to the post-mortem, on a server with 100,000 dead letters. Its commands are those that
docs/dead-letters.md teaches, and the test holds the two together. Prints its steps and their times beside the budget."""
import contextlib
import http.client
import itertools
import json
import re
import shlex
import time

from clitools import Cli, wait_until
from deadtools import Running, Worker, get

from lib.server import ROOT, run

LETTERS = 100_000
QUEUES = ("invoices", "emails", "webhooks", "search", "exports", "shipments", "imports", "reports", "images", "orders")
CLASSES = ("ConnectionRefused", "SchemaError", "NotFound", "DecodeError")
DOINGS = ("store", "render", "send", "index", "convert")  # 20 causes a queue
HIT, LATE, OBSOLETE = 412, 37, 3
BAD = 4  # of the letters hit, the one whose order has no currency; it is in the sample
NEW_RATE, LOW_RATE = 100, 60
PAGE_MS, DEEP = 200, 20_000
TERMS = ("succeeded", "died_again", "open", "discarded", "skipped", "remaining")


# -- the server before the page --------------------------------------------------------------------------------------------

class Http:
    """One connection that is kept."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def read(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        data = reply.read()
        assert reply.status < 300, (method, path, reply.status, data[:500])
        return data

    def __call__(self, *request):
        return json.loads(self.read(*request))

    def page_ms(self, path):
        """The fastest of five looks, so that what else the machine does is not measured."""
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            self.read("GET", path)
            times.append((time.perf_counter() - begin) * 1000)
        return min(times)


def bury(http, queue, count, payload, failure, version):
    """Messages and their deaths, a thousand a request; returns the ids."""
    ids, buried, items = [], 0, []
    for start in range(0, count, 1000):
        batch = [{"payload": json.dumps(payload(i))} for i in range(start, min(count, start + 1000))]
        ids += http("POST", f"/queues/{queue}/messages", batch)["ids"]
    claim = {"claim": {"count": 1000, "worker": "host7", "worker_version": version}}
    while buried < count or items:
        done = http("POST", f"/queues/{queue}/settle", {"items": items, **(claim if buried < count else {})})
        assert all(r.get("status") == "dead" for r in done["results"])
        items = [{"id": m["id"], "lease": m["lease"], "action": "fail", **failure(buried + i)}
                 for i, m in enumerate(done.get("messages", []))]
        buried += len(items)
    return ids


def order(number, currency="EUR", region="east"):
    return {"order": number, "currency": currency, "region": region, "cents": number * 37 % 9900 + 100}


def payment_timeout(number):
    error = f"no answer from the payment provider for order {number} within {5000 + number * 7 % 90} ms"
    return {"error_class": "PaymentTimeout", "error": error, "detail": f"""Traceback (most recent call last):
  File "/app/orders/worker.py", line 88, in handle
    receipt = charge(order)
  File "/app/orders/payment.py", line 41, in charge
    return client.post(url, body, timeout=5)
PaymentTimeout: {error}"""}


def old_failure(i):
    return {"error_class": CLASSES[i % 4], "error": f"cannot {DOINGS[i % 5]} item {i} of {i % 977}"}


class Scene:
    """The server as the page finds it, and what comes to it later."""

    def __init__(self, server):
        self.http = Http(server)
        share, more = divmod(LETTERS - HIT - OBSOLETE, len(QUEUES))
        for queue in QUEUES:
            self.http("PUT", f"/queues/{queue}", {"max_retries": 1, "retention": {"dead_seconds": 14 * 86400}})
            bury(self.http, queue, share + (more if queue == "orders" else 0), lambda i: {"item": i}, old_failure, "1.3.9")
        self.obsolete = bury(self.http, "orders", OBSOLETE, lambda i: {"order": 47000 + i, "coupon": "SPRING"},
                             lambda i: {"error_class": "CouponExpired", "error": f"coupon 'SPRING' ended {i + 2} days ago"}, "1.4.2")
        self.hit = bury(self.http, "orders", HIT, lambda i: order(48000 + i, currency="" if i == BAD else "EUR"),
                        lambda i: payment_timeout(48000 + i), "1.4.2")

    def arrive(self, count):
        """Orders from the west."""
        return self.http("POST", "/queues/orders/messages",
                         [{"payload": json.dumps(order(49000 + i, region="west"))} for i in range(count)])["ids"]


class FixedWorker(Worker):
    """Version 1.4.3: an order without a currency is seen for what it is; the west needs a second try."""

    def outcome(self, message):
        content = json.loads(message["payload"])
        if content["currency"] == "":
            return {"action": "fail", "error_class": "BadOrder", "error": f"order {content['order']} has no currency"}
        if content["region"] == "west" and "redrive_count" not in message:
            return {"action": "fail", **payment_timeout(content["order"])}
        return {"action": "succeed"}


# -- what is run, and how long it takes --------------------------------------------------------------------------------------

def shape(words):
    """A command without what differs from server to server."""
    words = [re.sub(r"\d+", "N", re.sub(r"v1:[0-9a-f]+", "KEY", str(word))) for word in words if word != "--yes"]
    return ["FILE" if word.endswith(".ndjson") else word for word in words]


class Path:
    """The commands as they are run, in steps; the times; and the table of it all."""

    def __init__(self, cli):
        self.cli, self.commands, self.steps, self.budgets, self.pages = cli, [], [], [], []
        self.began = time.monotonic()

    @contextlib.contextmanager
    def step(self, what):
        step = {"what": what, "commands": []}
        self.steps.append(step)
        began = time.monotonic()
        try:
            yield
        finally:
            step["took"] = time.monotonic() - began

    def budget(self, what, began, seconds):
        took = time.monotonic() - began
        self.budgets.append((f"{took:7.2f} s", what, f"{seconds} s"))
        assert took < seconds, what

    def note(self, args):
        self.steps[-1]["commands"].append(args[0])
        self.commands.append(shape(args))

    def do(self, *args):
        """Runs a command; returns its output as JSON values, and what it said to people."""
        self.note(args)
        done = self.cli.run(*args)
        assert done.returncode == 0, (args, done.returncode, done.stdout[-500:], done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def one(self, *args):
        [value], _ = self.do(*args)
        return value

    def start(self, *args):
        self.note(args)
        return Running(self.cli, *args)

    def look(self, http, pages):
        """Opens pages, {name: path}, and measures them."""
        for name, path in pages.items():
            ms = http.page_ms(path)
            self.pages.append((ms, name))
            assert ms < PAGE_MS, (name, ms)

    def print(self):
        print(f"\n\nThe golden path, on a server with {LETTERS:,} dead letters\n")
        for step in self.steps:
            commands = [(name, len(list(same))) for name, same in itertools.groupby(step["commands"])]
            names = ", ".join(name if n == 1 else f"{name} x {n}" for name, n in commands)
            print(f"{step['took']:7.2f} s   {step['what']:<48}{names}")
        print(f"{time.monotonic() - self.began:7.2f} s   in all\n")
        for ms, name in self.pages:
            print(f"{ms:7.2f} ms  page: {name}")
        slowest = max(self.pages, default=(0, ""))[0]
        print("\nBudget")
        for took, what, allowed in [*self.budgets, (f"{slowest:7.2f} ms", "the slowest page at the server", f"{PAGE_MS} ms")]:
            print(f"{took:<11}{what:<48}below {allowed}")


# -- the path ----------------------------------------------------------------------------------------------------------------

def accounted(job):
    assert job["selected"] == sum(job[term] for term in TERMS), job
    return job


def find_the_cause(path):
    groups, _ = path.do("groups", "orders", "--limit", "3")
    assert [g["count"] for g in groups[:2]] == [HIT, OBSOLETE] and groups[0]["error_class"] == "PaymentTimeout"
    group = path.one("group", groups[0]["key"][:11])
    assert group["title"] == "PaymentTimeout: no answer from the payment provider for order <n> within <n> ms"
    assert (group["queue"], group["last_hour"], group["state"]) == ("orders", HIT, "open")
    assert [(v["version"], v["count"]) for v in group["versions"]] == [("1.4.2", HIT)]
    assert "in charge\n    return client.post" in group["newest_letter"]["detail"]
    return group["key"]


def take_it(path, key):
    group = path.one("group", key[:11], "--ack", "--owner", "ann", "--note", "payment provider, ticket 812",
                     "--reason", "paged at 03:00")
    assert (group["state"], group["owner"], group["note"]) == ("acknowledged", "ann", "payment provider, ticket 812")
    assert path.one("pause", "orders", "--reason", "ticket 812")["paused"]["by"] == "ann"


def look_closer(path, scene, key, file):
    letters, _ = path.do("dead", "orders", "error:Payment* age:<1h", "--limit", "5")
    assert [m["id"] for m in letters] == scene.hit[:-6:-1] and letters[0]["death"]["expires_at"]
    one, bad = scene.hit[0], scene.hit[BAD]
    [_, failed], _ = path.do("attempts", bad)
    assert (failed["event"], failed["worker_version"], failed["error_class"]) == ("failed", "1.4.2", "PaymentTimeout")
    differences, _ = path.do("diff", one, bad)
    assert "currency" in json.dumps(differences)
    _, said = path.do("export", "orders", f"group:{key}", "--to", file)
    assert f"{HIT} letters exported" in said


def pages(key, id):
    """What a person looks at, by name."""
    return {"causes": "/groups", "causes of one queue, by count": "/groups?q=queue:orders&sort=count", "one cause": f"/groups/{key}",
            "letters": "/dead", "letters of one cause": f"/dead?q=group:{key}",
            "letters by class and age": "/dead?q=error:Schema*%20age:%3C1h",
            "letters by payload": "/dead?queue=orders&q=payload.order:48004",
            "one letter": f"/messages/{id}", "its attempts": f"/queues/orders/messages/{id}/attempts",
            "queues": "/queues", "audit": "/audit?order=newest"}


def deep_page(scene):
    """The path of a page deep inside the list of all letters."""
    cursor = ""
    for _ in range(DEEP // 1000):
        cursor = "&cursor=" + scene.http("GET", f"/dead?limit=1000&payload=no{cursor}")["next"]
    return f"/dead?limit=100{cursor}"


def send_a_sample(path, scene, key):
    """Until it runs; returns the command."""
    path.one("resume", "orders", "--reason", "fix 1.4.3 is out")
    redrive = path.start("redrive", "orders", f"group:{key}", "--sample", "10", "--rate", "50", "--stop-if", "5%", "--reason",
                         "fix 1.4.3 is out", "--yes")
    wait_until(lambda: any(job["sent"] > 0 for job in scene.http("GET", "/redrives")["redrives"]))
    return redrive


def it_stops(path, scene, redrive):
    code, out, said = redrive.end()
    job = accounted(json.loads(out))
    assert (code, job["state"], job["selected"], job["sent"]) == (3, "stopped", HIT, 10), said
    assert (job["succeeded"], job["died_again"], job["remaining"]) == (9, 1, HIT - 10)
    assert "stopped by itself" in said and f"nixie jobs {job['id']} --resume" in said
    [group], _ = path.do("groups", "orders", "--limit", "1")
    assert (group["title"], group["count"], group["newest_id"]) == ("BadOrder: order <n> has no currency", 1, scene.hit[BAD])
    story, _ = path.do("attempts", scene.hit[BAD])
    assert [(e["event"], e.get("error_class")) for e in story if e["event"] != "claimed"] == [
        ("failed", "PaymentTimeout"), ("redriven", None), ("failed", "BadOrder")]
    path.do("diff", scene.hit[BAD], "1", "2")
    return job["id"]


def send_the_rest(path, scene, key, job_id):
    """Slower from the middle on; then those that died meanwhile."""
    watch = path.start("jobs", job_id, "--resume", "--rate", NEW_RATE, "--watch", "--reason", "one has bad data, the others may go")
    wait_until(lambda: scene.http("GET", f"/redrives/{job_id}")["sent"] > 20)
    job = accounted(path.one("jobs", job_id, "--rate", LOW_RATE, "--reason", "the provider is slow"))
    slowed, left = time.monotonic(), job["remaining"]
    assert (job["state"], job["rate"]) == ("running", LOW_RATE)
    late = scene.arrive(LATE)
    wait_until(lambda: {get(path.cli, f"/messages/{id}")["status"] for id in late} == {"dead"})
    path.look(scene.http, {"a job that runs": f"/redrives/{job_id}", "causes while it runs": "/groups"})
    code, out, said = watch.end()
    assert time.monotonic() - slowed > left / LOW_RATE - 1.5, "it did not go slower"
    job = accounted(json.loads(out))
    assert (code, job["state"], job["succeeded"], job["died_again"]) == (3, "done", HIT - 1, 1), said
    assert job["new_since"] == LATE and {get(path.cli, f"/messages/{id}")["status"] for id in late} == {"dead"}
    job = accounted(path.one("redrive", "orders", f"group:{key}", "--reason", "those that died meanwhile", "--yes"))
    assert (job["state"], job["selected"], job["succeeded"]) == ("done", LATE, LATE)


def what_is_left(path, scene):
    bad = scene.hit[BAD]
    copy = path.one("edit", "orders", bad, "--set", 'payload.currency="EUR"', "--reason", "ann asked the customer", "--yes")
    wait_until(lambda: get(path.cli, f"/messages/{copy['id']}")["status"] == "succeeded")
    letter = get(path.cli, f"/messages/{bad}")
    assert (letter["status"], letter["edited_to"], copy["parent_id"]) == ("dead", copy["id"], bad)
    assert json.loads(letter["payload"]) == order(48004, currency="") and json.loads(copy["payload"]) == order(48004)
    path.do("discard", "orders", bad, "--why", "fixed", "--reason", "its copy went through")
    path.do("discard", "orders", *scene.obsolete, "--why", "obsolete", "--reason", "the campaign is over")


def afterwards(path, scene, key):
    group = path.one("group", key[:11])
    assert (group["state"], group["count"], group["total"]) == ("resolved", 0, HIT + LATE)
    assert (group["owner"], group["note"]) == ("ann", "payment provider, ticket 812")
    [id] = scene.arrive(1)
    wait_until(lambda: get(path.cli, f"/messages/{id}")["status"] == "dead")
    group = path.one("group", key[:11])
    assert (group["state"], group["count"], group["owner"]) == ("open", 1, "ann") and group["regressed_at"]
    assert [v["version"] for v in group["versions"] if v["count"] > 0] == ["1.4.3"]


def the_audit(path, scene, key, job_id):
    """Every act in its order, with who and why; and what the job did by itself."""
    entries, _ = path.do("audit", "--all", "-o", "ndjson")
    by_ann = [e for e in entries if e["actor"] == "ann"]
    fix, bad = "fix 1.4.3 is out", str(scene.hit[BAD])
    assert [(e["action"], e["target"], e["reason"]) for e in by_ann if e["reason"]] == [
        ("group", key, "paged at 03:00"), ("queue_paused", None, "ticket 812"), ("queue_resumed", None, fix),
        ("job_created", str(job_id), fix), ("job_changed", str(job_id), "one has bad data, the others may go"),
        ("job_changed", str(job_id), "the provider is slow"), ("job_created", str(job_id + 1), "those that died meanwhile"),
        ("edit", bad, "ann asked the customer"), ("discard", bad, "its copy went through"),
        *[("discard", str(id), "the campaign is over") for id in scene.obsolete]]
    job = [e["result"] for e in by_ann if e["target"] == str(job_id) and not e["reason"]]
    assert job == [f"{HIT} selected, 0 of them skipped", "1 of 10 died again: 10 %, more than 5 %",
                   f"{HIT - 1} succeeded, 1 died again, 0 discarded, 0 skipped"]
    assert {e["action"] for e in entries if e["actor"] != "ann"} == {"queue_created"}


def in_again(path, file, elsewhere):
    """The letters as they were, on a server of one's own; where they came from nothing changes."""
    before = get(path.cli, "/queues/orders")
    assert path.one("import", file, "--yes")["known"] == HIT and get(path.cli, "/queues/orders") == before
    there = Cli(f"http://{elsewhere.host}:{elsewhere.port}", path.cli.tmp)
    assert there.ok("import", file, "--yes")[0]["imported"] == HIT
    again = path.cli.tmp / "again.ndjson"
    assert there.run("export", "orders", "--to", again).returncode == 0
    first, second = ([json.loads(line) for line in f.read_text().splitlines()[1:]] for f in (file, again))
    assert [(m["id"], m["payload"], m["died_at_ms"], m["attempts"]) for m in first] == [
        (m["id"], m["payload"], m["died_at_ms"], m["attempts"]) for m in second]


def the_books(path, server):
    """Every queue, every job; and offline from the disk."""
    for queue in get(path.cli, "/queues")["queues"]:
        c = queue["conservation"]
        assert c["holds"] and c["accepted"] + c["moved_in"] == sum(
            c[term] for term in ("pending", "processing", "parked", "dead", "succeeded_total", "discarded_total", "moved_out"))
    assert sum(q["counts"]["dead"] for q in get(path.cli, "/queues")["queues"]) == LETTERS - HIT - OBSOLETE + 1
    for job in get(path.cli, "/redrives")["redrives"]:
        accounted(job)
    server.stop()
    checked = run("log", "check", server.data)
    assert checked.returncode == 0, checked.stderr


def taught():
    """The commands in docs/dead-letters.md that come after a prompt."""
    text = (ROOT / "docs" / "dead-letters.md").read_text()
    return [shape(shlex.split(line.partition(" > ")[0])) for line in re.findall(r"^    \$ nixie (.*)", text, re.M)]


def test_the_golden_path(own_server, start, tmp_path):
    path, file = Path(own_server.cli), tmp_path / "letters.ndjson"
    path.cli.env["NIXIE_ACTOR"] = "ann"
    try:
        with path.step(f"set-up: {len(QUEUES)} queues, {20 * len(QUEUES) + 2} causes"):
            scene = Scene(own_server)
        began = time.monotonic()
        with path.step("why? the new cause, one whole error of it"):
            key = find_the_cause(path)
        path.budget("page -> cause", began, 30)
        with path.step("pages, five times each"):
            path.look(scene.http, {**pages(key, scene.hit[BAD]), f"letters, after {DEEP:,}": deep_page(scene)})
        began = time.monotonic()
        with path.step("ack, owner, note; the queue is held"):
            take_it(path, key)
        with path.step("letters, attempts, a difference; a copy of all"):
            look_closer(path, scene, key, file)
        with FixedWorker(path.cli, "orders"), FixedWorker(path.cli, "orders"):
            with path.step("the fix is out: the sample is on its way"):
                redrive = send_a_sample(path, scene, key)
            path.budget("cause -> sample running", began, 60)
            with path.step("1 of 10 died of something else: it stops"):
                job_id = it_stops(path, scene, redrive)
            with path.step(f"the rest, slower half-way; then {LATE} new ones"):
                send_the_rest(path, scene, key, job_id)
            with path.step("bad data edited, four discarded"):
                what_is_left(path, scene)
            with path.step("resolved; it comes back: regressed"):
                afterwards(path, scene, key)
        with path.step("the audit has every act"):
            the_audit(path, scene, key, job_id)
        with path.step("letters from the file, on another server"):
            in_again(path, file, start(test_clock=False))
        with path.step("the books, and the log offline"):
            the_books(path, own_server)
    finally:
        path.print()
    commands = iter(path.commands)
    for command in taught():
        assert command in commands, f"nixie {shlex.join(command)}: the page teaches it, the path does not take it (there)"
