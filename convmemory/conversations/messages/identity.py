"""Names conversations whose producer gives no thread id, and tells two conversations with one name apart.

Such a conversation is named by its beginning: everything until the first answer, with ids, times and speakers. Neither
the file's name nor its place counts, so that a copy, or a longer version, is the same conversation.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, spoken_text
from convmemory.core.text import content_hash, storable

MAX_ID_CHARS = 290  # the column has 300
MAX_OPENING = 50  # messages at most until the first answer
MAX_NAMED = 64  # messages at most that tell two conversations of one file apart
NAME_CHARS = 24  # of a hash

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_MAX_SEARCHED = 1_000
# Keys of messages that say only where the message was.
_PLACE = re.compile(r"(?:message|line|row|request|entry|document):[\d.]+")


def is_global_id(name: str) -> bool:
    """Return whether the id contains a UUID, so that no two conversations share it."""
    return _UUID.search(name[:_MAX_SEARCHED]) is not None


def is_place(key: str) -> bool:
    """Return whether a message's key says only where in its file the message was."""
    return not key or _PLACE.match(key) is not None


def named_by_opening(draft: ConversationDraft, *, scope: str = "", former_ids: Iterable[str] = ()) -> ConversationDraft:
    """Return the draft with an id that its first messages give; `scope` is an id that is unique only in its file."""
    messages = iter(draft.messages)
    read: list[MessageDraft] = []
    question, answer = 0, None
    for message in islice(messages, MAX_OPENING):
        read.append(message)
        if message.role == "user" and not question:
            question = len(read)
        elif question and message.role == "assistant" and spoken_text(message.parts):
            answer = message
            break
    # Without a question, the first message alone: of what follows it, more may come.
    asked = read[: question or 1]
    earlier = _name(scope, asked)  # its name when it was stored before there was an answer
    return replace(
        draft,
        messages=chain(read, messages),
        source_id=_name(scope, [*asked, answer]) if answer else earlier,
        has_weak_id=True,
        former_ids=(*([earlier] if answer else []), *former_ids, *draft.former_ids),
    )


def longer_ids(name: str, messages: Sequence[MessageDraft]) -> Iterator[str]:
    """Yield ids for a conversation whose name another one has: with more and more of its messages."""
    count = 2
    while count < 2 * len(messages):
        end = f":{_name('', messages[:count])}"
        yield name[: MAX_ID_CHARS - len(end)] + end
        count *= 2


def with_distinct_id(draft: ConversationDraft, used: dict[str, str]) -> ConversationDraft:
    """Return the draft with an id that no earlier conversation of its file has.

    `used` maps each id of the file to its conversation's beginning, and gets this one.
    """
    messages = iter(draft.messages)
    beginning = list(islice(messages, MAX_NAMED))
    draft = replace(draft, messages=chain(beginning, messages))
    name, whole = draft.source_id, _name("", beginning)
    if used.get(name, whole) != whole:
        longer = next((other for other in longer_ids(name, beginning) if used.get(other, whole) == whole), name)
        draft = replace(draft, source_id=longer, has_weak_id=True, former_ids=(*draft.former_ids, name))
    if draft.source_id in used:  # twins: both are kept
        count = next(number for number in range(2, len(used) + 3) if f"{draft.source_id}:{number}" not in used)
        draft = replace(draft, source_id=f"{draft.source_id}:{count}", former_ids=())
    used[draft.source_id] = whole
    return draft


def _name(scope: str, messages: Iterable[MessageDraft]) -> str:
    return content_hash("\0".join([scope, *map(_described, messages)])).hex()[:NAME_CHARS]


def _described(message: MessageDraft) -> str:
    files = (f"{part.name} {part.text}" for part in message.parts if isinstance(part, AttachmentPart))
    key = "" if is_place(message.source_key) else message.source_key
    at = message.created_at.isoformat() if message.created_at else ""
    spoken = "\n".join((spoken_text(message.parts).strip(), *files))
    return storable("\0".join((message.role, message.name, key, at, spoken)))
