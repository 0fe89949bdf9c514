"""Unpacks an uploaded file or archive into a folder, together with the archives inside it. Text becomes UTF-8.

Entries cannot leave the folder; links and devices are skipped. Bytes, files and folders are counted as they are
written, over all levels together, so that a small archive cannot fill the disk.
"""

import bz2
import codecs
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from convmemory.conversations.importers.values import key_of, time_of
from convmemory.core.errors import InvalidInput, TooLarge
from convmemory.core.files.charsets import notes_on, other_charset
from convmemory.core.files.decoding import GZIP_START, DecodedBytes, DecodeLimits
from convmemory.core.processes.child_limits import DISK_FULL

CHUNK_BYTES = 1024 * 1024
MAX_NAME_CHARS = 60  # of up to four bytes: file systems allow 255 bytes
MAX_ASCII_NAME_CHARS = 200  # Codex identifies threads by long file names
MAX_DEPTH = 40
MAX_NOTES = 50  # of one archive
_ZIP_START = b"PK"
_UTF8_NAME = 0x800
# Kana, ideographs, and their punctuation: a Western name that decodes as Chinese or Japanese has other characters, too.
_EAST_ASIAN = (("\u3001", "\u3011"), ("\u3041", "\u30ff"), ("\u4e00", "\u9fff"), ("\uff01", "\uff1f"))
_ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar", ".zip", ".gz")


@dataclass(frozen=True, slots=True)
class UnpackLimits(DecodeLimits):
    """Limits on an archive's size, its number of files and its depth."""

    max_files: int = 50_000  # and as many folders
    max_depth: int = 3  # an archive in an archive has depth two


@dataclass(slots=True)
class Unpacked:
    """The folder of the unpacked files, and notes about skipped ones and about those in another encoding."""

    root: Path
    files: int = 0
    notes: list[str] = field(default_factory=list)
    recoded: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)


def size_of(file: IO[bytes]) -> int:
    """Return the size of a file in bytes, and rewind it."""
    size = file.seek(0, 2)
    file.seek(0)
    return size


def unpack_upload(
    file: IO[bytes], name: str, target_dir: Path, limits: UnpackLimits, decoded: DecodedBytes | None = None
) -> Unpacked:
    """Write the file, or the content of the zip, tar or gzip, into a folder in `target_dir` named after it.

    `decoded` counts the expanded bytes, together with other decoders.

    Raises: TooLarge with the limit, InvalidInput if an archive is damaged from the start.
    """
    safe_name = _safe_parts(name)[-1:] or ["upload"]
    size = size_of(file)
    root = target_dir / _archive_stem(safe_name[0])
    root.mkdir(parents=True)
    writer = _Writer(Unpacked(root), limits, decoded or DecodedBytes(size, limits), folder=root)
    try:
        if not _unpack(file, safe_name[0], writer):
            writer.write(safe_name[0], file, is_decoded=False)
    except DAMAGED as error:
        if not writer.unpacked.files:
            raise InvalidInput(f"{safe_name[0]} is a damaged archive: {error}. Pack it again.") from error
        writer.unpacked.note(f"the archive is damaged after file {writer.unpacked.files}, the rest is missing: {error}")
    # Unpack the archives among the files into folders next to them, level by level.
    for depth in range(2, writer.limits.max_depth + 2):
        inner, writer.inner = writer.inner, []
        for path in inner:
            label = path.relative_to(writer.unpacked.root).as_posix()
            if depth > writer.limits.max_depth:
                writer.unpacked.note(f"{label!r} was passed over: it lies {depth} archives deep. Unpack it first.")
            elif not _unpack_one(path, label, writer):
                continue
            path.unlink()
            writer.unpacked.files -= 1
    if not writer.unpacked.files:
        raise InvalidInput(
            "; ".join([f"{safe_name[0]} holds no file that can be imported", *writer.unpacked.notes[:3]])
        )
    return writer.unpacked


def _unpack(file: IO[bytes], name: str, writer: "_Writer") -> bool:
    """Write the content of the archive; False, with the file rewound to its start, if it is no archive."""
    if file.read(2) == _ZIP_START and zipfile.is_zipfile(file):
        _unzip(file, writer)
    elif is_tar(file):
        with (
            tar_bytes(file) as packed,
            tarfile.open(fileobj=GuardedStream(packed, writer.limits.max_bytes), mode="r:") as archive,
        ):
            for entry in archive:
                if entry.isdir():
                    continue
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is None:
                    writer.unpacked.note(f"{entry.name[:200]!r} was passed over: not a regular file")
                    continue
                with content:
                    writer.write(entry.name, content, time_of(entry.mtime))
    elif file.read(2) == GZIP_START:
        file.seek(0)
        with gzip.open(file) as stream:
            writer.write(name.removesuffix(".gz"), cast("IO[bytes]", stream))
    else:
        file.seek(0)
        return False
    return True


def _unpack_one(path: Path, label: str, writer: "_Writer") -> bool:
    folder = path.with_name(_archive_stem(path.name))
    writer.folder = folder if not folder.exists() else path.with_name(f"{path.name}.unpacked")
    try:
        with path.open("rb") as file:
            return _unpack(file, path.name, writer)
    except DAMAGED as error:
        writer.unpacked.note(f"{label!r} is a damaged archive, what is missing was passed over: {error}")
        return True


