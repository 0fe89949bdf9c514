"""Derives the texts of an item that are embedded and indexed. Pure: elements in, strings out.

Text recipe 1: the words of user and assistant, with their speakers, and tool calls as name and parameters cut at 250
characters each; no thinking, no tool results.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from convmemory.core.text import content_hash
from search.languages import languages_of, pairs_of, parts_of_compounds, stems_of_arabic
from search.sources import Element, ElementPart, ItemText, Kind

# The words between these ends are indexed too, but each once and without positions (ADR 39).
TOOL_OUTPUT_CHARS = 4_000
MAX_TOKEN_CHARS = 256  # no query contains a longer one
LEXICAL_CHARS = 200_000  # a tsvector holds 1 MB at most

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Paths and compounds; or, behind digits, a word in camel case, or one that ends in digits. Begins where a run of
# letters and digits does and never goes back, so that a run of any length is read once.
_IDENTIFIER = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        ([A-Za-z0-9]++(?:[._/\\:@#\-]++[A-Za-z0-9]++)++)
        |[0-9]*+([A-Za-z][a-z]*+(?:[A-Z][A-Za-z0-9]*+|[0-9]++\w*+))
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_UNSPACED_RUN = re.compile(r"\S+")
_SEPARATORS = re.compile(r"[._/\\:@#\-]+")
_LONG_TOKEN = re.compile(rf"(?<!\S)\S{{{MAX_TOKEN_CHARS}}}\S++")
_COMMENT_START, _COMMENT_END = "<!--", "-->"
WEIGHTS: dict[Kind, str] = {  # the letters under which the words of a kind are indexed
    "user": "A",
    "assistant": "B",
    "document": "B",
    "thinking": "C",
    "call": "BD",
    "tool": "D",
    "system": "S",
    "outside": "S",
}
# The weight of texts that are always indexed as English: calls and output of tools.
IN_ENGLISH = "D"
TOOLS: tuple[Kind, ...] = ("tool", "call")


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """All texts derived from one item's elements."""

    opening_id: int | None
    heading: str
    created_at: datetime | None
    embedded: str
    # By weight: A user, B assistant, C thinking, D tool, S system prompt and outside.
    lexical: Mapping[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Return the number of spoken words."""
        return sum(len(_WORD.findall(self.lexical.get(weight, ""))) for weight in "AB")

    @property
    def languages(self) -> dict[str, str]:
        """Return the language of the text by weight, unless it is English."""
        return languages_of({weight: text for weight, text in self.lexical.items() if weight != IN_ENGLISH})

    @property
    def content_hash(self) -> bytes:
        """Return SHA-256 over all indexed texts: 32 bytes."""
        return content_hash("\x1f".join([self.embedded, *(self.lexical[key] for key in sorted(self.lexical))]))


def item_texts(item: ItemText) -> ItemTexts:
    """Return the texts of one item."""
    lexical: dict[str, list[str]] = {"A": [], "B": [], "C": [], "D": []}  # and S, if there is a system prompt
    for element in item.elements:
        for weights, text in _lexical_texts(element):
            for weight in weights:
                lexical.setdefault(weight, []).append(text)
    return ItemTexts(
        opening_id=item.opening_id,
        heading=item.heading,
        created_at=item.created_at,
        embedded="\n\n".join(filter(None, map(_embedded_text, item.elements))),
        lexical={
            weight: words_of_tools(texts) if weight == "D" else "\n".join(texts)[:LEXICAL_CHARS]
            for weight, texts in lexical.items()
        },
    )


def passage_text(element: Element, part: ElementPart, start: int, end: int) -> str:
    """Return the embedded text of a passage: the speaker, then the words."""
    speaker = "Tool" if part.kind in TOOLS else element.speaker
    return _after_speaker(speaker, part.text[start:end])


def _after_speaker(speaker: str, text: str) -> str:
    return f"{speaker}: {text}" if speaker else text


def _embedded_text(element: Element) -> str:
    pieces = [part.text if part.kind == "call" else part.text.strip() for part in element.parts if part.in_vector]
    text = "\n".join(filter(None, pieces))
    return _after_speaker(element.speaker, text) if text else ""


def _lexical_texts(element: Element) -> Iterator[tuple[str, str]]:
    """Yield (weights, text) of each part, and the speaker's name if the source gives one."""
    if element.name and element.parts:
        kinds = {part.kind for part in element.parts}
        weight_in_turn = "A" if "user" in kinds else "B"
        # Messages without a turn have a weight of their own.
        yield WEIGHTS["outside"] if "outside" in kinds else weight_in_turn, element.name
    for part in element.parts:
        text = f"{part.label}\n{part.text}" if part.label else part.text
        yield WEIGHTS[part.kind], text


def words_of_tools(texts: Sequence[str]) -> str:
    """Return the searchable text of tools' input and output: heads and tails unchanged, and all other words once.

    The position of a word in the middle of a long log does not matter, and logs repeat themselves (ADR 39).
    """
    whole: list[str] = []
    room = LEXICAL_CHARS // 2
    for text in texts:
        ends = head_and_tail(text, TOOL_OUTPUT_CHARS)
        if len(ends) < room:
            whole.append(ends)
            room -= len(ends) + 1
    written = "\n".join(whole)
    others = _other_words(texts, written=set(written.split()), max_chars=LEXICAL_CHARS - len(written) - 1)
    return f"{written}\n{others}" if others else written


def _other_words(texts: Iterable[str], *, written: set[str], max_chars: int) -> str:
    """Return the distinct words of the texts that are not written already."""
    others: dict[str, None] = {}
    for text in texts:
        for match in _UNSPACED_RUN.finditer(text):
            word = match.group()
            if word in written or word in others:
                continue
            max_chars -= len(word) + 1
            if max_chars < 0:
                return " ".join(others)
            others[word] = None
    return " ".join(others)


def head_and_tail(text: str, max_chars: int) -> str:
    """Return the first two thirds and the last third of the allowed length, cut at line ends if possible."""
    if len(text) <= max_chars:
        return text
    head, tail = text[: max_chars * 2 // 3], text[-(max_chars // 3) :]
    return f"{head.rsplit(chr(10), 1)[0]}\n…\n{tail.split(chr(10), 1)[-1]}"


def searchable(text: str, language: str = "") -> str:
    """Return `text` with additions for full text search.

    These are the parts of identifiers, paths and codes, pairs of characters for scripts without spaces between words,
    stems of Arabic words, and the parts of compounds if `language` has them.
    """
    if not text:
        return ""
    # Each identifier is taken apart once: half of those in a text have been there before.
    identifiers = dict.fromkeys(path or word for path, word in _IDENTIFIER.findall(text))
    extra = dict.fromkeys(part for identifier in identifiers for part in _parts_of(identifier))
    if not text.isascii():
        extra.update(dict.fromkeys(pairs_of(text)))
        extra.update(dict.fromkeys(stems_of_arabic(text)))
    extra.update(dict.fromkeys(parts_of_compounds(text, language)))
    text = parseable(text)
    return f"{text}\n{' '.join(extra)}" if extra else text


def _parts_of(identifier: str) -> list[str]:
    """Return the pieces of a path, a compound or a word in camel case, each after the words that it consists of."""
    parts = []
    for piece in _SEPARATORS.split(identifier):
        if len(piece) <= MAX_TOKEN_CHARS:
            if not piece.islower() and not piece.isdigit():  # otherwise it is one word
                parts += [part for part in _CAMEL.split(piece) if len(part) > 1]
            parts.append(piece)
    return parts


def parseable(text: str) -> str:
    """Return `text` without constructs that PostgreSQL's parser reads repeatedly.

    Long tokens are split, and no comment stays open.
    """
    text = _LONG_TOKEN.sub(_cut_up, text)
    closed = text.rfind(_COMMENT_END) + 1
    return text[:closed] + text[closed:].replace(_COMMENT_START, " ")


def _cut_up(match: re.Match[str]) -> str:
    token = match.group()
    return " ".join(token[at : at + MAX_TOKEN_CHARS] for at in range(0, len(token), MAX_TOKEN_CHARS))


MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # full-width, Arabic and Greek ones too
SHORT_CHARS, END_CHARS = 200, 60
_AFTER_MARK = " \t\r\n\"'*_)]}\u201d\u2019\u00bb"


# The answer follows a question, so the question names the topic of the next message.
def is_asking(kind: Kind, text: str) -> bool:
    """Return whether prose of a user or an assistant ends in a question mark, or is short and has one near its end."""
    if kind not in {"user", "assistant"}:
        return False
    if text.rstrip(_AFTER_MARK).endswith(MARKS):
        return True
    return len(text) < SHORT_CHARS and any(mark in text[-END_CHARS:] for mark in MARKS)
