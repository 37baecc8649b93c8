"""A bare socket that speaks exactly the bytes it is told to, and reads HTTP replies strictly."""
import re
import socket

from lib.client import Reply, strict_json

STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\Z")
HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~]*?)[ \t]*\Z")


class Headers(dict):
    """Header names without regard to case; a name given twice is an error."""

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Raw:
    def __init__(self, server, timeout=10, tls=None):
        self.s = server.connect(timeout)
        if tls is not None:
            self.s = tls.wrap_socket(self.s)
        self.pending = b""

    def send(self, data):
        self.s.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def half_close(self):
        self.s.shutdown(socket.SHUT_WR)
        return self

    def _more(self):
        chunk = self.s.recv(65536)
        self.pending += chunk
        return bool(chunk)

    def _line(self):
        while b"\r\n" not in self.pending:
            assert self._more(), f"connection closed in the middle of a reply: {self.pending!r}"
        line, self.pending = self.pending.split(b"\r\n", 1)
        assert b"\n" not in line and b"\r" not in line, line
        return line

    def reply(self, head=False):
        """The next reply, whole. Interim 1xx replies are returned too, with an empty body."""
        status = STATUS_LINE.match(line := self._line())
        assert status, line
        status = int(status.group(1))
        headers = Headers()
        while line := self._line():
            h = HEADER_LINE.match(line)
            assert h, line
            name = h.group(1).decode().lower()
            assert name not in headers, f"{name} twice"
            headers[name] = h.group(2).decode()
        if status < 200 or status in (204, 304) or head:
            return Reply(status, headers, b"")
        if headers.get("Transfer-Encoding") == "chunked":
            assert headers.get("Content-Length") is None
            body = b""
            while size := int(self._line(), 16):
                body += self._bytes(size)
                assert self._line() == b""
            assert self._line() == b""
        else:
            body = self._bytes(int(headers.get("Content-Length")))
        if headers.get("Content-Type", "").endswith("json"):
            strict_json(body)
        return Reply(status, headers, body)

    def _bytes(self, n):
        while len(self.pending) < n:
            assert self._more(), f"connection closed {n - len(self.pending)} bytes before the end of a body"
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def closed(self):
        """Waits until the server closes; True when nothing more came before that."""
        while True:
            try:
                if not self._more():
                    break
            except ConnectionResetError:
                break
        return self.pending == b""

    def rest(self):
        """Everything up to the end of the connection."""
        self.closed()
        data, self.pending = self.pending, b""
        return data

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request(method, path, body=None, *headers):
    """The bytes of one well-formed request; with body None it has no Content-Length."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
