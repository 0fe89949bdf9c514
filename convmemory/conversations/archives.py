"""Unpacks an uploaded file or archive into a folder.

Entries cannot leave the folder, links and devices are passed over, and real bytes are counted while
they are written, so that a small archive cannot fill the disk.
"""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from convmemory.conversations.importers.values import key_of
from convmemory.core.errors import InvalidInput, TooLarge

CHUNK_BYTES = 1024 * 1024
MAX_NAME_CHARS = 100
MAX_DEPTH = 40
MAX_NOTES = 50
MAX_READ_BYTES = 16 * 1024**2
_GZIP_START = b"\x1f\x8b"
_ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar", ".zip", ".gz")
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    gzip.BadGzipFile,
    UnicodeDecodeError,
)


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """How far an archive may expand."""

    max_bytes: int = 2 * 1024**3
    max_files: int = 50_000
    max_ratio: int = 200  # of written to packed bytes,
    ratio_from_bytes: int = 64 * 1024**2  # once this much has been written


@dataclass(slots=True)
class Unpacked:
    """Where the files are now, and what was passed over."""

    root: Path
    files: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)


def unpack_upload(file: IO[bytes], name: str, target_dir: Path, limits: UnpackLimits) -> Unpacked:
    """Write the file, or what the zip, tar or gzip holds, into a folder in `target_dir` named after it.

    Raises: TooLarge with the limit, InvalidInput where an archive is damaged from the start.
    """
    safe_name = _safe_parts(name)[-1:] or ["upload"]
    packed_bytes = file.seek(0, 2)
    file.seek(0)
    writer = _Writer(Unpacked(target_dir / _archive_stem(safe_name[0])), limits, packed_bytes)
    writer.unpacked.root.mkdir(parents=True)
    try:
        if file.read(2) == b"PK" and zipfile.is_zipfile(file):
            _unzip(file, writer)
        elif _is_tar(file):
            _untar(file, writer)
        else:
            _copy_single(file, safe_name[0], writer)
    except _DAMAGED as error:
        if not writer.unpacked.files:
            raise InvalidInput(f"{safe_name[0]} is a damaged archive: {error}. Pack it again.") from error
        writer.unpacked.note(f"the archive is damaged after file {writer.unpacked.files}, the rest is missing: {error}")
    if not writer.unpacked.files:
        raise InvalidInput(
            "; ".join([f"{safe_name[0]} holds no file that can be imported", *writer.unpacked.notes[:3]])
        )
    return writer.unpacked


@dataclass(slots=True)
class _Writer:
    """Writes entries under the root and keeps count."""

    unpacked: Unpacked
    limits: UnpackLimits
    packed_bytes: int
    written: int = 0

    def write(self, name: str, stream: IO[bytes]) -> None:
        """Write one entry; one that cannot be placed is noted and passed over. Raises: TooLarge."""
        parts = _safe_parts(name)
        if not parts or ".." in PurePosixPath(name.replace("\\", "/")).parts:
            self.unpacked.note(f"{name[:200]!r} was passed over: its name leads out of the archive")
            return
        self.count_entry()
        path = self.unpacked.root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as target:
                self._copy(stream, target, path)
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            self.unpacked.note(f"{name[:200]!r} was passed over: {error.strerror or error}")
            return
        self.unpacked.files += 1

    def count_entry(self) -> None:
        if self.unpacked.files >= self.limits.max_files:
            raise TooLarge(f"The archive holds more than {self.limits.max_files} files: upload it in parts.")

    def _copy(self, stream: IO[bytes], target: IO[bytes], path: Path) -> None:
        try:
            while chunk := stream.read(CHUNK_BYTES):
                self._count_bytes(len(chunk))
                target.write(chunk)
        except BaseException:
            path.unlink()  # half an entry is none
            raise

    def _count_bytes(self, size: int) -> None:
        self.written += size
        if self.written > self.limits.max_bytes:
            raise TooLarge(
                f"The upload expands to more than {self.limits.max_bytes // 1024**2} MB: upload it in parts, "
                "or use the command import_conversations on the server."
            )
        if self.written > max(self.limits.ratio_from_bytes, self.packed_bytes * self.limits.max_ratio):
            raise TooLarge(
                f"The archive expands to more than {self.limits.max_ratio} times its size: upload the files unpacked."
            )


