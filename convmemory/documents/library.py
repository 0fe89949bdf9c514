"""Adds, replaces, lists, attaches and deletes documents for their owners. Each function takes the owner.

A file is stored under its digest before its row is created, and deleted after the row is gone.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from django.core.files import File
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, Sum
from django.db.models.functions import Collate, Lower
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Access, Caller
from convmemory.accounts.holds import refuse_held
from convmemory.conversations.messages.storage_quota import (
    Amounts,
    StorageChange,
    count_changes,
    count_stored,
    require_room,
)
from convmemory.conversations.reading import get_conversation
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.cursors import UNREADABLE, decode_cursor, encode_cursor
from convmemory.core.errors import InTrash, InvalidInput, NotAllowed, NotFound, TooLarge, TooManyAtOnce
from convmemory.core.files.private_files import has_digest
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.text import storable
from convmemory.core.trash import last_expired
from convmemory.documents.drawing import drop_pictures
from convmemory.documents.filing import condition_of
from convmemory.documents.models import ConversationDocument, Document
from convmemory.documents.signals import document_restored, document_trashed
from convmemory.documents.storage import digest_of, document_storage, place_of

MAX_UNFINISHED = 100
MAX_ATTACHED = 200
# The length of `Document.name`.
NAME_CHARS = 255
MB = 1024**2

Status = Document.Status
UNFINISHED = (Status.UPLOADED, Status.PROCESSING)

SORTS = {
    "newest": ("-pk",),
    "title": ("lower_title", "lower_name", "-pk"),
    "size": ("-size", "-pk"),
    "sections": ("-section_count", "-pk"),
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file under its digest, its original name, its size in bytes.

    `was_written` is False if the owner's folder already held the whole file.
    """

    digest: str
    name: str
    size: int
    was_written: bool = True

    def place_for(self, archive_id: int) -> str:
        """Return its name below `MEDIA_ROOT`."""
        return place_of(archive_id=archive_id, digest=self.digest)


@dataclass(frozen=True, slots=True)
class Added:
    """The document of an upload. `is_new` is False if the owner already had this file."""

    document: Document
    is_new: bool


Listed = tuple[Document, Access]
"""A document with the access to the archive that holds it."""


def require_acceptable(*, size: int) -> None:
    """Refuse a file over the limit of one document. Raises: TooLarge."""
    most_mb = config.max_document_mb
    if size > most_mb * MB:
        raise TooLarge(
            f"The file is larger than {most_mb} MB (MAX_DOCUMENT_MB): split it, or leave out its pictures, and upload "
            "it again."
        )


def require_upload(*, caller: Caller, size: int, replaces: int | None) -> None:
    """Check an upload before its file is stored. Raises: TooLarge, TooManyAtOnce, NotFound."""
    require_acceptable(size=size)
    require_capacity(caller=caller, size=size, documents=0 if replaces else 1)
    if replaces is not None:
        get_document(caller=caller, document_id=replaces)


def require_capacity(*, caller: Caller, size: int, documents: int = 1) -> None:
    """Check that the owner may add a file of this size, which makes so many documents more.

    Raises: TooManyAtOnce; TooLarge if the library would exceed the owner's limit; StorageFull if all stored data would.
    """
    require_room(archive_id=caller.archive_id, size=size, documents=documents)
    rows = Document.with_trash.filter(archive_id=caller.archive_id)
    totals = rows.aggregate(size=Sum("size"), waiting=Count("pk", filter=Q(status__in=UNFINISHED)))
    if totals["waiting"] >= MAX_UNFINISHED:
        raise TooManyAtOnce(f"{totals['waiting']} of your documents wait to be read: wait until some have been.")
    most_mb = config.max_library_mb
    if (totals["size"] or 0) + size > most_mb * MB:
        raise TooLarge(f"Your documents would take more than {most_mb} MB (MAX_LIBRARY_MB): delete some first.")


def store_file(*, archive_id: int, file: IO[bytes], name: str) -> StoredFile:
    """Store the file under its digest; does not use the database. An existing file is used only if it is whole."""
    digest = digest_of(file)
    stored_name, storage = place_of(archive_id=archive_id, digest=digest), document_storage()
    path = Path(storage.path(stored_name))
    with suppress(FileNotFoundError):
        os.utime(path)  # keeps the sweep from deleting it: that only deletes old files without a document
    was_written = not has_digest(path, digest)
    if was_written:
        storage.save(stored_name, File(file))
    return StoredFile(digest, clean_name(name), storage.size(stored_name), was_written)


def clean_name(name: str) -> str:
    """Return the last component of a file's name in a displayable form; it is never used in a path."""
    last = PurePosixPath(storable(name).replace("\\", "/")).name
    shown = "".join(char for char in last if char.isprintable()).strip()
    suffix = PurePosixPath(shown).suffix[:20]
    return shown if len(shown) <= NAME_CHARS else shown[: NAME_CHARS - len(suffix)] + suffix or "document"


