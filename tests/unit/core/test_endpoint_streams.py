"""Lines and events of a stream: whatever the pieces, in bounds, in linear time."""

import pytest

from convmemory.core.endpoints.streams import EventReader, LineReader
from convmemory.core.errors import ResponseRefused

STREAM = b": hello\r\ndata: one\r\n\r\nevent: x\ndata: two\ndata:three\n\n\n\ndata: four"


def events_of(stream: bytes, size: int) -> list[bytes]:
    reader = EventReader()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [event for piece in pieces for event in reader.feed(piece)] + list(reader.finish())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_are_same_in_pieces_of_any_size(size: int) -> None:
    assert events_of(STREAM, size) == [b"one", b"two\nthree", b"four"]


def test_line_without_end_is_refused_at_its_limit() -> None:
    reader = LineReader(max_bytes=1_000)
    assert list(reader.feed(b"x" * 1_000)) == []
    with pytest.raises(ResponseRefused, match="line"):
        list(reader.feed(b"x"))


def test_event_of_many_lines_is_refused_at_its_limit() -> None:
    reader = EventReader(max_event_bytes=100_000)
    with pytest.raises(ResponseRefused, match="event"):
        list(reader.feed(b"data:\n" * 10_000))


def test_stream_is_refused_at_its_limit_though_its_events_are_small() -> None:
    reader = EventReader(max_bytes=10_000)
    list(reader.feed(b": still here\n\n" * 700))
    with pytest.raises(ResponseRefused, match="after"):
        list(reader.feed(b": still here\n\n" * 700))


def test_long_line_in_small_pieces_is_read_in_linear_time() -> None:
    reader = LineReader(max_bytes=4_000_000)
    pieces = [b"x" * 20] * 200_000  # copying what came before with each would move 400 GB
    assert [line for piece in pieces for line in reader.feed(piece)] == []
    assert len(reader.rest()) == 4_000_000
