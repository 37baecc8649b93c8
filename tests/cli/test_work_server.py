"""nixie work and a server that cannot be trusted: odd replies, refusals, silence."""
import pytest


def message(id, **fields):
    return {"id": id, "lease": f"{id}-1", "payload": "p", "attempt": 1, "deliveries": 1, "status": "processing", **fields}


def succeeded(body):
    return [{"id": i["id"], "status": "succeeded"} for i in body["items"]]


def test_more_messages_than_were_asked_for(fake):
    sent = []

    def reply(method, path, body):
        first = not sent
        sent.append(body)
        return 200, {"results": succeeded(body), "messages": [message(i) for i in range(1, 8)] if first else []}
    worker = fake(reply).cli.work_all("-j", "2", "--", "sh", "-c", "echo $NIXIE_ID")
    assert worker.code == 0
    assert sorted(worker.stdout().split()) == ["1", "2"]
    assert "the server sent 7 messages, 2 were asked for" in worker.stderr()


def test_messages_nobody_asked_for(fake):
    sent = []

    def reply(method, path, body):
        sent.append(body)
        ask = body.get("claim")
        return 200, {"results": succeeded(body), "messages": [message(len(sent))] if not ask or len(sent) == 1 else []}
    worker = fake(reply).cli.work_all("--", "sh", "-c", "echo $NIXIE_ID")
    assert worker.code == 0 and worker.stdout() == "1\n"


def test_things_that_are_no_messages(fake):
    bad = [None, 5, "x", {}, message(-1), message(0), message(2**53), message(1.5), message("1"), message(1, lease=None),
           message(1, lease="x" * 300), message(1, lease="a\0b"), message(1, payload=None), message(1, payload=5),
           message(1, payload=None, payload_base64="!!!!"), message(1, payload=None, payload_base64="YQ")]
    sent = []

    def reply(method, path, body):
        sent.append(body)
        n = len(sent) - 1
        return 200, {"results": succeeded(body), "messages": [bad[n]] if n < len(bad) else []}
    worker = fake(reply).cli.work_all("--", "echo", "ran")
    assert worker.code == 0 and worker.stdout() == ""
    assert worker.stderr().count("not a claimed message") == len(bad)


def test_odd_members_are_left_out(fake):
    sent = []

    def reply(method, path, body):
        sent.append(body)
        odd = message(1, headers=[1], key=5, attempt="x", payload_base64="Zm9v")
        return 200, {"results": succeeded(body), "messages": [odd] if len(sent) == 1 else []}
    worker = fake(reply).cli.work_all("--", "sh", "-c", 'cat; env | grep ^NIXIE_ | grep -v SERVER | sort')
    assert worker.stdout() == "pNIXIE_HEADERS={}\nNIXIE_ID=1\nNIXIE_LEASE=1-1\nNIXIE_QUEUE=q\n"


@pytest.mark.parametrize("odd", [
    (200, {"results": []}), (200, {"results": [{"id": 2, "status": "succeeded"}]}), (200, {"results": "x"}), (200, {}),
    (200, b"<html>", "text/html"), (503, {"title": "draining", "status": 503}), (500, b""), (429, {}), None,
    (200, {"results": [{"id": 1, "error": {"status": 507, "title": "disk full"}}]})], ids=str)
def test_results_that_do_not_fit_are_sent_again(fake, odd):
    """Too few, for other ids, no JSON, a failure of the server: the same result goes out again until it is answered."""
    sent = []

    def reply(method, path, body):
        if not body["items"]:
            return 200, {"results": [], "messages": [] if sent else [message(1)]}
        sent.append(body["items"])
        return odd if len(sent) < 3 else (200, {"results": succeeded(body), "messages": []})
    worker = fake(reply).cli.work_all("--", "true")
    assert worker.code == 0 and "1 succeeded, 0 failed, 0 dead" in worker.stderr()
    assert sent == [[{"id": 1, "lease": "1-1", "action": "succeed"}]] * 3


def test_settled_in_spite_of_the_lost_reply(fake):
    """409 after a try that got no answer: it may well have counted the first time; the message says so."""
    answers = iter([(200, {"results": [], "messages": [message(1)]}), None, None,
                    (200, {"results": [{"id": 1, "error": {"status": 409, "title": "not in processing"}}], "messages": []})])
    worker = fake(lambda *_: next(answers)).cli.work_all("--", "true")
    assert worker.code == 0
    assert "1: settled before, or its lease ran out (the server was away): not in processing (409)" in worker.stderr()


def test_a_refused_result_stops_the_worker(fake):
    answers = iter([(200, {"results": [], "messages": [message(1)]}), (401, {"title": "unauthorized", "status": 401})])
    worker = fake(lambda *_: next(answers)).cli.work_all("--", "true")
    assert worker.code == 6
    assert "1: its result was refused: unauthorized (401)" in worker.stderr()


def test_one_result_of_several_is_refused(fake):
    sent = []

    def reply(method, path, body):
        sent.append(body)
        results = [{"id": i["id"], "error": {"status": 422, "title": "bad\x1b[2J", "errors": [{"field": "error", "message": "no"}]}}
                   if i["id"] == 1 else {"id": i["id"], "status": "succeeded"} for i in body["items"]]
        return 200, {"results": results, "messages": [message(1), message(2)] if len(sent) == 1 else []}
    worker = fake(reply).cli.work_all("-j", "2", "--", "true")
    assert worker.code == 0
    assert "1: its result was refused: bad\\x1b[2J (422): error no" in worker.stderr()
    assert "1 succeeded" in worker.stderr()


def test_silence_ends_in_a_timeout_and_another_try(fake):
    """The server takes the request and says nothing. A renewal is not lost by it."""
    sent = []

    def reply(method, path, body):
        sent.append(body)
        if len(sent) == 1:
            return 200, {"results": [], "messages": [message(1)]}
        if body["items"] and len([s for s in sent if s["items"]]) == 1:
            return 30
        return 200, {"results": succeeded(body), "messages": []}
    worker = fake(reply).cli.work_all("--timeout", "1", "--", "true", timeout=20)
    assert worker.code == 0 and "1 succeeded" in worker.stderr()


def test_one_round_trip_a_message(fake):
    """The result and the next claim travel together."""
    todo = [message(i) for i in range(1, 51)]
    sent = []

    def reply(method, path, body):
        sent.append(body)
        n = body.get("claim", {}).get("count", 0)
        out, todo[:n] = todo[:n], []
        return 200, {"results": succeeded(body), "messages": out}
    worker = fake(reply).cli.work_all("--", "true")
    assert worker.code == 0 and "50 succeeded" in worker.stderr()
    assert len(sent) <= 52
