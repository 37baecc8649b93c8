"""Every command against a real server: what it does, prints, and exits with."""
import json
import os
import re
import subprocess

import pytest

from lib.server import NIXIE, environment, run


# -- enqueue ------------------------------------------------------------------------------------------------------------

def test_enqueue_argument(cli):
    [m] = cli.ok("enqueue", cli.queue, '{"a": 1}')
    assert (m["payload"], m["status"], m["queue"]) == ('{"a": 1}', "pending", cli.queue)


def test_enqueue_standard_input(cli):
    assert cli.ok("enqueue", cli.queue, "-", stdin=b"from stdin\n")[0]["payload"] == "from stdin\n"
    assert cli.ok("enqueue", cli.queue, stdin=b"also")[0]["payload"] == "also"
    assert cli.ok("enqueue", cli.queue, stdin=b"")[0]["payload"] == ""
    assert cli.ok("enqueue", cli.queue, "")[0]["payload"] == ""


def test_enqueue_file_of_any_bytes(cli, tmp_path):
    file = tmp_path / "bytes"
    for data in (bytes(range(256)) * 16, b"\x00\x01\x02" * 1000, "ünï\ncode\x7f".encode(), b"\xed\xa0\x80"):
        file.write_bytes(data)
        [m] = cli.ok("enqueue", cli.queue, "--file", file)
        done = subprocess.run([NIXIE, "show", cli.queue, str(m["id"]), "--payload"], env=environment(cli.env),
                              capture_output=True)
        assert done.returncode == 0 and done.stdout == data
    assert "No such file" in cli.fails(1, "enqueue", cli.queue, "--file", tmp_path / "none")


def test_enqueue_options(cli):
    [m] = cli.ok("enqueue", cli.queue, "x", "-p", "7", "--delay", "1h", "--ttl", "2d", "-k", "customer", "--max-retries", "5",
                 "-H", "a=1", "-H", 'quo"te=x=y')
    assert (m["priority"], m["key"], m["max_retries"]) == (7, "customer", 5)
    assert m["headers"] == {"a": "1", 'quo"te': "x=y"}
    assert m["created_at"] < m["available_at"] < m["expires_at"]


def test_enqueue_once(cli):
    first = cli.ok("enqueue", cli.queue, "x", "--idempotency-key", "k")
    assert cli.ok("enqueue", cli.queue, "y", "--idempotency-key", "k") == first


def test_enqueue_lines(cli):
    lines = [b"line %d" % i for i in range(2500)]
    batches = cli.ok("enqueue", cli.queue, "--lines", "-p", "1", stdin=b"\n".join(lines))
    assert [b["count"] for b in batches] == [1000, 1000, 500]
    ids = [id for b in batches for id in b["ids"]]
    messages = cli.ok("ls", cli.queue, "--all")
    assert [m["id"] for m in messages] == ids
    assert [m["payload"].encode() for m in messages] == lines
    assert {m["priority"] for m in messages} == {1}


def test_enqueue_lines_at_the_edges(cli):
    assert cli.ok("enqueue", cli.queue, "--lines", stdin=b"") == []
    cli.ok("enqueue", cli.queue, "--lines", stdin=b"\na\n\xff\n" + b"b" * 300000 + b"\n")
    got = cli.ok("ls", cli.queue)
    assert [m["payload"] for m in got] == ["", "a", None, "b" * 300000]
    assert got[2]["payload_base64"] == "/w=="
    done = cli.run("enqueue", cli.queue, "--lines", "-o", "json", stdin=b"1\n2\n")
    assert [b["count"] for b in json.loads(done.stdout)] == [2]
    done = cli.run("enqueue", cli.queue, "--lines", "-o", "json", stdin=b"")
    assert json.loads(done.stdout) == []


def test_enqueue_lines_partly(cli):
    """The third batch is refused: 3, and the message says how far it got."""
    cli.policy(max_messages=2000)
    said = cli.fails(3, "enqueue", cli.queue, "--lines", stdin=b"x\n" * 2500)
    assert "lines 2001 to 2500 were not enqueued" in said and "the first 2000 lines are enqueued" in said
    assert cli.api("GET").json()["counts"]["pending"] == 2000
    said = cli.fails(1, "enqueue", cli.queue, "--lines", stdin=b"x\n")
    assert "(429)" in said and "max_messages" in said


