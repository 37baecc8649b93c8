"""GET /metrics, read by the rules of the Prometheus text format 0.0.4."""
import re

from lib.client import at

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
