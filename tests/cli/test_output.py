"""Formats, tables, and that nothing a server says harms a terminal."""
import json
import os
import pty
import re
import select
import struct
import subprocess
import fcntl
import termios

from lib.server import NIXIE, environment

EVIL = "\x1b[31mred\x07\x00\r\n\t\x7f\x9b2J\u202eabc\u2028\U0001f600"


def on_terminal(cli, *args, columns=120, keys=b"", stdin=False):
    """Runs nixie with a terminal as standard output and error (and input); returns (exit code, text)."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    p = subprocess.Popen([NIXIE, *map(str, args)], env=environment(cli.env), stdin=side if stdin else subprocess.DEVNULL,
                         stdout=side, stderr=side)
    os.close(side)
    if keys:
        os.write(main, keys)
    text = b""
    while select.select([main], [], [], 20)[0]:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        text += chunk
    os.close(main)
    return p.wait(20), text.decode().replace("\r\n", "\n")


def controls(text):
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", text)


def evil_server(fake):
    message = {"id": 7, "queue": "q", "payload": EVIL, "status": EVIL, "retry_count": 1, "max_retries": EVIL,
               "retry_after": EVIL, "last_error": EVIL, "created_at": EVIL, "updated_at": EVIL, "error_class": EVIL,
               "lease": EVIL, "lease_expires_at": EVIL, "attempt": EVIL, "reason": EVIL, EVIL.replace("\0", ""): EVIL}
    problem = {"type": "about:blank", "title": EVIL, "status": 409, "detail": EVIL,
               "errors": [{"field": EVIL, "code": EVIL, "message": EVIL}]}

    def reply(method, path, body):
        if "no" in path:
            return 409, problem, "application/problem+json"
        if path.endswith("/attempts"):
            return 200, {"attempts": [{"attempt": 1, "event": EVIL, "at": EVIL, "error": EVIL, "detail": EVIL}], "count": 1}
        if path.endswith("/payload"):
            return 200, EVIL.encode() + b"\xff\xc2", "application/octet-stream"
        if path.startswith("/queues?"):
            return 200, {"queues": [{"queue": EVIL, "counts": {"pending": EVIL}, "bytes": EVIL}], "count": 1}
        if path == "/queues/q":
            return 200, {"queue": EVIL, "policy": {EVIL.replace("\0", ""): {"x": EVIL}}, "counts": {}}
        if "?" in path:
            done = "after" in path
            return 200, {"messages": [] if done else [message], "count": 1}
        if path.endswith("/claim"):
            return 200, {"claimed": True, "message": message}
        return 200, message
    return fake(reply)


COMMANDS = [("ls", "q"), ("show", "q", "7"), ("show", "q", "7", "--payload"), ("claim", "q"), ("succeed", "q", "7"),
            ("enqueue", "q", "x"), ("queues",), ("queues", "q"), ("fail", "q", "7"), ("ls", "no"), ("claim", "no"),
            ("enqueue", "no", "x"), ("show", "no", "1")]


def test_no_control_character_reaches_a_terminal(fake):
    f = evil_server(fake)
    for args in COMMANDS:
        for columns in (40, 400):
            for more in ([], ["-o", "json"], ["-o", "ndjson"]):
                _, text = on_terminal(f.cli, *args, *more, columns=columns)
                bad = [c for c in controls(text) if not (c == "\t" and ("show" in args))]
                assert bad == [], (args, more, text)


def test_machine_output_holds_the_same_values(fake):
    f = evil_server(fake)
    [message] = f.cli.ok("claim", "q")
    assert message["payload"] == message["lease"] == EVIL
    assert json.loads(f.cli.run("claim", "q", "-o", "json").stdout) == message
    done = subprocess.run([NIXIE, "show", "q", "7", "--payload"], env=environment(f.cli.env), capture_output=True)
    assert done.stdout == EVIL.encode() + b"\xff\xc2"


def test_format_by_what_standard_output_is(cli):
    cli.put("a")
    assert cli.run("ls", cli.queue).stdout.startswith('{"id":')
    code, text = on_terminal(cli, "ls", cli.queue)
    assert code == 0 and text.split()[0] == "ID"
    code, text = on_terminal(cli, "ls", cli.queue, "-o", "ndjson")
    assert text.startswith('{"id":')


def test_whole_numbers_stay_whole(fake):
    big = 9007199254740991
    f = fake(lambda m, p, b: (200, {"messages": [] if "after" in p else [{"id": big, "deliveries": 9223372036854775807}]}))
    assert f.cli.ok("ls", "q") == [{"id": big, "deliveries": 9223372036854775807}]
    assert str(big) in "\n".join(f.cli.table("ls", "q"))


def test_table_is_aligned(cli):
    cli.put("äöü", "日本語", "e\u0301", "plain")
    lines = cli.table("ls", cli.queue)
    assert lines[0].split() == ["ID", "STATUS", "RETRIES", "CREATED", "RETRY", "AFTER", "ERROR", "PAYLOAD"]
    at = lines[0].index("PAYLOAD")
    assert [line[at:] for line in lines[1:]] == ["äöü", "日本語", "e\u0301", "plain"]


def test_table_fits_the_terminal(cli):
    cli.put("x" * 1000, "\n" * 1000)
    _, text = on_terminal(cli, "ls", cli.queue, columns=120)
    for line in text.splitlines()[1:3]:
        assert len(line) == 120 and line.endswith("…")
    assert "x" * 1000 in cli.run("ls", cli.queue).stdout
    table = cli.table("ls", cli.queue)
    assert table[1].endswith("x" * 59 + "…")


def test_columns_stay_over_pages(cli):
    cli.ok("enqueue", cli.queue, "--lines", stdin=b"x\n" * 1500)
    lines = cli.table("ls", cli.queue, "--all")
    assert len(lines) == 1501 and len([line for line in lines if line.startswith("ID") or line.lstrip().startswith("ID ")]) == 1


def test_progress_only_on_a_terminal(cli, tmp_path):
    done = cli.run("enqueue", cli.queue, "--lines", stdin=b"x\n" * 3000)
    assert done.stderr == f"nixie: enqueue: {cli.queue}: 3000 messages enqueued\n"
    assert cli.run("enqueue", cli.queue, "--lines", "-q", stdin=b"x\n").stderr == ""
    lines = tmp_path / "lines"
    lines.write_bytes(b"x\n" * 3000)
    main, side = pty.openpty()
    with open(lines, "rb") as stdin:
        p = subprocess.Popen([NIXIE, "enqueue", cli.queue, "--lines"], env=environment(cli.env), stdin=stdin,
                             stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    assert p.wait(20) == 0
    assert " enqueued | " in os.read(main, 65536).decode()
    os.close(main)


def test_confirmation(cli):
    cli.put("a", "b")
    code, text = on_terminal(cli, "queues", cli.queue, "--delete", "--discard", stdin=True, keys=b"yes\n")
    assert code == 1 and "2 pending" in text and "not confirmed" in text
    assert cli.api("GET").status_code == 200
    code, text = on_terminal(cli, "queues", cli.queue, "--delete", "--discard", stdin=True, keys=cli.queue.encode() + b"\n")
    assert code == 0
    assert cli.api("GET").status_code == 404


def test_replies_that_are_none(fake):
    answers = iter([(200, b"<html>", "text/html"), (200, b"{", "application/json"), (502, b"bad gateway", "text/plain"),
                    None, (200, b"", "application/json"), (200, b"[]", "application/json")])
    f = fake(lambda *_: next(answers))
    assert "is that a Nixie server?" in f.cli.fails(1, "show", "q", "1")
    assert "is that a Nixie server?" in f.cli.fails(1, "show", "q", "1")
    assert "answered 502" in f.cli.fails(1, "show", "q", "1")
    f.cli.fails(7, "show", "q", "1")
    assert "is that a Nixie server?" in f.cli.fails(1, "show", "q", "1")
    assert f.cli.run("ls", "q").returncode == 0  # no messages in it


def test_a_list_that_does_not_go_on(fake):
    f = fake(lambda *_: (200, {"messages": [{"id": 1}], "count": 1}))
    assert "out of order" in f.cli.fails(3, "ls", "q", "--all")
    f = fake(lambda *_: (200, {"queues": [{"queue": "q"}] * 1000, "count": 1000}))
    assert "does not go on" in f.cli.fails(1, "queues")


def test_a_reply_without_end(fake):
    f = fake(lambda *_: (200, b'"' + b"x" * (200 * 1024 * 1024) + b'"', "application/json"))
    assert "the reply is longer than" in f.cli.fails(1, "ls", "q")