@dataclass(slots=True)
class _Writer:
    """Writes entries under `folder` and counts them; `inner` are the archives among them."""

    unpacked: Unpacked
    limits: UnpackLimits
    decoded: DecodedBytes
    folder: Path
    entries: int = 0
    folders: set[tuple[str, ...]] = field(default_factory=set)
    inner: list[Path] = field(default_factory=list)

    def write(
        self, name: str, stream: IO[bytes], written_at: datetime | None = None, *, is_decoded: bool = True
    ) -> None:
        """Write one entry; an entry with an unsafe path is noted and skipped. Raises: TooLarge."""
        parts = _safe_parts(name)
        if not parts or ".." in PurePosixPath(name.replace("\\", "/")).parts:
            self.unpacked.note(f"{name[:200]!r} was passed over: its name leads out of the archive")
            return
        path = self.folder.joinpath(*parts)
        self.entries += 1
        above = path.parent.relative_to(self.unpacked.root).parts
        while above and above not in self.folders:
            self.folders.add(above)
            above = above[:-1]
        if max(self.entries, len(self.folders)) > self.limits.max_files:
            raise TooLarge(f"The archive holds more than {self.limits.max_files} files or folders: upload it in parts.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # x: a second entry of the same name is noted, and overwrites nothing.
            with path.open("xb") as target:
                self._copy(stream, target, path, is_decoded=is_decoded)
            # The beginning of time counts as unknown: the time of unpacking says nothing about the conversations.
            modified = written_at.timestamp() if written_at else 0
            os.utime(path, (modified, modified))
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            if error.errno in DISK_FULL:
                raise  # not this entry's fault, and the rest of the archive would fail too
            self.unpacked.note(f"{name[:200]!r} was passed over: {error.strerror or error}")
            return
        self.unpacked.files += 1
        if _is_archive(path):
            self.inner.append(path)

    def _copy(self, stream: IO[bytes], target: IO[bytes], path: Path, *, is_decoded: bool) -> None:
        decoder: codecs.IncrementalDecoder | None = None
        is_first = True
        try:
            while chunk := stream.read(CHUNK_BYTES):
                # An entry's declared size can be false, so the bytes that were written count.
                if is_decoded:
                    self.decoded.add(len(chunk))
                if is_first and (charset := other_charset(path.name, chunk)):
                    decoder = codecs.getincrementaldecoder(charset.name)("replace")
                    for note in notes_on(charset):
                        self.unpacked.recoded.append(f"{path.relative_to(self.unpacked.root).as_posix()}: {note}")
                is_first = False
                target.write(decoder.decode(chunk).encode() if decoder else chunk)
            if decoder:
                target.write(decoder.decode(b"", final=True).encode())
        except BaseException:
            path.unlink()  # a partial entry must not be imported
            raise


def _unzip(file: IO[bytes], writer: _Writer) -> None:
    with zipfile.ZipFile(file) as archive:
        # At most `max_files` of each, files and folders: more can be refused before anything is written.
        if len(archive.infolist()) > 2 * writer.limits.max_files:
            raise TooLarge(
                f"The archive holds more than {writer.limits.max_files} files or folders: upload it in parts."
            )
        for entry in archive.infolist():
            kind = entry.external_attr >> 28  # the file type of Unix archives; 0 if there is none
            if entry.is_dir():
                continue
            if kind not in (0, 0o10):
                writer.unpacked.note(f"{entry.filename[:200]!r} was passed over: not a regular file")
                continue
            try:
                with archive.open(entry) as stream:
                    writer.write(_name_in_zip(entry), stream, _time_of_zip(entry))
            except (RuntimeError, NotImplementedError, *DAMAGED) as error:  # encrypted, unknown method, damaged
                writer.unpacked.note(f"{entry.filename[:200]!r} was passed over: {error}")


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """Return the entry's name; one that is not marked as UTF-8 is in the encoding of the machine that packed it."""
    name = entry.filename
    if name.isascii() or entry.flag_bits & _UTF8_NAME:
        return name
    try:
        packed = name.encode("cp437")
    except UnicodeEncodeError:
        return name
    for encoding in ("utf-8", "gb2312", "shift_jis"):
        with suppress(UnicodeDecodeError):
            decoded = packed.decode(encoding)
            if encoding == "utf-8" or all(
                any(first <= char <= last for first, last in _EAST_ASIAN)
                for char in filter(lambda char: not char.isascii(), decoded)
            ):
                return decoded
    return name


def _time_of_zip(entry: zipfile.ZipInfo) -> datetime | None:
    """Return the time at which the entry was last written, in an unknown time zone; None if it is not a date."""
    try:
        return time_of(datetime(*entry.date_time, tzinfo=UTC))
    except ValueError:
        return None


def _is_archive(path: Path) -> bool:
    """Return whether an unpacked file is an archive to unpack, by its name or because an importer would
    read it as one.
    """
    if path.name.lower().endswith(_ENDINGS):
        return True
    with path.open("rb") as file:
        return file.read(2) == _ZIP_START and zipfile.is_zipfile(file)


def _safe_parts(name: str) -> list[str]:
    """Return the path of an entry as names that any file system accepts; empty for a path that is too deep."""
    parts = []
    for written in name.replace("\\", "/").split("/"):
        part = "".join(char for char in written if char.isprintable()).strip()
        stem, dot, suffix = part.rpartition(".")
        limit = MAX_ASCII_NAME_CHARS if part.isascii() else MAX_NAME_CHARS
        if len(part) <= limit or not stem:
            part = key_of(part, max_chars=limit)
        else:
            part = key_of(stem, max_chars=limit) + dot + suffix[:20]
        if part not in ("", ".", ".."):
            parts.append(part)
    return parts if len(parts) <= MAX_DEPTH else []


def _archive_stem(name: str) -> str:
    """Return the archive's name without its suffixes."""
    lowered = name.lower()
    ending = next((ending for ending in _ENDINGS if lowered.endswith(ending)), PurePosixPath(name).suffix)
    return name[: len(name) - len(ending)] or "upload"


# tarfile reads an extended header of any declared size in one call.
MAX_READ_BYTES = 16 * 1024**2
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
