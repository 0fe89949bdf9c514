"""Keeps numbered backups in a folder, or in a bucket of an S3 service below a prefix.

In both a backup appears when it is complete. boto3 is optional (requirements-extras.txt) and takes keys, region and
endpoint from its own variables.
"""

import io
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from django.utils import timezone

from convmemory.core.errors import InvalidInput
from convmemory.core.files.private_files import DRAFT_SUFFIX
from convmemory.ops.privacy.backup import CHUNK_BYTES, BackupFailed, new_archive

S3 = "s3://"
PREFIX, SUFFIX = "convmemory-", ".zip"
PATTERN = f"{PREFIX}*{SUFFIX}"
ABANDONED = timedelta(days=1)
"""A draft that was not written to for so long is not that of a backup under way."""
PART_BYTES = 64 * 1024**2
"""A service takes 10,000 parts: 625 GiB. One part is kept in memory."""
READ_BYTES = 8 * 1024**2
"""Bytes of one request while a backup is read."""


class BackupPlace(Protocol):
    """A place with backups, by name. Methods raise InvalidInput or BackupFailed."""

    def backups(self) -> dict[str, float]:
        """Return when each backup was written, in seconds since the epoch, by its name."""
        ...

    def new_archive(self, name: str) -> AbstractContextManager[zipfile.ZipFile]:
        """Yield an archive to fill in the block; the backup appears afterwards, unless the block fails."""
        ...

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a backup for reading and seeking."""
        ...

    def remove(self, name: str) -> None: ...

    def drop_drafts(self) -> None:
        """Delete what killed runs left, a day after."""
        ...


def place_named(text: str) -> BackupPlace:
    """Return the place that a setting or an option names. Raises: InvalidInput."""
    return Bucket(text) if text.startswith(S3) else Folder(Path(text))


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def backups(self) -> dict[str, float]:
        return {path.name: path.stat().st_mtime for path in self.path.glob(PATTERN)}

    def new_archive(self, name: str) -> AbstractContextManager[zipfile.ZipFile]:
        return new_archive(self.path / name)

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return (self.path / name).open("rb")

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def drop_drafts(self) -> None:
        for draft in self.path.glob(f"{PREFIX}*{DRAFT_SUFFIX}"):
            if time.time() - draft.stat().st_mtime > ABANDONED.total_seconds():
                draft.unlink()


class Bucket:
    """A bucket, with the names below a prefix. Parts of a backup that is not complete are no object of the bucket."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.bucket, self.folder = parts.netloc, parts.path.strip("/")
        if not self.bucket:
            raise InvalidInput(f"{address} names no bucket: use {S3}BUCKET/PREFIX.")

    def __str__(self) -> str:
        return f"{S3}{self.bucket}/{self.folder}".rstrip("/")

    def backups(self) -> dict[str, float]:
        with self._said():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self._key(PREFIX))
            keys = {one["Key"]: one["LastModified"].timestamp() for page in pages for one in page.get("Contents", ())}
        names = {key.rpartition("/")[2]: at for key, at in keys.items()}
        return {name: at for name, at in names.items() if self._key(name) in keys and name.endswith(SUFFIX)}

    @contextmanager
    def new_archive(self, name: str) -> Iterator[zipfile.ZipFile]:
        upload: dict[str, Any] = {"Bucket": self.bucket, "Key": self._key(name)}
        with self._said():
            upload["UploadId"] = self._client.create_multipart_upload(**upload)["UploadId"]
            try:
                output = _Upload(self._client, upload)
                with zipfile.ZipFile(output, "w") as archive:
                    yield archive
                output.complete()
            except BaseException:
                self._client.abort_multipart_upload(**upload)
                raise

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        with self._said(), io.BufferedReader(_Download(self._client, self.bucket, self._key(name)), READ_BYTES) as file:
            yield file

    def remove(self, name: str) -> None:
        with self._said():
            self._client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def drop_drafts(self) -> None:
        with self._said():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=self._key(PREFIX)
            )
            for draft in [draft for page in pages for draft in page.get("Uploads", ())]:
                if timezone.now() - draft["Initiated"] > ABANDONED:
                    self._client.abort_multipart_upload(
                        Bucket=self.bucket, Key=draft["Key"], UploadId=draft["UploadId"]
                    )

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}".lstrip("/")

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Say what the service refused. Raises: BackupFailed."""
        client = self._client  # imports botocore
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise BackupFailed(f"{client.meta.endpoint_url}, {self}: {error}") from error

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
        except ImportError as error:
            raise InvalidInput(f"{self} needs the package boto3: run `make extras`.") from error
        # Checksums of parts are new and not known to all services; a backup is read again completely anyway.
        config = Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"total_max_attempts": 3},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.client("s3", config=config)


@contextmanager
def local_copy(address: str, folder: Path) -> Iterator[Path]:
    """Yield the path of a backup: the given one, or a copy in `folder` of one in a bucket. Raises: BackupFailed."""
    if not address.startswith(S3):
        yield Path(address)
        return
    folder_address, _, name = address.rpartition("/")
    path = folder / "backup.zip"
    with Bucket(folder_address).opened(name) as source, path.open("xb") as target:
        shutil.copyfileobj(source, target, CHUNK_BYTES)
    yield path


class _Upload(io.RawIOBase):
    """Sends what is written to it in parts, which `complete` makes an object."""

    def __init__(self, client: Any, upload: dict[str, Any]) -> None:
        super().__init__()
        self._client, self._upload = client, upload
        self._pending = bytearray()
        self._tags: list[dict[str, Any]] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pending += data
        while len(self._pending) >= PART_BYTES:
            self._send(PART_BYTES)
        return memoryview(data).nbytes

    def complete(self) -> None:
        self._send(len(self._pending))
        self._client.complete_multipart_upload(**self._upload, MultipartUpload={"Parts": self._tags})

    def _send(self, size: int) -> None:
        number, part = len(self._tags) + 1, bytes(self._pending[:size])
        answer = self._client.upload_part(**self._upload, PartNumber=number, Body=part)
        self._tags.append({"PartNumber": number, "ETag": answer["ETag"]})
        del self._pending[:size]


class _Download(io.RawIOBase):
    """Reads an object by ranges, always of the same version."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        super().__init__()
        self._client = client
        head = client.head_object(Bucket=bucket, Key=key)
        self._object = {"Bucket": bucket, "Key": key, "IfMatch": head["ETag"]}
        self._size, self._at = int(head["ContentLength"]), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        answer = self._client.get_object(**self._object, Range=f"bytes={self._at}-{end - 1}")
        data = answer["Body"].read()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
