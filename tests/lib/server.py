"""A Nixie server as a child process: start, stop, kill, restart on the same directory."""
import fcntl
import os
import pathlib
import select
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NIXIE = os.environ.get("NIXIE") or str(ROOT / "build" / "nixie")

# A sanitizer that finds something ends the process with this code, so that no test mistakes it for another failure.
SANITIZER_EXIT = 86

# Every server that lives, for the failure report (see tests/conftest.py).
alive = []


def environment(extra=None):
    """The environment of a child: nothing of ours named NIXIE_* leaks into it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("NIXIE")}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = ":".join(filter(None, [env.get(name), f"exitcode={SANITIZER_EXIT}"]))
    env.update(extra or {})
    return env


# Root may write anywhere, unless it lacks the capability to.
BOUND_BY_MODES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def run(*args, env=None, timeout=30, stdin=b"", prefix=()):
    """Runs one nixie command to its end; returns subprocess.CompletedProcess with text output."""
    done = subprocess.run([*prefix, NIXIE, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(env), timeout=timeout)
    done.stdout = done.stdout.decode("utf-8", "replace")
    done.stderr = done.stderr.decode("utf-8", "replace")
    return done


class StartFailed(Exception):
    """The server ended, or said nothing, before it was ready."""

    def __init__(self, code, stdout, stderr):
        super().__init__(f"server did not start: exit code {code}\nstdout: {stdout}\nstderr: {stderr}")
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Server:
    def __init__(self, data, *flags, test_clock=True, env=None, http="127.0.0.1:0", amqp="off", log=None):
        self.data = pathlib.Path(data)
        self.log = log or self.data.parent / (self.data.name + ".log")  # stderr of all starts, one after the other
        self.flags = [str(f) for f in flags]
        self.test_clock = test_clock
        # Small segments, where the test does not care: a new directory's first one is written full of zeros.
        self.env = {"NIXIE_SEGMENT_BYTES": "32M", **(env or {})}
        self.http = http
        self.amqp = amqp  # "off": servers that run side by side do not meet at its default port
        self.process = None
        self.host = self.port = self.amqp_port = None
        self.starts = 0

    # -- life -------------------------------------------------------------------------------------------------------

    def command(self):
        args = [NIXIE, "serve", "--data", str(self.data)]
        if self.http is not None:
            args += ["--http", self.http]
        if self.amqp is not None:
            args += ["--amqp", self.amqp]
        if self.test_clock:
            args.append("--test-clock")
        return args + self.flags

    def spawn(self, env=None):
        """Starts the process without waiting until it is ready."""
        assert self.process is None, "already running"
        self.starts += 1
        with open(self.log, "ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=environment({**(self.env or {}), **(env or {})}))
        self.stdout = b""
        alive.append(self)
        return self

    def start(self, timeout=20, env=None):
        self.spawn(env)
        return self.wait_ready(timeout)

    def wait_ready(self, timeout=20):
        pipe = self.process.stdout
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_NONBLOCK)
        deadline = time.monotonic() + timeout
        addresses = {}
        while not {"http", "amqp" if self.amqp not in (None, "off") else "http"} <= addresses.keys():
            left = deadline - time.monotonic()
            if left <= 0:
                self.kill()
                raise StartFailed("none (silent)", self.stdout.decode(), self.stderr())
            if not select.select([pipe], [], [], left)[0]:
                continue
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                code = self.process.wait(timeout)
                self._gone()
                raise StartFailed(code, self.stdout.decode(), self.stderr())
            self.stdout += chunk
            for line in self.stdout.decode().split("\n")[:-1]:
                words = line.split(" ")
                if words[0] == "listening":
                    addresses[words[1]] = words[2]
        host, _, port = addresses["http"].rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        if "amqp" in addresses:
            self.amqp_port = int(addresses["amqp"].rpartition(":")[2])
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        threading.Thread(target=self._drain, args=(pipe,), daemon=True).start()
        return self

    def _drain(self, pipe):
        while chunk := pipe.read(4096):
            self.stdout += chunk
        pipe.close()

    def _gone(self):
        self.process = None
        if self in alive:
            alive.remove(self)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=30):
        """Waits for the process to end by itself and returns its exit code."""
        code = self.process.wait(timeout)
        self._gone()
        return code

    def stop(self, timeout=35):
        """SIGTERM, and it must end well."""
        if self.process is None:
            return
        self.terminate()
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"server did not end within {timeout} s of SIGTERM\n{self.stderr()}")
        log = self.stderr()
        self._gone()
        assert code == 0, f"server ended with {code} after SIGTERM\n{log}"

    def kill(self):
        """kill -9."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self._gone()

    def restart(self, kill=False):
        self.kill() if kill else self.stop()
        return self.start()

    def is_running(self):
        process = self.process
        return process is not None and process.poll() is None

    # -- what it said -------------------------------------------------------------------------------------------------

    def stderr(self, all_starts=False):
        if not self.log.exists():
            return ""
        with open(self.log, "rb") as f:
            f.seek(0 if all_starts else self.log_start)
            return f.read().decode("utf-8", "replace")

    # -- talking to it --------------------------------------------------------------------------------------------------

    def connect(self, timeout=10):
        s = socket.create_connection((self.host, self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()


def refused(data, *flags, **options):
    """Starts a server that must not start; returns (exit code, stdout, stderr)."""
    server = Server(data, *flags, **options)
    try:
        server.start()
    except StartFailed as e:
        assert e.code != SANITIZER_EXIT, e
        assert isinstance(e.code, int) and e.code > 0, f"ended by a signal, or not at all: {e}"
        return e.code, e.stdout, e.stderr
    server.kill()
    raise AssertionError(f"server started, but should have refused: {server.command()}")
