"""Source lines come back as they were stored, within bounds."""

import zlib

import pytest

from convmemory.conversations.messages.parts import MAX_RAW_BYTES, pack_lines, unpack_lines


@pytest.mark.parametrize("lines", [b"", b"{}", b"\x00\xff\n" * 1000])
def test_packed_lines_round_trip(lines: bytes) -> None:
    assert unpack_lines(pack_lines(lines)) == lines


@pytest.mark.slow
def test_lines_that_expand_without_end_are_not_unpacked() -> None:
    assert unpack_lines(zlib.compress(b"0" * (MAX_RAW_BYTES + 1))) is None


def test_lines_that_are_not_packed_come_back_as_they_are() -> None:
    assert unpack_lines(b"no such thing") == b"no such thing"
