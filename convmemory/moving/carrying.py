"""Moves and copies a conversation or a document from one archive of a person to another: their own, or a space.

The transaction works in two archives, one after the other, as the person who acts: it keeps the rows in temporary
tables while it may read (and, to move, delete) in the first, and stores them while it may write in the second. The
policies of the tables admit each statement, so that no row enters an archive to which the person may not write.
A worker indexes the object again, with the vectors that came with it.

Source: docs/adr/0109-move-rows-between-archives.md.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from django.db import connection, models, transaction
from django.db.models import Q
from django.utils.translation import gettext
from psycopg import sql

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Access, Caller, no_space, refuse_readers
from convmemory.accounts.pages import archive_of_address
from convmemory.conversations.importing.links import link_children
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.responses import lock_conversation, require_idle
from convmemory.conversations.messages.storage_quota import Amounts, StorageChange, count_changes
from convmemory.conversations.models import Conversation, Event, FileEdit, Message, MessageSource, Tag, TurnMark
from convmemory.conversations.signals import conversation_deleting, conversation_restored
from convmemory.core.errors import ConversationBusy, InvalidInput, NotFound
from convmemory.core.sql import load_sql
from convmemory.documents import library
from convmemory.documents.models import Document, Section
from convmemory.documents.signals import document_restored
from search.models import PassageBlock, Source
from summaries.models import ConversationSummary

Kind = Literal["conversation", "document"]

Values = dict[str, int | str | None]

OF_MESSAGES: tuple[type[models.Model], ...] = (MessageSource, TurnMark, FileEdit)
OF_CONVERSATION: tuple[type[models.Model], ...] = (Conversation, Message, Tag, Event, ConversationSummary)
CARRIED: tuple[type[models.Model], ...] = (*OF_CONVERSATION, *OF_MESSAGES, Document, Section, PassageBlock)
"""The tables whose rows come along. Rows of other tables that name the object are deleted when it moves."""
NUMBERS = sql.Identifier("taken_numbers")


def find_archive(*, caller: Caller, kind: Kind, object_id: int) -> Access:
    """Return the archive of the caller that holds the object. Raises: NotFound."""
    with caller.in_(caller.own):
        archive_id = archive_of_address({f"{kind}_id": object_id})
    access = None if archive_id is None else caller.reads(archive_id)
    if access is None:
        raise NotFound(f"There is no {kind} {object_id}.")
    return access


def carry(*, caller: Caller, kind: Kind, object_id: int, space_id: int | None, is_copy: bool) -> int:
    """Move the object to a space, or without one to the caller's own archive, or copy it; return its id there.

    What is moved keeps its id and with it its address. Moving needs a role that writes in both archives, copying only
    in the second one. Search finds the object there when a worker has indexed it, without computing its vectors.

    Raises: NotFound, NotAllowed, ConversationBusy, OnLegalHold, StorageFull; InvalidInput if it is there already.
    """
    source = find_archive(caller=caller, kind=kind, object_id=object_id)
    target = caller.own if space_id is None else next((a for a in caller.spaces if a.archive_id == space_id), None)
    if target is None:
        raise no_space(str(space_id))
    if source == target:
        raise InvalidInput(gettext("It is in this archive already: choose another one."))
    for access in (target, None if is_copy else source):
        if access is not None and access.space:
            caller.require_writing_spaces()
            refuse_readers(access)
    carry_one = _carry_conversation if kind == "conversation" else _carry_document
    with caller.in_(source) as there:
        return carry_one(there, target, object_id, is_copy)


def _carry_conversation(caller: Caller, target: Access, conversation_id: int, is_copy: bool) -> int:
    of_messages = Q(archive_id=caller.archive_id, message__conversation_id=conversation_id)
    of_conversation = Q(archive_id=caller.archive_id, conversation_id=conversation_id)
    with transaction.atomic():
        if not is_copy:
            # Before the row is locked, as when `ingest` deletes it.
            conversation_deleting.send(Conversation, conversation_id=conversation_id, archive_id=caller.archive_id)
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        require_idle(conversation)
        with caller.in_(target) as there:
            same = Conversation.with_trash.filter(
                archive_id=target.archive_id, source=conversation.source, source_id=conversation.source_id
            )
            if conversation.source_id and (existing := same.first()) is not None:
                raise _already_there(existing.pk, is_trashed=existing.trashed_at is not None)
        _take(
            Conversation.objects.filter(archive_id=caller.archive_id, pk=conversation_id),
            *(model.objects.filter(of_conversation) for model in (Message, Tag, Event)),
            ConversationSummary.objects.filter(of_conversation, status=ConversationSummary.Status.COMPLETED),
            *(model._default_manager.filter(of_messages) for model in OF_MESSAGES),
        )
        _take(_passages("conversation", conversation_id, caller))
        change = StorageChange()
        if not is_copy:
            change = ingest.delete_uncounted(caller=caller, conversation_id=conversation_id, moved_to=target.archive_id)
        amounts = Amounts(conversation.stored_bytes or 0, conversation.turn_count)
        adder = caller.user.pk if target.space else None
        change.add(amounts, archive_id=target.archive_id, added_by=adder)
        with caller.in_(target) as there:
            values: Values = {"owner_id": target.archive_id}
            of_one_archive: Values = {"parent_id": None, "starred_at": None, "pinned_at": None}
            of_adder: Values = {"additions": json.dumps({adder: [amounts.size, amounts.turns]} if adder else {})}
            new_id = _put(Conversation, values | of_one_archive | of_adder, is_copy)
            values |= {"conversation_id": new_id, "asked_by": None}
            _put(Message, values, is_copy)
            places = {"taken": _taken(Message), "numbers": NUMBERS}
            _run("number_messages", places, {"owner": target.archive_id, "conversation": new_id})
            for model in (*OF_CONVERSATION[2:], *OF_MESSAGES):
                _put(model, values, is_copy)
            _forget(*OF_CONVERSATION, *OF_MESSAGES)
            _run("forget_rows", {"taken": NUMBERS})
            link_children(caller=there)
            stored = Conversation.objects.get(archive_id=target.archive_id, pk=new_id)
            conversation_restored.send(Conversation, conversation=stored)
            _put_passages("conversation", new_id, target)
            _record("conversation", conversation_id, new_id, caller, target, is_copy)
            count_changes(change)
    return new_id


def _carry_document(caller: Caller, target: Access, document_id: int, is_copy: bool) -> int:
    document = library.get_document(caller=caller, document_id=document_id)
    if document.is_unfinished:
        raise ConversationBusy(gettext("The document is still being read: try again when it is ready."))
    with caller.in_(target) as there:
        library.require_capacity(caller=there, size=document.size)
        existing = Document.with_trash.filter(archive_id=target.archive_id, digest=document.digest).first()
        if existing is not None:
            raise _already_there(existing.pk, is_trashed=existing.trashed_at is not None)
    try:
        file = document.file.open()
    except FileNotFoundError:
        raise NotFound(gettext("The document's file is not on this server.")) from None
    with file:
        stored = library.store_file(archive_id=target.archive_id, file=file, name=document.name)
    file_name = stored.place_for(target.archive_id)
    try:
        with transaction.atomic():
            locked = Document.objects.select_for_update().filter(archive_id=caller.archive_id, pk=document_id).first()
            if locked is None or (locked.digest, locked.is_unfinished) != (stored.digest, False):
                raise ConversationBusy(gettext("The document has just been changed: try again."))
            _take(
                Document.objects.filter(archive_id=caller.archive_id, pk=document_id),
                Section.objects.filter(archive_id=caller.archive_id, document_id=document_id),
            )
            _take(_passages("document", document_id, caller))
            change = StorageChange()
            if not is_copy:
                change = library.delete_uncounted(caller=caller, document_id=document_id, moved_to=target.archive_id)
            adder = caller.user.pk if target.space else None
            amounts = Amounts(locked.stored_bytes or 0, documents=1)
            change.add(amounts, archive_id=target.archive_id, added_by=adder)
            with caller.in_(target) as there:
                values: Values = {"owner_id": target.archive_id}
                new_id = _put(Document, values | {"file": file_name, "added_by": adder}, is_copy)
                _put(Section, values | {"document_id": new_id}, is_copy)
                _forget(Document, Section)
                put = Document.objects.get(archive_id=target.archive_id, pk=new_id)
                document_restored.send(Document, document=put)
                _put_passages("document", new_id, target)
                _record("document", document_id, new_id, caller, target, is_copy)
                count_changes(change)
    except BaseException:
        with caller.in_(target):
            library.drop_file(archive_id=target.archive_id, stored_name=file_name)
        raise
    return new_id


def _already_there(known_id: int, *, is_trashed: bool) -> InvalidInput:
    if is_trashed:
        text = gettext("That archive has it already, in the trash, as number %(number)s: put it back or delete it.")
    else:
        text = gettext("That archive has it already, as number %(number)s.")
    return InvalidInput(text % {"number": known_id})


def _record(kind: Kind, old_id: int, new_id: int, caller: Caller, target: Access, is_copy: bool) -> None:
    """Record where an object came from, about its new archive; and of a copy, about the archive that it was read in."""
    action = Action.COPIED if is_copy else Action.MOVED
    record(
        action,
        what=f"{kind} {new_id} from user {caller.archive_id}",
        person_id=caller.user.pk,
        about_id=target.archive_id,
    )
    if is_copy:
        record(
            action,
            what=f"{kind} {old_id} to user {target.archive_id}",
            person_id=caller.user.pk,
            about_id=caller.archive_id,
        )


def _take(*tables: "models.QuerySet[Any, Any]") -> None:
    """Keep these rows, of one table each."""
    for rows in tables:
        columns = [field.attname for field in _stored_fields(rows.model)]
        query, values = rows.order_by("pk").values_list(*columns).query.sql_with_params()
        _run("take_rows", {"taken": _taken(rows.model), "rows": sql.SQL(query)}, values)


def _passages(kind: Kind, object_id: int, caller: Caller) -> "models.QuerySet[Any, Any]":
    return PassageBlock.objects.filter(archive_id=caller.archive_id, source__kind=kind, source__object_id=object_id)


def _put_passages(kind: Kind, object_id: int, target: Access) -> None:
    """Store the taken passages with keys of their own; the indexer finds equal texts among them, and no search does."""
    source = Source.objects.filter(archive_id=target.archive_id, kind=kind, object_id=object_id).first()
    if source is not None:
        values: Values = {"owner_id": target.archive_id, "source_id": source.pk, "is_kept": True}
        _put(PassageBlock, values, is_copy=True)
    _forget(PassageBlock)


def _put(model: type[models.Model], changed: Values, is_copy: bool) -> int:
    """Store the taken rows of a table with other values, of copies with new keys; return the highest key."""
    key = str(model._meta.pk.column)
    of_messages = model in OF_MESSAGES
    values: dict[str, sql.Composable] = {}
    for column in (str(field.column) for field in _stored_fields(model)):
        if of_messages and column == "message_id":
            values[column] = sql.SQL("n.put")
        elif column in changed:
            values[column] = sql.Literal(changed[column])
        elif not (is_copy and column == key):
            values[column] = sql.SQL("t.{}").format(sql.Identifier(column))
    joined = sql.SQL(load_sql("convmemory.moving", "join_numbers")).format(numbers=NUMBERS)
    places = {
        "table": sql.Identifier(model._meta.db_table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, values)),
        "values": sql.SQL(", ").join(values.values()),
        "taken": _taken(model),
        "messages": joined if of_messages else sql.SQL(""),
        "key": sql.Identifier(key),
    }
    return _run("put_rows", places) or 0


def _forget(*tables: type[models.Model]) -> None:
    for model in tables:
        _run("forget_rows", {"taken": _taken(model)})


def _taken(model: type[models.Model]) -> sql.Identifier:
    return sql.Identifier(f"taken_{model._meta.db_table}")


def _stored_fields(model: type[models.Model]) -> "list[models.Field[Any, Any]]":
    return [field for field in model._meta.concrete_fields if not field.generated]


def _run(name: str, places: Mapping[str, sql.Composable], values: Any = None) -> int | None:
    """Execute a statement; return the first column of its row, if it has one."""
    with connection.cursor() as cursor:
        statement = sql.SQL(load_sql("convmemory.moving", name)).format(**places)
        cursor.execute(statement.as_string(cursor.cursor), values)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None
