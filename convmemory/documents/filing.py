"""Folders and tags of documents, given to many at a time. Every function takes the caller and changes only their rows.

A folder is a path, such as "Contracts/2026"; a document is in one, or in none.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from convmemory.accounts.callers import Caller
from convmemory.conversations.curating import MAX_CHOSEN, MAX_TAGS, clean_tag
from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line, storable
from convmemory.documents.models import Document

FOLDER_CHARS, MAX_DEPTH = 200, 8
COUNTED = 10_000  # documents of an archive that are counted by folder and tag


@dataclass(frozen=True, slots=True)
class Filing:
    """The folders and tags of an archive's documents, each with the number of documents, in alphabetical order."""

    folders: Sequence[tuple[str, int]]
    tags: Sequence[tuple[str, int]]


def filing_of(*, caller: Caller) -> Filing:
    """Return the folders and tags of the caller's documents; a folder counts those in its subfolders. One query."""
    rows = Document.objects.filter(archive_id=caller.archive_id).exclude(folder="", tags=[])
    folders: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for folder, names in rows.values_list("folder", "tags")[:COUNTED]:
        parts = folder.split("/") if folder else []
        folders.update("/".join(parts[: depth + 1]) for depth in range(len(parts)))
        tags.update(names)
    return Filing(sorted(folders.items()), sorted(tags.items()))


def condition_of(*, folder: str = "", tag: str = "") -> Q:
    """Return the condition for documents in a folder, or a folder in it, and with a tag."""
    inside = Q(folder=folder) | Q(folder__startswith=f"{folder}/") if folder else Q()
    return inside & (Q(tags__contains=[tag]) if tag else Q())


def add_tag(*, caller: Caller, document_ids: Sequence[int], name: str) -> int:
    """Add the tag to the caller's documents among the ids; return how many did not have it. Raises: InvalidInput."""
    word = clean_tag(name)
    if not word:
        raise InvalidInput("A tag cannot be empty: write at least one character.")

    def change(row: Document) -> bool:
        if word in row.tags:
            return False
        if len(row.tags) >= MAX_TAGS:
            raise InvalidInput(f"A document has at most {MAX_TAGS} tags; take one off first.")
        row.tags = sorted([*row.tags, word])
        return True

    return _change(caller, document_ids, change)


def remove_tag(*, caller: Caller, document_ids: Sequence[int], name: str) -> int:
    """Take the tag off the caller's documents among the ids; return how many had it."""
    word = clean_tag(name)

    def change(row: Document) -> bool:
        had = word in row.tags
        row.tags = [tag for tag in row.tags if tag != word]
        return had

    return _change(caller, document_ids, change)


def put_into_folder(*, caller: Caller, document_ids: Sequence[int], name: str) -> int:
    """Put the caller's documents among the ids into a folder, "" for none; return how many were elsewhere."""
    folder = clean_folder(name)

    def change(row: Document) -> bool:
        was, row.folder = row.folder, folder
        return was != folder

    return _change(caller, document_ids, change)


def clean_folder(name: str) -> str:
    """Return the path of a folder as it is stored: parts between single slashes. Raises: InvalidInput."""
    parts = [part for text in storable(name).split("/") if (part := one_line(text, FOLDER_CHARS))]
    folder = "/".join(parts)
    if len(folder) > FOLDER_CHARS or len(parts) > MAX_DEPTH:
        raise InvalidInput(f"A folder has at most {FOLDER_CHARS} characters in {MAX_DEPTH} parts.")
    return folder


@transaction.atomic
def _change(caller: Caller, document_ids: Sequence[int], change: Callable[[Document], bool]) -> int:
    if len(document_ids) > MAX_CHOSEN:
        raise InvalidInput(f"At most {MAX_CHOSEN} documents are changed at once.")
    rows = Document.objects.filter(archive_id=caller.archive_id, pk__in=document_ids).order_by("pk").select_for_update()
    changed = [row for row in rows if change(row)]
    Document.objects.bulk_update(changed, ["folder", "tags"])
    return len(changed)
