"""Limits the size of the decoded content of one upload: archives, compressed files, database rows, packed documents.

All decoders of an upload share one `DecodedBytes`, so that a format inside another cannot multiply its size. Importers
read deep inside other formats; they find the count of their upload through `decoding` and `count_decoded`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from convmemory.core.errors import TooLarge

MB = 1024**2


GZIP_START = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """Limits on the expansion of an upload.

    Real archives, transcripts and databases reach 10 to 20 times their size.
    """

    max_bytes: int = 2 * 1024**3
    max_ratio: int = 100  # of decoded bytes to bytes of the upload,
    ratio_from_bytes: int = 8 * MB  # once this much has been decoded


@dataclass(slots=True)
class DecodedBytes:
    """Counts decoded bytes against the limits for an upload of `encoded_bytes`."""

    encoded_bytes: int
    limits: DecodeLimits = field(default_factory=DecodeLimits)
    count: int = 0
    _furthest: dict[str, int] = field(default_factory=dict)

    @property
    def max_count(self) -> int:
        """The number of bytes that may be decoded."""
        by_ratio = max(self.limits.ratio_from_bytes, self.encoded_bytes * self.limits.max_ratio)
        return min(self.limits.max_bytes, by_ratio)

    def add(self, size: int) -> None:
        """Count `size` more bytes. Raises: TooLarge, which names the exceeded limit."""
        self.count += size
        if self.count > self.limits.max_bytes:
            raise TooLarge(
                f"The upload expands to more than {self.limits.max_bytes // MB} MB: upload it in parts, "
                "or use the command import_conversations on the server."
            )
        if self.count > self.max_count:
            raise TooLarge(
                f"The upload expands to more than {self.limits.max_ratio} times its size, as files made to fill disks "
                "do: upload the files unpacked, or use the command import_conversations on the server."
            )

    def add_up_to(self, position: int, *, of: str) -> None:
        """Count the bytes of the file `of` up to `position` that no earlier reading has counted. Raises: TooLarge."""
        furthest = self._furthest.get(of, 0)
        if position > furthest:
            self._furthest[of] = position
            self.add(position - furthest)


_of_upload: ContextVar[DecodedBytes | None] = ContextVar("decoded_bytes_of_upload", default=None)


@contextmanager
def decoding(decoded: DecodedBytes) -> Iterator[None]:
    """Count in the block the bytes that `count_decoded` reports.

    Files read by a command on the server have no count.
    """
    token = _of_upload.set(decoded)
    try:
        yield
    finally:
        _of_upload.reset(token)


def count_decoded(size: int) -> None:
    """Count bytes that a decoder of the current upload has produced. Raises: TooLarge."""
    if (decoded := _of_upload.get()) is not None:
        decoded.add(size)


def count_decoded_up_to(position: int, *, of: str) -> None:
    """Apply `DecodedBytes.add_up_to` to the current upload. Raises: TooLarge."""
    if (decoded := _of_upload.get()) is not None:
        decoded.add_up_to(position, of=of)
