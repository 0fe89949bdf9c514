"""HTTP by hand, for requests that no client library would send: lying lengths, half heads, bytes one at a time."""

import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class RawAnswer:
    """The answer until the server closed the connection; status 0 if there was none."""

    status: int
    headers: Mapping[str, str]
    body: str
    sent: int


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname or "", parts.port or 80), timeout=TIMEOUT_S)


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def talk(address: str, first: bytes, pieces: Iterable[bytes] = (), *, pause_s: float = 0.0) -> RawAnswer:
    """Sends a head, then pieces until the server answers or they end, then reads to the end of the connection."""
    with connect(address) as connection:
        connection.sendall(first)
        sent = 0
        with suppress(ConnectionError):
            for piece in pieces:
                if _has_answered(connection, pause_s):
                    break
                connection.sendall(piece)
                sent += len(piece)
        return _read(connection, sent)


def chunked(size: int, count: int) -> Iterable[bytes]:
    """`count` chunks of `size` bytes and the end, as Transfer-Encoding has them."""
    for _ in range(count):
        yield b"%x\r\n" % size + bytes(size) + b"\r\n"
    yield b"0\r\n\r\n"


def _has_answered(connection: socket.socket, within_s: float) -> bool:
    connection.settimeout(max(within_s, 0.000_001))
    try:
        return bool(connection.recv(1, socket.MSG_PEEK)) or True
    except TimeoutError:
        return False
    finally:
        connection.settimeout(TIMEOUT_S)


def _read(connection: socket.socket, sent: int) -> RawAnswer:
    received = b""
    deadline = time.monotonic() + TIMEOUT_S
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            received += piece
            assert time.monotonic() < deadline, "the server does not close the connection"
    lines, _, body = received.partition(b"\r\n\r\n")
    first, *rest = lines.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in rest)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return RawAnswer(int(first.split()[1]) if first else 0, headers, body.decode(), sent)
