"""AMQP 0-9-1 without a client that is careful: frames are sent as they are, and read one by one."""
import socket
import struct

from pika import frame, spec

HEADER = b"AMQP\0\0\x09\x01"


class Wire:
    """A socket to the broker; with login=True logged in, with channel 1 open."""

    def __init__(self, broker, login=True, **tune):
        self.socket = socket.create_connection(("127.0.0.1", broker.amqp_port), 6)
        self.buffer = b""
        if login:
            self.start_ok()
            self.tune(**tune)
            self.send(spec.Channel.Open())
            self.expect(spec.Channel.OpenOk)

    def close(self):
        self.socket.close()

    # -- sending ---------------------------------------------------------------------------------------------------------

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, *methods, channel=1):
        self.socket.sendall(b"".join(frame.Method(channel, m).marshal() for m in methods))

    def send_frame(self, kind, channel, payload, end=b"\xce"):
        self.socket.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + end)

    def publish(self, key, body, exchange="", properties=None, channel=1):
        self.send(spec.Basic.Publish(exchange=exchange, routing_key=key), channel=channel)
        self.socket.sendall(frame.Header(channel, len(body), properties or spec.BasicProperties()).marshal())
        if body:
            self.socket.sendall(frame.Body(channel, body).marshal())

    # -- reading ---------------------------------------------------------------------------------------------------------

    def fill(self):
        """Reads what there is; False when the broker has closed the socket."""
        try:
            chunk = self.socket.recv(65536)
        except ConnectionResetError:
            chunk = b""
        self.buffer += chunk
        return bool(chunk)

    def read(self):
        """The next frame, or None when the broker has closed the socket. Heartbeats are left out."""
        while True:
            size, found = frame.decode_frame(self.buffer)
            if found is not None:
                self.buffer = self.buffer[size:]
                if not isinstance(found, frame.Heartbeat):
                    return found
            elif not self.fill():
                return None

    def expect(self, kind):
        """The next frame must carry this method; returns the method."""
        found = self.read()
        assert found is not None, f"closed instead of {kind.NAME}"
        assert isinstance(getattr(found, "method", None), kind), f"{found} instead of {kind.NAME}"
        return found.method

    def closes_with(self, code):
        """The broker closes the connection with this code, and the socket after our answer."""
        found = self.expect(spec.Connection.Close)
        assert found.reply_code == code, found
        self.send(spec.Connection.CloseOk(), channel=0)
        assert self.read() is None
        return found

    # -- the handshake -----------------------------------------------------------------------------------------------------

    def start(self):
        self.send_bytes(HEADER)
        return self.expect(spec.Connection.Start)

    def start_ok(self, mechanism="PLAIN", response="\0guest\0guest", locale="en_US", capabilities=None):
        start = self.start()
        self.send(spec.Connection.StartOk(client_properties={"product": "tests", "capabilities": capabilities or {}},
                                          mechanism=mechanism, response=response, locale=locale), channel=0)
        return start

    def tune(self, vhost="/", **values):
        offered = self.expect(spec.Connection.Tune)
        values = {"channel_max": offered.channel_max, "frame_max": offered.frame_max, "heartbeat": 0, **values}
        self.send(spec.Connection.TuneOk(**values), spec.Connection.Open(virtual_host=vhost), channel=0)
        self.expect(spec.Connection.OpenOk)
        return offered


# -- field tables with their letters ------------------------------------------------------------------------------------------

FIXED = {"t": "B", "b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "L": "q", "T": "Q", "f": "f", "d": "d"}


def encode_value(letter, value):
    if letter in FIXED:
        return letter.encode() + struct.pack(">" + FIXED[letter], value)
    if letter in "Sx":
        return letter.encode() + struct.pack(">I", len(value)) + value
    if letter == "D":
        return b"D" + struct.pack(">BI", *value)
    if letter == "V":
        return b"V"
    content = encode_fields(value) if letter == "F" else b"".join(encode_value(*v) for v in value)
    return letter.encode() + struct.pack(">I", len(content)) + content


def encode_fields(fields):
    """Fields are (name, letter, value); without the length in front."""
    return b"".join(bytes([len(n)]) + n.encode() + encode_value(letter, v) for n, letter, v in fields)


def decode_value(data, at):
    letter, at = chr(data[at]), at + 1
    if letter in FIXED:
        size = struct.calcsize(">" + FIXED[letter])
        return letter, struct.unpack_from(">" + FIXED[letter], data, at)[0], at + size
    if letter == "D":
        return letter, struct.unpack_from(">BI", data, at), at + 5
    if letter == "V":
        return letter, None, at
    size, = struct.unpack_from(">I", data, at)
    at += 4
    content, end = data[at : at + size], at + size
    if letter in "Sx":
        return letter, content, end
    if letter == "F":
        return letter, decode_fields(content), end
    assert letter == "A", f"unknown letter {letter!r}"
    values, place = [], 0
    while place < len(content):
        letter, value, place = decode_value(content, place)
        values.append((letter, value))
    return "A", values, end


def decode_fields(data):
    fields, at = [], 0
    while at < len(data):
        name, at = data[at + 1 : at + 1 + data[at]].decode(), at + 1 + data[at]
        letter, value, at = decode_value(data, at)
        fields.append((name, letter, value))
    return fields


def publish_fields(wire, queue, fields, body=b"x"):
    """Publishes a persistent message whose headers are these fields."""
    table = encode_fields(fields)
    wire.send(spec.Basic.Publish(exchange="", routing_key=queue))
    flags = 1 << 13 | 1 << 12  # headers, delivery-mode
    wire.send_frame(2, 1, struct.pack(">HHQHI", 60, 0, len(body), flags, len(table)) + table + b"\2")
    wire.send_frame(3, 1, body)


def get_fields(wire, queue):
    """Takes the next message of the queue; its headers as fields."""
    wire.send(spec.Basic.Get(queue=queue, no_ack=True))
    while True:  # the frames' bounds, without pika's decoder
        if len(wire.buffer) >= 7:
            kind, _, size = struct.unpack_from(">BHI", wire.buffer)
            if len(wire.buffer) >= size + 8:
                payload, wire.buffer = wire.buffer[7 : 7 + size], wire.buffer[size + 8 :]
                if kind == 1:
                    assert payload[:4] == struct.pack(">HH", 60, 71), f"not get-ok: {payload!r}"
                elif kind == 2:
                    flags, = struct.unpack_from(">H", payload, 12)
                    assert flags >> 13 == 1, "the first property is headers"
                    length, = struct.unpack_from(">I", payload, 14)
                    fields = decode_fields(payload[18 : 18 + length])
                elif kind == 3:
                    return fields
                continue
        assert wire.fill(), "closed"
