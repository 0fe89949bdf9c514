"""Opens a transcript for reading: as it is, or decompressed where it is a zstd frame.

Decompression is a stream with a bounded window and a bounded length. Reading on after a frame that is cut off says
so with an OSError, like any other file that cannot be read.
"""

import io
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

ZSTD_START = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 128 * 1024**2
MAX_DECOMPRESSED_BYTES = 4 * 1024**3
_BUFFER_BYTES = 256 * 1024


def open_transcript(path: Path) -> BinaryIO:
    """The file's bytes, decompressed where it is compressed. Raises: OSError."""
    file = path.open("rb")
    if file.read(len(ZSTD_START)) != ZSTD_START:
        file.seek(0)
        return file
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_ZstdReader(file), _BUFFER_BYTES))


class _ZstdReader(io.RawIOBase):
    """A zstd file of one or more frames as a stream of at most `MAX_DECOMPRESSED_BYTES`."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        window = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._stream = window.stream_reader(file, read_across_frames=True)
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        try:
            count = self._stream.readinto(view)
        except zstandard.ZstdError as error:
            raise OSError(0, f"it is a damaged or unfinished zstd file ({error}): compress it again") from error
        self._read += count
        if self._read > MAX_DECOMPRESSED_BYTES:
            raise OSError(0, f"it decompresses to more than {MAX_DECOMPRESSED_BYTES // 1024**3} GB: divide it")
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
