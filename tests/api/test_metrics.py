"""GET /metrics, read by the rules of the Prometheus text format 0.0.4."""
import re

from lib.client import T0, Client, at
from lib.jobs import Jobs, bury, finish

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (-?[0-9.eE+-]+|[+-]Inf|NaN)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|\Z)')


def parse(text):
    """{family: (type, {(sample name, labels): value})}; fails on anything the format does not allow."""
    assert text.endswith("\n")
    families, current, closed, seen = {}, None, set(), set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, help_text = line[len("# HELP "):].partition(" ")
            assert re.fullmatch(NAME, name) and help_text.strip(), line
            assert name not in families and name not in closed, f"HELP of {name} twice"
            if current:
                closed.add(current)
            current, families[name] = name, [None, {}]
        elif line.startswith("# TYPE "):
            name, kind = line[len("# TYPE "):].split(" ")
            assert name == current, f"TYPE of {name} not behind its HELP"
            assert families[name][0] is None, f"TYPE of {name} twice"
            assert kind in ("counter", "gauge", "histogram", "summary", "untyped"), line
            families[name][0] = kind
        else:
            assert not line.startswith("#") and line, repr(line)
            m = SAMPLE.match(line)
            assert m, line
            name, labels, value = m.groups()
            kind = families[current][0]
            assert kind, f"sample of {current} before its TYPE"
            suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}.get(kind, ("",))
            assert name in [current + s for s in suffixes], f"{name} among the samples of {current}"
            pairs, pos = [], 0
            while labels and pos < len(labels):
                label = LABEL.match(labels, pos)
                assert label, line
                pairs.append((label.group(1), label.group(2)))
                pos = label.end()
            assert len({k for k, _ in pairs}) == len(pairs), f"a label twice: {line}"
            key = (name, tuple(sorted(pairs)))
            assert key not in seen, f"duplicate series: {line}"
            seen.add(key)
            families[current][1][key] = float(value)
            if kind == "counter":
                assert current.endswith("_total"), current
                assert float(value) >= 0
            else:
                assert not current.endswith("_total"), current
    return families


def metrics(client):
    reply = client.get("/metrics")
    assert reply.status == 200
    assert reply.headers.get("Content-Type") == "text/plain; version=0.0.4; charset=utf-8", reply.headers.items()
    return parse(reply.body.decode("utf-8"))


def total(families, word):
    """The sum of every counter with this word in its name or labels."""
    found = [v for f in families.values() if f[0] == "counter" for (name, labels), v in f[1].items()
             if word in name or any(word in value for _, value in labels)]
    assert found, f"no counter about {word}"
    return sum(found)


def test_the_format(client, queue):
    queue.enqueue("x")
    families = metrics(client)
    assert families
    for name, (kind, samples) in families.items():
        assert name.startswith(("nixie_", "process_")), name
        assert kind, name
        if kind == "histogram":
            check_histogram(name, samples)


def check_histogram(name, samples):
    by_labels = {}
    for (sample, labels), value in samples.items():
        rest = tuple(p for p in labels if p[0] != "le")
        by_labels.setdefault(rest, {})[sample, dict(labels).get("le")] = value
    for series in by_labels.values():
        edges = sorted((float(le.replace("+Inf", "inf")), v) for (s, le), v in series.items() if s == name + "_bucket")
        assert edges[-1][0] == float("inf"), name
        assert [v for _, v in edges] == sorted(v for _, v in edges), f"buckets of {name} are not cumulative"
        assert edges[-1][1] == series[name + "_count", None], name
        assert (name + "_sum", None) in series, name


def test_names_with_odd_characters_are_escaped(client):
    for name in ('quote"queue', "back\\slash", "new\nline", "ünï", 'a="b",c="d"'):
        client.queue(name).enqueue("x")
    metrics(client)


