"""Limits on an endpoint's reply, as read and as stored, and stream readers that enforce them.

They split a body into lines and server-sent events, each of which is bounded, in linear time. Pure.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from collections.abc import Iterator

from convmemory.core.errors import ResponseRefused

MAX_EVENT_BYTES = 8 * 1024**2  # some models send a picture in one event
MAX_STREAM_BYTES = 256 * 1024**2  # a reply of a million characters, one in each event, with room to spare
MAX_REPLY_CHARS = 1_000_000
NAME_CHARS = 200
REPLY_CUT = "The reply was cut after {limit:,} characters, which is as much as one reply may have."
UNREADABLE = "The reply contained unreadable events, which were skipped: {count:,}."
MB = 1024**2
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_COST = 64  # bytes of a list entry and its object: bounds events of many empty lines


class LineReader:
    """Returns the complete lines of the pieces fed so far, without their ends; a line has at most `max_bytes` bytes."""

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._begun = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that `piece` completes. Raises: ResponseRefused at a line that is too long."""
        *complete, rest = piece.split(b"\n")
        for line in complete:
            self._add(line)
            yield self._take()
        self._add(rest)

    def rest(self) -> bytes:
        """Return the last line, which has no end."""
        return self._take()

    def _add(self, part: bytes) -> None:
        if len(self._begun) + len(part) > self._max_bytes:
            self._begun.clear()
            raise ResponseRefused(f"The reply was cut at a line of more than {self._max_bytes // MB} MB.")
        self._begun += part

    def _take(self) -> bytes:
        line = bytes(self._begun).removesuffix(b"\r")
        self._begun.clear()
        return line


class EventReader:
    """Returns the data of the complete events in the pieces fed so far. Each event and the whole stream are bounded.

    Some servers send a byte order mark, events without data, keepalives as data, or one JSON body in place of a stream,
    which counts as one event.
    """

    def __init__(self, *, max_bytes: int = MAX_STREAM_BYTES, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._lines = LineReader(max_bytes=max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._max_bytes = max_bytes
        self._received = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._has_begun = False
        self._is_one_body = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the events that `piece` completes. Raises: ResponseRefused at an event or a stream that is too long."""
        self._received += len(piece)
        if self._received > self._max_bytes:
            raise ResponseRefused(f"The reply was cut after {self._max_bytes // MB} MB.")
        for line in self._lines.feed(piece):
            yield from self._add(line)

    def finish(self) -> Iterator[bytes]:
        """Yield the last event, if the stream ended without a blank line."""
        yield from self._add(self._lines.rest())
        yield from self._take()

    def _take(self) -> Iterator[bytes]:
        data = b"\n".join(self._data)
        self._data, self._data_bytes = [], 0
        if data.strip() and not data.startswith(b":"):
            yield data

    def _add(self, line: bytes) -> Iterator[bytes]:
        if line and not self._has_begun:
            self._has_begun = True
            line = line.removeprefix(BYTE_ORDER_MARK)
            self._is_one_body = line.lstrip().startswith(b"{")
        if self._is_one_body:
            line = b"data:" + line
        if not line:
            yield from self._take()
            return
        name, _, value = line.partition(b":")
        if name != b"data":
            return
        self._data.append(value.removeprefix(b" "))
        self._data_bytes += len(value) + LINE_COST
        if self._data_bytes > self._max_event_bytes:
            raise ResponseRefused(f"The reply was cut at an event of more than {self._max_event_bytes // MB} MB.")
