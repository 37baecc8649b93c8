"""The outage demo as a test: the same story, from its command line, and what its JSON must say."""
import json
import os
import subprocess
import time

import pytest

from lib.server import NIXIE, ROOT


@pytest.fixture(scope="module")
def played():
    began = time.monotonic()
    done = subprocess.run([ROOT / "examples" / "demo-outage" / "run"], env={**os.environ, "NIXIE": str(NIXIE)},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, time.monotonic() - began


@pytest.fixture(scope="module")
def ledgers(played):
    return json.loads(played[0].splitlines()[-1])


def test_the_last_line_is_the_ledgers(ledgers):
    assert set(ledgers) == {"fixed", "breaker"}
    for one in ledgers.values():
        assert set(one) == {"dead", "deliveries", "recover_seconds", "conservation"}
        assert one["conservation"] is True


def test_fixed_retries_lose_many_and_the_breaker_none_or_nearly_none(ledgers):
    assert ledgers["fixed"]["dead"] >= 200
    assert ledgers["breaker"]["dead"] <= 5


def test_the_breaker_asks_less_of_what_is_down(ledgers):
    assert 2000 <= ledgers["breaker"]["deliveries"] < ledgers["fixed"]["deliveries"]


def test_both_recover(ledgers):
    assert all(0 <= one["recover_seconds"] < 20 for one in ledgers.values())


def test_people_see_both_side_by_side(played):
    text, seconds = played
    lines = text.splitlines()
    assert any("fixed retries" in line and "breaker" in line for line in lines)
    assert [line for line in lines if line.startswith("it adds up")][0].split()[-2:] == ["yes", "yes"]
    assert seconds < 60