def test_counters_count_and_never_go_down(client, queue):
    before = metrics(client)
    queue.batch([{"payload": "x", "max_retries": 1}] * 5)
    a, b, c, d, e = queue.claim_many(5)
    queue.succeed(a)
    queue.fail(b)
    after = metrics(client)
    assert set(before) <= set(after)
    for name, (kind, samples) in before.items():
        if kind == "counter":
            for key, value in samples.items():
                assert after[name][1][key] >= value, key
    queue.delete(discard=True)
    assert total(metrics(client), "discarded") - total(before, "discarded") == 4


def test_dead_letters_discarded_by_retention_are_counted(client, queue):
    queue.put(retention={"dead_seconds": 10})
    before = total(metrics(client), "discarded")
    queue.dead()
    queue.info(now=at(10))
    assert total(metrics(client), "discarded") - before == 1


# -- dead letters ----------------------------------------------------------------------------------------------------------


def of(families, name, queue, **labels):
    """The value of a series of the queue, or None."""
    return families[name][1].get((name, tuple(sorted({"queue": queue.name, **labels}.items()))))


def test_dead_letters_by_reason(client, queue):
    queue.put()
    families = metrics(client)
    for reason in ("max_retries", "permanent", "expired", "lease_expired"):
        for name in ("nixie_dead_messages", "nixie_dead_lettered_total"):
            assert of(families, name, queue, reason=reason) == 0
    ids = bury(queue, 3)
    bury(queue, 2, permanent=True)
    queue.replay(ids[0])
    families = metrics(client)
    assert of(families, "nixie_dead_messages", queue, reason="max_retries") == 2
    assert of(families, "nixie_dead_lettered_total", queue, reason="max_retries") == 3
    assert of(families, "nixie_dead_messages", queue, reason="permanent") == 2
    assert of(families, "nixie_dead_messages", queue, reason="expired") == 0
    assert of(families, "nixie_deaths_total", queue) == 5


def test_what_was_sent_again_and_what_came_of_it(client, queue):
    jobs = Jobs(client)
    active = metrics(client)["nixie_redrives_active"][1]["nixie_redrives_active", ()]
    bury(queue, 5)
    j = jobs.redrive(queue=queue.name)
    jobs.read(j)
    finish(queue, n=2)
    finish(queue, "fail", n=1)
    families = metrics(client)
    assert of(families, "nixie_redriven_total", queue) == 5
    assert of(families, "nixie_redrive_outcome_total", queue, outcome="succeeded") == 2
    assert of(families, "nixie_redrive_outcome_total", queue, outcome="died_again") == 1
    assert families["nixie_redrives_active"][1]["nixie_redrives_active", ()] == active + 1
    finish(queue)
    assert jobs.is_done(j)
    families = metrics(client)
    assert of(families, "nixie_redrive_outcome_total", queue, outcome="succeeded") == 4
    assert families["nixie_redrives_active"][1]["nixie_redrives_active", ()] == active


def buckets(families, queue, outcome):
    """What is in each bucket of the deliveries at the end, by its edge; and their sum."""
    samples = families["nixie_message_deliveries"][1]
    labels = {"queue": queue.name, "outcome": outcome}
    sums = [samples["nixie_message_deliveries_bucket", tuple(sorted({**labels, "le": edge}.items()))]
            for edge in ("1", "2", "3", "5", "10", "20", "+Inf")]
    assert sums[-1] == samples["nixie_message_deliveries_count", tuple(sorted(labels.items()))]
    return ([b - a for a, b in zip([0] + sums, sums)], samples["nixie_message_deliveries_sum", tuple(sorted(labels.items()))])


def test_deliveries_of_what_ended(client, queue):
    queue.put(max_retries=30, backoff={"kind": "fixed", "base_seconds": 0})
    assert buckets(metrics(client), queue, "succeeded") == buckets(metrics(client), queue, "died") == ([0] * 7, 0)

    def end(deliveries, how, **fields):
        m = queue.enqueue("x", **fields)
        for n in range(deliveries):
            c = queue.claim()
            assert c["id"] == m["id"]
            queue.fail(c, error="down") if n + 1 < deliveries else how(c)

    for n in (1, 1, 2, 4, 5, 6, 20, 21):
        end(n, queue.succeed)
    end(3, lambda c: queue.fail(c, permanent=True, error="down"))
    end(25, lambda c: queue.fail(c, permanent=True, error="down"))
    queue.enqueue("x", ttl_seconds=10)
    queue.info(now=at(10))
    families = metrics_at(client, 11)
    assert buckets(families, queue, "succeeded") == ([2, 1, 0, 2, 1, 1, 1], 60)
    assert buckets(families, queue, "died") == ([1, 0, 1, 0, 0, 0, 1], 28), "one of them was never handed out"
    check_histogram("nixie_message_deliveries", families["nixie_message_deliveries"][1])


