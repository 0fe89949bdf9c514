"""Writes conversations: creates them, appends to them, imports them again, changes and deletes them.

Every function takes the owner and works in one transaction, under a lock on the conversation's row, and sends
`conversation_changed` in it. A function that would store more than the owner's quota raises StorageFull. Replies in
progress are in `responses.py`.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, Literal

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.holds import Act, refuse_held
from convmemory.accounts.models import ShareLink
from convmemory.conversations.importing import kept_uploads
from convmemory.conversations.messages import hidden_keys
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft, TurnDraft, in_batches
from convmemory.conversations.messages.echo import with_echoes_named
from convmemory.conversations.messages.event_log import add_events
from convmemory.conversations.messages.identity import is_global_id, is_place, longer_ids
from convmemory.conversations.messages.message_store import (
    Merged,
    is_stored_as,
    merge_messages,
    merge_rows,
    replace_turn,
    source_key_of,
    without_opening,
)
from convmemory.conversations.messages.numbering import announce, count_turns, finish_change
from convmemory.conversations.messages.parts import Part, ThinkingPart, part_from_json, part_text
from convmemory.conversations.messages.responses import lock_conversation, require_idle
from convmemory.conversations.messages.storage_quota import StorageChange, count_changes, count_stored
from convmemory.conversations.messages.thinking import thinking_apart
from convmemory.conversations.messages.titling import keeps_title, title_of_source
from convmemory.conversations.models import OWN_TITLE, TITLE_VERSION, Conversation, Figures, Message, Tag
from convmemory.conversations.projects import current_name
from convmemory.conversations.signals import conversation_deleting, conversation_restored, conversation_trashed
from convmemory.core.config import config
from convmemory.core.errors import InTrash, InvalidInput, NotAllowed, NotFound
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.sql import execute_without_nested_loops, load_sql
from convmemory.core.text import one_line, storable
from convmemory.core.trash import last_expired
from convmemory.push.repositories import identity_of, spelled

AUTOMATED = "automated"  # the tag of sessions that no person started


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The changes of the import of one conversation."""

    conversation_id: int
    created: bool
    added: int
    updated: int
    unchanged: int
    turns: int
    events_added: int = 0
    hidden_keys: int = 0
    lost: int = 0  # stored messages that the source does not contain any more
    first_message_id: int | None = None  # of the added messages
    last_message_id: int | None = None