def add_upload(*, caller: Caller, stored: StoredFile, replaces: int | None) -> Added:
    """Make the stored file a document, or the next version of one; the caller enqueues it.

    If that fails, the file is deleted unless another document names it. Raises: NotFound, InvalidInput.
    """
    try:
        if replaces is None:
            return add_document(caller=caller, stored=stored)
        return replace_document(caller=caller, document_id=replaces, stored=stored)
    except BaseException:
        drop_file(archive_id=caller.archive_id, stored_name=stored.place_for(caller.archive_id))
        raise


def add_document(*, caller: Caller, stored: StoredFile) -> Added:
    """Return the document for a stored file, which the owner may already have. The caller enqueues it.

    Raises: StorageFull; InTrash if the file's document is in the trash.
    """
    existing = _with_digest(caller, stored.digest)
    if existing is not None:
        return Added(existing, is_new=stored.was_written and _read_again(existing))
    try:
        with transaction.atomic():
            document = Document.objects.create(
                archive_id=caller.archive_id, name=stored.name or "document", size=stored.size, digest=stored.digest,
                file=stored.place_for(caller.archive_id), stored_bytes=stored.size,
                added_by=acting.current().adds_for,
            )  # fmt: skip
            count_stored(archive_id=caller.archive_id, change=stored.size, documents=1)
    except IntegrityError:  # the same file at the same moment
        return Added(Document.objects.get(archive_id=caller.archive_id, digest=stored.digest), is_new=False)
    return Added(document, is_new=True)


def replace_document(*, caller: Caller, document_id: int, stored: StoredFile) -> Added:
    """Make the stored file the document's next version, which replaces it once it has been read.

    In a space the whole document counts for the caller from then on. The caller enqueues it. Raises: NotFound;
    InvalidInput if the file is another document of the owner, InTrash if that one is in the trash, OnLegalHold because
    the old version would be deleted, StorageFull.
    """
    with transaction.atomic():
        document = _locked(caller, document_id)
        refuse_held(archive_id=caller.archive_id, act="replace")
        existing = _with_digest(caller, stored.digest)
        if existing is not None and existing.pk != document.pk:
            raise InvalidInput(
                f"This file is in your library already, as document {existing.pk}: delete that one first."
            )
        if document.digest == stored.digest:
            return Added(document, is_new=stored.was_written and _read_again(document))
        gone = str(document.next_file)
        document.next_file.name = stored.place_for(caller.archive_id)
        document.next_name, document.status, document.attempts = stored.name or document.name, Status.UPLOADED, 0
        document.failure = document.error = ""
        change, amounts = StorageChange(), Amounts(document.stored_bytes or 0, documents=1)
        change.add(-amounts, archive_id=caller.archive_id, added_by=document.added_by)
        document.added_by = acting.current().adds_for
        change.add(amounts, archive_id=caller.archive_id, added_by=document.added_by)
        document.save()
        count_changes(change)
    if gone and gone != str(document.next_file):
        drop_file(archive_id=caller.archive_id, stored_name=gone)
    return Added(document, is_new=True)


def _read_again(document: Document) -> bool:
    """Mark a document to be read again, because its stored file was damaged or missing until now."""
    changed = Document.objects.filter(pk=document.pk, archive_id=document.archive_id).update(
        status=Status.UPLOADED, failure="", error="", attempts=0
    )
    document.refresh_from_db()
    return bool(changed)


def _with_digest(caller: Caller, digest: str) -> Document | None:
    next_file = place_of(archive_id=caller.archive_id, digest=digest)
    existing = Document.with_trash.filter(
        Q(digest=digest) | Q(next_file=next_file), archive_id=caller.archive_id
    ).first()
    if existing is not None and existing.trashed_at is not None:
        raise InTrash(
            f"This file is in your trash, as document {existing.pk}: put it back, or delete it there for good and "
            "upload it again."
        )
    return existing


def get_document(*, caller: Caller, document_id: int) -> Document:
    """Return the caller's document. Raises: NotFound, the same for unknown and for foreign documents."""
    document = None
    if document_id <= MAX_BIGINT:
        document = Document.objects.filter(archive_id=caller.archive_id, pk=document_id).first()
    if document is None:
        raise NotFound(f"There is no document {document_id}.")
    return document


def page_of_documents(
    *,
    caller: Caller,
    limit: int,
    chosen: str = "",
    before: int | None = None,
) -> tuple[list[Listed], int | None]:
    """Return the documents of all archives that the caller reads, newest first, and where the next page begins, if any.

    `chosen` restricts them as in `find_documents`.
    """
    earlier = Q() if before is None else Q(pk__lt=min(before, MAX_BIGINT))
    listed = _first_of_archives(caller, chosen, SORTS["newest"], earlier, limit + 1)
    return listed[:limit], listed[limit - 1][0].pk if len(listed) > limit else None


