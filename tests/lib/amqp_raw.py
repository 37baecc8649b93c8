"""AMQP 0-9-1 by hand: exactly the frames that a test wants, right or wrong."""
import socket
import struct

HEADER = b"AMQP\0\0\x09\x01"
METHOD, HEADER_FRAME, BODY, HEARTBEAT = 1, 2, 3, 8


def frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def short(text):
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def table(entries=()):
    """Pairs of a name and a value as on the wire, letter first; or the body itself."""
    return long(entries if isinstance(entries, bytes) else b"".join(short(k) + v for k, v in entries))


def capabilities(*names):
    return table([("capabilities", b"F" + table([(n, b"t\1") for n in names]))])


def method(channel, class_id, method_id, arguments=b""):
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def start_ok(mechanism="PLAIN", response=b"\0guest\0guest", properties=None, locale="en_US"):
    return method(0, 10, 11, (table() if properties is None else properties) + short(mechanism) + long(response) + short(locale))


def tune_ok(channel_max=2047, frame_max=131072, heartbeat=0):
    return method(0, 10, 31, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def open_vhost(vhost="/"):
    return method(0, 10, 40, short(vhost) + short("") + b"\0")


def close(code=200, text="bye"):
    return method(0, 10, 50, struct.pack(">H", code) + short(text) + struct.pack(">HH", 0, 0))


CLOSE_OK = method(0, 10, 51)


def channel_open(number):
    return method(number, 20, 10, short(""))


def queue_declare(channel, name, arguments=None, bits=0):
    return method(channel, 50, 10, b"\0\0" + short(name) + bytes([bits]) + (table() if arguments is None else arguments))


def publish(channel, exchange="", key="", bits=0):
    return method(channel, 60, 40, b"\0\0" + short(exchange) + short(key) + bytes([bits]))


def content_header(channel, size, flags=0, values=b"", class_id=60):
    return frame(HEADER_FRAME, channel, struct.pack(">HHQH", class_id, 0, size, flags) + values)


def message(channel, key="", body=b"x", exchange="", bits=0):
    """A persistent one, whole."""
    frames = [frame(BODY, channel, body[i:i + 131064]) for i in range(0, len(body), 131064)]
    return publish(channel, exchange, key, bits) + content_header(channel, len(body), 1 << 12, b"\2") + b"".join(frames)


def qos(channel, count, is_global=False):
    return method(channel, 60, 10, struct.pack(">IHB", 0, count, is_global))


def consume(channel, queue, tag="", bits=0, arguments=None):
    return method(channel, 60, 20, b"\0\0" + short(queue) + short(tag) + bytes([bits]) + (table() if arguments is None else arguments))


def cancel(channel, tag):
    return method(channel, 60, 30, short(tag) + b"\0")


def get(channel, queue, no_ack=False):
    return method(channel, 60, 70, b"\0\0" + short(queue) + bytes([no_ack]))


def ack(channel, tag, multiple=False):
    return method(channel, 60, 80, struct.pack(">QB", tag, multiple))


class Closed(Exception):
    """The server closed the connection without a further frame."""


class AmqpRaw:
    def __init__(self, server, timeout=10, port=None, tls=None):
        self.s = socket.create_connection(("127.0.0.1", port or server.amqp_port), timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.s = tls.wrap_socket(self.s, server_hostname="localhost")
        self.pending = b""

    def send(self, *data):
        self.s.sendall(b"".join(data))
        return self

    def _need(self, n):
        while len(self.pending) < n:
            try:
                chunk = self.s.recv(65536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise Closed(self.pending)
            self.pending += chunk

    def bytes(self, n):
        self._need(n)
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def frame(self):
        kind, channel, size = struct.unpack(">BHI", self.bytes(7))
        payload = self.bytes(size)
        assert self.bytes(1) == b"\xce"
        return kind, channel, payload

    def method(self, class_id, method_id):
        """The next frame that is no heartbeat must be this method; returns its channel and arguments."""
        kind = HEARTBEAT
        while kind == HEARTBEAT:
            kind, channel, payload = self.frame()
        assert kind == METHOD, (kind, channel, payload)
        got = struct.unpack(">HH", payload[:4])
        assert got == (class_id, method_id), (got, payload[4:])
        return channel, payload[4:]

    def delivery(self):
        """The next frames must be a delivery; its channel, tag and body."""
        channel, a = self.method(60, 60)
        kind, _, header = self.frame()
        assert kind == HEADER_FRAME
        left, body = struct.unpack(">Q", header[4:12])[0], b""
        while len(body) < left:
            kind, _, part = self.frame()
            assert kind == BODY
            body += part
        at = 1 + a[0]
        return channel, struct.unpack(">Q", a[at:at + 8])[0], body

    def closed_with(self, code, class_id=None, method_id=None, text=None):
        """The server must close the connection, and tell why."""
        _, a = self.method(10, 50)
        got = struct.unpack(">H", a[:2])[0]
        said = a[3:3 + a[2]].decode()
        ids = struct.unpack(">HH", a[3 + a[2]:])
        assert got == code, (got, said, ids)
        if class_id is not None:
            assert ids == (class_id, method_id), (ids, said)
        if text is not None:
            assert text in said, said
        self.send(CLOSE_OK)
        self.is_gone()
        return said

    def channel_closed_with(self, code, channel=1):
        number, a = self.method(20, 40)
        assert number == channel and struct.unpack(">H", a[:2])[0] == code, (number, a)
        return a[3:3 + a[2]].decode()

    def is_gone(self):
        """Nothing more comes, and the connection ends."""
        try:
            data = self.bytes(1)
        except Closed as e:
            assert e.args[0] == b"", e.args
            self.s.close()
            return
        raise AssertionError(f"more came: {data + self.pending!r}")

    def login(self, **options):
        tune = {k: options.pop(k) for k in ("channel_max", "frame_max", "heartbeat") if k in options}
        vhost = options.pop("vhost", "/")
        self.send(HEADER)
        self.method(10, 10)
        self.send(start_ok(**options))
        self.method(10, 30)
        self.send(tune_ok(**tune), open_vhost(vhost))
        self.method(10, 41)
        return self

    def channel(self, number=1):
        self.send(channel_open(number))
        assert self.method(20, 11) == (number, b"\0\0\0\0")
        return self

    def is_alive(self):
        """It still answers: a channel can be opened and closed."""
        self.channel(2000)
        self.send(method(2000, 20, 40, b"\0\xc8" + short("") + b"\0\0\0\0"))
        self.method(20, 41)
        return self
