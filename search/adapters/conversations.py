"""Conversations as sources of the index: turns are items, messages are elements.

A message without a turn is read with the first or the last turn, and a conversation without turns is one item.
`search/apps.py` registers it and connects it to signals. No other module of the index knows conversations.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

from django.db import connection
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse

from convmemory.conversations.messages.echo import is_echo, own_calls
from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_text,
    said_text,
    speaker_of,
)
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.reading import (
    StoredMessage,
    messages_read_with,
    stored_message,
    stored_messages,
    stored_messages_in,
    stored_messages_query,
    with_home_turns,
)
from convmemory.core.sql import PendingQuery, Query, in_columns, load_sql, rows_of_columns
from convmemory.core.text import cut, without_recalled
from search.indexing.active import IndexResult, index_source
from search.indexing.tracking import delete_sources, drop_source, put_source
from search.models import Source
from search.sources import MAX_HEADING_CHARS, Element, ElementPart, ItemKey, ItemText, Kind, SourceFacts, Utterance
from search.tasks import enqueue_index
from search.vectors.locking import lock_for_deletion
from search.vectors.splitting import PassageSpan, split_parts

KIND = "conversation"


class ConversationAdapter:
    """Reads turns and messages for the index."""

    kind, item_name = KIND, "turn"
    passage_kinds: frozenset[Kind] = frozenset({"user", "assistant", "thinking", "tool", "call", "system", "outside"})
    is_embedded = True

    def read_range(self, archive_id: int, object_id: int, first: int, last: int) -> list[ItemText]:
        return items_of(messages_read_with(archive_id, object_id, first, last))

    def read_items(self, archive_id: int, items: Sequence[ItemKey]) -> dict[ItemKey, ItemText]:
        keys = set(items)
        numbers = {number for _, number in keys}
        rows = with_home_turns(
            Message.objects.filter(archive_id=archive_id, conversation_id__in={object_id for object_id, _ in keys})
        ).filter(Q(turn_number__in=numbers) | Q(turn_number__isnull=True), home_turn__in=numbers)  # indexable
        texts: dict[ItemKey, ItemText] = {}
        for object_id, group in groupby(rows.order_by("conversation_id", "position"), lambda row: row.conversation_id):
            for item in items_of(stored_message(row) for row in group):
                if (object_id, item.number) in keys:
                    texts[object_id, item.number] = item
        return texts

    def read_elements(self, archive_id: int, element_ids: Iterable[int]) -> dict[int, Element]:
        return self.read_elements_with(archive_id, element_ids, ())

    def elements_query(self, archive_id: int, element_ids: Iterable[int]) -> Query:
        return in_columns(stored_messages_query(archive_id, element_ids), len(fields(StoredMessage)))

    def elements_in(self, rows: Iterable[tuple[Any, ...]]) -> dict[int, Element]:
        return {message.message_id: element_of(message) for message in stored_messages_in(rows_of_columns(rows))}

    def read_elements_with(
        self, archive_id: int, element_ids: Iterable[int], stems: Collection[str]
    ) -> dict[int, Element]:
        messages = stored_messages(archive_id, element_ids, with_stems=stems)
        return {message.message_id: element_of(message) for message in messages}

    def send_utterances_query(self, archive_id: int, element_ids: Iterable[int]) -> Callable[[], dict[int, Utterance]]:
        parameters: dict[str, Any] = {"owner": archive_id, "messages": list(set(element_ids))}
        pending = PendingQuery(load_sql("search.adapters", "message_utterances"), parameters, keeps_plan=True)
        return lambda: {message_id: Utterance(*columns) for message_id, *columns in pending.rows()}

    def elements_with(self, archive_id: int, text: str, *, scanned: int, limit: int) -> list[tuple[int, int]]:
        parameters: dict[str, Any] = {"owner": archive_id, "text": text, "scanned": scanned, "limit": limit}
        return PendingQuery(load_sql("search.adapters", "messages_with"), parameters).rows()

    def url(self, object_id: int, item_number: int) -> str:
        return f"/conversations/{object_id}?turn={item_number}"

    def reading_url(self, object_id: int, item_number: int) -> str:
        return f"{reverse('admin:conversations_conversation_content', args=[object_id])}?turn={item_number}"

    def reconcile(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("search.adapters", "reconcile_conversations"))
            wrong, gone = cursor.fetchone()
        for conversation in Conversation.objects.filter(pk__in=wrong or []):
            put_source(facts_of(conversation), first_changed=None)
        delete_sources(gone or [])
        return len(wrong or []) + len(gone or [])


def source_of(*, archive_id: int, conversation_id: int) -> Source | None:
    """Return the conversation's source."""
    return Source.objects.filter(archive_id=archive_id, kind=KIND, object_id=conversation_id).first()


def index_conversation(*, conversation_id: int, deadline: float = float("inf")) -> IndexResult:
    """Bring one conversation's index up to date, as `index_source` does, even if no signal announced a change."""
    conversation = Conversation.objects.filter(pk=conversation_id).first()
    if conversation is None:
        return IndexResult()
    source = source_of(archive_id=conversation.archive_id, conversation_id=conversation_id)
    if source is None or source.version < conversation.turns_version:
        put_source(facts_of(conversation), first_changed=None)
        source = source_of(archive_id=conversation.archive_id, conversation_id=conversation_id)
    return (
        index_source(archive_id=source.archive_id, source_id=source.pk, deadline=deadline) if source else IndexResult()
    )


