"""Damage, torn tails, a disk that fails and a disk that is full: what docs/storage-format.md promises for each."""
import errno
import http.client
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time

import pytest

from lib.client import Client, T0, at
from lib.server import StartFailed, Server, refused, run

MIB = 1024 * 1024
HERE = pathlib.Path(__file__).parent


def segments(data):
    return sorted(f for f in pathlib.Path(data).iterdir() if f.name.startswith("segment"))


def fill(server, n=300, queue="q"):
    """n messages, one commit each, so that many frames follow each other. Returns their ids."""
    q = Client(server, now=T0).queue(queue)
    ids = [q.enqueue(f"message number {i} ".ljust(100, "x"))["id"] for i in range(n)]
    q.client.close()
    return ids


def used(file):
    """Bytes of a segment up to its last byte that is not zero."""
    return len(file.read_bytes().rstrip(b"\0"))


def flip(file, offset, bit):
    with open(file, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ (1 << bit)]))


def numbers(text):
    return [int(n, 0) for n in re.findall(r"\b0x[0-9a-f]+\b|\b\d+\b", text) if n == "0" or n.startswith("0x") or not n.startswith("0")]


# -- damage -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A directory that a server with 300 messages in it left behind after SIGTERM."""
    server = Server(tmp_path_factory.mktemp("stopped") / "data").start()
    fill(server)
    server.stop()
    return server.data


@pytest.fixture
def copy(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "data")
    return tmp_path / "data"


def check_refusal(data, file, offset):
    """Neither the server nor `nixie log check` takes the directory, and both say where."""
    before = {f.name: f.read_bytes() for f in segments(data)}
    code, out, err = refused(data)
    assert "listening" not in out
    check = run("log", "check", data)
    assert check.returncode == 1, check
    for text in (err, check.stdout + check.stderr):
        assert file.name in text, text
        near = [n for n in numbers(text.replace(file.name, "")) if n <= offset < n + 64 * 1024]
        assert near, f"no offset near {offset} in: {text}"
    assert {f.name: f.read_bytes() for f in segments(data)} == before, "the evidence is left as it was"


