"""Compresses the source lines of messages for storage. Pure."""

import zlib

MAX_RAW_BYTES = 256 * 1024**2  # of one message's source lines, unpacked


def pack_lines(lines: bytes) -> bytes:
    """Return source lines in their stored form."""
    return zlib.compress(lines, 3) if lines else b""


def unpack_lines(data: bytes) -> bytes | None:
    """Return source lines from their stored form; `data` itself if it is not compressed, None if they are too long."""
    unpacker = zlib.decompressobj()
    try:
        lines = unpacker.decompress(data, MAX_RAW_BYTES)
    except zlib.error:
        return data
    return None if unpacker.unconsumed_tail else lines