def test_enqueue_too_large(cli):
    said = cli.fails(1, "enqueue", cli.queue, "-", stdin=b"x" * (1024 * 1024 + 1))
    assert "(413)" in said and "--payload-max" in said
    assert "longer than 8388608 bytes" in cli.fails(1, "enqueue", cli.queue, "-", stdin=b"x" * (8 * 1024 * 1024 + 1))
    assert "line 2: longer than" in cli.fails(1, "enqueue", cli.queue, "--lines", stdin=b"1\n" + b"x" * (8 * 1024 * 1024 + 1))


# -- claim and settle ---------------------------------------------------------------------------------------------------

def test_claim_nothing_is_4(cli):
    cli.policy()
    done = cli.run("claim", cli.queue)
    assert (done.returncode, done.stdout) == (4, "") and "nothing to claim" in done.stderr
    done = cli.run("claim", cli.queue, "--count", "2", "-q", "-o", "json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (4, [], "")


def test_claim_one_and_many(cli):
    ids = cli.put("a", "b", "c")
    [m] = cli.ok("claim", cli.queue, "--lease", "10m", "--worker", "w1", "--worker-version", "2")
    assert (m["id"], m["status"], m["attempt"]) == (ids[0], "processing", 1) and m["lease"]
    assert cli.story(ids[0])[0]["worker"] == "w1"
    assert [m["id"] for m in cli.ok("claim", cli.queue, "-n", "10")] == ids[1:]
    cli.put("d")
    assert isinstance(json.loads(cli.run("claim", cli.queue, "-o", "json").stdout), dict)


def test_claim_waits(cli):
    p = subprocess.Popen([NIXIE, "claim", cli.queue, "--wait", "20"], env=environment(cli.env), stdout=subprocess.PIPE)
    cli.put("late")
    out, _ = p.communicate(timeout=15)
    assert p.returncode == 0 and json.loads(out)["payload"] == "late"


def test_succeed(cli):
    a, b = cli.put("a", "b")
    cli.ok("claim", cli.queue, "-n", "2")
    assert [m["status"] for m in cli.ok("succeed", cli.queue, a, b)] == ["succeeded"] * 2
    assert "(409)" in cli.fails(5, "succeed", cli.queue, a)
    assert "(404)" in cli.fails(4, "succeed", cli.queue, 9007199254740991)


def test_succeed_what_claim_printed(cli):
    cli.put(*"abc")
    claimed = cli.run("claim", cli.queue, "-n", "3").stdout
    assert len(cli.ok("succeed", cli.queue, "-", stdin=claimed.encode())) == 3
    assert cli.api("GET").json()["counts"]["succeeded"] == 3


def test_leases_from_lines_are_used(cli):
    [id] = cli.put("a")
    [m] = cli.ok("claim", cli.queue)
    stale = json.dumps({"id": id, "lease": m["lease"] + "x"})
    assert "(409)" in cli.fails(5, "succeed", cli.queue, "-", stdin=stale.encode())
    assert "(409)" in cli.fails(5, "succeed", cli.queue, id, "--lease", "stale")
    cli.ok("succeed", cli.queue, id, "--lease", m["lease"])


def test_ids_from_lines(cli):
    ids = cli.put(*"abc")
    cli.ok("claim", cli.queue, "-n", "3")
    cli.ok("succeed", cli.queue, "-", stdin=f"{ids[0]}\n\n  \n".encode())
    cli.ok("succeed", cli.queue, ids[1], "-", stdin=f"{ids[2]}\r\n".encode())
    said = cli.fails(2, "succeed", cli.queue, "-", stdin=b"\n[1]\n")
    assert "line 2: neither an id nor" in said


def test_partly_done_is_3(cli):
    a, b = cli.put("a", "b")
    cli.ok("claim", cli.queue)
    done = cli.run("succeed", cli.queue, a, b, 9007199254740991)
    assert done.returncode == 3
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [a]
    assert f"{cli.queue} {b}: " in done.stderr and f"{cli.queue} 9007199254740991: " in done.stderr


def test_fail(cli):
    a, b, c = cli.put("a", "b", "c")
    cli.ok("claim", cli.queue, "-n", "3")
    [m] = cli.ok("fail", cli.queue, a, "-e", "no answer", "-c", "Timeout", "--detail", "at line 1\nat line 2")
    assert (m["status"], m["retry_count"], m["last_error"], m["error_class"]) == ("pending", 1, "no answer", "Timeout")
    assert cli.message(a)["detail"] == "at line 1\nat line 2"
    [m] = cli.ok("fail", cli.queue, b, "--permanent")
    assert (m["status"], m["reason"]) == ("dead", "permanent")
    [m] = cli.ok("fail", cli.queue, c, "--retry-after", "1d")
    assert m["retry_after"] > m["updated_at"][:11] + "99"


def test_release_and_extend(cli):
    [id] = cli.put("a")
    [m] = cli.ok("claim", cli.queue, "--lease", "5")
    [extended] = cli.ok("extend", cli.queue, id, "--seconds", "2h", "--lease", m["lease"])
    assert extended["status"] == "processing"
    assert cli.events(id)[:1] == ["claimed"]
    [m] = cli.ok("release", cli.queue, id)
    assert (m["status"], m["retry_count"]) == ("pending", 0)
    cli.ok("claim", cli.queue)
    [m] = cli.ok("release", cli.queue, id, "--delay", "1h")
    assert m["available_at"]
    assert cli.run("claim", cli.queue).returncode == 4


def test_replay(cli):
    ids = cli.put("a", "b", max_retries=1)
    cli.ok("claim", cli.queue, "-n", "2")
    cli.ok("fail", cli.queue, *ids)
    dead = cli.run("ls", cli.queue, "--status", "dead")
    assert len(dead.stdout.splitlines()) == 2
    replayed = cli.ok("replay", cli.queue, "-", stdin=dead.stdout.encode())
    assert [(m["id"], m["status"], m["retry_count"], m["max_retries"]) for m in replayed] == [(i, "pending", 0, 1) for i in ids]
    assert "(409)" in cli.fails(5, "replay", cli.queue, ids[0])


# -- ls and show --------------------------------------------------------------------------------------------------------

def test_ls(cli):
    ids = cli.put(*[str(i) for i in range(10)])
    [m] = cli.ok("claim", cli.queue)
    assert [m["id"] for m in cli.ok("ls", cli.queue)] == ids
    assert [m["id"] for m in cli.ok("ls", cli.queue, "-s", "processing")] == ids[:1]
    assert [m["id"] for m in cli.ok("ls", cli.queue, "-n", "3")] == ids[:3]
    assert [m["id"] for m in cli.ok("ls", cli.queue, "-n", "3", "--offset", "2")] == ids[2:5]
    assert [m["id"] for m in cli.ok("ls", cli.queue, "--all", "--offset", "2")] == ids[2:]
    assert [m["id"] for m in cli.ok("ls", cli.queue, "--after", ids[6])] == ids[7:]
    assert json.loads(cli.run("ls", cli.queue, "-o", "json").stdout) == cli.ok("ls", cli.queue)


def test_ls_goes_through_pages(cli):
    cli.ok("enqueue", cli.queue, "--lines", stdin=b"x\n" * 2500)
    assert len(cli.ok("ls", cli.queue)) == 100
    assert len(cli.ok("ls", cli.queue, "--limit", "1700")) == 1700
    got = [m["id"] for m in cli.ok("ls", cli.queue, "--all")]
    assert len(got) == 2500 and got == sorted(set(got))


def test_ls_pages_that_end_early(cli, tmp_path):
    """A page holds at most 16 MiB of payload."""
    file = tmp_path / "big"
    file.write_bytes(b"x" * 1000000)
    for _ in range(20):
        cli.ok("enqueue", cli.queue, "-f", file)
    assert [len(m["payload"]) for m in cli.ok("ls", cli.queue)] == [1000000] * 20


def test_show(cli):
    [id] = cli.put("pay load")
    cli.ok("claim", cli.queue, "--worker", "w1")
    cli.ok("fail", cli.queue, id, "--permanent", "-e", "boom", "-c", "E", "--detail", "line 1\nline 2")
    [shown] = cli.ok("show", cli.queue, id)
    assert shown["message"] == cli.message(id)
    assert [e["event"] for e in shown["attempts"]] == ["claimed", "failed"]
    assert json.loads(cli.run("show", cli.queue, id, "-o", "json").stdout) == shown
    text = "\n".join(cli.table("show", cli.queue, id))
    assert re.search(r"^status +dead$", text, re.M) and re.search(r"^reason +permanent$", text, re.M)
    assert re.search(r"^ +1  failed +\S+ \S+ +w1 +E +boom$", text, re.M)
    assert text.endswith("Detail of attempt 1:\nline 1\nline 2")
    assert "(404)" in cli.fails(4, "show", cli.queue, 9007199254740991)
    assert cli.run("show", cli.queue, id, "--payload").stdout == "pay load"
    assert "(404)" in cli.fails(4, "show", cli.queue, 9007199254740991, "--payload")


# -- queues -------------------------------------------------------------------------------------------------------------

def test_queues(cli, tmp_path):
    [q] = cli.ok("queues", cli.queue, "--put", "-", stdin=b'{"max_retries": 7, "lease_seconds": 60}')
    assert (q["policy"]["max_retries"], q["policy"]["lease_seconds"]) == (7, 60)
    file = tmp_path / "policy"
    file.write_text('{"max_retries": 8}')
    assert cli.ok("queues", cli.queue, "--put", file)[0]["policy"]["max_retries"] == 8
    assert cli.ok("queues", cli.queue) == [cli.api("GET").json()]
    assert cli.queue in [q["queue"] for q in cli.ok("queues")]
    table = cli.table("queues", cli.queue)
    assert any(re.fullmatch(r"policy\.max_retries +8", line) for line in table)
    assert any(re.fullmatch(r"conservation\.holds +true", line) for line in table)
    said = cli.fails(1, "queues", cli.queue, "--put", "-", stdin=b'{"max_retires": 7}')
    assert "(422)" in said and "max_retires" in said
    assert "(400)" in cli.fails(1, "queues", cli.queue, "--put", "-", stdin=b"{")
    assert "(404)" in cli.fails(4, "queues", cli.queue + "/none")


def test_queues_delete(cli):
    cli.put("a")
    assert "(409)" in cli.fails(5, "queues", cli.queue, "--delete")
    assert cli.fails(2, "queues", cli.queue, "--delete", "--discard")
    assert cli.api("GET").status_code == 200
    assert cli.ok("queues", cli.queue, "--delete", "--discard", "--yes") == []
    assert cli.api("GET").status_code == 404
    assert "(404)" in cli.fails(4, "queues", cli.queue, "--delete")


def test_queues_list_goes_through_pages(own_server):
    c = own_server.cli
    assert c.run("queues").stdout == "" and json.loads(c.run("queues", "-o", "json").stdout) == []
    for i in range(1100):
        c.queue = f"q{i}"
        c.policy()
    assert [q["queue"] for q in c.ok("queues")] == [f"q{i}" for i in range(1100)]


# -- the server says no, or nothing ---------------------------------------------------------------------------------------

def test_unreachable_is_7():
    for args in (["ls", "q"], ["enqueue", "q", "x"], ["show", "q", "1"], ["queues"], ["claim", "q"], ["succeed", "q", "1", "2"]):
        done = run(*args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
        assert done.returncode == 7 and done.stdout == "", done
        assert len(done.stderr.splitlines()) == 1
        assert "cannot reach http://127.0.0.1:1" in done.stderr and "NIXIE_SERVER" in done.stderr


def test_denied_is_6(start, tmp_path):
    server = start("--token", "secret", test_clock=False)
    env = {"NIXIE_SERVER": f"http://{server.host}:{server.port}"}
    done = run("ls", "q", env=env)
    assert done.returncode == 6 and "(401)" in done.stderr and "--token-file" in done.stderr
    assert run("ls", "q", "--token", "wrong", env=env).returncode == 6
    assert run("enqueue", "q", "x", env={**env, "NIXIE_TOKEN": "secret"}).returncode == 0
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert run("ls", "q", "--token-file", file, env=env).returncode == 0
    done = run("succeed", "q", "1", "2", env=env)
    assert done.returncode == 6 and len(done.stderr.splitlines()) == 1


def test_tls(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    server = start("--tls-cert", cert, "--tls-key", key, test_clock=False)
    env = {"NIXIE_SERVER": f"https://127.0.0.1:{server.port}"}
    assert run("enqueue", "q", "x", "--cacert", cert, env=env).returncode == 0
    assert run("work", "q", "--until-empty", "--", "cat", env={**env, "NIXIE_CACERT": str(cert)}).stdout == "x"
    done = run("ls", "q", env=env)
    assert done.returncode == 7 and "certificate" in done.stderr
    assert run("ls", "q", "--server", f"http://127.0.0.1:{server.port}").returncode in (1, 7)


def test_a_proxy_is_not_asked_for_this_machine(cli):
    cli.ok("enqueue", cli.queue, "x", env={"http_proxy": "http://127.0.0.1:1"})


def test_timeout_is_7(fake):
    f = fake(lambda *_: 10)
    said = f.cli.fails(7, "ls", "q", "--timeout", "1")
    assert "cannot reach" in said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_under_standard_output(cli):
    cli.put("a")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([NIXIE, "ls", cli.queue], env=environment(cli.env), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr
