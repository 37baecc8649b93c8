"""Point 7 of bench/run: dead letters."""
import calendar
import json
import statistics
import subprocess
import time
import urllib.parse

from harness import Nixie, Trouble, count, note, pairs, settle_down, spread

QUEUES = ["dead-0", "dead-1", "dead-2", "dead-3"]
CAUSES = 50  # of each queue
LOOKS = 100
REDRIVE_SECONDS_MAX = 120


def dead(server, mode, **options):
    """Runs bench/dead; what it reports."""
    command = [server.settings.build / "bench" / "dead", mode, "--port", server.address.rpartition(":")[2]]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise server.failed(f"{mode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


# -- letters ---------------------------------------------------------------------------------------------


def make_letters(server, table):
    """As many as the point wants, of 4 queues with 50 causes each. In half of the queues they die at once (reason permanent), in
    the others of the last failure they had (max_retries)."""
    each = server.settings.letters // len(QUEUES)
    total = each * len(QUEUES)
    begin = time.monotonic()
    server.warm_up()
    settle_down(server)
    empty = server.memory()["VmRSS"]
    for queue in QUEUES:
        server.request("PUT", f"/queues/{queue}", {"max_retries": 1})
        server.load("batch-enqueue", 4, each, queue=queue, batch=500)
    settle_down(server)
    pending = server.memory()["VmRSS"]
    for i, queue in enumerate(QUEUES):
        dead(server, ["kill", "retry"][i % 2], queue=queue, messages=each, batch=500, hold=min(each, 20000), connections=4,
             causes=CAUSES, detail=600, version=f"1.{i}")
    settle_down(server)
    full = server.memory()["VmRSS"]
    note(f"{count(total)} letters died in {time.monotonic() - begin:.1f} s")
    groups = json.loads(server.request("GET", "/groups?limit=1000"))["groups"]
    if len(groups) != len(QUEUES) * CAUSES or sum(g["count"] for g in groups) != total:
        raise Trouble(f"{count(total)} letters in {len(groups)} groups")
    table.add("7", f"resident bytes a dead letter, at {count(total)}", f"{(full - empty) / total:.1f}", "", "", "<= 256",
              full - empty <= 256 * total)
    table.add("", "  of it while it was pending", f"{(pending - empty) / total:.1f}")
    return groups


# -- looking ---------------------------------------------------------------------------------------------


def look(server, table, what, path, most_ms):
    """A line of one path asked for again and again by one client."""
    found = dead(server, "get", path=path, messages=LOOKS)["latency_us"]["get"]
    middle, worst = found["p50"] / 1e3, found["max"] / 1e3
    note(f"{what}: {middle:.2f} ms, the slowest of {LOOKS} {worst:.2f} ms")
    table.add("7" if most_ms else "", what, f"{middle:.2f} ms (..{worst:.2f})", "", "",
              f"<= {most_ms} ms" if most_ms else "", worst <= most_ms if most_ms else None)


def path_of(**query):
    return "/dead?" + urllib.parse.urlencode(query)


def page(server, **query):
    return json.loads(server.request("GET", path_of(**query)))


def time_of_death(server, share):
    """The moment so far into the time in which they died, as a filter says it."""
    ends = [page(server, limit=1, order=order)["letters"][0]["died_at"] for order in ("oldest", "newest")]
    first, last = (calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S")) for text in ends)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(first + (last - first) * share))


def page_lines(server, table):
    look(server, table, "list of 200 cause groups", "/groups?limit=1000", 10)
    look(server, table, "first page of 100 letters", path_of(limit=100), 10)
    middle = time_of_death(server, 0.5)
    cursor = page(server, limit=1, q=f"died:<={middle}")["next"]
    look(server, table, "  deep inside, newest first", path_of(limit=100, cursor=cursor), 10)
    look(server, table, "  deep inside, oldest first", path_of(limit=100, cursor=cursor, order="oldest"), 10)
    look(server, table, "  with their stories", path_of(limit=100, attempts="yes"), None)


def filter_lines(server, table, groups):
    some = f"died:{time_of_death(server, 0.4)}..{time_of_death(server, 0.6)}"
    group = next(g["key"] for g in groups if g["queue"] == QUEUES[1])
    for q in ["reason:permanent", "error:Timeout*", f"queue:{QUEUES[1]}", f"group:{group}", some,
              f"reason:max_retries error:KeyError {some}", f"queue:{QUEUES[2]} reason:permanent error:Connection* {some}"]:
        found = page(server, limit=100, q=q)
        if found["count"] == 0 or not found["complete"]:
            raise Trouble(f"{q}: {found['count']} letters, complete: {found['complete']}")
        shown = q.replace(some, "died:SOME..LATER").replace(group, "KEY")
        look(server, table, f"page of 100: {shown}", path_of(limit=100, q=q), 20)
    for q in ["redrives:>0", "message:nothing"]:
        looked_at = page(server, limit=100, q=q)["looked_at"]
        look(server, table, f"  {q}: no letter of the {count(looked_at)} that one call looks at", path_of(limit=100, q=q), None)


# -- sending again ---------------------------------------------------------------------------------------


def redrive(server, queue):
    begin = time.monotonic()
    made = json.loads(server.request("POST", "/redrives", {"queue": queue, "all": True, "sample": 0, "stop_if": None}))
    while True:
        job = json.loads(server.request("GET", f"/redrives/{made['id']}"))
        seconds = time.monotonic() - begin
        if not job["selecting"] and job["remaining"] == 0:
            note(f"{count(job['sent'])} letters of {queue} sent again in {seconds:.2f} s")
            return job["sent"], seconds
        if seconds > REDRIVE_SECONDS_MAX:
            raise Trouble(f"a redrive takes too long: {job}")
        time.sleep(0.01)


def redrive_line(server, table):
    done = [redrive(server, queue) for queue in QUEUES]
    sent, seconds = (sum(column) for column in zip(*done))
    if sent != server.settings.letters:
        raise Trouble(f"{count(sent)} letters were sent again")
    table.add("7", f"redrives of {count(sent)} letters without a rate, from asking to all sent", f"{count(sent / seconds)}/s", "",
              spread([n / s for n, s in done], "{:,.0f}"), ">= 100,000/s", sent / seconds >= 100000)


# -- dying -----------------------------------------------------------------------------------------------


def dying_line(settings, table, what, messages, connections, batch):
    """Failures that kill beside failures that come again, in the same words."""
    each = settings.scaled(messages)
    with Nixie(settings) as server:
        names = iter(f"dying-{i}" for i in range(1000))

        def fail(mode):
            queue = next(names)
            server.load("batch-enqueue", 4, each, queue=queue, batch=500)
            settle_down(server)
            result = dead(server, mode, queue=queue, messages=each, batch=batch, hold=each, connections=connections,
                          causes=CAUSES, detail=2048)
            settle_down(server)
            note(f"{mode} x{connections}, {batch} a request: {count(result['messages_per_second'])}/s")
            return result["messages_per_second"]

        fail("retry"), fail("kill")
        kills, retries = pairs(settings, lambda: fail("kill"), lambda: fail("retry"))
    costs = [retry / kill for kill, retry in zip(kills, retries)]
    table.add("7", f"{what} that kill; peer: that come again", f"{count(statistics.median(kills))}/s",
              f"{count(statistics.median(retries))}/s", spread(costs) + " the cost", "<= 1.5", statistics.median(costs) <= 1.5)


def point_dead(settings, table):
    dying_line(settings, table, "64 connections, failures with a stack trace of 2 KB", 40000, 64, 1)
    dying_line(settings, table, "  16 connections, batches of 100 of them", 40000, 16, 100)
    with Nixie(settings) as server:
        groups = make_letters(server, table)
        page_lines(server, table)
        filter_lines(server, table, groups)
        redrive_line(server, table)
