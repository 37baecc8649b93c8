"""The demo as a test: the same scenario, quietly, and then what must be true of it.

Whatever the scenario itself checks (the equation, the digest) fails here as demo.Trouble; the controls at the end show that
it can.
"""
import importlib.machinery
import importlib.util
import shutil

import pytest

from lib.server import ROOT


def load_demo():
    loader = importlib.machinery.SourceFileLoader("demo", str(ROOT / "examples" / "demo" / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(module)
    return module


demo = load_demo()


def quiet(*_, **__):
    pass


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    return demo.play(quiet, tmp_path_factory.mktemp("demo"))


def test_every_payload_of_the_package_was_taken_and_is_accounted_for(facts):
    assert facts["enqueued"] >= 700
    terms = facts["conservation"]
    assert terms["accepted"] == facts["enqueued"]
    assert terms["accepted"] + terms["moved_in"] == sum(terms[t] for t in (
        "pending", "processing", "parked", "dead", "succeeded_total", "discarded_total", "moved_out"))
    assert terms["succeeded_total"] == facts["enqueued"] - 2
    assert (terms["pending"], terms["processing"], terms["parked"], terms["discarded_total"]) == (0, 0, 0, 0)


def test_the_server_was_killed_half_way_and_forgot_nothing(facts):
    assert facts["killed_pid"] != facts["pid"]
    before, after = facts["before_kill"], facts["after_kill"]
    assert before["accepted"] == after["accepted"] == facts["enqueued"]
    assert 0 < before["succeeded_total"] <= after["succeeded_total"] < facts["enqueued"] - 3
    assert after["dead"] >= before["dead"]


def test_exactly_the_expected_letters_died_for_the_expected_reasons(facts):
    dead = {m["id"]: m for m in facts["dead"]}
    assert set(dead) == {facts["truncated"], facts["poison"], facts["unknown"]}

    truncated = dead[facts["truncated"]]
    assert truncated["reason"] == "permanent" and truncated["deliveries"] == 1
    assert "not a whole JSON document" in truncated["last_error"]

    unknown = dead[facts["unknown"]]
    assert unknown["reason"] == "permanent" and unknown["deliveries"] == 1
    assert f"unknown event: {demo.UNKNOWN_EVENT}" in unknown["last_error"]

    poison = dead[facts["poison"]]
    assert (poison["reason"], poison["error_class"]) == ("max_retries", "SIGSEGV")
    assert poison["retry_count"] == poison["max_retries"] == 3


def test_what_met_the_outage_succeeded_in_the_end(facts):
    assert len(facts["refused"]) > 0
    assert set(facts["refused"].values()) == {"succeeded"}


def test_the_replayed_letter_succeeded_and_kept_its_story(facts):
    replayed = facts["replayed"]
    assert replayed["id"] == facts["unknown"] and replayed["status"] == "succeeded"
    assert replayed["retry_count"] == 0 and replayed["last_error"] is None
    assert facts["story"] == ["claimed", "failed", "replayed", "claimed", "succeeded"]


def test_each_success_was_digested_once(facts):
    assert facts["digested"] == facts["succeeded"] == sum(facts["counts"].values()) == facts["enqueued"] - 2


# -- controls: the scenario with few payloads, and something that must turn it red -------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """A short scenario: 60 payloads, a short outage."""
    real = demo.real_deliveries()
    needed = [demo.first_of(real, e) for e in ("pull_request", "issues", "push", demo.UNKNOWN_EVENT)]
    few = needed + [d for d in real if d not in needed][:56]
    monkeypatch.setattr(demo, "real_deliveries", lambda: few)
    monkeypatch.setattr(demo, "OUTAGE_S", 2)
    return monkeypatch


def test_control_the_short_scenario_is_green(small, tmp_path):
    assert demo.play(quiet, tmp_path)["conservation"]["succeeded_total"] == 60


def test_control_a_server_that_forgets_is_found_out(small, tmp_path):
    kill = demo.Nixie.kill

    def kill_and_forget(self):
        kill(self)
        shutil.rmtree(self.data, ignore_errors=True)

    small.setattr(demo.Nixie, "kill", kill_and_forget)
    with pytest.raises(demo.Trouble, match="HTTP 404|accepted"):
        demo.play(quiet, tmp_path)


@pytest.mark.parametrize("flaw, complaint", [
    ('WORKER || exit; printf "%s\\tx\\tpush\\t-\\n" "$NIXIE_ID" >>"$WEBHOOKS_DIGEST"', "counted twice"),
    ('[ "$NIXIE_ID" != 9 ] && exec WORKER; cat >/dev/null', "59 were digested, 60 succeeded"),
    ('NIXIE_HEADER_X_GITHUB_EVENT=push exec WORKER', "expected the dead letters"),
], ids=["counts a delivery again", "drops one", "pretends to know an event"])
def test_control_a_worker_that_lies_is_found_out(small, tmp_path, flaw, complaint):
    worker = tmp_path / "worker"
    worker.write_text("#!/bin/sh\n" + flaw.replace("WORKER", str(demo.WORKER)) + "\n")
    worker.chmod(0o755)
    small.setattr(demo, "WORKER", worker)
    with pytest.raises(demo.Trouble, match=complaint):
        demo.play(quiet, tmp_path)


def test_control_the_equation_is_worked_out_and_not_believed():
    terms = dict.fromkeys(("moved_in", "pending", "processing", "parked", "discarded_total", "moved_out"), 0)
    terms |= {"accepted": 3, "dead": 1, "succeeded_total": 2, "holds": True}
    assert demo.equation({"conservation": terms})[0]
    assert not demo.equation({"conservation": terms | {"dead": 0}})[0]
    assert not demo.equation({"conservation": terms | {"holds": False}})[0]