def facts_of(conversation: Conversation) -> SourceFacts:
    """Return the conversation's facts for the index."""
    return SourceFacts(
        kind=KIND,
        archive_id=conversation.archive_id,
        object_id=conversation.pk,
        version=conversation.turns_version,
        item_count=max(conversation.turn_count, min(conversation.message_count, 1)),
        element_count=conversation.message_count,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        title=conversation.title,
        agent=conversation.agent,
        project=conversation.project,
        origin=conversation.source,
        archived=conversation.archived_at is not None,
    )


def on_conversation_changed(sender: Any, *, conversation: Conversation, first_turn: int | None, **kwargs: Any) -> None:
    if conversation.trashed_at is not None:  # keys were hidden in it: its passages are of the texts with them
        drop_source(archive_id=conversation.archive_id, kind=KIND, object_id=conversation.pk)
        return
    source_id = put_source(facts_of(conversation), first_changed=first_turn)
    if first_turn is not None:
        enqueue_index(archive_id=conversation.archive_id, source_id=source_id, as_of=conversation.updated_at)


def on_projects_renamed(sender: Any, *, archive_id: int, conversation_ids: Sequence[int], **kwargs: Any) -> None:
    of_archive = Conversation.objects.filter(archive_id=archive_id, pk=OuterRef("object_id"))
    Source.objects.filter(archive_id=archive_id, kind=KIND, object_id__in=conversation_ids).update(
        project=Coalesce(Subquery(of_archive.values("project")[:1]), F("project"))
    )


def on_conversation_deleting(sender: Any, *, conversation_id: int, archive_id: int, **kwargs: Any) -> None:
    source = source_of(archive_id=archive_id, conversation_id=conversation_id)
    if source is not None:
        lock_for_deletion(source.pk)


def on_conversation_deleted(sender: Any, *, instance: Conversation, **kwargs: Any) -> None:
    drop_source(archive_id=instance.archive_id, kind=KIND, object_id=instance.pk)


def on_conversation_trashed(sender: Any, *, conversation: Conversation, **kwargs: Any) -> None:
    drop_source(archive_id=conversation.archive_id, kind=KIND, object_id=conversation.pk, keeps_passages=True)


def on_conversation_restored(sender: Any, *, conversation: Conversation, **kwargs: Any) -> None:
    """Let a worker index the conversation, its words too: no request does work that grows with a conversation."""
    source_id = put_source(facts_of(conversation), first_changed=None)
    enqueue_index(archive_id=conversation.archive_id, source_id=source_id)


def items_of(messages: Iterable[StoredMessage]) -> list[ItemText]:
    """Return the turns of the messages, which are in order."""
    items = []
    for number, group in groupby(messages, key=lambda message: message.turn_number):
        turn = list(group)
        of_turn = [message for message in turn if message.has_turn] or turn
        question = next((m for m in of_turn if m.is_real_user), of_turn[0])
        asking = (part for m in of_turn if m.is_real_user or m is question for part in m.parts)
        calls = own_calls([part for message in turn for part in message.parts])
        items.append(
            ItemText(
                number=number,
                opening_id=question.message_id,
                heading=heading_of(asking),
                created_at=next((m.created_at for m in of_turn if m.created_at), None),
                elements=tuple(element_of(message, calls) for message in turn),
            )
        )
    return items


def heading_of(asking: Iterable[Part]) -> str:
    """Return the beginning of a question, without text from a harness."""
    texts = (text for part in asking if isinstance(part, TextPart) and (text := said_text(part)).strip())
    return cut("\n".join(texts), MAX_HEADING_CHARS)


def element_of(message: StoredMessage, calls: frozenset[str] = frozenset()) -> Element:
    """Return a message as the index reads it, without text from a harness (reminders) and without echoes.

    `calls` are the calls of our own tools in its turn, for results without a name.

    A message without a turn contributes to no turn's vector and to no turn's rank; a system message without a turn is a
    system prompt.
    """
    is_spoken = message.is_real_user or message.role == "assistant"
    kind: Kind | None = "user" if message.is_real_user else "assistant" if is_spoken else None
    if message.role == "system" and not message.has_turn:
        kind = "system"
    elif kind and message.has_other_turns:
        kind = "outside"
    parts = _parts(message.parts, kind, calls)
    return Element(
        element_id=message.message_id,
        item_number=message.turn_number,
        parts=tuple(parts) if message.has_turn else tuple(replace(part, in_vector=False) for part in parts),
        speaker=speaker_of(message.role, message.name),
        name=message.name if is_spoken else "",
        digest=message.content_hash,
    )


def _parts(parts: Iterable[Part], spoken: Kind | None, calls: frozenset[str] = frozenset()) -> Iterator[ElementPart]:
    for index, part in enumerate(parts):
        kind = spoken
        if isinstance(part, ThinkingPart):
            kind = "thinking"
        elif isinstance(part, ToolCallPart):
            kind = "call"
        elif isinstance(part, ToolResultPart):
            kind = "tool"
        if kind is not None and not (kind in ("call", "tool") and is_echo(part, calls)):
            label = part.name if isinstance(part, AttachmentPart) else ""
            in_vector = spoken is not None and isinstance(part, (TextPart, ToolCallPart))
            yield ElementPart(index, kind, without_recalled(part_text(part)), label, in_vector)


def split_message(parts: Iterable[Part], *, is_real_user: bool, is_assistant: bool) -> list[PassageSpan]:
    """Return the passages of one message, in order. Text from a harness (reminders) has none."""
    kind: Kind | None = "user" if is_real_user else "assistant" if is_assistant else None
    return split_parts(tuple(_parts(parts, kind)))
