"""Reads conversations and messages: every function takes the caller and returns only the caller's rows."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.db import connection
from django.db.models import Case, F, IntegerField, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.expressions import RawSQL

from convmemory.accounts.callers import Caller, SpaceName, latest_first
from convmemory.conversations.filters import EVERYTHING, Filters, conditions_on_conversations
from convmemory.conversations.messages.drafts import words_query
from convmemory.conversations.messages.errors import VARYING
from convmemory.conversations.messages.parts import Part, Role, ToolCallPart, part_from_json, part_text
from convmemory.conversations.models import Conversation, Event, Message
from convmemory.conversations.names import with_known_names
from convmemory.core.cursors import decode_moment, encode_cursor
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.folding import folded, pattern_of, places_of_words
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.sql import PendingQuery, Query, load_sql
from convmemory.core.text import one_line, storable
from convmemory.core.trash import outside_trash

MAX_EVENT_QUERY_CHARS = 500
SOURCE_ID_CHARS = 300
QUESTION_CHARS = 120
MESSAGE_KEYS = ("error", "message", "msg", "detail", "stderr", "exception", "reason")
MESSAGE_CHARS = 400
SIMILAR_WORDS, SIMILAR_LOOKED_AT = 6, 500
_PLAIN_WORD = re.compile(r"[^\W\d_]{3,}")
_VARYING = ((re.compile(r"[\"'`][^\"'`\n]{1,80}+[\"'`]"), "<name>"), *VARYING)
"""What differs between two reports of the same error, and what stands for it; in logs, quoted names differ, too."""
_MARK = re.compile("|".join({mark for _, mark in _VARYING}))
FIND_CHARS, EXCERPT_BEFORE, EXCERPT_AFTER = 500, 30, 90
CHECKED_AT_ONCE = 100  # messages that may contain the words, whose texts are in memory


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as a pure value, from which other data is derived.

    `turn_number` is the turn with which it is read, `has_turn` whether it belongs to that turn (`with_home_turns`).
    """

    message_id: int
    turn_number: int
    role: Role
    is_real_user: bool
    name: str
    parts: tuple[Part, ...]
    created_at: datetime | None = None
    position: int = 0
    content_hash: bytes = b""
    has_turn: bool = True
    has_other_turns: bool = False


def with_home_turns(rows: QuerySet[Message]) -> QuerySet[Any]:
    """Return the messages, each with `home_turn`: the turn with which it is read.

    That is its own turn. Messages before the first turn (a greeting, a system prompt) are read with the first one,
    those after the last (a question without an answer) with the last one; without turns, all have number 0. Superseded
    messages are left out.
    """
    first = Message.objects.filter(
        archive_id=OuterRef("archive_id"), conversation_id=OuterRef("conversation_id"), turn_number=0
    )
    home = Case(
        When(turn_number__isnull=False, then=F("turn_number")),
        When(conversation__turn_count=0, then=0),
        When(position__lt=Subquery(first.order_by("position").values("position")[:1]), then=0),
        default=F("conversation__turn_count") - 1,
        output_field=IntegerField(),
    )
    return rows.filter(superseded=False).annotate(home_turn=home, turns=F("conversation__turn_count"))


def home_turn_of(row: Message) -> int:
    """Return the turn with which a message is read; the message was loaded `with_home_turns` or has a turn."""
    return cast("int", getattr(row, "home_turn", row.turn_number))


def stored_message(row: Message) -> StoredMessage:
    """Return a message as a value; it was loaded `with_home_turns` or has a turn.

    Raises: KeyError, TypeError for damaged parts.
    """
    return StoredMessage(
        message_id=row.pk,
        turn_number=home_turn_of(row),
        has_turn=row.turn_number is not None,
        has_other_turns=row.turn_number is None and getattr(row, "turns", 0) > 0,
        role=cast("Role", row.role),
        is_real_user=row.is_real_user,
        name=row.name,
        parts=row.typed_parts,
        created_at=row.created_at,
        position=row.position,
        content_hash=bytes(row.content_hash),
    )