def find_documents(
    *,
    caller: Caller,
    limit: int,
    chosen: str = "",
    title: str = "",
    folder: str = "",
    tag: str = "",
    sort: str = "newest",
    cursor: str = "",
) -> tuple[list[Listed], str | None]:
    """Return documents with this text in their title or name, in a folder and with a tag if these are given, and the
    cursor of the next page, if any.

    They are those of all archives that the caller reads, or of the `chosen` one (`Caller.chosen`). One query for
    each archive. Raises: InvalidInput, NotFound for another space.
    """
    if sort not in SORTS:
        raise InvalidInput(f"Documents are sorted by {', '.join(SORTS)}.")
    order = SORTS[sort]
    query = {"list": "documents", "space": chosen, "title": title, "folder": folder, "tag": tag, "sort": sort}
    condition = condition_of(folder=folder, tag=tag)
    condition &= Q(title__folded_contains=title) | Q(name__folded_contains=title) if title else Q()
    if cursor:
        # A place in all archives: the values of the last document, by which it is sorted; ids are unique.
        position = decode_cursor(query, cursor)
        if [type(value) for value in position] != [str if name.startswith("lower_") else int for name in order]:
            raise InvalidInput(UNREADABLE)
        condition &= _sorted_after(order, [storable(value) if isinstance(value, str) else value for value in position])
    listed = _first_of_archives(caller, chosen, order, condition, limit + 1)
    if len(listed) <= limit:
        return listed, None
    last, _ = listed[limit - 1]
    return listed[:limit], encode_cursor(query, [getattr(last, name.removeprefix("-")) for name in order])


def _sorted_after(order: Sequence[str], values: Sequence[Any]) -> Q:
    """Return the condition for rows that this order puts after the row with these values."""
    condition, equal = Q(), Q()
    for name, value in zip(order, values, strict=True):
        field = name.removeprefix("-")
        condition |= equal & Q(**{f"{field}__{'gt' if field == name else 'lt'}": value})
        equal &= Q(**{field: value})
    return condition


def _first_of_archives(caller: Caller, chosen: str, order: Sequence[str], condition: Q, count: int) -> list[Listed]:
    """Return the first documents in this order of all archives together."""
    listed: list[Listed] = []
    # By code points, as Python sorts them below, whatever the collation of the database is.
    lower = {f"lower_{name}": Collate(Lower(name), "C") for name in ("title", "name")}
    for access in caller.chosen(chosen):
        with caller.in_(access):
            rows = Document.objects.annotate(**lower).filter(condition, archive_id=access.archive_id).order_by(*order)
            listed += [(row, access) for row in rows[:count]]
    for name in reversed(order):
        listed.sort(key=lambda pair: getattr(pair[0], name.removeprefix("-")), reverse=name.startswith("-"))
    return listed[:count]


def attached_documents(*, caller: Caller, conversation_id: int) -> list[Document]:
    """Return the documents of the caller's conversation. Raises: NotFound."""
    get_conversation(caller=caller, conversation_id=conversation_id)
    chosen = ConversationDocument.objects.filter(archive_id=caller.archive_id, conversation_id=conversation_id)
    return list(
        Document.objects.filter(archive_id=caller.archive_id, pk__in=chosen.values("document")).order_by("title", "pk")
    )


def attached_ids(*, archive_id: int, conversation_id: int) -> frozenset[int]:
    """Return the ids of the documents attached to a conversation of this owner."""
    chosen = ConversationDocument.objects.filter(archive_id=archive_id, conversation_id=conversation_id)
    return frozenset(chosen.values_list("document_id", flat=True))


def attach(*, caller: Caller, conversation_id: int, document_ids: Collection[int]) -> list[Document]:
    """Attach more documents; return all that are attached afterwards. Raises: NotFound, InvalidInput."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    documents = own_documents(caller=caller, document_ids=document_ids)
    rows = [
        ConversationDocument(archive_id=caller.archive_id, conversation=conversation, document=document)
        for document in documents
    ]
    attached = attached_ids(archive_id=caller.archive_id, conversation_id=conversation_id)
    if len(attached | {document.pk for document in documents}) > MAX_ATTACHED:
        raise InvalidInput(f"At most {MAX_ATTACHED} documents can be attached to a conversation: detach some first.")
    ConversationDocument.objects.bulk_create(rows, ignore_conflicts=True)
    return attached_documents(caller=caller, conversation_id=conversation_id)


def detach(*, caller: Caller, conversation_id: int, document_id: int) -> None:
    """Detach a document. Raises: NotFound."""
    get_conversation(caller=caller, conversation_id=conversation_id)
    get_document(caller=caller, document_id=document_id)
    ConversationDocument.objects.filter(
        archive_id=caller.archive_id, conversation_id=conversation_id, document_id=document_id
    ).delete()


def own_documents(*, caller: Caller, document_ids: Collection[int]) -> Sequence[Document]:
    """Return the caller's documents with these ids. Raises: NotFound if one is unknown or foreign."""
    ids = {number for number in document_ids if number <= MAX_BIGINT}
    documents = list(Document.objects.filter(archive_id=caller.archive_id, pk__in=ids))
    if missing := set(document_ids) - {document.pk for document in documents}:
        raise NotFound(f"There is no document {min(missing)}.")
    return documents


