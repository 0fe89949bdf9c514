"""What comes in, before it is stored: conversations, messages and events with their words, as pure values.

Importers, the API and the chat all pass these to `ingest.py` and `responses.py`. Here, and at no later layer, texts
lose the characters that PostgreSQL cannot store; those of parts do when they become JSON (`parts.py`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from convmemory.conversations.messages.parts import Part, Role, TextPart, part_size
from convmemory.conversations.messages.usage import Usage, usage_in_lines
from convmemory.core.errors import InvalidInput
from convmemory.core.marks import Mark
from convmemory.core.text import json_storable, storable

TITLE_CHARS = 80  # of a title taken from the first question


@dataclass(frozen=True, slots=True)
class HiddenKeyDraft:
    """A key that was removed from a message: its number there, its kind, and the key itself."""

    number: int
    kind: str
    value: str = field(repr=False)


def _make_storable(draft: object, *names: str) -> None:
    """Clean these texts of a new draft."""
    for name in names:
        text = getattr(draft, name)
        if (cleaned := storable(text)) != text:
            object.__setattr__(draft, name, cleaned)


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """One message.

    `source_key` names the message within its conversation for as long as the source keeps it (a uuid, a line number);
    importing again finds the message by it. `injected` marks a user message that no person wrote (reminders, command
    echoes, compaction notices). `superseded` marks a message that its thread has abandoned (an edited prompt, another
    answer, a rewind): it belongs to no turn. `is_copy` marks a message that was read from a copy elsewhere in the
    source: it is stored only if the conversation has no message with its text. `raw` holds the unchanged source lines.
    `usage` is what the request cost whose answer it is, if the lines do not say it.
    `hidden_keys` are the keys whose marks are in the parts. `mark` is the owner's mark of the turn that it opens, in an
    export of this product.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    created_at: datetime | None = None
    model: str = ""
    source_key: str = ""
    injected: bool = False
    superseded: bool = False
    is_copy: bool = False
    raw: bytes = b""
    hidden_keys: tuple[HiddenKeyDraft, ...] = ()
    mark: Mark | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        _make_storable(self, "name", "model", "source_key")

    @property
    def weight(self) -> int:
        """The approximate size of the message in bytes."""
        return len(self.raw) + sum(map(part_size, self.parts))

    @property
    def reported_usage(self) -> Usage | None:
        """The usage of an answer, as the source reports it."""
        return self.usage or (usage_in_lines(self.raw) if self.role == "assistant" else None)


def in_batches(drafts: Iterable[MessageDraft], *, count: int, size: int) -> Iterator[list[MessageDraft]]:
    """Yield the messages in lists of at most `count`; a list of more than `size` bytes ends early."""
    batch: list[MessageDraft] = []
    weight = 0
    for draft in drafts:
        batch.append(draft)
        weight += draft.weight
        if len(batch) == count or weight > size:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class TurnDraft:
    """One whole turn of a chat that is stored elsewhere. Raises: InvalidInput if one of its texts is empty."""

    number: int
    user_text: str
    assistant_text: str
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        if not (self.user_text.strip() and self.assistant_text.strip()):
            raise InvalidInput("A turn has a question and an answer: send both texts.")

    def messages(self) -> list[MessageDraft]:
        """Return the turn's two messages, whose keys contain the turn's number."""
        texts: tuple[tuple[Role, str], ...] = (("user", self.user_text), ("assistant", self.assistant_text))
        return [
            MessageDraft(role, (TextPart(text),), created_at=self.created_at, source_key=f"turn:{self.number}:{role}")
            for role, text in texts
        ]


MAX_CLOCK_SKEW = timedelta(days=2)  # a later time is an error, not a clock that is ahead


def passed(time: datetime | None) -> datetime | None:
    """Return the time of something that happened; None for a time to come, which would be the newest for ever."""
    return time if time and time <= datetime.now(UTC) + MAX_CLOCK_SKEW else None


