"""nixie export and nixie import: letters out and in, exactly, or not at all."""
import copy
import ctypes
import json
import os
import random
import stat
import struct
import subprocess

import pytest
from clitools import Cli, wait_until
from deadtools import Mortuary
from test_output import controls, on_terminal

from lib.server import NIXIE, environment, run

BINARY = "AAECA/8A/w=="


@pytest.fixture
def dead(cli):
    return Mortuary(cli)


@pytest.fixture
def fresh(start, tmp_path):
    """A Cli for a server that knows nothing yet."""
    server = start(test_clock=False)
    c = Cli(f"http://{server.host}:{server.port}", tmp_path)
    c.workers = []
    return c


def varied(cli, dead):
    """Letters of many kinds; returns how many."""
    cli.policy(max_retries=3)
    dead.die('{"to": "a"}', attempts=3, detail="at a\nat b", message={"key": "k1", "priority": 7, "headers": {
        "tenant": "acme", "n": [1, 2.50, -0.0, 1e300, None, True, {"x": "\u202e\x07"}], "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}})
    dead.die(message={"payload_base64": BINARY, "ttl_seconds": 3600}, error="é\x00\x1b[31m\U0001f600\u2028", error_class="Bad\nClass")
    dead.die("", error="", error_class="", worker="", version="")
    dead.die("\x00\x07 text with controls \u202e\r\n\t", fingerprint="mine")
    cli.put("leased", max_retries=1)
    cli.api("POST", "/claim", {"lease_seconds": 1, "worker": "gone"})
    again = dead.die("twice")
    cli.ok("replay", cli.queue, again, "--reason", "another try")
    dead.fail(permanent=True, error="still", error_class="Again", worker="w2", version="1.5")
    edited = dead.die("to be edited")
    dead.api("POST", f"/queues/{cli.queue.replace('/', '%2F')}/messages/{edited}/edit", {"payload": "edited", "reason": "typo"})
    dead.fail(permanent=True, error="no", error_class="Edited")
    dead.die("x" * 300_000)
    wait_until(lambda: len(dead.letters()) == 9)
    return 9


def alike(letters):
    """What must come back: all but the place in this server's order of deaths, what the import itself is, and what is not
    carried."""
    letters = copy.deepcopy(letters)
    for letter in letters:
        for name in ("updated_at", "updated_at_ms", "job"):
            letter.pop(name, None)
        del letter["death"]["dead_seq"]
    return letters


def read(path):
    manifest, *letters = [json.loads(line) for line in path.read_text().splitlines()]
    return manifest, letters


# -- export -----------------------------------------------------------------------------------------------------------------


def test_the_file(cli, dead, tmp_path):
    n = varied(cli, dead)
    done = cli.run("export", cli.queue)
    assert done.returncode == 0 and f"{cli.queue}: {n} letters exported" in done.stderr
    manifest, *letters = [json.loads(line) for line in done.stdout.splitlines()]
    assert list(manifest) == ["nixie_export", "queue", "count", "fence", "filter", "exported_at", "checksum"]
    assert (manifest["nixie_export"], manifest["queue"], manifest["count"], manifest["filter"]) == (1, cli.queue, n, None)
    assert manifest["fence"] == max(m["death"]["dead_seq"] for m in letters)
    assert manifest["checksum"].startswith("xxh3:") and len(manifest["checksum"]) == 37
    assert letters == dead.letters()
    assert controls(done.stdout) == []
    file = tmp_path / "letters.ndjson"
    done = cli.run("export", cli.queue, "--to", file)
    assert done.returncode == 0 and done.stdout == "" and f"exported to {file}" in done.stderr
    again, letters_again = read(file)
    assert letters_again == letters and {**again, "exported_at": 0, "checksum": 0} == {**manifest, "exported_at": 0, "checksum": 0}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and sorted(os.listdir(tmp_path)) == ["letters.ndjson"]


def test_a_filter(cli, dead, tmp_path):
    wanted = dead.die(error_class="Timeout")
    dead.die(error_class="Other")
    file = tmp_path / "letters.ndjson"
    assert cli.run("export", cli.queue, "error:Timeout", "age:>=0s", "--to", file).returncode == 0
    manifest, letters = read(file)
    assert [m["id"] for m in letters] == [wanted] and manifest["filter"] == "error:Timeout age:>=0s"
    stderr = cli.fails(1, "export", cli.queue, "colour:red", "--to", tmp_path / "none")
    assert "^^^^^^" in stderr and sorted(os.listdir(tmp_path)) == ["letters.ndjson"]


def test_many_letters(cli, dead, fresh, tmp_path):
    ids = dead.die_many(2300, payload="p" * 2000)
    file = tmp_path / "letters.ndjson"
    assert cli.run("export", cli.queue, "--to", file).returncode == 0
    manifest, letters = read(file)
    assert manifest["count"] == 2300 and [m["id"] for m in letters] == ids
    fresh.queue = cli.queue
    assert fresh.ok("import", file, "--yes") == [{"queue": cli.queue, "imported": 2300, "known": 0, "dry_run": False}]
    assert alike(Mortuary(fresh).letters()) == alike(letters)


def test_no_letters(cli, fresh, tmp_path):
    cli.policy()
    file = tmp_path / "letters.ndjson"
    assert cli.run("export", cli.queue, "--to", file).returncode == 0
    manifest, letters = read(file)
    assert (manifest["count"], manifest["fence"], letters) == (0, 0, [])
    assert fresh.ok("import", file, "--yes") == [{"queue": cli.queue, "imported": 0, "known": 0, "dry_run": False}]


def test_letters_that_die_meanwhile_are_left_out(fake):
    def letter(i, at):
        return {"id": i, "payload": "", "died_at_ms": at, "death": {"dead_seq": i}}

    def reply(method, path, body):
        if path == "/queues/q":
            return 200, {"queue": "q"}
        if "order=oldest" not in path:
            return 200, {"letters": [letter(3, 1000)], "next": "n", "complete": True}
        if "cursor=b" in path:
            return 200, {"letters": [letter(9, 500), letter(3, 1000), letter(4, 1001)], "next": "c", "complete": True}
        return 200, {"letters": [letter(1, 100)], "next": "b", "complete": False}
    f = fake(reply)
    done = f.cli.run("export", "q")
    assert done.returncode == 0, done.stderr
    manifest, *letters = [json.loads(line) for line in done.stdout.splitlines()]
    assert [m["id"] for m in letters] == [1, 9, 3] and (manifest["count"], manifest["fence"]) == (3, 9)
    assert "limit=1&payload=no" in f.requests[1][1]


def test_an_export_that_fails_leaves_the_file_as_it_was(fake, tmp_path):
    answers = {}
    f = fake(lambda m, path, b: (200, {"queue": "q"}) if path == "/queues/q" else answers["now"] if "oldest" in path else
             (200, {"letters": [], "next": None, "complete": True}))
    file = tmp_path / "letters.ndjson"
    file.write_text("precious")
    for answer, code in (((500, {"title": "broken", "status": 500}), 1), (None, 7), ((200, {"letters": [{"id": 1}], "next": None}), 1)):
        answers["now"] = answer
        f.cli.fails(code, "export", "q", "--to", file)
        assert file.read_text() == "precious" and os.listdir(tmp_path) == ["letters.ndjson"]


def test_files_that_cannot_be_written(cli, dead, tmp_path):
    dead.die()
    assert "No such file or directory" in cli.fails(1, "export", cli.queue, "--to", tmp_path / "none" / "f")
    assert "is there and no file" in cli.fails(2, "export", cli.queue, "--to", "/dev/null")
    assert "a temporary file in" in cli.fails(1, "export", cli.queue, env={"TMPDIR": str(tmp_path / "none")})
    with open("/dev/full", "wb") as full:
        done = subprocess.run([NIXIE, "export", cli.queue], env=environment(cli.env), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"No space left on device" in done.stderr


def test_unknown_queue(cli):
    cli.fails(4, "export", cli.queue)
    done = run("export", "error:x", env=cli.env)
    assert done.returncode == 2 and "which queue?" in done.stderr


# -- there and back ---------------------------------------------------------------------------------------------------------


def test_round_trip_over_a_fresh_server(cli, dead, fresh, tmp_path):
    n = varied(cli, dead)
    here, there = tmp_path / "here", tmp_path / "there"
    assert cli.run("export", cli.queue, "--to", here).returncode == 0
    assert fresh.ok("import", here, "--yes", "--reason", "moving", "--actor", "ann") == [
        {"queue": cli.queue, "imported": n, "known": 0, "dry_run": False}]
    fresh.queue = cli.queue
    fresh.policy(max_retries=3)
    assert fresh.run("export", cli.queue, "--to", there).returncode == 0
    (first, before), (second, after) = read(here), read(there)
    assert alike(after) == alike(before) and (second["count"], second["queue"]) == (first["count"], cli.queue)
    [entry] = fresh.ok("audit", "--action", "import")
    assert (entry["actor"], entry["reason"], entry["count"]) == ("ann", "moving", n)
    for letter in after:  # byte for byte
        a = requests_payload(cli, letter["id"])
        assert a == requests_payload(fresh, letter["id"])
    assert {g["key"] for g in cli.ok("groups", cli.queue)} == {g["key"] for g in fresh.ok("groups", cli.queue)}


def requests_payload(cli, id):
    return subprocess.run([NIXIE, "show", cli.queue, str(id), "--payload"], env=environment(cli.env), capture_output=True).stdout


def test_round_trip_after_a_purge(cli, dead, tmp_path):
    for i in range(3):
        dead.die(f"p{i}", attempts=2, detail="at x")
    here, there = tmp_path / "here", tmp_path / "there"
    assert cli.run("export", cli.queue, "--to", here).returncode == 0
    dead.api("POST", f"/queues/{cli.queue.replace('/', '%2F')}/purge", {"confirm": cli.queue, "reason": "test"})
    wait_until(lambda: dead.letters() == [])
    cli.ok("import", here, "--yes")
    assert cli.run("export", cli.queue, "--to", there).returncode == 0
    assert alike(read(there)[1]) == alike(read(here)[1])


def test_twice_is_once(cli, dead, fresh, tmp_path):
    dead.die("a"), dead.die("b")
    file = tmp_path / "f"
    cli.run("export", cli.queue, "--to", file)
    assert cli.ok("import", file, "--yes") == [{"queue": cli.queue, "imported": 0, "known": 2, "dry_run": False}]
    fresh.queue = cli.queue
    fresh.ok("import", file, "--yes")
    before = Mortuary(fresh).letters()
    assert fresh.ok("import", file, "--yes") == [{"queue": cli.queue, "imported": 0, "known": 2, "dry_run": False}]
    assert Mortuary(fresh).letters() == before
    more = dead.die("c")
    cli.run("export", cli.queue, "--to", file)
    assert fresh.ok("import", file, "--yes") == [{"queue": cli.queue, "imported": 1, "known": 2, "dry_run": False}]
    assert Mortuary(fresh).letters()[-1]["id"] == more


def test_into_another_queue(cli, dead, fresh, tmp_path):
    id = dead.die("a")
    file = tmp_path / "f"
    cli.run("export", cli.queue, "--to", file)
    assert fresh.ok("import", file, "--queue", "else where", "--yes")[0]["queue"] == "else where"
    fresh.queue = "else where"
    [letter] = Mortuary(fresh).letters()
    assert (letter["id"], letter["origin_queue"], letter["payload"]) == (id, cli.queue, "a")


def test_dry_run(cli, dead, fresh, tmp_path):
    dead.die("a")
    file = tmp_path / "f"
    cli.run("export", cli.queue, "--to", file)
    assert fresh.ok("import", file, "--dry-run") == [{"queue": cli.queue, "imported": 1, "known": 0, "dry_run": True}]
    fresh.queue = cli.queue
    assert fresh.api("GET").status_code == 404


def test_standard_input_and_table(cli, dead, fresh):
    dead.die("a")
    data = cli.run("export", cli.queue).stdout.encode()
    done = fresh.run("import", "-", "--yes", "-o", "table", stdin=data)
    assert done.returncode == 0 and [line.split() for line in done.stdout.splitlines()] == [
        ["queue", cli.queue], ["imported", "1"], ["known", "0"], ["dry_run", "false"]]
    assert "standard input, line 2: " in fresh.fails(1, "import", "-", "--yes", stdin=data[:-20])


def test_a_pipe_is_spooled(cli, dead, fresh):
    dead.die("a")
    done = subprocess.run(["bash", "-c", f'"{NIXIE}" import <("{NIXIE}" export "{cli.queue}" --server "{cli.url}") --yes'],
                          env=environment(fresh.env), capture_output=True)
    assert done.returncode == 0 and json.loads(done.stdout)["imported"] == 1, done.stderr


def test_asking(cli, dead, fresh, tmp_path):
    dead.die("a")
    file = tmp_path / "f"
    cli.run("export", cli.queue, "--to", file)
    assert "needs --yes" in fresh.fails(2, "import", file)
    code, text = on_terminal(fresh, "import", file, stdin=True, keys=b"n\n")
    assert code == 1 and f"1 letter becomes a dead letter of {cli.queue}. Import? [y/N]" in text and "not confirmed" in text
    fresh.queue = cli.queue
    assert fresh.api("GET").status_code == 404
    code, text = on_terminal(fresh, "import", file, stdin=True, keys=b"y\n")
    assert code == 0 and [m["payload"] for m in Mortuary(fresh).letters()] == ["a"]
    code, text = on_terminal(fresh, "import", file, stdin=True)  # nothing to ask about
    assert code == 0 and "[y/N]" not in text


# -- damage -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(cli, dead, tmp_path):
    """A good file of 5 letters."""
    for i in range(4):
        dead.die(f"payload {i}", attempts=2, detail=f"at {i}", message={"headers": {"n": i}})
    dead.die(message={"payload_base64": BINARY})
    path = tmp_path / "good"
    assert cli.run("export", cli.queue, "--to", path).returncode == 0
    return path


@pytest.fixture
def nowhere(fake):
    """A server that must not be asked for anything."""
    f = fake(lambda *_: (500, {"title": "asked", "status": 500}))
    yield f.cli
    assert f.requests == []


def refused(cli, path, data):
    path.write_bytes(data)
    stderr = cli.fails(1, "import", path, "--yes")
    assert "nothing was imported" in stderr, stderr
    return stderr


def test_any_changed_byte_is_found(file, nowhere, tmp_path):
    good, r = file.read_bytes(), random.Random(1)
    first = good.index(b"\n")
    places = [*range(0, first, 3), *(r.randrange(first, len(good)) for _ in range(60))]
    for at in places:
        if good[at:at + 1] in (b" ", b"\n") and at <= first:
            continue
        changed = good[at] ^ 1 << r.randrange(8)
        refused(nowhere, tmp_path / "bad", good[:at] + bytes([changed]) + good[at + 1:])


def test_any_cut_is_found(file, nowhere, tmp_path):
    good, r = file.read_bytes(), random.Random(2)
    lines = good.splitlines(keepends=True)
    for n in {0, 1, 5, len(lines[0]) - 1, len(lines[0]), len(lines[0]) + 1, len(good) - 2, *(r.randrange(len(good) - 1) for _ in range(25))}:
        stderr = refused(nowhere, tmp_path / "bad", good[:n])
        line = good[:n].count(b"\n") + (not good[:n].endswith(b"\n"))
        assert n == 0 or f"bad, line {line}: " in stderr, stderr
    assert "bad, line 3: cut off after it: 2 of 5 letters" in refused(nowhere, tmp_path / "bad", b"".join(lines[:3]))


def test_lines_in_the_wrong_place(file, nowhere, tmp_path):
    lines = file.read_bytes().splitlines(keepends=True)
    bad = tmp_path / "bad"
    assert "bad, line 4: out of order" in refused(nowhere, bad, b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert "bad, line 3: out of order" in refused(nowhere, bad, b"".join([*lines[:2], lines[1], *lines[2:]]))
    assert "cut off" in refused(nowhere, bad, b"".join([*lines[:2], *lines[3:]]))
    assert "bad, line 7: more letters than the 5" in refused(nowhere, bad, b"".join([*lines, lines[5]]))
    assert "bad, line 3: " in refused(nowhere, bad, b"".join([*lines[:2], b"\n", *lines[2:]]))
    assert "bad, line 3: not a letter" in refused(nowhere, bad, b"".join([*lines[:2], b"{}\n", *lines[2:]]))
    assert "bad, line 1: not the manifest" in refused(nowhere, bad, b"".join(lines[1:]))
    assert "bad, line 2: not a letter" in refused(nowhere, bad, b"".join([lines[0], *lines]))
    assert "the checksum in line 1 does not match" in refused(nowhere, bad, b"".join([*lines[:5], lines[5].replace(BINARY.encode(), b"AAAA")]))


@pytest.mark.parametrize("change, said", [
    ({"nixie_export": 2}, "line 1: version 2, but this nixie knows only up to 1"),
    ({"nixie_export": 0}, "line 1: not the manifest"),
    ({"queue": "other"}, "the checksum in line 1 does not match"),
    ({"queue": ""}, "line 1: the manifest is damaged"),
    ({"queue": "a\0b"}, "line 1: the manifest is damaged"),
    ({"queue": "q" * 256}, "line 1: the manifest is damaged"),
    ({"count": 4}, "line 6: more letters than the 4"),
    ({"count": 6}, "cut off after it: 5 of 6 letters"),
    ({"count": -1}, "line 1: the manifest is damaged"),
    ({"fence": 1}, "it died after the fence"),
    ({"fence": 1 << 52}, "none is the fence"),
    ({"exported_at": "yesterday"}, "line 1: the manifest is damaged"),
    ({"filter": "error:x"}, "the checksum in line 1 does not match"),
    ({"checksum": "xxh3:" + "0" * 32}, "the checksum in line 1 does not match"),
    ({"checksum": "xxh3:0"}, "the checksum in line 1 does not match"),
])
def test_manifests(file, nowhere, tmp_path, change, said):
    lines = file.read_bytes().splitlines(keepends=True)
    manifest = json.dumps({**json.loads(lines[0]), **change}, separators=(",", ":")).encode()
    assert said in refused(nowhere, tmp_path / "bad", b"".join([manifest + b"\n", *lines[1:]]))


def test_files_that_are_none(nowhere, tmp_path):
    for data in (b"", b"\n", b"\0", b"[]\n", b"{}\n", b"7\n", b"\xff\xfe", b'{"nixie_export":1}\n', os.urandom(5000)):
        refused(nowhere, tmp_path / "bad", data)
    assert "No such file" in nowhere.fails(1, "import", tmp_path / "none", "--yes")
    assert "Is a directory" in nowhere.fails(1, "import", tmp_path, "--yes")


def test_a_last_newline_is_not_missed(file, cli):
    file.write_bytes(file.read_bytes()[:-1])
    assert cli.ok("import", file, "--yes")[0]["known"] == 5


# -- refused by the server --------------------------------------------------------------------------------------------------


def test_an_id_that_is_taken_refuses_all(cli, dead, fresh, tmp_path):
    first, second = dead.die("a"), dead.die("b")
    file = tmp_path / "f"
    cli.run("export", cli.queue, "--to", file)
    fresh.queue = "mine"
    while fresh.put("x")[-1] < second:
        pass
    stderr = fresh.fails(5, "import", file, "--yes")
    assert "f, line 2: " in stderr and "id" in stderr
    fresh.queue = cli.queue
    assert fresh.api("GET").status_code == 404


def exported_by(fake, letters):
    """The file that a server with these letters is exported to, as text."""
    def reply(method, path, body):
        return 200, {"queue": "q"} if path == "/queues/q" else {
            "letters": letters if "oldest" in path else letters[-1:], "next": None, "complete": True}
    done = fake(reply).cli.run("export", "q")
    assert done.returncode == 0, done.stderr
    return done.stdout


def a_letter(id, **more):
    return {"id": id, "payload": "p", "died_at_ms": id, "death": {"dead_seq": id}, **more}


def test_an_invalid_letter_refuses_all(fake, fresh, tmp_path):
    file = tmp_path / "f"
    file.write_text(exported_by(fake, [a_letter(1), a_letter(2)]))
    stderr = fresh.fails(1, "import", file, "--yes")
    assert "f, line 2: invalid" in stderr.lower() or "f, line 2: " in stderr


def test_batches(fake, tmp_path):
    sizes, dry = [], []
    f = fake(lambda m, path, body: (200, {"imported": len(body["letters"]), "known": 0}))
    file = tmp_path / "f"
    file.write_text(exported_by(fake, [a_letter(i, payload="x" * (3_000_000 if i < 6 else 1)) for i in range(1, 2206)]))
    assert f.cli.ok("import", file, "--yes", "--reason", "r") == [{"queue": "q", "imported": 2205, "known": 0, "dry_run": False}]
    sizes = [len(r[2]["letters"]) for r in f.requests]
    assert sizes == [2, 2, 1000, 1000, 201] * 2
    assert [r[1] for r in f.requests] == ["/dead?dry_run=yes"] * 5 + ["/dead"] * 5
    assert all(r[2]["queue"] == "q" and r[2]["reason"] == "r" for r in f.requests)
    assert [m["id"] for r in f.requests[5:] for m in r[2]["letters"]] == list(range(1, 2206))


def test_a_batch_that_fails(fake, tmp_path):
    count = 0

    def reply(method, path, body):
        nonlocal count
        count += method == "POST" and "dry_run" not in path
        if count == 2:
            return 507, {"title": "disk full", "status": 507}
        return 200, {"imported": len(body["letters"]), "known": 0}
    f = fake(reply)
    file = tmp_path / "f"
    file.write_text(exported_by(fake, [a_letter(i) for i in range(1, 1501)]))
    stderr = f.cli.fails(3, "import", file, "--yes")
    assert "f, lines 1002 to 1501: disk full (507)" in stderr and "1000 of 1500 letters are imported" in stderr


@pytest.mark.parametrize("args, said", [
    ([], "too few arguments"),
    (["f", "g"], "g: one argument too many"),
    (["f", "--queue", "", "--yes"], "the queue's name is empty"),
    (["f", "--reason", "x" * 1025, "--yes"], "--reason: longer than 1024 bytes"),
])
def test_wrong_usage(args, said):
    done = run("import", *args, env={"NIXIE_SERVER": "http://127.0.0.1:1"})
    assert done.returncode == 2 and said in done.stderr, (done.returncode, done.stderr)


# -- the checksum, as docs/dead-letters-export.md defines it ----------------------------------------------------------------


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def test_checksum(fake):
    """The same by another program."""
    try:
        xxhash = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        pytest.skip("no libxxhash")
    xxhash.XXH3_128bits.restype, xxhash.XXH3_128bits.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]

    def h(data):
        found = xxhash.XXH3_128bits(data, len(data))
        return struct.pack(">QQ", found.high, found.low)
    text = exported_by(fake, [a_letter(1), a_letter(2)])
    head, rest = text.split(',"checksum":')
    total = bytes(16)
    for line in text.splitlines()[1:]:
        total = h(total + h(line.encode()))
    assert rest.startswith(f'"xxh3:{h(total + h(head.encode())).hex()}"}}')
