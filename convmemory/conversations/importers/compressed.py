"""Opens a transcript for reading: unchanged, or decompressed if it is a zstd frame.

Decompression is a stream with a bounded window and a bounded length, which counts with the other decoders of the
upload. A truncated frame raises OSError at its end, like any other file that cannot be read.
"""

import io
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from convmemory.core.decoding import count_decoded_up_to

ZSTD_START = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 128 * 1024**2  # of `zstd --long`, the largest that decoders accept by default
MAX_DECOMPRESSED_BYTES = 4 * 1024**3
BUFFER_BYTES = 256 * 1024
_MOST_HEADER_BYTES = 18  # Source: RFC 8878, section 3.1.1
_SKIPPABLE_END = b"\x2a\x4d\x18"


def open_transcript(path: Path) -> BinaryIO:
    """Return the file's bytes, decompressed if necessary. Reading raises OSError, and TooLarge for an upload."""
    file = path.open("rb")
    if file.read(len(ZSTD_START)) != ZSTD_START:
        file.seek(0)
        return file
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_ZstdReader(file), BUFFER_BYTES))


class _ZstdReader(io.RawIOBase):
    """A zstd file of one or more frames as a stream of at most `MAX_DECOMPRESSED_BYTES`."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        window = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._stream = window.stream_reader(file, read_across_frames=True)
        self._read = 0
        self._is_whole = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        try:
            count = self._stream.readinto(view)
        except zstandard.ZstdError as error:
            raise OSError(0, f"it is a damaged or unfinished zstd file ({error}): compress it again") from error
        if not count and len(view) and not self._is_whole:
            self._is_whole = _ends_with_a_frame(self._file)
            if not self._is_whole:
                raise OSError(0, "it is a zstd file that is cut off: compress it again")
        self._read += count
        if self._read > MAX_DECOMPRESSED_BYTES:
            raise OSError(0, f"it decompresses to more than {MAX_DECOMPRESSED_BYTES // 1024**3} GB: divide it")
        count_decoded_up_to(self._read, of=str(self._file.name))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _ends_with_a_frame(file: BinaryIO) -> bool:
    """Return whether the file's last zstd frame is complete: the stream reader takes the end of the file for its end.

    Source: RFC 8878, section 3.1.
    """
    size, at = file.seek(0, 2), 0
    while at < size:
        file.seek(at)
        head = file.read(_MOST_HEADER_BYTES)
        if head[1:4] == _SKIPPABLE_END and head[0] & 0xF0 == 0x50:
            at += 8 + int.from_bytes(head[4:8], "little")
            continue
        try:
            checksum_bytes = 4 if zstandard.get_frame_parameters(head).has_checksum else 0
            at = _end_of_blocks(file, at + zstandard.frame_header_size(head)) + checksum_bytes
        except (zstandard.ZstdError, EOFError):
            return False
    return at == size


def _end_of_blocks(file: BinaryIO, at: int) -> int:
    """Return the end of the frame's last block. Raises: EOFError."""
    while True:
        file.seek(at)
        header = file.read(3)
        if len(header) < 3:
            raise EOFError
        value = int.from_bytes(header, "little")
        is_repeated_byte = (value >> 1) & 3 == 1
        at += 3 + (1 if is_repeated_byte else value >> 3)
        if value & 1:
            return at
