"""Reading conversations and messages: every function takes the caller and sees only what is theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet

from convmemory.conversations.models import Conversation, Event, Message
from convmemory.conversations.parts import Part, Role
from convmemory.core.cursors import decode_moment, encode_cursor
from convmemory.core.errors import InvalidInput, NotFound


@dataclass(frozen=True, slots=True)
class Filters:
    """Which conversations count, and of one conversation which turns. None and "" mean: any.

    For searches `kinds` are those of sources, all where it is empty, and `documents` the only documents that count.
    """

    agent: str = ""
    project: str = ""
    source: str = ""
    after: datetime | None = None
    before: datetime | None = None
    archived: bool | None = False
    conversation_id: int | None = None
    turns: tuple[int, int] | None = None
    kinds: frozenset[str] = frozenset()
    documents: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if self.after and self.before and self.after > self.before:
            raise InvalidInput("`after` is later than `before`: swap the two dates.")


EVERYTHING = Filters()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a numbered turn as a pure value, for what is derived from it."""

    message_id: int
    turn_number: int
    role: Role
    is_real_user: bool
    name: str
    parts: tuple[Part, ...]
    created_at: datetime | None = None
    position: int = 0
    content_hash: bytes = b""


def stored_message(row: Message) -> StoredMessage:
    """A numbered message as a value. Raises: KeyError, TypeError where its parts are damaged."""
    assert row.turn_number is not None
    return StoredMessage(
        message_id=row.pk,
        turn_number=row.turn_number,
        role=cast("Role", row.role),
        is_real_user=row.is_real_user,
        name=row.name,
        parts=row.typed_parts,
        created_at=row.created_at,
        position=row.position,
        content_hash=bytes(row.content_hash),
    )


def messages_of_turns(conversation: Conversation, first: int, last: int) -> list[StoredMessage]:
    """The messages of turns `first` to `last`, in order. One query; the caller has checked the owner."""
    rows = conversation.messages.filter(turn_number__range=(first, last)).order_by("position")
    return [stored_message(row) for row in rows]


def visible_conversations(owner: AbstractBaseUser, filters: Filters = EVERYTHING) -> QuerySet[Conversation]:
    """The caller's conversations that pass the filters on the conversation itself."""
    query = Conversation.objects.filter(owner_id=owner.pk)
    if filters.archived is not None:
        query = query.filter(archived_at__isnull=not filters.archived)
    for name in ("agent", "project", "source"):
        if value := getattr(filters, name):
            query = query.filter(**{name: value})
    if filters.conversation_id is not None:
        query = query.filter(pk=filters.conversation_id)
    if filters.after:
        query = query.filter(updated_at__gte=filters.after)
    if filters.before:
        query = query.filter(updated_at__lte=filters.before)
    return query


def owner_of(conversation_id: int) -> int | None:
    """Whose conversation this is, for background work alone; None where it is gone."""
    owners = Conversation.objects.filter(pk=conversation_id).values_list("owner_id", flat=True)
    return owners.first()


def get_conversation(*, owner: AbstractBaseUser, conversation_id: int) -> Conversation:
    """Raises: NotFound for an unknown and for a foreign conversation alike."""
    found = Conversation.objects.filter(owner_id=owner.pk, pk=conversation_id).first()
    if found is None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return found


def page_of_conversations(
    *, owner: AbstractBaseUser, filters: Filters, limit: int, cursor: str = ""
) -> tuple[list[Conversation], str | None]:
    """The newest conversations first, and the cursor of the next page, if there is one. Raises: InvalidInput."""
    query = {"list": "conversations", "filters": repr(filters)}
    rows = visible_conversations(owner, filters).order_by("-updated_at", "-id")
    if cursor:
        at, pk = decode_moment(query, cursor)
        rows = rows.filter(Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=pk))
    page = list(rows[: limit + 1])
    if len(page) <= limit:
        return page, None
    last = page[limit - 1]
    return page[:limit], encode_cursor(query, [last.updated_at.isoformat(), last.pk])


def messages_of(
    *,
    owner: AbstractBaseUser,
    conversation_id: int,
    turns: tuple[int, int | None] | None = None,
    from_position: int = 0,
    limit: int,
) -> list[Message]:
    """Messages in order from a position on; of `turns` (first and last, None: to the end) alone where given.

    Raises: NotFound.
    """
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    rows = conversation.messages.filter(position__gte=from_position)
    if turns is not None:
        first, last = turns
        rows = rows.filter(turn_number__gte=first, **({} if last is None else {"turn_number__lte": last}))
    return list(rows.order_by("position")[:limit])


def search_events(
    *,
    owner: AbstractBaseUser,
    conversation_id: int | None = None,
    type_: str = "",
    tool: str = "",
    level: str = "",
    after_id: int = 0,
    limit: int = 50,
) -> Sequence[Event]:
    """Entries of the caller's event logs, oldest first. Raises: NotFound for a foreign conversation."""
    rows = Event.objects.filter(owner_id=owner.pk, pk__gt=after_id)
    if conversation_id is not None:
        rows = rows.filter(conversation=get_conversation(owner=owner, conversation_id=conversation_id))
    for name, value in (("type", type_), ("tool", tool), ("level", level)):
        if value:
            rows = rows.filter(**{f"{name}__iexact" if name == "level" else name: value})
    return list(rows.order_by("pk")[:limit])
