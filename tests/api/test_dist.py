"""What dist/ ships for Prometheus and Grafana: it names only series that there are, and each alerting rule fires when it should,
and not before. The expressions are evaluated here, over scrapes of a server under the test clock."""
import json
import re

import pytest

from lib.client import Client, at
from lib.server import ROOT
from test_metrics import metrics

RULES = (ROOT / "dist" / "alerts.yml").read_text()
DASHBOARD = (ROOT / "dist" / "grafana.json").read_text()
EXPRESSIONS = dict(re.findall(r"- alert: (\w+)\n +expr: '([^\n]*)'\n", RULES))
DURATION = {"s": 1, "m": 60, "h": 3600, "d": 86400}


# -- a little of PromQL -----------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)(?![\w.])|([a-z_]\w*)|(\{[^}]*\})|\[(\d+)([smhd])\]|(\d+)([smhd])\b|([=<>!]=|[<>*/+(),-]))")


class Query:
    """Evaluates one expression at the time of the last scrape. A vector is {labels: value}; a number stands for itself."""

    def __init__(self, text, scrapes):
        self.scrapes, self.now = scrapes, scrapes[-1][0]
        self.tokens, at_ = [], 0
        while text[at_:].strip():
            m = TOKEN.match(text, at_)
            assert m, f"not understood: {text[at_:]}"
            number, word, braces, window, unit, duration, duration_unit, sign = m.groups()
            self.tokens.append(("number", float(number)) if number else ("word", word) if word else ("braces", braces) if braces
                               else ("window", int(window) * DURATION[unit]) if window
                               else ("duration", int(duration) * DURATION[duration_unit]) if duration else ("sign", sign))
            at_ = m.end()

    def peek(self, *values):
        return bool(self.tokens) and self.tokens[0][1] in values

    def take(self, kind=None, value=None):
        token = self.tokens.pop(0)
        assert kind in (None, token[0]) and value in (None, token[1]), (token, self.tokens)
        return token[1]

    def run(self):
        value = self.conjunction()
        assert not self.tokens, self.tokens
        return value

    def conjunction(self):
        left = self.comparison()
        while self.peek("and"):
            self.take()
            right = self.comparison()
            left = {k: v for k, v in left.items() if k in right}
        return left

    def comparison(self):
        left = self.product()
        if not self.peek("<", ">", "=="):
            return left
        sign, ignored = self.take(), set()
        if self.peek("ignoring"):
            self.take()
            ignored = self.names()
        right = self.product()
        holds = {"<": lambda a, b: a < b, ">": lambda a, b: a > b, "==": lambda a, b: a == b}[sign]
        return {k: v for k, v in left.items()
                for other in [right if isinstance(right, float) else right.get(without(k, ignored))]
                if other is not None and holds(v, other)}

    def product(self):
        left = self.primary()
        while self.peek("*"):
            self.take()
            right = self.primary()
            assert isinstance(left, float), "only a number times a vector"
            left = {k: left * v for k, v in right.items()}
        return left

    def names(self):
        self.take("sign", "(")
        names = {self.take("word")}
        self.take("sign", ")")
        return names

    def primary(self):
        if self.tokens[0][0] == "number":
            return self.take()
        word = self.take("word")
        if word == "sum":
            self.take("word", "without")
            ignored, sums = self.names(), {}
            self.take("sign", "(")
            for k, v in self.conjunction().items():
                sums[without(k, ignored)] = sums.get(without(k, ignored), 0) + v
            self.take("sign", ")")
            return sums
        if word in ("rate", "increase"):
            self.take("sign", "(")
            name, wanted = self.selector(self.take("word"))
            window = self.take("window")
            self.take("sign", ")")
            inside = [self.samples(s, name, wanted) for t, s in self.scrapes if self.now - window <= t <= self.now]
            first = {}
            for samples in inside:
                for k, v in samples.items():
                    first.setdefault(k, v)
            return {k: (v - first[k]) / (window if word == "rate" else 1) for k, v in inside[-1].items()}
        name, wanted = self.selector(word)
        then = self.now
        if self.peek("offset"):
            self.take()
            then -= self.take("duration")
        before = [s for t, s in self.scrapes if t <= then]
        return self.samples(before[-1], name, wanted) if before else {}

    def selector(self, name):
        wanted = set()
        if self.tokens and self.tokens[0][0] == "braces":
            wanted = set(re.findall(r'(\w+)="([^"]*)"', self.take()))
        return name, wanted

    @staticmethod
    def samples(scrape, name, wanted):
        assert name in scrape, f"there is no {name}"
        return {frozenset(labels): v for (_, labels), v in scrape[name][1].items() if wanted <= set(labels)}