# In plain SQL: each search waits for it, and each message that is stored is read by it, to index its words. 40 messages
# took 1.4 ms, where the ORM took 2.7 ms.
def _stored_messages(archive_id: int, condition: str, parameters: Mapping[str, Any]) -> Query:
    statement = load_sql("convmemory.conversations", "stored_messages").replace("{condition}", condition)
    return statement, {"owner": archive_id, **parameters}


def stored_messages_in(rows: Iterable[tuple[Any, ...]]) -> list[StoredMessage]:
    """Return the messages of the rows. Raises: like `stored_message`."""
    return [
        StoredMessage(number, turn, role, is_real_user, name, tuple(map(part_from_json, parts)), *rest)
        for number, turn, role, is_real_user, name, parts, *rest in rows
    ]


def stored_messages(
    archive_id: int, message_ids: Iterable[int], *, with_stems: Collection[str] = ()
) -> list[StoredMessage]:
    """Return an owner's messages as values, without superseded ones. One query. Raises: like `stored_message`."""
    query = stored_messages_query(archive_id, message_ids, with_stems=with_stems)
    return stored_messages_in(PendingQuery(*query, keeps_plan=True).rows())


def stored_messages_query(archive_id: int, message_ids: Iterable[int], *, with_stems: Collection[str] = ()) -> Query:
    """Return the query for messages, which `stored_messages_in` reads.

    With `with_stems`, at least the messages that contain one of these stems of words are returned: PostgreSQL leaves
    most others out, which saves reading them.
    """
    condition = "m.id = ANY(%(messages)s::bigint[])"
    parameters: dict[str, Any] = {"messages": list(set(message_ids))}
    if with_stems:
        condition += " AND m.parts::text ~* %(pattern)s"
        parameters["pattern"] = "|".join(map(pattern_of, with_stems))
    return _stored_messages(archive_id, condition, parameters)


def messages_read_with(archive_id: int, conversation_id: int, first: int, last: int) -> list[StoredMessage]:
    """Return the owner's messages that are read with turns `first` to `last` (`with_home_turns`), in order.

    One query.
    """
    query = _stored_messages(
        archive_id,
        "m.conversation_id = %(conversation)s AND home.turn BETWEEN %(first)s AND %(last)s"
        " AND (m.turn_number BETWEEN %(first)s AND %(last)s OR m.turn_number IS NULL)",  # can use an index
        {"conversation": conversation_id, "first": first, "last": last},
    )
    return stored_messages_in(PendingQuery(*query, keeps_plan=True).rows())


def messages_of_turns(conversation: Conversation, first: int, last: int) -> list[StoredMessage]:
    """Return the messages of turns `first` to `last`, in order. One query; the caller has checked the owner."""
    rows = conversation.messages.filter(turn_number__range=(first, last)).order_by("position")
    return [stored_message(row) for row in rows]


def visible_conversations(caller: Caller, filters: Filters = EVERYTHING) -> QuerySet[Conversation]:
    """The caller's conversations that pass the filters on the conversation itself."""
    return Conversation.objects.filter(conditions_on_conversations(filters), archive_id=caller.archive_id)


def get_conversation(*, caller: Caller, conversation_id: int) -> Conversation:
    """Return the caller's conversation. Raises: NotFound, for an unknown and for a foreign one."""
    row = Conversation.objects.filter(archive_id=caller.archive_id, pk=conversation_id).first()
    if row is None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return row


def opening_of_turn(conversation: Conversation, turn_number: int) -> Message:
    """Return the message that opens the turn. Raises: NotFound, with the turns that there are."""
    opening = conversation.messages.filter(turn_number=turn_number).order_by("position").first()
    if opening is None:
        last = conversation.last_turn
        turns = "it has no turns" if last is None else f"its turns are 0 to {last}"
        raise NotFound(f"Conversation {conversation.pk} has no turn {turn_number}: {turns}.")
    return opening


def find_by_source(*, caller: Caller, source: str, source_id: str) -> Conversation | None:
    """Return the caller's conversation with this id at its source; with an empty source, the latest one of
    any source.
    """
    rows = Conversation.objects.filter(archive_id=caller.archive_id, source_id=storable(source_id)[:SOURCE_ID_CHARS])
    if source:
        rows = rows.filter(source=storable(source))
    return rows.order_by("-updated_at", "-id").first()


