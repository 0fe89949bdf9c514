"""The files of documents and kept uploads in a backup: each is named by its digest, which verifies it.

A backup can come from any source: other names are refused, and no name becomes part of a path.
"""

import hashlib
import logging
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.core.files import File

from convmemory.conversations.import_storage import kept_place
from convmemory.core.errors import InvalidInput
from convmemory.core.private_files import has_digest
from convmemory.documents.storage import document_storage, place_of

FOLDER = "files/"
STATEMENTS = {"documents_document": "stored_files", "conversations_keptupload": "stored_uploads"}
"""The statement, by table, that returns the paths of its rows' files."""
CHUNK_BYTES = 1024 * 1024
# The largest id of a row has as many digits.
MAX_OWNER_DIGITS = 19

logger = logging.getLogger(__name__)


def add_files(archive: zipfile.ZipFile, places: Iterable[str]) -> int:
    """Add the stored files to the archive; return their number.

    Files deleted meanwhile are left out, and so are damaged ones, with which the backup could not be restored.
    """
    storage, count = document_storage(), 0
    for place in places:
        path = Path(storage.path(place))
        if not _is_whole(place):
            if path.exists():
                logger.warning("%s is damaged and not in the backup: its owner has to upload it again", place)
            continue
        with path.open("rb") as source, archive.open(FOLDER + place, "w", force_zip64=True) as target:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
        count += 1
    return count


def verify_files(archive: zipfile.ZipFile) -> None:
    """Verify the files. Raises: InvalidInput if a file has another name, or does not match the digest in it."""
    for place, entry in _files_of(archive):
        digest = hashlib.sha256()
        with archive.open(entry) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        if digest.hexdigest() != place.rpartition("/")[2]:
            raise InvalidInput(f"The backup is damaged: {FOLDER}{place} is not whole. Nothing was changed.")


def restore_files(archive: zipfile.ZipFile) -> list[str]:
    """Store the archive's files next to the existing ones, all or none; return the paths of the new ones.

    Raises: OSError.
    """
    storage, new = document_storage(), list[str]()
    try:
        for place, entry in _files_of(archive):
            if _is_whole(place):
                continue
            new.append(place)
            with archive.open(entry) as file:
                storage.save(place, File(file))
    except BaseException:
        remove_files(new)
        raise
    return new


def remove_files(places: Iterable[str]) -> None:
    """Delete stored files."""
    for place in places:
        document_storage().delete(place)


def _is_whole(place: str) -> bool:
    return has_digest(Path(document_storage().path(place)), place.rpartition("/")[2])


def _files_of(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for entry in archive.infolist():
        if entry.filename.startswith(FOLDER):
            place = entry.filename.removeprefix(FOLDER)
            if not _is_place(place):
                raise InvalidInput(
                    f"The backup holds {entry.filename[:100]!r}, which is the file of no document or upload."
                )
            yield place, entry


def _is_place(place: str) -> bool:
    """Return whether `place_of` or `kept_place` could have produced this path."""
    owner, digest = place.split("/")[1:4:2] if place.count("/") == 3 else ("", "")
    is_owner = owner.isascii() and owner.isdecimal() and len(owner) <= MAX_OWNER_DIGITS
    is_digest = len(digest) == 64 and not set(digest) - set("0123456789abcdef")
    return (
        is_owner
        and is_digest
        and place in [makes(owner_id=int(owner), digest=digest) for makes in (place_of, kept_place)]
    )