def delete_document(*, caller: Caller, document_id: int) -> None:
    """Put the document into the trash; without a trash (TRASH_DAYS=0) delete it for good.

    Raises: NotFound, OnLegalHold.
    """
    if not config.trash_days:
        return delete_for_good(caller=caller, document_id=document_id)
    with transaction.atomic():
        document = _locked(caller, document_id)
        refuse_held(archive_id=caller.archive_id)
        document.trashed_at = timezone.now()
        document.save(update_fields=["trashed_at"])
        document_trashed.send(Document, document=document)
        record(Action.TRASHED, what=f"document {document_id}", person_id=caller.person_id, about_id=caller.archive_id)
    return None


def restore_document(*, caller: Caller, document_id: int) -> Document:
    """Take the document out of the trash; a worker indexes it again, or continues to read it. Raises: NotFound."""
    with transaction.atomic():
        document = _locked(caller, document_id, with_trash=True)
        if document.trashed_at is None or document.trashed_at <= last_expired():
            raise NotFound(f"There is no document {document_id} in your trash.")
        document.trashed_at = None
        document.save(update_fields=["trashed_at"])
        document_restored.send(Document, document=document)
        record(Action.RESTORED, what=f"document {document_id}", person_id=caller.person_id, about_id=caller.archive_id)
    return document


def delete_for_good(*, caller: Caller, document_id: int) -> None:
    """Delete the document, in the trash or not, with its file, sections, passages and vectors.

    Raises: NotFound, OnLegalHold.
    """
    with transaction.atomic():
        count_changes(delete_uncounted(caller=caller, document_id=document_id))


def delete_uncounted(*, caller: Caller, document_id: int, moved_to: int | None = None) -> StorageChange:
    """Delete the document like `delete_for_good`; return what the transaction has to count at its end.

    `moved_to` is the owner of the archive that stores it instead, for the audit log.
    """
    freed = StorageChange()
    with transaction.atomic():
        document = _locked(caller, document_id, with_trash=True)
        refuse_held(archive_id=caller.archive_id, act="delete" if moved_to is None else "move")
        amounts = Amounts(document.stored_bytes or 0, documents=1)
        freed.add(-amounts, archive_id=caller.archive_id, added_by=document.added_by)
        if not document.delete()[0]:
            raise NotAllowed("The database deletes nothing for readers of a space.")
        action, where = (Action.DELETED, "") if moved_to is None else (Action.MOVED, f" to user {moved_to}")
        record(action, what=f"document {document_id}{where}", person_id=caller.person_id, about_id=caller.archive_id)
    return freed


def on_document_deleted(sender: Any, *, instance: Document, **kwargs: Any) -> None:
    """Delete the document's files once the transaction that deletes its row has committed."""
    archive_id, stored_names = instance.archive_id, {str(instance.file), str(instance.next_file)} - {""}

    def drop() -> None:
        for stored_name in stored_names:
            drop_file(archive_id=archive_id, stored_name=stored_name)

    transaction.on_commit(drop)


def drop_file(*, archive_id: int, stored_name: str) -> None:
    """Delete a stored file that no document of its owner names any more."""
    if not Document.with_trash.filter(Q(file=stored_name) | Q(next_file=stored_name), archive_id=archive_id).exists():
        document_storage().delete(stored_name)
        drop_pictures(archive_id=archive_id, digest=stored_name.rpartition("/")[2])


def retry_document(*, caller: Caller, document_id: int) -> Document:
    """Mark a failed document to be read again. The caller enqueues it. Raises: NotFound."""
    document = get_document(caller=caller, document_id=document_id)
    Document.objects.filter(pk=document.pk, archive_id=caller.archive_id, status=Status.FAILED).update(
        status=Status.UPLOADED, failure="", error="", attempts=0
    )
    document.refresh_from_db()
    return document


def _locked(caller: Caller, document_id: int, *, with_trash: bool = False) -> Document:
    document = None
    if document_id <= MAX_BIGINT:
        rows = Document.with_trash if with_trash else Document.objects
        document = rows.select_for_update().filter(archive_id=caller.archive_id, pk=document_id).first()
    if document is None:
        raise NotFound(f"There is no document {document_id}.")
    return document