@pytest.mark.parametrize("seed", range(16))
def test_a_flipped_bit_in_the_middle(copy, seed):
    rng = random.Random(seed)
    file = segments(copy)[0]
    offset = rng.randrange(64, used(file) * 3 // 4)
    flip(file, offset, rng.randrange(8))
    check_refusal(copy, file, offset)


@pytest.mark.parametrize("where", [0, 7, 8, 12, 16, 24, 40, 56, 63])
def test_a_flipped_bit_in_the_head_of_a_segment(copy, where):
    file = segments(copy)[0]
    flip(file, where, 0)
    code, out, err = refused(copy)
    assert file.name in err, err
    check = run("log", "check", copy)
    assert check.returncode == 1 and file.name in check.stdout + check.stderr, check


def test_a_flipped_bit_in_a_payload(copy):
    file = segments(copy)[0]
    offset = file.read_bytes().index(b"message number 150 ") + 3
    flip(file, offset, 5)
    check_refusal(copy, file, offset)


def test_a_flipped_bit_in_the_last_message(copy):
    """The clean stop said that everything before it is on disk, so this is damage, not a torn tail."""
    file = segments(copy)[0]
    offset = file.read_bytes().index(b"message number 299 ") + 3
    flip(file, offset, 5)
    check_refusal(copy, file, offset)


def test_zeros_in_the_middle(copy):
    """What a lost write leaves."""
    file = segments(copy)[0]
    offset = file.read_bytes().index(b"message number 100 ") // 4096 * 4096
    with open(file, "r+b") as f:
        f.seek(offset)
        f.write(bytes(4096))
    code, out, err = refused(copy)
    assert file.name in err and "listening" not in out
    assert run("log", "check", copy).returncode == 1


def test_a_cut_file(copy):
    file = segments(copy)[0]
    with open(file, "r+b") as f:
        f.truncate(used(file) // 2)
    code, out, err = refused(copy)
    assert file.name in err and "listening" not in out
    assert run("log", "check", copy).returncode == 1


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A directory with several segments."""
    server = Server(tmp_path_factory.mktemp("several") / "data", "--segment-bytes", MIB, "--payload-max", 200000).start()
    q = Client(server, now=T0).queue("q")
    for i in range(50):
        q.enqueue(f"{i} ".ljust(100000, "x"))
    q.client.close()
    server.stop()
    assert len(segments(server.data)) >= 4
    return server.data


@pytest.mark.parametrize("which", [0, 1, -2])
def test_a_missing_segment(several, tmp_path, which):
    """Only the newest end can be missing without a trace, and only the oldest was ever allowed to go."""
    data = shutil.copytree(several, tmp_path / "data")
    gone = segments(data)[which]
    gone.unlink()
    if which == 0:
        # The run that is left is contiguous; whether that is noticed is the reader's business, but it must not crash.
        try:
            server = Server(data).start()
        except StartFailed as e:
            assert isinstance(e.code, int) and e.code > 0, e
        else:
            server.kill()
        return
    code, out, err = refused(data)
    assert "segment" in err and "listening" not in out, err
    assert run("log", "check", data).returncode == 1


def test_damage_in_large_payloads_is_found_by_the_check(several, tmp_path):
    """A start does not read what it does not need; `nixie log check` reads everything."""
    data = shutil.copytree(several, tmp_path / "data")
    file = segments(data)[1]
    offset = file.read_bytes().index(b"x" * 50000) + 25000
    flip(file, offset, 0)
    check = run("log", "check", data)
    assert check.returncode == 1 and file.name in check.stdout + check.stderr, check


@pytest.mark.parametrize("count", [1, 20])
def test_swapped_frames_are_damage(copy, count):
    """A frame that is whole, but not where it belongs."""
    file = segments(copy)[0]
    raw = file.read_bytes()
    a, b = raw.index(b"message number 100 "), raw.index(b"message number 110 ")
    span = (b - a) // 10 * count
    raw = raw[:a - 200] + raw[b - 200:b - 200 + span] + raw[a - 200 + span:]
    assert len(raw) == file.stat().st_size
    file.write_bytes(raw)
    code, out, err = refused(copy)
    assert file.name in err and "listening" not in out
    assert run("log", "check", copy).returncode == 1


def test_a_newer_format_is_refused(copy):
    for file in segments(copy):
        with open(file, "r+b") as f:
            f.seek(8)  # u32 version, behind the magic (docs/storage-format.md)
            version = int.from_bytes(f.read(4), "little")
            f.seek(8)
            f.write((version + 1).to_bytes(4, "little"))
    before = {f.name: f.read_bytes() for f in segments(copy)}
    code, out, err = refused(copy)
    assert re.search(r"newer|version", err), err
    assert {f.name: f.read_bytes() for f in segments(copy)} == before
    check = run("log", "check", copy)
    assert check.returncode != 0 and re.search(r"newer|version", check.stdout + check.stderr), check


def test_a_sound_directory_is_found_sound(copy):
    before = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in segments(copy)}
    check = run("log", "check", copy)
    assert check.returncode == 0, check
    assert "300" in check.stdout, "it says how many messages it found"
    assert {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in segments(copy)} == before, "a check changes nothing"


def test_check_of_what_is_no_directory(tmp_path):
    for data in (tmp_path / "none", tmp_path / "file"):
        if data.name == "file":
            data.write_text("x")
        check = run("log", "check", data)
        assert check.returncode != 0 and str(data) in check.stderr, check


# -- the tail --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tail(tmp_path_factory):
    """(directory after n messages, file name, offset of the next frame, bytes of that frame), all taken from a running server."""
    server = Server(tmp_path_factory.mktemp("tail") / "data").start()
    ids = fill(server, 50)
    client = Client(server, now=T0)
    file = segments(server.data)[0]
    # The idle log writes a mark behind the last message (docs/storage-format.md); then it is still.
    deadline = time.monotonic() + 20
    while b"NXFM" not in file.read_bytes():
        assert time.monotonic() < deadline, "no mark"
    folder = shutil.copytree(server.data, server.data.parent / "copy")
    before = (folder / file.name).read_bytes()
    client.queue("q").enqueue("the torn one".ljust(5000, "t"))
    server.kill()
    after = file.read_bytes()
    first = next(i for i in range(len(before)) if before[i] != after[i])
    assert not before[first:].strip(b"\0"), "nothing but zeros behind the last frame"
    end = after.rindex(b"t" * 100) + 100
    return folder, file.name, first, after[first:end], ids


def start_torn(tail, tmp_path, rest):
    """Puts `rest` where the next frame would be, starts, and expects everything that was there before it."""
    folder, name, offset, frame, ids = tail
    data = shutil.copytree(folder, tmp_path / "data")
    with open(data / name, "r+b") as f:
        f.seek(offset)
        f.write(rest)
    check = run("log", "check", data)
    assert check.returncode == 0 and "torn" in check.stdout + check.stderr, check
    server = Server(data).start()
    try:
        assert re.search(r"torn", server.stderr()), server.stderr()
        q = Client(server, now=T0).queue("q")
        assert [m["id"] for m in q.all()] == ids
        new = q.enqueue("new")["id"]
        assert new > ids[-1]
        q.client.close()
        server.restart(kill=True)
        assert [m["id"] for m in q.all()] == ids + [new]
        assert "torn" not in server.stderr(), "it was cut off for good"
        q.client.close()
        server.stop()
    finally:
        server.kill()
    check = run("log", "check", data)
    assert check.returncode == 0 and "torn" not in check.stdout + check.stderr, check


@pytest.mark.parametrize("part", [1, 8, 31, 32, 40, 100, 0.5, 0.9, -1])
def test_half_a_frame(tail, tmp_path, part):
    frame = tail[3]
    n = part if isinstance(part, int) else int(len(frame) * part)
    start_torn(tail, tmp_path, frame[:n])


def test_a_frame_with_a_hole(tail, tmp_path):
    """Its pages reached the disk in another order: the first is missing, the last is there."""
    frame = tail[3]
    start_torn(tail, tmp_path, bytes(2048) + frame[2048:])
    # And the other way round.
    start_torn(tail, tmp_path / "b", frame[:1024] + bytes(1024) + frame[2048:])


@pytest.mark.parametrize("seed", range(6))
def test_garbage_at_the_tail(tail, tmp_path, seed):
    rng = random.Random(seed)
    start_torn(tail, tmp_path, rng.randbytes(rng.choice([1, 50, 5000, 100000])))


def test_a_whole_frame_at_the_tail_is_kept(tail, tmp_path):
    """Control: with the frame whole, nothing is torn."""
    folder, name, offset, frame, ids = tail
    data = shutil.copytree(folder, tmp_path / "data")
    with open(data / name, "r+b") as f:
        f.seek(offset)
        f.write(frame)
    server = Server(data).start()
    assert "torn" not in server.stderr()
    assert len(Client(server, now=T0).queue("q").all()) == len(ids) + 1
    server.stop()


# -- a failing fdatasync -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    out = tmp_path_factory.mktemp("shim") / "fail_fdatasync.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", str(out), str(HERE / "fail_fdatasync.c"), "-ldl"],
                   check=True, capture_output=True)

    def env(good):
        sanitizer = os.environ.get("ASAN_OPTIONS", "")
        return {"LD_PRELOAD": str(out), "FAIL_FDATASYNC": str(good),
                "ASAN_OPTIONS": ":".join(filter(None, [sanitizer, "verify_asan_link_order=0"]))}

    return env


def ended_badly(server, within=10):
    """It ended by itself, soon, not with success, and said why. Returns what it said."""
    code = server.process.wait(within)
    said = server.stderr()
    server.wait()
    assert code != 0, said
    assert "test: f" in said and "fails" in said, f"the shim was never asked to fail: {said}"
    assert re.search(r"disk|sync", said.split("fails\n", 1)[1], re.I), f"no clear message: {said}"
    assert said.count("test: f") == 1, f"it tried again: {said}"
    return said


@pytest.mark.parametrize("good", [0, 1, 2, 3, 4, 5, 8, 20, 40])
def test_fdatasync_fails(shim, tmp_path, good):
    server = Server(tmp_path / "data", env=shim(good))
    acknowledged = []
    try:
        server.start()
    except StartFailed as e:
        # Among the first calls is the start itself. It may not have gone well by the look of it.
        assert e.code != 0 and re.search(r"disk|sync|input/output", e.stderr.split("fails\n", 1)[1], re.I), e
    else:
        q = Client(server, now=T0).queue("q")
        for i in range(100):
            try:
                reply = q.client.post(q.path + "/messages", {"payload": f"m{i}"})
            except (OSError, http.client.HTTPException):
                break
            assert reply.status == 201, "nothing but 201 or silence"
            acknowledged.append(f"m{i}")
        else:
            raise AssertionError("a hundred enqueues, and fdatasync was not called often enough")
        ended_badly(server)
        assert len(acknowledged) <= good
    server.env = None
    server.start()
    q = Client(server, now=T0).queue("q")
    there = [m["payload"] for m in q.all()] if q.client.get(q.path).status == 200 else []
    # The one whose sync failed may be there or not; it was not promised.
    assert there in (acknowledged, acknowledged + [f"m{len(acknowledged)}"])
    q.enqueue("after")
    server.stop()


def test_fdatasync_fails_under_load(shim, tmp_path):
    """Many requests wait for one sync; it fails; none of them is told that it worked."""
    server = Server(tmp_path / "data", env=shim(60)).start()
    acknowledged, unknown = [], []

    def work(n):
        client = Client(server, now=T0)
        for i in range(10000):
            name = f"{n}-{i}"
            unknown.append(name)
            try:
                reply = client.post("/queues/q/messages", {"payload": name})
            except (OSError, http.client.HTTPException):
                return
            assert reply.status == 201, reply
            unknown.remove(name)
            acknowledged.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ended_badly(server)
    assert acknowledged and len(unknown) == 8
    server.env = None
    server.start()
    there = [m["payload"] for m in Client(server, now=T0).queue("q").all()]
    assert len(there) == len(set(there))
    assert set(acknowledged) <= set(there) <= set(acknowledged) | set(unknown)
    server.stop()


def test_fdatasync_fails_when_only_state_changes(shim, tmp_path):
    """A succeed whose sync failed was not acknowledged: after the restart it is done or not, but never in between."""
    server = Server(tmp_path / "data").start()
    q = Client(server, now=T0).queue("q")
    q.batch([{"payload": str(i)} for i in range(200)])
    q.client.close()
    server.stop()
    server.env = shim(25)
    server.start()
    done = []
    messages = q.claim_many(200)
    with pytest.raises((OSError, http.client.HTTPException)):
        for m in messages:
            q.succeed(m)
            done.append(m["id"])
    ended_badly(server)
    server.env = None
    server.start()
    succeeded = [m["id"] for m in q.list(status="succeeded", limit=1000)]
    assert succeeded in (done, done + [messages[len(done)]["id"]])
    assert q.info()["conservation"]["holds"]
    server.stop()


# -- a full disk ---------------------------------------------------------------------------------------------------------------------------


def until_full(q, size=1000, most=200000):
    """Enqueues until 507; returns the ids that were accepted."""
    ids = []
    while True:
        reply = q.client.post(q.path + "/messages", {"payload": f"{len(ids)} ".ljust(size, "x"), "max_retries": 10})
        if reply.status == 507:
            return ids
        assert reply.status == 201, reply
        ids.append(reply.json["id"])
        assert len(ids) * size < most * 1000, "never full"


def until_room(q, timeout=20):
    """An enqueue succeeds again within the time; nothing tells when, so it is asked again and again."""
    deadline = time.monotonic() + timeout
    while True:
        reply = q.client.post(q.path + "/messages", {"payload": "room again"})
        if reply.status == 201:
            return reply.json["id"]
        assert reply.status == 507, reply
        assert time.monotonic() < deadline, "room came back, but the server does not see it"


def check_full(server, q):
    """What is true of a server whose disk is full. Settles a few messages in every way."""
    client = q.client
    ready = client.get("/readyz")
    assert ready.status == 503 and re.search(r"disk|full|room", ready.body.decode()), ready
    assert client.get("/healthz").status == 200
    assert client.post(q.path + "/messages", [{"payload": "x" * 1000}] * 10).status == 507
    assert client.put("/queues/another", {}).status in (201, 507)
    a, b, c, d, e, f = q.claim_many(6)
    assert q.succeed(a)["status"] == "succeeded"
    assert q.fail(b, error="boom", detail="d" * 1000)["status"] == "pending"
    assert q.fail(c, permanent=True)["status"] == "dead"
    assert q.replay(c)["status"] == "pending"
    assert q.release(d)["status"] == "pending"
    q.extend(e, lease_seconds=1000)
    assert q.settle([{"id": e["id"], "lease": e["lease"], "action": "succeed"}, {"id": f["id"], "lease": f["lease"], "action": "fail"}],
                    claim={"count": 1})["messages"]
    return {a["id"], e["id"]}


def check_all_there(q, ids, succeeded=()):
    seen = {m["id"]: m["status"] for m in q.all()}
    assert set(ids) - set(seen) <= set(succeeded), "an acknowledged message is lost"
    assert {i for i, s in seen.items() if s == "succeeded"} <= set(succeeded)
    q.info()


def test_the_configured_size_is_the_disk(tmp_path):
    server = Server(tmp_path / "data", "--segment-bytes", MIB, "--payload-max", 200000, "--data-max-bytes", 12 * MIB).start()
    client = Client(server, now=T0)
    q = client.queue("q")
    ids = until_full(q)
    assert len(ids) > 1000, "a good part of the twelve MiB is for messages"
    taken = sum(f.stat().st_size for f in segments(server.data))
    assert taken <= 12 * MIB, taken
    done = check_full(server, q)
    check_all_there(q, ids, done)
    # Nor does a restart make room or lose anything.
    client.close()
    server.restart(kill=True)
    assert client.post(q.path + "/messages", {"payload": "x" * 1000}).status in (201, 507)
    check_all_there(q, ids, done)
    # Everything can be worked off; that makes room, by itself.
    q.put(retention={"succeeded_seconds": 0})
    left = len(ids) - len(done)
    now = 10
    while left:
        messages = q.claim_many(100, now=at(now))
        now += 100 if not messages else 1
        assert now < 100000, f"{left} messages cannot be worked off"
        results = q.settle([{"id": m["id"], "lease": m["lease"], "action": "succeed"} for m in messages], now=at(now))["results"]
        assert all(r.get("status") == "succeeded" for r in results), results
        left = sum(q.counts(now=at(now))[k] for k in ("pending", "processing", "dead"))
    client.now = at(now + 10)
    until_room(q)
    assert client.get("/readyz").status == 200
    assert len(until_full(q)) > 1000, "and it is a good part again"
    assert sum(f.stat().st_size for f in segments(server.data)) <= 12 * MIB
    client.check_conservation()
    client.close()
    server.stop()


def test_dead_letters_do_not_lock_the_disk(tmp_path):
    """A queue full of dead letters can be emptied by deleting it, with a full disk."""
    server = Server(tmp_path / "data", "--segment-bytes", MIB, "--payload-max", 200000, "--data-max-bytes", 12 * MIB).start()
    client = Client(server, now=T0)
    q = client.queue("q")
    until_full(q)
    for m in q.claim_many(500):
        q.fail(m, permanent=True)
    assert client.post(q.path + "/messages", {"payload": "x" * 1000}).status == 507
    q.delete(discard=True)
    until_room(client.queue("other"))
    client.close()
    server.stop()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    where = tmp_path / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(where)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def fill_file(path):
    """Takes all the room there is."""
    f = os.open(path, os.O_CREAT | os.O_WRONLY)
    with pytest.raises(OSError) as e:
        while True:
            os.write(f, bytes(4096))
    assert e.value.errno == errno.ENOSPC
    os.close(f)


def test_a_disk_that_is_really_full(small_disk):
    server = Server(small_disk / "data", "--segment-bytes", MIB, "--payload-max", 200000, log=small_disk.parent / "log").start()
    client = Client(server, now=T0)
    q = client.queue("q")
    first = [q.enqueue(str(i))["id"] for i in range(100)]
    fill_file(small_disk / "filler")
    ids = first + until_full(q)
    done = check_full(server, q)
    check_all_there(q, ids, done)
    (small_disk / "filler").unlink()
    ids.append(until_room(q))
    assert client.get("/readyz").status == 200
    more = until_full(q)
    assert len(more) > 1000
    assert len(q.claim_many(3)) == 3
    client.close()
    server.restart(kill=True)
    check_all_there(q, ids + more, done)
    client.close()
    server.stop()


def test_a_disk_too_full_to_start(small_disk):
    """No room for the first segment: refused, clearly. With room again it starts."""
    fill_file(small_disk / "filler")
    server = Server(small_disk / "data", "--segment-bytes", MIB, "--payload-max", 200000, log=small_disk.parent / "log")
    with pytest.raises(StartFailed) as e:
        server.start()
    assert e.value.code > 0 and re.search(r"space|room|full", e.value.stderr, re.I), e.value
    (small_disk / "filler").unlink()
    server.start()
    Client(server, now=T0).queue("q").enqueue("x")
    server.stop()