def without(labels, names):
    return frozenset((k, v) for k, v in labels if k not in names)


# -- the scenarios ----------------------------------------------------------------------------------------------------------


class World:
    """A server, a queue, and what was scraped when."""

    def __init__(self, start, *flags, **options):
        self.client = Client(start(*flags, **options))
        self.queue = self.client.queue("orders")
        self.scrapes = []

    def scrape(self, seconds):
        """The time moves on, and the series are read: by a request that is none of a person's work."""
        self.client.get("/queues", now=at(seconds))
        self.scrapes.append((seconds, metrics(self.client)))

    def kill(self, n, seconds, **failure):
        for _ in range(n):
            self.queue.enqueue("x", now=at(seconds), max_retries=1)
            self.queue.fail(self.queue.claim(now=at(seconds)), now=at(seconds), **{"error": "boom", **failure})

    def fires(self, name):
        return bool(Query(EXPRESSIONS[name], self.scrapes).run())


def dead_letters(w):
    w.queue.put(now=at(0))
    w.kill(1, 1)
    w.scrape(10)
    yield
    w.scrape(3700)


def death_rate(w):
    w.queue.put(now=at(0))
    for t in range(0, 86401, 3600):
        w.scrape(t)
    w.kill(9, 86401)
    w.scrape(86460)
    yield
    w.kill(3, 86461)
    w.scrape(86520)


def new_cause(w):
    w.queue.put(now=at(0))
    w.kill(1, 1)
    w.scrape(2)
    w.scrape(1000)
    yield
    w.kill(1, 1001, error_class="Another")
    w.scrape(1100)


def retention(share):
    def scenario(w):
        w.queue.put(now=at(0), retention={"dead_seconds": 10000})
        w.kill(1, 0)
        w.scrape(int(share * 10000) - 10)
        yield
        w.scrape(int(share * 10000) + 10)
    return scenario


def expire_soon(w):
    w.queue.put(now=at(0), retention={"dead_seconds": 100000})
    w.kill(1, 0)
    w.scrape(13000)
    yield
    w.scrape(14000)


def expired(w):
    w.queue.put(now=at(0), retention={"dead_seconds": 100})
    w.kill(1, 0)
    w.scrape(50)
    yield
    w.scrape(200)


def dies_again(w):
    w.queue.put(now=at(0))
    w.kill(10, 0)
    w.scrape(1)
    letters = w.queue.letters(now=at(2))
    for m in letters:
        w.queue.replay(m, now=at(2))
    claimed = w.queue.claim_many(10, now=at(3))
    for m in claimed[:7]:
        w.queue.succeed(m, now=at(3))
    w.queue.fail(claimed[7], now=at(3), error="boom")
    w.scrape(4)
    yield
    w.queue.fail(claimed[8], now=at(5), error="boom")
    w.scrape(6)


def paused(w):
    w.queue.put(now=at(0))
    w.scrape(1)
    yield
    w.queue.pause(now=at(2))
    w.scrape(3)


def breaker(w):
    w.queue.put(now=at(0), breaker={"min_outcomes": 3, "open_seconds": 3600})
    w.kill(2, 1)
    w.scrape(2)
    yield
    w.kill(1, 3)
    w.scrape(4)


