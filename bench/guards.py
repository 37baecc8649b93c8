"""Point 8 of bench/run: what the guards cost the path of a message that does not fail."""
import json
import statistics
import urllib.parse

from dead_letters import dead
from harness import Nixie, Trouble, count, note, pairs, rates, settle_down, spread

KEYS = 100000
# All of them at once. Rules are asked only about failures; they are here because a queue with guards has some.
GUARDS = {
    "max_deliveries": 10,
    "retry_budget": 0.2,
    "order": "block",
    "breaker": {"share": 0.5, "min_outcomes": 20, "window_seconds": 60, "open_seconds": 30, "probes": 1, "error": "Timeout*"},
    "rules": [{"error": "ValidationError", "action": "dead"}, {"error": "Http429", "action": "release", "delay_seconds": 30},
              {"message_regex": "deadlock|serialization", "action": "retry", "max_retries": 20}],
}
LINES = [("cycle", 64, 40000, None, "64 connections, cycle"),
         ("batch-cycle", 16, 200000, 100, "16 connections, batches of 100, cycle")]


def put(server, queue, policy):
    server.request("PUT", "/queues/" + urllib.parse.quote(queue, safe=""), policy)


def run(server, mode, connections, messages, queue, batch, **keys):
    result = server.load(mode, connections, messages, queue=queue, batch=batch, **keys)
    settle_down(server)
    result["server_us"] = result["server_cpu_seconds"] / messages * 1e6
    note(f"{mode} on {queue}: {count(result['messages_per_second'])}/s, processor time of the server a message {result['server_us']:.1f} us")
    return result


def add_lines(table, what, ours, peers, most):
    """What a message costs beside the peer, by the time it took and by the processor's."""
    costs = [b / a for a, b in zip(rates(ours), rates(peers))]
    table.add("8", what, f"{count(statistics.median(rates(ours)))}/s", f"{count(statistics.median(rates(peers)))}/s",
              spread(costs) + " the cost", f"<= {most:g}", statistics.median(costs) <= most)
    mine, theirs = ([r["server_us"] for r in results] for results in (ours, peers))
    table.add("", "  processor time of the server a message", f"{statistics.median(mine):.1f} us", f"{statistics.median(theirs):.1f} us",
              spread([a / b for a, b in zip(mine, theirs)]) + " the cost")


# -- guards on, beside guards off -------------------------------------------------------------------------


def on_lines(settings, table):
    """The same requests, keys and all, on one server, each run in a fresh queue."""
    for mode, connections, messages, batch, what in LINES:
        n = settings.scaled(messages)
        with Nixie(settings) as server:
            names = iter(range(1000))

            def once(policy):
                queue = f"{'on' if policy else 'off'}-{next(names)}"
                put(server, queue, policy)
                return run(server, mode, connections, n, queue, batch, keys=KEYS)

            once(GUARDS), once({})
            ours, peers = pairs(settings, lambda: once(GUARDS), lambda: once({}))
        add_lines(table, f"{what}, all guards on; peer: all off", ours, peers, 1.1)


# -- guards off, beside a program without them --------------------------------------------------------------


class Before(Nixie):
    name = "before"

    def command(self):
        # It may be from before AMQP.
        return [self.settings.before, *(word for word in super().command()[1:] if word not in ("--amqp", "off"))]


def off_lines(settings, table):
    if settings.before is None:
        return
    for mode, connections, messages, batch, what in LINES:
        n = settings.scaled(messages)

        def once(kind):
            with kind(settings) as server:
                server.warm_up()
                settle_down(server)
                return run(server, mode, connections, n, f"{kind.name}", batch)

        ours, peers = pairs(settings, lambda: once(Nixie), lambda: once(Before))
        add_lines(table, f"{what}, all guards off; peer: the program before", ours, peers, 1.05)


# -- parked keys ------------------------------------------------------------------------------------------


def park(server, queue, keys):
    """So many keys, each with a dead head and one message parked behind it."""
    put(server, queue, {"order": "park"})
    server.load("batch-enqueue", 4, keys, queue=queue, batch=500, keys=keys)
    dead(server, "kill", queue=queue, messages=keys, batch=500, hold=keys, connections=4, detail=600)
    server.load("batch-enqueue", 4, keys, queue=queue, batch=500, keys=keys)
    settle_down(server)
    info = json.loads(server.request("GET", f"/queues/{queue}"))
    found = info["parked_keys"], info["counts"]["parked"]
    if found != (keys, keys):
        raise Trouble(f"{queue}: {found} keys and messages are parked")


def parked_lines(settings, table):
    """Messages of other keys, in a queue with parked keys and in one without; on one server, alternately."""
    keys = max(settings.scaled(KEYS) // 500 * 500, 500)
    with Nixie(settings) as server:
        server.warm_up()
        park(server, "parked", keys)
        put(server, "free", {"order": "park"})
        for mode, connections, messages, batch, what in LINES:
            n = settings.scaled(messages)

            def once(queue):
                return run(server, mode, connections, n, queue, batch, keys=KEYS, first_key=keys)

            once("parked"), once("free")
            ours, peers = pairs(settings, lambda: once("parked"), lambda: once("free"))
            add_lines(table, f"{what} with {count(keys)} parked keys; peer: with none", ours, peers, 1.2)


def point_guards(settings, table):
    on_lines(settings, table)
    off_lines(settings, table)
    parked_lines(settings, table)
