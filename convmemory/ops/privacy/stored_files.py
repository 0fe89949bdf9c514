"""The files outside the database: deletes all files of one user, and files that no row names (orphans).

`roots()` lists the folders, each with a subfolder for every owner. A process that was killed between storing a file and
creating its row, or after deleting the row, leaves an orphan. The sweep deletes orphans that are older than
`ORPHANED_AFTER` and younger than the database: older ones may belong to a database that is about to be restored.
"""

import logging
import os
import random
import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from django.apps import apps
from django.db import connection, models
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min

from convmemory.conversations.importing.models import upload_storage
from convmemory.core import acting
from convmemory.core.errors import ConvMemoryError
from convmemory.core.files.private_files import DRAFT_SUFFIX
from convmemory.core.files.uploads import PrivateStorage
from convmemory.core.files.work_folders import NO_OWNER, drop_work_folders
from convmemory.documents.storage import document_storage
from convmemory.ops.privacy.ownership import owner_field

ORPHANED_AFTER = timedelta(hours=1)
MAX_EXAMINED = 50_000
"""The number of files that one sweep examines, in random order, so that later sweeps reach the others."""
BATCH = 500
OWNER = re.compile("[0-9]{1,18}")
OLD_UPLOAD = re.compile("[0-9a-f]{32}")  # an upload of an older version, which had no folders for owners

logger = logging.getLogger(__name__)


class FilesLeft(ConvMemoryError):
    """Files of the user cannot be deleted; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with a subfolder for each owner. `kind` is its name below the storage's folder, "" for all of it."""

    kind: str
    storage: PrivateStorage

    @property
    def folder(self) -> Path:
        return Path(self.storage.location) / self.kind

    def owner_of(self, path: Path) -> int:
        """Return the owner of a file by its folder; `NO_OWNER` for an upload of an older version."""
        owner = path.relative_to(self.folder).parts[0]
        return int(owner) if path.parent != self.folder else NO_OWNER

    def name_in_row(self, path: Path) -> str:
        """Return the name by which a row refers to the file; for a picture of a page, the name of its document."""
        parts = path.relative_to(self.storage.location).parts
        is_picture = self.kind == "pictures" and path.suffix != DRAFT_SUFFIX
        return "/".join(("documents", *parts[1:4]) if is_picture else parts)


def roots() -> list[Root]:
    """Return the folders of users' files."""
    media, kinds = document_storage(), ("documents", "pictures", "uploads", "archives")
    return [*(Root(kind, media) for kind in kinds), Root("", upload_storage())]


def drop_files_of(archive_id: int) -> int:
    """Delete the user's folders with all files in them, and work folders; return the number of files.

    Raises: FilesLeft.
    """
    folders = [root.folder / str(archive_id) for root in roots()]
    count = sum(path.is_file() for folder in folders for path in folder.rglob("*"))
    try:
        for folder in folders:
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
        count += drop_work_folders(archive_id)
        left = [folder for folder in folders if folder.exists()]
    except OSError as error:
        raise FilesLeft(f"{error.filename} cannot be deleted: {error.strerror}. Remove it and erase again.") from error
    if left:
        raise FilesLeft(f"{left[0]} is still being written to: stop what writes there, then erase again.")
    return count


def find_orphans(*, older_than: timedelta = ORPHANED_AFTER) -> list[tuple[Root, Path]]:
    """Return files without a row, of at most `MAX_EXAMINED` files.

    Reads all owners' rows, so it must run as maintenance.
    """
    if acting.current().login is acting.Login.APP:
        raise RuntimeError("Orphans are looked for with the rows of all people in view: run this as maintenance.")
    begun = MigrationRecorder(connection).migration_qs.aggregate(at=Min("applied"))["at"]
    orphans: list[tuple[Root, Path]] = []
    for root in roots():
        old = (path for path in _walk(root.folder) if begun.timestamp() < _modified(path) < _limit(older_than))
        examined = islice(old, MAX_EXAMINED)
        while names := {path: root.name_in_row(path) for path in islice(examined, BATCH)}:
            named = _named(root.storage, names.values(), owners={root.owner_of(path) for path in names})
            orphans += [(root, path) for path, name in names.items() if name not in named]
    return orphans


def sweep_orphans(*, older_than: timedelta = ORPHANED_AFTER) -> int:
    """Delete files without a row; return their number, and log how many of each kind."""
    counts: dict[str, int] = {}
    for root, path in find_orphans(older_than=older_than):
        try:
            if path.stat().st_mtime < _limit(older_than):  # an upload of the same file touches it
                path.unlink()
                kind = root.kind or "waiting uploads"
                counts[kind] = counts.get(kind, 0) + 1
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.error("The file %s, which no row names, cannot be deleted: %s", path, error.strerror)
    if counts:
        listed = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))
        logger.warning("Files without a row deleted: %s", listed)
    return sum(counts.values())


def _limit(older_than: timedelta) -> float:
    return time.time() - older_than.total_seconds()


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0  # deleted meanwhile


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files in the owners' folders, in random order of folders; and files that older versions stored above
    them.

    Other files are not touched: a setting may name a folder with files of other programs.
    """
    entries = list(folder.iterdir()) if folder.is_dir() else []
    yield from (entry for entry in entries if OLD_UPLOAD.fullmatch(entry.name) and entry.is_file())
    owners = [entry for entry in entries if OWNER.fullmatch(entry.name)]
    random.shuffle(owners)
    for owner in owners:
        for directory, folders, files in os.walk(owner):
            random.shuffle(folders)
            yield from (Path(directory, name) for name in files)


def _named(storage: PrivateStorage, names: Collection[str], *, owners: Collection[int]) -> set[str]:
    """Return the names that a row of one of these owners has in a file field of this storage."""
    return {
        name
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.FileField)
        and isinstance(field.storage, PrivateStorage)
        and field.storage.location == storage.location
        for name in model._base_manager.filter(
            **{f"{field.name}__in": names}, **({} if NO_OWNER in owners else {f"{owner_field(model)}__in": owners})
        ).values_list(field.name, flat=True)
    }