def outrun(w):
    w.queue.put(now=at(0))
    w.kill(3, 0)
    w.scrape(1)
    for m in w.queue.letters(now=at(2)):
        w.queue.replay(m, now=at(2))
    claimed = w.queue.claim_many(3, now=at(3))
    w.scrape(4)
    yield
    for m in claimed:
        w.queue.fail(m, now=at(5), error="boom")
    w.kill(1, 5)
    w.scrape(6)


def disk(w):
    w.queue.put(now=at(0))
    w.scrape(1)
    yield
    for _ in range(100):
        if w.client.post(w.queue.path + "/messages", {"payload": "x" * 400000}).status == 507:
            break
    w.scrape(2)


SCENARIOS = {
    "NixieDeadLetters": dead_letters, "NixieDeathRateStep": death_rate, "NixieNewCause": new_cause,
    "NixieRetentionHalfUsed": retention(0.5), "NixieRetentionNearlyUsed": retention(0.8),
    "NixieDeadLettersExpireSoon": expire_soon, "NixieDeadLettersExpired": expired, "NixieRedriveDiesAgain": dies_again,
    "NixieQueuePaused": paused, "NixieBreakerOpen": breaker, "NixieDeathsOutrunRedrives": outrun, "NixieDiskNearlyFull": disk}


def test_every_rule_has_its_scenario():
    assert set(EXPRESSIONS) == set(SCENARIOS) and RULES.count("- alert:") == len(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_rule_fires(start, name):
    flags = ["--payload-max", "512K", "--segment-bytes", "1M", "--data-max-bytes", "16M"] if name == "NixieDiskNearlyFull" else []
    world = World(start, *flags)
    scenario = SCENARIOS[name](world)
    next(scenario)
    assert not world.fires(name), "too soon"
    assert next(scenario, "end") == "end"
    assert world.fires(name)
    world.client.close()


# -- the files --------------------------------------------------------------------------------------------------------------


def anchor(heading):
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_each_rule_has_a_runbook_that_is_there():
    links = re.findall(r"- alert: (\w+)\n(?:.*\n)*?.*runbook_url: 'docs/runbook.md#([\w-]+)'", RULES)
    text = (ROOT / "docs" / "runbook.md").read_text()
    sections = re.findall(r"^## (.*)$", text, re.M)
    assert links == [(name, anchor(name)) for name in EXPRESSIONS], "one section of one page, by the rule's name"
    assert sections == list(EXPRESSIONS)
    for page, fragment in re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", text):
        there = (ROOT / "docs" / page).read_text()
        assert not fragment or fragment in [anchor(h) for h in re.findall(r"^#+ (.*)$", there, re.M)], (page, fragment)


def test_the_series_they_name_are_there(start):
    world = World(start)
    world.queue.put(now=at(0), retention={"dead_seconds": 1000})
    world.kill(1, 0)
    world.scrape(1)
    named = set(re.findall(r"\bnixie_[a-z_]+", RULES + DASHBOARD)) - {"nixie"}
    there = {name for _, samples in world.scrapes[-1][1].values() for name, _ in samples}
    assert named and named <= there, named - there
    world.client.close()


def test_the_dashboard():
    d = json.loads(DASHBOARD)
    assert [p["title"] for p in d["panels"] if p["type"] == "row"] == [
        "Now", "Inflow and depth", "Redrives", "Attempts, guards and ages"]
    assert {"queue", "reason"} <= {v["name"] for v in d["templating"]["list"]}
    assert len({p["id"] for p in d["panels"]}) == len(d["panels"])
    cells = set()
    for p in d["panels"]:
        g = p["gridPos"]
        mine = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not mine & cells and g["x"] + g["w"] <= 24, p["title"]
        cells |= mine
        assert p["type"] == "row" or all(t["expr"] for t in p["targets"]), p["title"]
