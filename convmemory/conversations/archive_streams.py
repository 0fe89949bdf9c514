"""Reads the bytes of tar archives, compressed or not, with limits on the work that a hostile archive can cause."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from typing import IO, Any, cast

from convmemory.core.errors import TooLarge

# tarfile reads an extended header of any declared size in one call.
MAX_READ_BYTES = 16 * 1024**2
GZIP_START = b"\x1f\x8b"
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    gzip.BadGzipFile,
    UnicodeDecodeError,
)


def is_tar(file: IO[bytes]) -> bool:
    """Return whether it is a tar archive, compressed or not."""
    try:
        with tar_bytes(file) as stream:
            start = stream.read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except (*DAMAGED, OSError, ValueError):
        return False
    finally:
        file.seek(0)
    return True


def tar_bytes(file: IO[bytes]) -> IO[bytes]:
    """Return the archive's bytes, decompressed during reading."""
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    if start.startswith(GZIP_START):
        return cast("IO[bytes]", gzip.open(file))
    if start.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(file))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.open(file))
    return cast("IO[bytes]", _Unclosed(file))


class _Unclosed:
    """A stream that stays open when its reader closes it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def __enter__(self) -> "_Unclosed":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class GuardedStream(_Unclosed):
    """Refuses giant headers, and skipping over endless entries, which only a hostile archive contains."""

    def __init__(self, stream: IO[bytes], max_bytes: int) -> None:
        super().__init__(stream)
        self._max_bytes = max_bytes

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ_BYTES:
            raise tarfile.ReadError("a header of the archive is too large")
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and position > self._max_bytes:
            raise TooLarge(f"The archive expands to more than {self._max_bytes // 1024**2} MB: upload it in parts.")
        return self._stream.seek(position, whence)
