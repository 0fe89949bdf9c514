"""Removes keys, tokens and passwords from a message before it is stored, and shows one to its owner on request.

The stored text, and therefore the index, pages, recall and exports, has a placeholder instead of each key. The key
itself is stored encrypted, in a row of its own. HIDE_KEYS=0 turns this off for messages stored from then on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import EventDraft, HiddenKeyDraft, MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, Part, ToolCallPart
from convmemory.conversations.models import HiddenKey
from convmemory.core.config import config
from convmemory.core.encryption import decrypt, encrypt
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.key_shapes import SECRET_NAMES, find_keys, marks_in
from convmemory.core.trash import outside_trash

MAX_DEPTH = 40  # deeper values are stored unchanged


@dataclass(slots=True)
class _Hider:
    """Replaces keys by marks; a key has the same number wherever it occurs in the message.

    Numbers continue after `after`, the last one in the message so far. `among` are the marks of formats that occur
    anywhere in the message, if they are known.
    """

    after: int = 0
    among: frozenset[str] | None = None
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def text(self, text: str) -> str:
        keys = find_keys(text, among=self.among)
        if not keys:
            return text
        pieces: list[str] = []
        end = 0
        for key in keys:
            number = self.numbers.setdefault((key.kind, text[key.start : key.end]), self.after + len(self.numbers) + 1)
            pieces += (text[end : key.start], mark_of(key.kind, number))
            end = key.end
        return "".join([*pieces, text[end:]])

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value with marks in every text."""
        if isinstance(value, str):
            return self.text(value)
        if depth >= MAX_DEPTH:
            return value
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._member(str(key), item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in value]
        return value

    def _member(self, name: str, value: Any, depth: int) -> Any:
        """Return the value of an object's member; its name can show that it is a secret."""
        if not isinstance(value, str) or not name.lower().endswith(SECRET_NAMES):
            return self.value(value, depth)
        named = f"{name}="
        return self.text(named + value).removeprefix(named)

    def part(self, part: Part) -> Part:
        if isinstance(part, ToolCallPart):
            return replace(part, input=self.value(part.input))
        if isinstance(part, AttachmentPart):
            return replace(part, name=self.text(part.name), text=self.text(part.text))
        return replace(part, text=self.text(part.text))


def mark_of(kind: str, number: int) -> str:
    """Return the replacement for a key: `[hidden github-token 1]`."""
    return f"[hidden {kind} {number}]"


def without_keys(draft: MessageDraft, *, after_number: int = 0) -> MessageDraft:
    """Return the message with marks in place of its keys, and with the keys; the same message if it contains none.

    `after_number` is the number of the last mark already in it.
    """
    if not config.hide_keys:
        return draft
    # surrogateescape keeps invalid bytes of the source unchanged.
    lines = draft.raw.decode("utf-8", "surrogateescape")
    # Marks are searched once per message: one search per text took much of an import's time.
    marks = marks_in("\n".join([*_texts_of(draft.parts), lines]))
    if not marks:
        return draft
    hider = _Hider(after_number, marks)
    parts = tuple(map(hider.part, draft.parts))
    hidden = hider.text(lines)  # source lines can contain keys that no part contains
    if not hider.numbers:
        return draft
    raw = draft.raw if hidden is lines else hidden.encode("utf-8", "surrogateescape")
    keys = tuple(HiddenKeyDraft(number, kind, value) for (kind, value), number in hider.numbers.items())
    return replace(draft, parts=parts, raw=raw, hidden_keys=keys)


def text_without_keys(text: str, *, always: bool = False) -> str:
    """A title or another short text with marks in place of its keys, which are not kept."""
    return _Hider().text(text) if always or config.hide_keys else text


def parts_without_keys(parts: Iterable[Part], *, always: bool = False) -> tuple[Part, ...]:
    """The parts of one message, with marks in place of keys that were stored unhidden."""
    return tuple(map(_Hider().part, parts)) if always or config.hide_keys else tuple(parts)


def events_without_keys(events: Iterable[EventDraft]) -> Iterable[EventDraft]:
    """Entries of an event log, with marks in place of their keys, which are not kept."""
    if not config.hide_keys:
        return events
    return (replace(event, payload=_Hider().value(event.payload)) for event in events)


def value_without_keys(value: Any) -> Any:
    """A JSON value, with marks in place of its keys, which are not kept."""
    return _Hider().value(value) if config.hide_keys else value


def _texts_of(parts: Iterable[Part]) -> Iterator[str]:
    """Yield every text in the parts that can contain a key."""
    for part in parts:
        if isinstance(part, ToolCallPart):
            yield from _texts_in(part.input)
        else:
            yield part.text
            if isinstance(part, AttachmentPart):
                yield part.name


def _texts_in(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth >= MAX_DEPTH:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts_in(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts_in(item, depth + 1)


def keep_keys(messages: Iterable[tuple[int, MessageDraft]], *, archive_id: int) -> None:
    """Store the keys of messages, by message id.

    Keys already stored for a message stay: its text may contain their marks.
    """
    rows = [
        HiddenKey(
            message_id=message_id,
            archive_id=archive_id,
            number=key.number,
            kind=key.kind,
            value_encrypted=encrypt(key.value),
        )
        for message_id, draft in messages
        for key in draft.hidden_keys
    ]
    HiddenKey.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["archive", "message", "number"],
        update_fields=["kind", "value_encrypted"],
    )


def keys_of(*, caller: Caller, conversation_id: int) -> list[HiddenKey]:
    """Return the caller's hidden keys of a conversation, in order, without their values."""
    rows = HiddenKey.objects.filter(archive_id=caller.archive_id, message__conversation_id=conversation_id)
    return list(rows.select_related("message").defer("value_encrypted").order_by("message__position", "number"))


def count_keys(*, caller: Caller, conversation_id: int) -> int:
    """Return the number of hidden keys in the caller's conversation."""
    return HiddenKey.objects.filter(archive_id=caller.archive_id, message__conversation_id=conversation_id).count()


def reveal_key(*, caller: Caller, key_id: int) -> str:
    """Return the caller's key in plain text. Raises: NotFound; InvalidInput if SECRET_KEY has changed since."""
    row = HiddenKey.objects.filter(
        outside_trash("message__conversation"), archive_id=caller.archive_id, pk=key_id
    ).first()
    if row is None:
        raise NotFound(f"There is no hidden key {key_id}.")
    value = decrypt(row.value_encrypted)
    if value is None:
        raise InvalidInput("The key cannot be decrypted: SECRET_KEY has changed since it was stored.")
    return value