def sessions_of(*, caller: Caller, session_id: str) -> tuple[int, ...]:
    """Return the ids of the caller's conversations that an agent's session has become, with those of its subagents."""
    if not session_id:
        return ()
    named = storable(session_id)[:SOURCE_ID_CHARS]
    rows = Conversation.objects.filter(archive_id=caller.archive_id).filter(
        Q(source_id=named) | Q(parent_source_id=named)
    )
    return tuple(rows.values_list("pk", flat=True))


def page_of_conversations(
    *, caller: Caller, filters: Filters, limit: int, cursor: str = "", source_id: str = ""
) -> tuple[list[Conversation], str | None]:
    """Return a page of conversations, newest first, and the cursor of the next page, if any. Raises: InvalidInput."""
    page, following = page_of_archives(
        caller=caller.alone(), filters=filters, limit=limit, cursor=cursor, source_id=source_id
    )
    return [conversation for conversation, _ in page], following


def page_of_archives(
    *,
    caller: Caller,
    filters: Filters,
    limit: int,
    chosen: str = "",
    cursor: str = "",
    source_id: str = "",
) -> tuple[list[tuple[Conversation, SpaceName | None]], str | None]:
    """Return a page of conversations of all archives that the caller reads, newest first, each with its space.

    `chosen` restricts it to one archive (`Caller.chosen`). One query for each archive, and those for the names in its
    filters, in the order of their latest changes until the page is full; a cursor is a place in all of them, since ids
    are unique.

    Raises: InvalidInput, NotFound for another space.
    """
    query = {"list": "conversations", "filters": repr(filters)}
    query |= {name: text for name, text in (("source_id", source_id), ("space", chosen)) if text}
    earlier = Q()
    if cursor:
        at, pk = decode_moment(query, cursor)
        earlier = Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=pk)
    if source_id:
        earlier &= Q(source_id=storable(source_id)[:SOURCE_ID_CHARS])
    page: list[tuple[Conversation, SpaceName | None]] = []
    for access, changed_at in latest_first(caller.chosen(chosen)):
        if len(page) > limit and changed_at < page[limit][0].updated_at:
            break  # nothing that is left is as new
        with caller.in_(access) as there:
            full = with_known_names(there.archive_id, filters)
            rows = visible_conversations(there, full).filter(earlier).order_by("-updated_at", "-id")
            page += [(row, access.space) for row in rows[: limit + 1]]
        page.sort(key=lambda pair: (pair[0].updated_at, pair[0].pk), reverse=True)
    if len(page) <= limit:
        return page, None
    last, _ = page[limit - 1]
    return page[:limit], encode_cursor(query, [last.updated_at.isoformat(), last.pk])


def messages_of(
    *,
    caller: Caller,
    conversation_id: int,
    turns: tuple[int, int | None] | None = None,
    from_position: int = 0,
    limit: int,
) -> list[Message]:
    """Return messages in order from a position on; only those of `turns` (first and last, None: to the end) if given.

    Messages without a turn are read with the first or the last one, see `with_home_turns`. Raises: NotFound.
    """
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    rows = conversation.messages.filter(position__gte=from_position)
    if turns is not None:
        first, last = turns
        rows = with_home_turns(rows).filter(home_turn__gte=first, **({} if last is None else {"home_turn__lte": last}))
    return list(rows.order_by("position")[:limit])


@dataclass(frozen=True, slots=True)
class TurnQuestion:
    """The question of a turn, in one line."""

    turn_number: int
    text: str


def questions_of(
    *, caller: Caller, conversation_id: int, from_turn: int = 0, limit: int
) -> tuple[list[TurnQuestion], int | None]:
    """Return the questions of a conversation from a turn on, and the number of the turn after them.

    Raises: NotFound.
    """
    row = get_conversation(caller=caller, conversation_id=conversation_id)
    statement = load_sql("convmemory.conversations", "outline")
    with connection.cursor() as cursor:
        cursor.execute(statement, [caller.archive_id, row.pk, from_turn, limit + 1])
        rows = cursor.fetchall()
    following = rows[limit][0] if len(rows) > limit else None
    return [TurnQuestion(number, one_line(text, QUESTION_CHARS)) for number, text in rows[:limit]], following