def test_retries_of_claims(client, queue):
    queue.put(max_retries=9, backoff={"kind": "fixed", "base_seconds": 5})
    queue.enqueue("x")
    queue.enqueue("y")
    names = ("nixie_claims_total", "nixie_redeliveries_total", "nixie_retries_total")

    def counted():
        families = metrics(client)
        return [of(families, name, queue) for name in names]

    assert counted() == [0, 0, 0]
    c = queue.claim()
    queue.release(c)
    assert counted() == [1, 0, 0]
    c = queue.claim()
    assert counted() == [2, 1, 0], "given back is no retry"
    queue.fail(c, error="down")
    d = queue.claim()
    queue.succeed(d)
    client.now = at(5)
    queue.succeed(queue.claim())
    assert counted() == [4, 2, 1]


def test_what_has_been_failing_for_longest(client, queue):
    queue.put(max_retries=9, backoff={"kind": "fixed", "base_seconds": 10})
    old, young = queue.enqueue("x"), queue.enqueue("y")
    name = "nixie_failing_oldest_age_seconds"
    assert of(metrics(client), name, queue) == 0
    queue.fail(queue.claim(now=at(0)), error="down", now=at(0))
    queue.fail(queue.claim(now=at(4)), error="down", now=at(4))
    assert of(metrics_at(client, 9), name, queue) == 9
    c = queue.claim(now=at(10))
    assert c["id"] == old["id"]
    assert of(metrics_at(client, 12), name, queue) == 12
    queue.succeed(c, now=at(12))
    assert of(metrics_at(client, 13), name, queue) == 0, "it ended, and the other one has not come by yet"
    c = queue.claim(now=at(14))
    assert c["id"] == young["id"]
    assert of(metrics_at(client, 15), name, queue) == 11
    queue.fail(c, permanent=True, error="no", now=at(15))
    assert of(metrics_at(client, 16), name, queue) == 0


def test_letters_sent_again_more_than_once(client, queue):
    ids = bury(queue, 2)
    for id in ids:
        queue.replay(id)
    finish(queue, "fail")
    assert of(metrics(client), "nixie_redriven_again_total", queue) == 0
    queue.replay(ids[0])
    finish(queue, "fail")
    families = metrics(client)
    assert (of(families, "nixie_redriven_again_total", queue), of(families, "nixie_redriven_total", queue)) == (1, 3)


def test_what_guards_hold_back(client, queue):
    queue.put(max_retries=1, order="park", breaker={"min_outcomes": 1, "open_seconds": 60})
    queue.batch([{"payload": "x", "key": key} for key in ("a", "a", "a", "b", "c")])
    queue.fail(queue.claim(), permanent=True, error="boom")
    families = metrics_at(client, 30)
    assert of(families, "nixie_keys_parked", queue) == 1 and of(families, "nixie_keys_parked_oldest_age_seconds", queue) == 30
    assert of(families, "nixie_queue_messages", queue, state="parked") == 2
    assert of(families, "nixie_breaker_held", queue) == 0, "bad data is no outage"
    queue.fail(queue.claim(now=at(30)), error="down", now=at(30))
    families = metrics_at(client, 31)
    assert of(families, "nixie_queue_breaker_state", queue) == 1 and of(families, "nixie_breaker_opened_total", queue) == 1
    assert of(families, "nixie_breaker_held", queue) == of(families, "nixie_queue_ready", queue) > 0


