"""Debian's rabbitmq-server as a child process on free ports: everything it writes is in one directory, nothing stays behind."""
import os
import pathlib
import signal
import socket
import subprocess
import time

HOME = pathlib.Path("/usr/lib/rabbitmq")
START_SECONDS_MAX = 90

# Its log and its queues' write-ahead log are small here; the rest is as it comes.
CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users.guest = true
disk_free_limit.absolute = 50MB
log.file.level = warning
log.console = false
"""
LOW_MEMORY = "raft.wal_max_size_bytes = 32000000\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def scripts():
    """The folder of the programs as they are, without the wrapper that changes the user."""
    found = sorted(HOME.glob("lib/rabbitmq_server-*/sbin"))
    if not found:
        raise RuntimeError("rabbitmq-server is not installed: run scripts/setup conformance")
    return found[-1]


def version():
    return scripts().parent.name.partition("-")[2]


class RabbitMQ:
    """Start, stop, kill -9 and start again on the same port and data."""

    def __init__(self, directory, low_memory=True):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.host, self.amqp_port = "127.0.0.1", free_port()
        self.epmd_port, self.dist_port = free_port(), free_port()
        self.process = self.epmd = None
        (self.dir / "rabbitmq.conf").write_text(CONFIG.format(port=self.amqp_port) + (LOW_MEMORY if low_memory else ""))
        (self.dir / "enabled_plugins").write_text("[].\n")
        # Two nodes of one name cannot be on one machine, whichever epmd they ask.
        self.node = f"nixie-peer-{self.amqp_port}@localhost"

    def environment(self):
        d = str(self.dir)
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": d, "ERL_EPMD_PORT": str(self.epmd_port),
                "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_CRASH_DUMP": f"{d}/erl_crash.dump", "ERL_CRASH_DUMP_SECONDS": "0",
                "RABBITMQ_NODENAME": self.node, "RABBITMQ_MNESIA_BASE": f"{d}/mnesia", "RABBITMQ_LOG_BASE": f"{d}/log",
                "RABBITMQ_ENABLED_PLUGINS_FILE": f"{d}/enabled_plugins", "RABBITMQ_PID_FILE": f"{d}/pid",
                "RABBITMQ_CONFIG_FILE": f"{d}/rabbitmq.conf", "RABBITMQ_CONF_ENV_FILE": f"{d}/none",
                "RABBITMQ_ADVANCED_CONFIG_FILE": f"{d}/none.config", "RABBITMQ_SCHEMA_DIR": f"{d}/schema",
                "RABBITMQ_GENERATED_CONFIG_DIR": f"{d}/generated", "RABBITMQ_PLUGINS_EXPAND_DIR": f"{d}/plugins",
                "RABBITMQ_DIST_PORT": str(self.dist_port),
                # The shell becomes the Erlang machine instead of its parent, so that there is one process to end.
                "RUNNING_UNDER_SYSTEMD": "1"}

    def spawn(self, command):
        # It goes when we go, however we go.
        command = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
        with open(self.dir / "output", "ab") as output:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.dir,
                                    env=self.environment())

    def start(self):
        if self.epmd is None:
            # Ours, in the foreground: otherwise Erlang starts one that outlives everybody.
            self.epmd = self.spawn(["epmd", "-address", "127.0.0.1", "-port", self.epmd_port])
            self.await_port(self.epmd, self.epmd_port, 10)
        self.process = self.spawn([scripts() / "rabbitmq-server"])
        self.await_port(self.process, self.amqp_port, START_SECONDS_MAX)
        return self

    def await_port(self, process, port, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"rabbitmq-server did not start: it ended with {process.returncode}\n{self.output()}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"rabbitmq-server did not listen within {seconds} s\n{self.output()}")

    def output(self):
        texts = [p.read_text(errors="replace")[-2000:] for p in [self.dir / "output", *self.dir.glob("log/*.log")] if p.exists()]
        return "\n".join(texts)

    def ctl(self, *arguments):
        """One rabbitmqctl command; it takes seconds."""
        return subprocess.run([scripts() / "rabbitmqctl", "--node", self.node, *arguments], env=self.environment(), check=True,
                              capture_output=True, text=True, timeout=60).stdout

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9; whoever asks epmd then hears that the node is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()
            self.epmd = None

    def pids(self):
        """Of the Erlang machine and its children."""
        return family(self.process.pid)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def family(pid):
    """A process and all below it."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # ended just now
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found