@dataclass(frozen=True, slots=True)
class FoundText:
    """Where a turn contains some words: a span of one part of a message, and the text around it."""

    turn_number: int
    message_id: int
    part_index: int
    start: int
    end: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class FoundTurns:
    """All `turns` that contain some words, in order, and the texts of those from place `start` on.

    `at` is the place of the first one that is not before the turn that is read; after the last it is the first.
    """

    turns: tuple[int, ...]
    at: int
    start: int
    texts: tuple[FoundText, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.texts)


def find_in_conversation(
    *, caller: Caller, conversation_id: int, words: str, from_turn: int = 0, limit: int
) -> FoundTurns:
    """Return the turns that contain all of the words in one message, with the texts of `limit` around `from_turn`.

    Reads the stored messages, tool calls and results included, not the index. Case and accents are the same, and words
    with separators inside are found without them. Three queries. Raises: NotFound.
    """
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    whole = folded(words[:FIND_CHARS])
    terms = whole.split()
    patterns = [pattern_of(storable(term)) for term in terms]
    containing = RawSQL(  # noqa: S611 - no foreign text in it
        load_sql("convmemory.conversations", "messages_with_words"), [caller.archive_id, conversation.pk, patterns]
    )
    rows = with_home_turns(Message.objects.filter(archive_id=caller.archive_id, pk__in=containing)).order_by("position")
    first_message: dict[int, int] = {}
    for message_id, turn, parts in rows.values_list("pk", "home_turn", "parts").iterator(chunk_size=CHECKED_AT_ONCE):
        if turn not in first_message and _contains(parts, terms):
            first_message[turn] = message_id
    turns = tuple(sorted(first_message))
    at = bisect_left(turns, from_turn)
    at = at if at < len(turns) else 0
    start = max(0, min(at - limit // 2, len(turns) - limit))
    shown = {first_message[turn]: turn for turn in turns[start : start + limit]}
    messages = Message.objects.filter(archive_id=caller.archive_id, pk__in=shown).order_by("position")
    return FoundTurns(turns, at, start, tuple(_text_found(row, shown[row.pk], whole, terms) for row in messages))


def _contains(parts: Any, words: Sequence[str]) -> bool:
    """Return whether the values of a message's parts contain the words."""
    texts: list[str] = []
    queue = [parts]
    while queue:
        value = queue.pop()
        if isinstance(value, dict):
            queue += value.values()
        elif isinstance(value, list):
            queue += value
        else:
            texts.append(str(value))
    return places_of_words("\n".join(texts), words) is not None


def _text_found(row: Message, turn: int, whole: str, words: Sequence[str]) -> FoundText:
    """Return the place of the words in a message: as they are written if possible, otherwise of the first one."""
    texts = [part_text(part) for part in row.typed_parts]
    for sought in (whole, *words):
        for index, text in enumerate(texts):
            if places := places_of_words(text, [sought]):
                ((start, end),) = places
                excerpt = text[max(0, start - EXCERPT_BEFORE) : end + EXCERPT_AFTER]
                return FoundText(turn, row.pk, index, start, end, one_line(excerpt, QUESTION_CHARS))
    # In a parameter of a call, behind the characters that are shown of it.
    index = next((i for i, part in enumerate(row.typed_parts) if isinstance(part, ToolCallPart)), 0)
    text = texts[index] if texts else ""
    return FoundText(turn, row.pk, index, 0, max(len(text), 1), one_line(text, QUESTION_CHARS))


@dataclass(frozen=True, slots=True)
class EventFilters:
    """Filters on entries of event logs; None and "" mean any. All `words` must occur, in any field."""

    words: str = ""
    type: str = ""
    tool: str = ""
    level: str = ""
    turn: int | None = None
    after: datetime | None = None
    before: datetime | None = None

    def __post_init__(self) -> None:
        if self.after and self.before and self.after > self.before:
            raise InvalidInput("`after` is later than `before`: swap the two dates.")
        if len(self.words) > MAX_EVENT_QUERY_CHARS:
            raise InvalidInput(f"A query has at most {MAX_EVENT_QUERY_CHARS} characters; this one {len(self.words)}.")
        if self.words.strip() and not words_query(self.words):
            raise InvalidInput("There is no word in the query: events are searched by letters and digits.")


def search_events(
    *,
    caller: Caller,
    conversation_id: int | None = None,
    filters: EventFilters = EventFilters(),
    after_id: int = 0,
    limit: int = 50,
) -> Sequence[Event]:
    """Return entries of the caller's event logs, oldest first. Raises: NotFound for a foreign conversation."""
    rows = Event.objects.filter(outside_trash("conversation"), archive_id=caller.archive_id, pk__gt=after_id)
    if conversation_id is not None:
        rows = rows.filter(conversation=get_conversation(caller=caller, conversation_id=conversation_id))
    chosen = {
        "type": filters.type,
        "tool": filters.tool,
        "level__iexact": filters.level,
        "turn_number": filters.turn,
        "created_at__gte": filters.after,
        "created_at__lte": filters.before,
    }
    rows = rows.filter(**{name: value for name, value in chosen.items() if value not in (None, "")})
    if query := words_query(filters.words):
        statement = load_sql("convmemory.conversations", "matching_events")
        # The owner is a lexeme of the index, so that a search reads no entries of other owners.
        rows = rows.filter(pk__in=RawSQL(statement, [query, f"'owner {caller.archive_id}'"]))  # noqa: S611 - no foreign text in it
    return list(rows.defer("words").order_by("pk")[:limit])


def get_event(*, caller: Caller, event_id: int) -> Event:
    """Return an entry of the caller's event logs. Raises: NotFound."""
    of_caller = Event.objects.filter(outside_trash("conversation"), archive_id=caller.archive_id)
    event = of_caller.filter(pk=event_id).first() if 0 < event_id <= MAX_BIGINT else None
    if event is None:
        raise NotFound(f"There is no event {event_id}.")
    return event


def similar_events(*, caller: Caller, event_id: int, limit: int = 50) -> list[Event]:
    """Return entries that report the same as an entry of the caller, in any conversation, newest first, without it.

    Messages are the same if they differ in paths, numbers, ids and quoted names alone. Raises: NotFound.
    """
    event = get_event(caller=caller, event_id=event_id)
    text = normalised(message_of(event.payload))
    words = sorted(set(_PLAIN_WORD.findall(_MARK.sub(" ", text))), key=len, reverse=True)
    query = words_query(" ".join(words[:SIMILAR_WORDS]))
    if not query:
        return []
    statement = load_sql("convmemory.conversations", "matching_events")
    of_caller = Event.objects.filter(outside_trash("conversation"), archive_id=caller.archive_id)
    rows = of_caller.filter(pk__in=RawSQL(statement, [query, f"'owner {caller.archive_id}'"]))  # noqa: S611
    candidates = rows.exclude(pk=event.pk).defer("words").order_by("-pk")[:SIMILAR_LOOKED_AT]
    return [one for one in candidates if normalised(message_of(one.payload)) == text][:limit]


def message_of(payload: Any) -> str:
    """Return the message of an entry: the first text under a key that names one, otherwise all of its texts."""
    if isinstance(payload, Mapping):
        for key in MESSAGE_KEYS:
            if inner := payload.get(key):
                return message_of(inner)
        return " ".join(filter(None, map(message_of, payload.values())))
    if isinstance(payload, list):
        return " ".join(filter(None, map(message_of, payload)))
    return payload if isinstance(payload, str) else ""


def normalised(message: str) -> str:
    """Return a message without what differs between two reports of the same: paths, ids, numbers, quoted names."""
    text = message[:MESSAGE_CHARS].lower()
    for pattern, mark in _VARYING:
        text = pattern.sub(mark, text)
    return " ".join(text.split())