def test_what_is_counted_since_the_start(start):
    """And what is durable."""
    server = start()
    client = Client(server, now=T0)
    queue = client.queue("q")
    queue.enqueue("x")
    queue.succeed(queue.claim())
    assert buckets(metrics(client), queue, "succeeded")[1] == 1
    client.close()
    server.restart()
    client = Client(server, now=T0)
    families = metrics(client)
    assert buckets(families, queue, "succeeded")[1] == of(families, "nixie_claims_total", queue) == 0
    assert of(families, "nixie_deliveries_total", queue) == of(families, "nixie_succeeded_total", queue) == 1
    client.close()


def test_undoing_a_discard_takes_nothing_from_a_counter(client, queue):
    a, b = bury(queue, 2)
    queue.act(a, "discard", why="test")
    queue.act(b, "discard", why="test")
    queue.act(a, "undiscard")
    families = metrics(client)
    assert of(families, "nixie_discarded_total", queue) == 2
    assert of(families, "nixie_undiscarded_total", queue) == 1
    assert of(families, "nixie_dead_messages", queue, reason="max_retries") == 1


def test_the_ages_of_the_dead(client, queue):
    bury(queue, 1)
    bury(queue, 1, now=at(30))
    families = metrics_at(client, 50)
    assert of(families, "nixie_dead_oldest_age_seconds", queue) == 50
    assert of(families, "nixie_dead_min_ttl_seconds", queue) is None
    queue.put(retention={"dead_seconds": 100}, now=at(50))
    assert of(metrics_at(client, 60), "nixie_dead_min_ttl_seconds", queue) == 40
    families = metrics_at(client, 100)
    assert of(families, "nixie_dead_min_ttl_seconds", queue) == 30
    assert of(families, "nixie_dead_oldest_age_seconds", queue) == 70
    assert of(families, "nixie_dead_expired_total", queue) == 1
    families = metrics_at(client, 130)
    assert of(families, "nixie_dead_oldest_age_seconds", queue) == 0
    assert of(families, "nixie_dead_min_ttl_seconds", queue) is None
    assert of(families, "nixie_dead_expired_total", queue) == 2


def metrics_at(client, seconds):
    client.now = at(seconds)
    return metrics(client)


def test_groups_and_pauses(client, queue):
    bury(queue, 3, error_class="Timeout")
    bury(queue, 1, error_class="ParseError")
    families = metrics(client)
    assert of(families, "nixie_dead_groups", queue) == 2 and of(families, "nixie_queue_paused", queue) == 0
    queue._do(200, "POST", "/pause", {"reason": "incident"})
    assert of(metrics(client), "nixie_queue_paused", queue) == 1
    queue._do(200, "POST", "/resume")
    assert of(metrics(client), "nixie_queue_paused", queue) == 0


def test_the_audit_is_counted(client, queue):
    before = metrics(client)["nixie_audit_entries"][1]["nixie_audit_entries", ()]
    queue.act(bury(queue, 1)[0], "discard", why="test")
    assert metrics(client)["nixie_audit_entries"][1]["nixie_audit_entries", ()] == before + 1


def test_a_deleted_queue_keeps_its_totals(client, queue):
    target = client.queue(queue.name + "/target")
    target.put()
    ids = bury(queue, 4)
    queue.act(ids[0], "discard", why="test")
    queue.act(ids[0], "undiscard")
    jobs = Jobs(client)
    j = jobs.redrive(queue=queue.name, filter=f"id:{ids[1]}", to=target.name)
    jobs.read(j)
    finish(target)
    families = metrics(client)
    assert (of(families, "nixie_moved_out_total", queue), of(families, "nixie_moved_in_total", target)) == (1, 1)
    sums = {word: total(families, word) for word in ("accepted", "discarded", "moved_in", "moved_out")}
    queue.delete(discard=True)
    target.delete(discard=True)
    after = metrics(client)
    assert total(after, "discarded") == sums["discarded"] + 3
    assert total(after, "accepted") == sums["accepted"]
    assert (total(after, "moved_in"), total(after, "moved_out")) == (sums["moved_in"], sums["moved_out"])
