"""The texts of a turn that are embedded and indexed. Pure: messages in, strings out.

Text recipe 1: what user and assistant said with their speakers, and tool calls as name and
parameters cut at 250 characters each; no thinking, no tool results.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from convmemory.conversations.parts import (
    AttachmentPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    speaker_of,
    tool_call_text,
)
from convmemory.conversations.reading import StoredMessage
from convmemory.core.text import content_hash, cut

TOOL_OUTPUT_CHARS = 4_000
LEXICAL_CHARS = 200_000  # a tsvector holds 1 MB at most

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z0-9]+(?:[._/\\:@#\-]+[A-Za-z0-9]+)+|[A-Za-z]+[A-Z][A-Za-z0-9]*|[A-Za-z]+[0-9]+\w*")
_WORD = re.compile(r"\w+")
_SEPARATORS = re.compile(r"[._/\\:@#\-]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")


@dataclass(frozen=True, slots=True)
class TurnTexts:
    """Everything that is derived from one turn's messages."""

    message_id: int
    question: str
    created_at: datetime | None
    embedded: str
    lexical: Mapping[str, str] = field(default_factory=dict)  # by weight: A user, B assistant, C thinking, D tool

    @property
    def length(self) -> int:
        """Words of what was spoken."""
        return sum(len(_WORD.findall(self.lexical.get(weight, ""))) for weight in "AB")

    @property
    def content_hash(self) -> bytes:
        """SHA-256 over all that is indexed: 32 bytes."""
        return content_hash("\x1f".join([self.embedded, *(self.lexical[key] for key in sorted(self.lexical))]))


def turn_texts(messages: Sequence[StoredMessage]) -> TurnTexts:
    """The texts of one turn; `messages` are its messages in order, none of them before its question."""
    question = next((m for m in messages if m.is_real_user), messages[0])
    lexical: dict[str, list[str]] = {"A": [], "B": [], "C": [], "D": []}
    for message in messages:
        for weight, text in _lexical_texts(message):
            lexical[weight].append(text)
    return TurnTexts(
        message_id=question.message_id,
        question=cut("\n".join(_said([m for m in messages if m.is_real_user])), 300),
        created_at=next((m.created_at for m in messages if m.created_at), None),
        embedded="\n\n".join(filter(None, map(_embedded_text, messages))),
        lexical={weight: "\n".join(texts)[:LEXICAL_CHARS] for weight, texts in lexical.items()},
    )


def _said(messages: Iterable[StoredMessage]) -> Iterator[str]:
    for message in messages:
        yield from (part.text for part in message.parts if isinstance(part, TextPart) and part.text.strip())


def _is_spoken(message: StoredMessage) -> bool:
    return message.is_real_user or message.role == "assistant"


def _embedded_text(message: StoredMessage) -> str:
    if not _is_spoken(message):
        return ""
    pieces = [
        part.text.strip() if isinstance(part, TextPart) else tool_call_text(part)
        for part in message.parts
        if isinstance(part, (TextPart, ToolCallPart))
    ]
    said = "\n".join(filter(None, pieces))
    return f"{speaker_of(message.role, message.name)}: {said}" if said else ""


def _lexical_texts(message: StoredMessage) -> Iterator[tuple[str, str]]:
    """(weight, text) of each part, each text with its speaker's name where the source gives one."""
    spoken = "A" if message.is_real_user else "B"
    if message.name and _is_spoken(message):
        yield spoken, message.name
    for part in message.parts:
        if isinstance(part, (TextPart, AttachmentPart)) and _is_spoken(message):
            yield spoken, part.text if isinstance(part, TextPart) else f"{part.name}\n{part.text}"
        elif isinstance(part, ThinkingPart):
            yield "C", part.text
        elif isinstance(part, ToolCallPart):
            yield from (("B", tool_call_text(part)), ("D", tool_call_text(part)))
        elif isinstance(part, ToolResultPart):
            yield "D", head_and_tail(part.text, TOOL_OUTPUT_CHARS)


def head_and_tail(text: str, max_chars: int) -> str:
    """The first two thirds and the last third of what is allowed, cut at lines where that is possible."""
    if len(text) <= max_chars:
        return text
    head, tail = text[: max_chars * 2 // 3], text[-(max_chars // 3) :]
    return f"{head.rsplit(chr(10), 1)[0]}\n…\n{tail.split(chr(10), 1)[-1]}"


def searchable(text: str) -> str:
    """`text` with what full text search needs beside it: the parts of identifiers, paths and codes,
    and pairs of characters for scripts that put no space between words.
    """
    extra: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text):
        for piece in _SEPARATORS.split(match.group()):
            extra.update(dict.fromkeys(part for part in _CAMEL.split(piece) if len(part) > 1))
            extra[piece] = None
    for match in _UNSPACED.finditer(text):
        run = match.group()
        extra.update(dict.fromkeys(run[i : i + 2] for i in range(len(run) - 1)))
    return f"{text}\n{' '.join(extra)}" if extra else text