@dataclass(frozen=True, slots=True)
class EventDraft:
    """One entry of an agent's event log; never embedded.

    `prompt_number` counts, from 0, the prompts in the log so far: the event belongs to the turn that contains this
    prompt of the conversation. Without it, `turn_number` is used.
    """

    line_number: int
    type: str
    level: str = ""
    tool: str = ""
    turn_number: int | None = None
    created_at: datetime | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    prompt_number: int | None = None

    def __post_init__(self) -> None:
        _make_storable(self, "type", "level", "tool")
        object.__setattr__(self, "payload", json_storable(self.payload))
        object.__setattr__(self, "created_at", passed(self.created_at))


@dataclass(frozen=True, slots=True)
class ConversationDraft:
    """One conversation. `messages` and `events` are consumed once, in source order.

    (`source`, `source_id`) is unique per owner; without a `source_id` every import is a new conversation.
    `parent_source_id` names the conversation of the same source that started this one (a subagent's parent),
    `continued_in` the one in which it goes on.
    `updated_at` and `archived_at` are given if a conversation comes back from an export; else they follow from the
    messages and from `archived`. `written_at` is the time of the source's last change, which dates a conversation
    without any date; `is_of_file` says that the draft was read from a file, so that undated messages get the dates of
    their neighbours. `unless_source` is a source whose conversation of the same id has more content: if it is stored,
    this draft is not. `is_fork` says that the conversation may begin with a copy of another one of its source.
    `has_weak_id` says that another conversation may have the same id: a stored one is this one only if their messages
    agree. That holds for any id without a UUID if messages are named by their places, and for `former_ids`, which this
    conversation had in earlier imports. `is_automated` says that a program started the session, and no person.
    """

    messages: Iterable[MessageDraft]
    source: str = "api"
    source_id: str = ""
    title: str = ""
    agent: str = ""
    project: str = ""
    repository: str = ""
    worktree: str = ""
    created_at: datetime | None = None
    parent_source_id: str = ""
    continued_in: str = ""
    archived: bool = False
    archived_at: datetime | None = None
    updated_at: datetime | None = None
    written_at: datetime | None = None
    is_of_file: bool = False
    events: Iterable[EventDraft] = ()
    unless_source: str = ""
    is_fork: bool = False
    has_weak_id: bool = False
    former_ids: tuple[str, ...] = ()
    is_automated: bool = False

    def __post_init__(self) -> None:
        _make_storable(
            self, "source_id", "title", "agent", "project", "repository", "worktree", "parent_source_id", "continued_in"
        )
        object.__setattr__(self, "former_ids", tuple(map(storable, self.former_ids)))
        for name in ("created_at", "updated_at", "written_at"):
            object.__setattr__(self, name, passed(getattr(self, name)))


MAX_WORD_CHARS = 64  # longer runs are hashes or base64, and a prefix finds them
MAX_QUERY_WORDS = 20

_WORD = re.compile(r"[^\W_]+")


# Words are not stemmed, because logs are searched for names. The words of a query may be prefixes.
def event_words(*names: str, payload: Mapping[str, Any]) -> list[str]:
    """Return the distinct words of an event, in order."""
    words = {word for text in (*names, *_texts(payload)) for word in words_in(text)}
    return sorted(words)


def words_in(text: str) -> Iterator[str]:
    """Yield the words of a text, in lower case, cut to `MAX_WORD_CHARS`."""
    return (match.group()[:MAX_WORD_CHARS].lower() for match in _WORD.finditer(text))


def words_query(text: str) -> str:
    """Return the full text query for every word of the text, as prefixes; "" if it has none."""
    words = list(dict.fromkeys(words_in(text)))[:MAX_QUERY_WORDS]
    # Words consist of letters and digits, so that nothing in the quotes needs escaping.
    return " & ".join(f"'{word}':*" for word in words)


def _texts(value: Any) -> Iterator[str]:
    """Yield keys and values of JSON of a bounded depth (`bounded_payload` of the Amplifier importer)."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)
