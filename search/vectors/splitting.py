"""Splits an element into passages, sentence-sized spans of its parts. Pure.

Prose is split into sentences, fenced code and tool output at lines; tool calls stay whole. Fragments too small to
mean anything alone are joined to their neighbour. Offsets count characters of a part's text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sentencex import get_sentence_boundaries

from convmemory.core.text import Span
from search.sources import ElementPart, Kind

TINY_CHARS = 25  # shorter fragments are merged with a neighbour
SENTENCE_CHARS = 800  # longer ones are cut between words
BLOCK_CHARS = 600  # code and output, cut at lines
WINDOW_CHARS = 4_000  # of a block, split into sentences at once
TOOL_CHARS = 1_800  # of one tool output: two thirds from its head, one third from its tail

FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)
_BLOCK_START = re.compile(r"(?:[-*+•]\s|\d{1,3}[.)]\s|#{1,6}\s|>\s?|\|)")
_WORD = re.compile(r"\w")
_WORDS = re.compile(r"\w+")
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
)
_FUNCTION_WORDS = {
    "en": {"the", "and", "is", "to", "of", "it", "that", "you"},
    "de": {"der", "die", "und", "ist", "nicht", "das", "ich", "ein"},
    "fr": {"le", "les", "et", "est", "des", "une", "pas", "je"},
    "es": {"el", "los", "y", "es", "una", "que", "para", "con"},
    "it": {"il", "gli", "e", "di", "che", "una", "non", "per"},
    "pt": {"os", "e", "um", "uma", "que", "não", "para", "com"},
    "nl": {"de", "het", "en", "een", "niet", "ik", "van", "dat"},
}


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """Characters `start` to `end` of one part of an element."""

    kind: Kind
    part_index: int
    start: int
    end: int


def split_parts(parts: Iterable[ElementPart]) -> list[PassageSpan]:
    """Return the passages of one element, in order."""
    passages: list[PassageSpan] = []
    for part in parts:
        text, spans = part.text, list[Span]()
        if part.kind == "call":
            spans = [(0, min(len(text), SENTENCE_CHARS))]
        elif part.kind == "tool":
            spans = list(_tool_output(text))
        else:
            # Merge neighbours while one of them is tiny and both together stay sentence-sized.
            for start, end in _markdown(text):
                if spans:
                    last_start, last_end = spans[-1]
                    tiny = _size(text, start, end) < TINY_CHARS or _size(text, last_start, last_end) < TINY_CHARS
                    if tiny and end - last_start <= SENTENCE_CHARS // 2:
                        spans[-1] = (last_start, end)
                        continue
                spans.append((start, end))
        passages += [PassageSpan(part.kind, part.index, start, end) for start, end in _trimmed(text, spans)]
    return passages


def _trimmed(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans without surrounding white space, except those without a letter or digit."""
    for start, end in spans:
        piece = text[start:end]
        if _WORD.search(piece):
            yield start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))


def _markdown(text: str) -> Iterator[Span]:
    """Yield the sentences of the prose, and fenced code cut at lines."""
    language = guess_language(text)
    position = 0
    for fence in FENCE.finditer(text):
        yield from _prose(text, position, fence.start(), language)
        yield from _lines(text, fence.start(), fence.end())
        position = fence.end()
    yield from _prose(text, position, len(text), language)


def _prose(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    for block_start, block_end in _blocks(text, start, end):
        for sentence_start, sentence_end in _sentences(text, block_start, block_end, language):
            yield from _cut_long(text, sentence_start, sentence_end)


def _sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    """Yield the sentences of a block.

    The library takes quadratic time, so it gets one bounded window at a time. A window's last sentence may continue
    beyond its end and is read again with the next one.
    """
    while start < end:
        window_end = min(start + WINDOW_CHARS, end)
        window = text[start:window_end]
        sentences = [
            (start + each["start_index"], start + each["end_index"])
            for each in get_sentence_boundaries(language, window)
        ]
        if window_end < end and len(sentences) > 1:
            window_end = sentences.pop()[0]
        yield from sentences
        start = window_end


def _blocks(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield paragraphs, list items, headings and table rows."""
    block_start = position = start
    for line in text[start:end].splitlines(keepends=True):
        stripped = line.lstrip()
        if not stripped or _BLOCK_START.match(stripped):
            if position > block_start:
                yield block_start, position
            block_start = position
        position += len(line)
    if position > block_start:
        yield block_start, position


def _cut_long(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > SENTENCE_CHARS:
        space = text.rfind(" ", start + SENTENCE_CHARS // 2, start + SENTENCE_CHARS)
        cut_at = space + 1 if space > 0 else start + SENTENCE_CHARS
        yield start, cut_at
        start = cut_at
    yield start, end


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield runs of whole lines of at most `BLOCK_CHARS`; a longer line is cut."""
    block_start = position = start
    for line in text[start:end].splitlines(keepends=True):
        if position + len(line) - block_start > BLOCK_CHARS and position > block_start:
            yield from _cut_long(text, block_start, position)
            block_start = position
        position += len(line)
    if position > block_start:
        yield from _cut_long(text, block_start, position)


def _tool_output(text: str) -> Iterator[Span]:
    if len(text) <= TOOL_CHARS:
        yield from _lines(text, 0, len(text))
        return
    head, tail = TOOL_CHARS * 2 // 3, len(text) - TOOL_CHARS // 3
    yield from _lines(text, 0, head)
    yield from _lines(text, tail, len(text))


def _size(text: str, start: int, end: int) -> int:
    return len(text[start:end].strip())


def guess_language(text: str) -> str:
    """Return an ISO 639-1 code, by script and function words; English if no other language is more likely."""
    sample = text[:2_000]
    for code, pattern in _SCRIPTS:
        if len(pattern.findall(sample)) * 4 > len(sample):
            return code
    words = _WORDS.findall(sample.lower())
    counts = {code: sum(word in function_words for word in words) for code, function_words in _FUNCTION_WORDS.items()}
    return max(counts, key=lambda code: (counts[code], code == "en"))
