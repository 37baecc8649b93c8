"""Starting the server: what it prints, what it refuses, and how clearly."""
import re
import socket
import stat

import pytest

from lib.client import Client, T0
from lib.server import BOUND_BY_MODES, Server, refused, run


def test_it_says_where_it_listens(start):
    server = start()
    assert re.fullmatch(r"listening http 127\.0\.0\.1:[1-9]\d*", server.stdout.decode().strip()), server.stdout
    assert Client(server).get("/healthz").status == 200


def test_the_directory_is_made(start, tmp_path):
    start(data=tmp_path / "new")
    assert (tmp_path / "new").is_dir()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) & 0o007 == 0, "payloads are nobody else's business"


def test_settings_from_the_environment(start, tmp_path):
    server = Server(tmp_path / "unused", http=None, env={"NIXIE_HTTP": "127.0.0.1:0"})
    with server:
        assert Client(server).get("/healthz").status == 200


def test_a_flag_goes_before_the_environment(start, tmp_path):
    start(data=tmp_path / "flag", env={"NIXIE_DATA": str(tmp_path / "env"), "NIXIE_HTTP": "127.0.0.1:1"})
    assert (tmp_path / "flag").is_dir() and not (tmp_path / "env").exists()


def test_ipv6_loopback(start):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    server = start(http="[::1]:0")
    assert Client(server).get("/healthz").status == 200


def test_a_second_server_on_the_same_directory(start, tmp_path):
    server = start(data=tmp_path / "data")
    code, out, err = refused(tmp_path / "data")
    assert "listening" not in out
    assert str(tmp_path / "data") in err and re.search(r"lock|in use|another", err, re.I), err
    assert Client(server).get("/healthz").status == 200
    server.restart(kill=True)
    assert Client(server).get("/healthz").status == 200, "a killed server leaves no lock behind"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_other_addresses_need_a_token_or_insecure(start, tmp_path, address):
    code, out, err = refused(tmp_path / "data", http=address)
    assert "listening" not in out
    assert "--token" in err and "--insecure" in err, err


def test_other_addresses_with_a_token(start):
    server = start("--token", "t", http="0.0.0.0:0")
    server.host = "127.0.0.1"
    assert Client(server, token="t").get("/queues").status == 200


def test_other_addresses_insecure(start):
    server = start("--insecure", http="0.0.0.0:0")
    server.host = "127.0.0.1"
    assert Client(server).get("/queues").status == 200


@pytest.mark.parametrize("args", [["--nope"], ["--http"], ["--payload-max", "many"], ["--payload-max", "-1"], ["--body-max", ""],
                                  ["--payload-max", str(8 * 1024 * 1024 + 1)], ["--connections-max", "0"], ["--inflight-max", "0"],
                                  ["--request-timeout", "soon"], ["--idle-timeout", "-1"], ["--segment-bytes", "100"],
                                  ["--log-level", "loud"], ["extra"], ["--data"], ["--token", "a", "--token-file", "b"]])
def test_wrong_usage(tmp_path, args):
    if args == ["--data"]:
        done = run("serve", "--http", "127.0.0.1:0", *args)
    else:
        done = run("serve", "--http", "127.0.0.1:0", "--data", tmp_path / "data", *args)
    assert done.returncode == 2, done
    assert done.stdout == "" and done.stderr.strip(), done
    assert "nixie" in done.stderr
    assert not (tmp_path / "data").exists(), "nothing is touched"


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":", "256.0.0.1:0"])
def test_wrong_addresses(tmp_path, address):
    code, out, err = refused(tmp_path / "data", http=address)
    assert err.strip() and "listening" not in out


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, out, err = refused(tmp_path / "data", http=f"127.0.0.1:{port}")
    assert str(port) in err and re.search(r"in use", err, re.I), err


def test_a_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    for data in (tmp_path / "file", tmp_path / "file" / "data", "/proc/nixie-data"):
        code, out, err = refused(data, log=tmp_path / "log")
        assert "listening" not in out and str(data) in err, err


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "data").mkdir(mode=0o500)
    done = run("serve", "--http", "127.0.0.1:0", "--data", tmp_path / "data", prefix=BOUND_BY_MODES)
    assert done.returncode == 1 and "listening" not in done.stdout
    assert str(tmp_path / "data") in done.stderr and "Permission denied" in done.stderr


def test_foreign_files_in_the_directory_are_left_alone(start, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "README").write_text("mine")
    server = start(data=tmp_path / "data")
    Client(server, now=T0).queue("q").enqueue("x")
    server.restart()
    assert (tmp_path / "data" / "README").read_text() == "mine"
    assert Client(server, now=T0).queue("q").counts()["pending"] == 1


def test_help():
    for args in (["--help"], ["serve", "--help"], ["help"]):
        done = run(*args)
        assert done.returncode == 0 and done.stderr == "" and "nixie" in done.stdout, (args, done)
    assert "--data" in run("serve", "--help").stdout
    done = run()
    assert done.returncode == 2 and done.stdout == ""
    done = run("frobnicate")
    assert done.returncode == 2 and "frobnicate" in done.stderr