def _unzip(file: IO[bytes], writer: _Writer) -> None:
    with zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > 2 * writer.limits.max_files:
            raise TooLarge(f"The archive holds more than {writer.limits.max_files} files: upload it in parts.")
        for entry in archive.infolist():
            kind = entry.external_attr >> 28  # the file type of Unix archives; 0 where there is none
            if entry.is_dir():
                continue
            if kind not in (0, 0o10):
                writer.unpacked.note(f"{entry.filename[:200]!r} was passed over: not a regular file")
                continue
            try:
                with archive.open(entry) as stream:
                    writer.write(entry.filename, stream)
            except (RuntimeError, NotImplementedError, *_DAMAGED) as error:  # encrypted, unknown method, damaged
                writer.unpacked.note(f"{entry.filename[:200]!r} was passed over: {error}")


def _untar(file: IO[bytes], writer: _Writer) -> None:
    with _tar_bytes(file) as stream, tarfile.open(fileobj=_Guarded(stream, writer.limits), mode="r:") as archive:
        for entry in archive:
            if entry.isdir():
                continue
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None:
                writer.unpacked.note(f"{entry.name[:200]!r} was passed over: not a regular file")
                continue
            with content:
                writer.write(entry.name, content)


def _copy_single(file: IO[bytes], name: str, writer: _Writer) -> None:
    if file.read(2) == _GZIP_START:
        file.seek(0)
        with gzip.open(file) as stream:
            writer.write(name.removesuffix(".gz"), cast("IO[bytes]", stream))
        return
    file.seek(0)
    writer.packed_bytes = writer.limits.max_bytes  # it is what it is: no ratio
    writer.write(name, file)


def _is_tar(file: IO[bytes]) -> bool:
    """Whether it is a tar archive, packed or not."""
    try:
        with _tar_bytes(file) as stream:
            start = stream.read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except (*_DAMAGED, OSError, ValueError):
        return False
    finally:
        file.seek(0)
    return True


def _tar_bytes(file: IO[bytes]) -> IO[bytes]:
    """The archive's bytes, unpacked while they are read."""
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    if start.startswith(_GZIP_START):
        return cast("IO[bytes]", gzip.open(file))
    if start.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(file))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.open(file))
    return cast("IO[bytes]", _Unclosed(file))


class _Unclosed:
    """A stream that stays open when the reader of it is done."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def __enter__(self) -> "_Unclosed":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Guarded(_Unclosed):
    """Refuses what only a hostile archive asks for: giant headers, and skipping over endless entries."""

    def __init__(self, stream: IO[bytes], limits: UnpackLimits) -> None:
        super().__init__(stream)
        self._max_bytes = limits.max_bytes

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ_BYTES:
            raise tarfile.ReadError("a header of the archive is too large")
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and position > self._max_bytes:
            raise TooLarge(f"The archive expands to more than {self._max_bytes // 1024**2} MB: upload it in parts.")
        return self._stream.seek(position, whence)


def _safe_parts(name: str) -> list[str]:
    """The path of an entry as names that any file system takes; too deep a path has none."""
    parts = [_safe_part(part) for part in name.replace("\\", "/").split("/")]
    parts = [part for part in parts if part not in ("", ".", "..")]
    return parts if len(parts) <= MAX_DEPTH else []


def _safe_part(part: str) -> str:
    part = "".join(char for char in part if char.isprintable()).strip()
    stem, dot, suffix = part.rpartition(".")
    if len(part) <= MAX_NAME_CHARS or not stem:
        return key_of(part, max_chars=MAX_NAME_CHARS)
    return key_of(stem, max_chars=MAX_NAME_CHARS) + dot + suffix[:20]


def _archive_stem(name: str) -> str:
    """The archive's name without its endings."""
    lowered = name.lower()
    ending = next((ending for ending in _ENDINGS if lowered.endswith(ending)), PurePosixPath(name).suffix)
    return name[: len(name) - len(ending)] or "upload"