PutOutcome = Literal["created", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class PutTurn:
    """A stored turn, and the outcome of storing it."""

    conversation_id: int
    turn_number: int
    outcome: PutOutcome

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"


def create_conversation(*, caller: Caller, draft: ConversationDraft) -> Conversation:
    """Store a new conversation with its messages. Raises: InvalidInput if its source id is taken."""
    with transaction.atomic():
        taken = Conversation.with_trash.filter(
            archive_id=caller.archive_id, source=draft.source, source_id=draft.source_id[:300]
        )
        if draft.source_id and (stored := taken.first()) is not None:
            _refuse_trashed(stored)
            raise InvalidInput(
                f"A conversation with source id {draft.source_id!r} exists already: append to it instead."
            )
        conversation = _new_conversation(caller, draft)
        merged = merge_messages(conversation, draft.messages)
        if merged.first_position is None:
            announce(conversation)
    return conversation


def append_messages(*, caller: Caller, conversation_id: int, drafts: Iterable[MessageDraft]) -> list[Message]:
    """Add messages at the end and number the turns that they complete; return them with those that are stored already.

    Messages with the key and the content of stored ones are not stored again.

    Raises: NotFound, ConversationBusy while a response is being written, InvalidInput for the key of another message.
    """
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        require_idle(conversation)
        first = conversation.message_count
        drafts = list(with_echoes_named(drafts))
        keys = {source_key_of(draft) for draft in drafts} - {""}
        rows = conversation.messages.filter(source_key__in=keys).values_list("source_key", "content_hash")
        stored = {key: bytes(digest) for key, digest in rows} if keys and first else {}
        for draft in drafts:
            digest = stored.get(source_key_of(draft))
            if digest and not is_stored_as(digest, draft):
                raise InvalidInput(
                    f"Another message of conversation {conversation_id} has the id {draft.source_key!r}: send an id of "
                    "its own, or none."
                )
        fresh = [draft for draft in drafts if source_key_of(draft) not in stored]
        merge_messages(conversation, fresh, append_only=True)
    return list(conversation.messages.filter(Q(position__gte=first) | Q(source_key__in=stored)).order_by("position"))


def put_turn(*, caller: Caller, conversation_id: int, turn: TurnDraft) -> PutTurn:
    """Store one whole turn of a chat that is stored elsewhere; storing the same turn again changes nothing.

    A turn that was stored this way before and has changed is replaced.

    Raises: NotFound, ConversationBusy; InvalidInput for a gap in the numbers, for a different turn that was stored in
    another way, or if a message has the turn's id.
    """
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        require_idle(conversation)
        if turn.number > conversation.turn_count:
            raise InvalidInput(
                f"Turn {turn.number} would leave a gap: the next turn of conversation {conversation.pk} is "
                f"{conversation.turn_count}."
            )
        if turn.number == conversation.turn_count:
            messages = turn.messages()
            taken = conversation.messages.filter(source_key__in=[draft.source_key for draft in messages])
            for key in taken.values_list("source_key", flat=True)[:1]:
                raise InvalidInput(
                    f"A message of conversation {conversation.pk} has the id {key!r}, which turn {turn.number} would "
                    "get: append the turn as messages with ids of their own."
                )
            merge_messages(conversation, messages, append_only=True)
            return PutTurn(conversation.pk, turn.number, "created")
        outcome: PutOutcome = "replaced" if replace_turn(conversation, turn) else "unchanged"
    return PutTurn(conversation.pk, turn.number, outcome)


def sync_conversation(*, caller: Caller, draft: ConversationDraft) -> SyncResult:
    """Store a conversation from a source, or update the stored one; never duplicates a message.

    Messages are recognised by `source_key`. Stored messages that the source no longer contains stay in their places, so
    that nothing is lost.
    """
    if not draft.source_id:
        raise InvalidInput("A conversation that can be imported again needs a source id.")
    with transaction.atomic(savepoint=False):
        stored, draft = stored_conversation(caller=caller, draft=draft)
        if stored is not None:
            _refuse_trashed(stored)
        conversation, created = stored or _new_conversation(caller, draft), stored is None
        require_idle(conversation)
        last_active = None if created else conversation.updated_at
        turns_before = conversation.turn_count
        merged = merge_rows(conversation, draft.messages)
        # The first turn that can have changed; None if no message has.
        if merged.first_position is None:
            first_turn = None
        else:
            first_turn = count_turns(
                conversation,
                from_position=merged.first_position,
                message_count=merged.message_count,
                turn_count=merged.turn_count,
                newest=merged.newest,
            )
        events, event_bytes = add_events(conversation, hidden_keys.events_without_keys(draft.events))
        has_new_headers = not created and _update_headers(conversation, draft)
        if (draft.is_of_file or draft.written_at) and not draft.updated_at:
            if merged.first_position is not None:
                date_undated(conversation, draft, merged, last_active=last_active)
        elif created and draft.updated_at:
            conversation.updated_at = draft.updated_at
            conversation.save(update_fields=["updated_at"])
        if first_turn is not None or created or has_new_headers:
            announce(conversation, first_turn=first_turn)
        stored_bytes = merged.stored_bytes + event_bytes
        # Last, because it locks the owner's row until the commit.
        count_stored(
            archive_id=caller.archive_id,
            conversation_id=conversation.pk,
            change=stored_bytes,
            turns=conversation.turn_count - turns_before,
        )
    return SyncResult(
        conversation_id=conversation.pk,
        created=created,
        added=merged.added,
        updated=merged.updated,
        unchanged=merged.unchanged,
        turns=conversation.turn_count,
        events_added=events,
        hidden_keys=merged.hidden_keys,
        lost=merged.lost,
        first_message_id=merged.first_id,
        last_message_id=merged.last_id,
    )


def change_conversation(*, caller: Caller, conversation_id: int, values: dict[str, Any]) -> Conversation:
    """Set title, agent, project or `archived_at`; a title is the owner's from then on. Raises: NotFound."""
    limits = {"title": 300, "agent": 100, "project": 300}
    if "title" in values:
        values = {"title_version": OWN_TITLE, **values}
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        if values.get("project", conversation.project) != conversation.project:
            values = {**values, "repository": "", "worktree": ""}  # those of the former project
        for name, value in values.items():
            setattr(conversation, name, one_line(storable(value), limits[name]) if name in limits else value)
        conversation.save(update_fields=list(values))
        announce(conversation)
    return conversation


def delete_conversation(*, caller: Caller, conversation_id: int) -> None:
    """Put the conversation into the trash; without a trash (TRASH_DAYS=0) delete it for good.

    Its index rows are deleted, its figures too; its messages and the uploads that contain it stay.

    Raises: NotFound, OnLegalHold.
    """
    if not config.trash_days:
        return delete_for_good(caller=caller, conversation_id=conversation_id)
    with transaction.atomic():
        # Before the row is locked: receivers can wait for tasks that write derived rows.
        conversation_deleting.send(Conversation, conversation_id=conversation_id, archive_id=caller.archive_id)
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        refuse_held(archive_id=caller.archive_id, conversation_ids=[conversation_id])
        conversation.trashed_at = timezone.now()
        conversation.save(update_fields=["trashed_at"])
        Figures.objects.filter(archive_id=caller.archive_id, conversation=conversation).delete()
        conversation_trashed.send(Conversation, conversation=conversation)
        record(
            Action.TRASHED,
            what=f"conversation {conversation_id}",
            person_id=caller.person_id,
            about_id=caller.archive_id,
        )
    return None


def restore_conversation(*, caller: Caller, conversation_id: int) -> Conversation:
    """Take the conversation out of the trash; a worker indexes it again. Raises: NotFound."""
    with transaction.atomic():
        rows = Conversation.with_trash.select_for_update().filter(
            archive_id=caller.archive_id, trashed_at__gt=last_expired()
        )
        conversation = rows.filter(pk=conversation_id).first() if conversation_id <= MAX_BIGINT else None
        if conversation is None:
            raise NotFound(f"There is no conversation {conversation_id} in your trash.")
        conversation.trashed_at = None
        conversation.save(update_fields=["trashed_at"])
        conversation_restored.send(Conversation, conversation=conversation)
        record(
            Action.RESTORED,
            what=f"conversation {conversation_id}",
            person_id=caller.person_id,
            about_id=caller.archive_id,
        )
    return conversation


def delete_for_good(*, caller: Caller, conversation_id: int) -> None:
    """Delete the conversation, in the trash or not, with all derived from it, its share links and uploads with it.

    Raises: NotFound, OnLegalHold.
    """
    with transaction.atomic():
        count_changes(delete_uncounted(caller=caller, conversation_id=conversation_id))


def delete_uncounted(*, caller: Caller, conversation_id: int, moved_to: int | None = None) -> StorageChange:
    """Delete the conversation like `delete_for_good`; return what the transaction has to count at its end.

    `moved_to` is the owner of the archive that stores it instead, for the audit log.
    """
    freed = StorageChange()
    with transaction.atomic():
        kept_uploads.drop_uploads_with(freed, caller=caller, conversation_id=conversation_id)
        conversation_deleting.send(Conversation, conversation_id=conversation_id, archive_id=caller.archive_id)
        rows = Conversation.with_trash.select_for_update().filter(archive_id=caller.archive_id)
        conversation = rows.filter(pk=conversation_id).first()
        if conversation is None:
            raise NotFound(f"There is no conversation {conversation_id}.")
        act: Act = "delete" if moved_to is None else "move"
        refuse_held(archive_id=caller.archive_id, conversation_ids=[conversation_id], act=act)
        freed.delete_conversation(conversation)
        ShareLink.objects.filter(archive_id=caller.archive_id, conversation_id=conversation_id).delete()
        if not conversation.delete()[0]:
            raise NotAllowed("The database deletes nothing for readers of a space.")
        action, where = (Action.DELETED, "") if moved_to is None else (Action.MOVED, f" to user {moved_to}")
        record(
            action,
            what=f"conversation {conversation_id}{where}",
            person_id=caller.person_id,
            about_id=caller.archive_id,
        )
    return freed


def _refuse_trashed(conversation: Conversation) -> None:
    """Raise InTrash for a conversation in the trash: to import it again neither duplicates nor restores it."""
    if conversation.trashed_at is not None:
        raise InTrash(
            f"Conversation {conversation.pk} is in your trash and was not changed: put it back, or delete it there for "
            "good, and import it again."
        )


def _new_conversation(caller: Caller, draft: ConversationDraft) -> Conversation:
    """Create the row; the caller announces it."""
    now = timezone.now()
    is_archived = draft.archived or (draft.is_automated and config.archive_automated)
    conversation = Conversation.objects.create(
        archive_id=caller.archive_id,
        source_id=draft.source_id[:300],
        created_at=draft.created_at or draft.written_at or now,
        updated_at=draft.created_at or draft.written_at or now,
        archived_at=draft.archived_at or (now if is_archived else None),
        **_headers(draft, caller.archive_id),
        **_parent(caller.archive_id, draft),
    )
    if draft.is_automated:
        Tag.objects.create(archive_id=caller.archive_id, conversation=conversation, name=AUTOMATED)
    return conversation


def _headers(draft: ConversationDraft, archive_id: int) -> dict[str, str]:
    return {
        "source": draft.source,
        "title": title_of_source(draft.title, draft.source),
        "agent": one_line(draft.agent, 100),
        "project": current_name(archive_id, one_line(spelled(draft.project), 300)) if draft.project else "",
        "repository": identity_of(draft.repository),
        "worktree": one_line(spelled(draft.worktree), 300) if draft.worktree else "",
        "continued_in": draft.continued_in[:300],
    }


def _parent(archive_id: int, draft: ConversationDraft) -> dict[str, str | int | None]:
    key = draft.parent_source_id[:300]
    if not key:
        return {}
    parents = Conversation.objects.filter(archive_id=archive_id, source=draft.source, source_id=key)
    return {"parent_source_id": key, "parent_id": parents.values_list("pk", flat=True).first()}


def _update_headers(conversation: Conversation, draft: ConversationDraft) -> bool:
    """Update title, agent, project and parent from the draft; return whether anything changed."""
    values = {**_headers(draft, conversation.archive_id), **_parent(conversation.archive_id, draft)}
    if keeps_title(conversation, str(values["title"])):
        del values["title"]
    elif values["title"] not in ("", conversation.title):
        values["title_version"] = TITLE_VERSION
    changed = [name for name, value in values.items() if value and getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, values[name])
    if changed:
        conversation.save(update_fields=changed)
    return bool(changed)


MAX_COMPARED = 1_000  # messages of each
MAX_ALIKE = 20  # conversations with one first message
MAX_COMPARED_BYTES = 16 * 1024**2
_HIDDEN = re.compile(r"\[hidden [\w-]{1,40} \d{1,9}\]")


# An id of the producer decides. Where another conversation may have the id, the messages decide: those of one
# conversation must begin with those of the other, or the imported one is stored as another one, under a longer id.
def stored_conversation(*, caller: Caller, draft: ConversationDraft) -> tuple[Conversation | None, ConversationDraft]:
    """Return the stored conversation that the draft continues, locked, and the draft with the id to store it under."""
    rows = Conversation.with_trash.select_for_update().filter(archive_id=caller.archive_id, source=draft.source)
    names = [draft.source_id, *draft.former_ids]
    named = _by_name(rows, names)
    by_id = named.get(draft.source_id)
    if by_id and not draft.has_weak_id:
        messages = iter(draft.messages)
        first = next(messages, None)
        draft = replace(draft, messages=messages if first is None else chain([first], messages))
        # Messages that are named by their places alone would replace those of another conversation.
        if first is None or is_global_id(draft.source_id) or not is_place(first.source_key):
            return by_id, draft
    if not named and not (draft.has_weak_id and draft.former_ids):
        return None, draft
    messages = iter(draft.messages)
    beginning = next(in_batches(messages, count=MAX_COMPARED, size=MAX_COMPARED_BYTES), [])
    draft = replace(draft, messages=chain(beginning, messages))
    if not named and beginning:
        # Some conversations that begin with this message, by id, if its key is more than its place.
        first = beginning[0]
        if is_place(first.source_key):
            named = {}
        else:
            begun = Message.objects.filter(position=0, source_key=source_key_of(first), conversation=OuterRef("pk"))
            alike = rows.filter(Exists(begun.filter(archive_id=OuterRef("archive_id")))).order_by("pk")[:MAX_ALIKE]
            named = {row.source_id: row for row in alike}
    if not named:
        return None, draft
    same = next((stored for stored in named.values() if _agrees(stored, beginning)), None)
    taken = named
    if same is None:
        longer = [other for name in names for other in longer_ids(name, beginning)]
        taken = {**named, **_by_name(rows, longer)}
        same = next((taken[name] for name in longer if name in taken and _agrees(taken[name], beginning)), None)
    own_names = [draft.source_id, *longer_ids(draft.source_id, beginning)]
    if same and (same.source_id in own_names or is_global_id(same.source_id)):
        return same, draft
    free = next((name for name in own_names if name not in taken), None)
    if free is None:
        raise InvalidInput("More conversations begin like this one than can be told apart.")
    if same:
        same.source_id = free[:300]
        same.save(update_fields=["source_id"])
    return same, replace(draft, source_id=free)


def _by_name(rows: "QuerySet[Conversation]", names: Sequence[str]) -> dict[str, Conversation]:
    """Return the stored conversations with these ids, in the order of the ids."""
    ids = {name: name[:300] for name in names}
    stored = {row.source_id: row for row in rows.filter(source_id__in=ids.values())}
    return {name: stored[id] for name, id in ids.items() if id in stored}


def _agrees(stored: Conversation, beginning: Sequence[MessageDraft]) -> bool:
    """Return whether one of the two conversations begins with the other, for all that people, models and tools said.

    If that is nothing for one of them, all messages count. What was added here, and not by an import, has no key.
    """
    fields = ("pk", "role", "content_hash", "source_key")
    rows = list(stored.messages.exclude(source_key="").order_by("position").values_list(*fields)[:MAX_COMPARED])
    spoken = [row for row in rows if row[1] != "system"]
    drafts = [draft for draft in beginning if draft.role != "system"]
    pairs = list(zip(spoken, drafts, strict=False)) or list(zip(rows, beginning, strict=False))
    if any(row[3] != source_key_of(draft) for row, draft in pairs):
        return False  # they would be stored as messages of their own, between those of the other
    differing = {row[0]: draft for row, draft in pairs if not is_stored_as(bytes(row[2]), draft)}
    last = spoken[-1][0] if spoken else 0
    differing_rows = stored.messages.filter(pk__in=differing).values_list("pk", "role", "parts")
    return all(
        role == differing[pk].role and _says_the_same(parts, differing[pk], may_grow=pk == last)
        for pk, role, parts in differing_rows
    )


def _says_the_same(parts: list[dict[str, Any]], draft: MessageDraft, *, may_grow: bool) -> bool:
    """Return whether a stored message is the draft as another version read it, or as it was while it was written."""
    before, now = _compared(map(part_from_json, parts)), _compared(draft.parts)
    return before == now or (may_grow and now.startswith(before))


def _compared(parts: Iterable[Part]) -> str:
    """Return what is said, without thinking and keys, which versions of an importer read differently."""
    texts = (part_text(part) for part in thinking_apart(parts) if not isinstance(part, ThinkingPart))
    return _HIDDEN.sub("", hidden_keys.text_without_keys("\n".join(texts))).strip()


def supersede_from(*, caller: Caller, conversation_id: int, message_id: int) -> None:
    """Mark this message of the conversation and all after it as superseded, and renumber its turns.

    Raises: NotFound, ConversationBusy while a response is being written.
    """
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        require_idle(conversation)
        first = conversation.messages.filter(pk=message_id).values_list("position", flat=True).first()
        if first is None:
            raise NotFound(f"There is no message {message_id} in conversation {conversation_id}.")
        turns_before = conversation.turn_count
        conversation.messages.filter(position__gte=first).update(superseded=True)
        finish_change(conversation, from_position=first, message_count=conversation.message_count)
        count_stored(archive_id=caller.archive_id, turns=conversation.turn_count - turns_before, may_exceed=True)


def replace_end(conversation: Conversation, *, after: int, by: Collection[int]) -> None:
    """Supersede the messages behind the position `after`, take back those with the ids `by`, and renumber the turns.

    The conversation is locked. Raises: ConversationBusy while a response is being written.
    """
    require_idle(conversation)
    later = conversation.messages.filter(position__gt=after)
    later.filter(superseded=False).exclude(pk__in=by).update(superseded=True)
    later.filter(pk__in=by).update(superseded=False)
    turns_before = conversation.turn_count
    finish_change(conversation, from_position=after + 1, message_count=conversation.message_count)
    count_stored(
        archive_id=conversation.archive_id, turns=conversation.turn_count - turns_before, may_exceed=True
    )  # nothing is added: another version of the end is shown


# Dates are taken from the context, never from the clock. A conversation begins with the first event of its log, or its
# first dated message, or the last change of its file. An undated message gets the date of its turn's first event, or of
# the nearest dated message.
def date_undated(
    conversation: Conversation, draft: ConversationDraft, merged: Merged, *, last_active: datetime | None
) -> None:
    """Date an imported conversation, whose events are stored, and its messages; about five queries.

    `last_active` is the conversation's `updated_at` before this import, None if it is new. Of a new conversation whose
    messages are all dated, none is read or written again. If nothing has a date, nor the file, no message gets one.
    """
    messages = conversation.messages
    is_dated = bool(draft.created_at or draft.written_at)
    if last_active is None and draft.created_at is None:
        events = conversation.events.filter(archive_id=conversation.archive_id).order_by("line_number")
        begun = _first_date(events) or _first_date(messages.order_by("position"))
        conversation.created_at = begun or conversation.created_at
    parameters: dict[str, Any] = {
        "owner": conversation.archive_id,
        "conversation": conversation.pk,
        "begun": conversation.created_at if is_dated else None,
    }
    newest = merged.newest
    if last_active is not None or merged.has_undated:
        # With nested loops, dating 24,000 messages of one import took four minutes.
        execute_without_nested_loops(load_sql("convmemory.conversations", "date_messages"), parameters)
        newest = messages.filter(position__gte=merged.first_position).aggregate(at=Max("created_at"))["at"]
    conversation.updated_at = max(filter(None, (newest, last_active)), default=conversation.created_at)
    conversation.save(update_fields=["created_at", "updated_at"])


def _first_date(rows: QuerySet) -> datetime | None:  # type: ignore[type-arg]  # events or messages
    first: datetime | None = rows.filter(created_at__isnull=False).values_list("created_at", flat=True).first()
    return first


# A copied message is recognised by its source key, which a copy keeps.
def without_copies(*, caller: Caller, draft: ConversationDraft) -> ConversationDraft:
    """Return the draft without the messages that it copied from the conversation from which it was forked.

    If that one is not stored, the draft is unchanged. A source that names copies otherwise names the parent.
    """
    messages = iter(draft.messages)
    first = next(messages, None)
    if first is None:
        return replace(draft, messages=())
    whole = chain([first], messages)
    key = source_key_of(first)  # the oldest conversation of the source with this message, unless it is the draft's own
    of_source = Conversation.objects.filter(archive_id=caller.archive_id, source=draft.source)
    candidates = of_source.exclude(source_id=draft.source_id[:300])
    with_first = Message.objects.filter(archive_id=caller.archive_id, source_key=key) if key else Message.objects.none()
    original = candidates.filter(pk__in=with_first.values("conversation_id")).order_by("pk").first()
    if original is None and draft.parent_source_id:
        parent = Message.objects.filter(conversation__in=of_source.filter(source_id=draft.parent_source_id[:300]))
        spoken = parent.exclude(role="system").order_by("position")
        return replace(draft, messages=without_opening(whole, list(spoken[:MAX_COMPARED])))
    if original is None:
        return replace(draft, messages=whole)
    # Compared by key and not by position, because the original may have grown since the fork.
    stored_keys = set(original.messages.exclude(source_key="").values_list("source_key", flat=True))
    return replace(
        draft,
        messages=(message for message in whole if source_key_of(message) not in stored_keys),
        parent_source_id=draft.parent_source_id or original.source_id,
    )
