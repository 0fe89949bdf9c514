"""Reads a model's answer as it arrives, and keeps the sentences whose citations are in the turns that they name. Pure.

A citation is the number of a turn and words copied from it: `[2 "a key pair from the start"]`. It counts if these
words are in the text that the model was given of that turn, and say more than the question does. Whether a sentence
follows from the words that it cites is not checked. See docs/adr/0055-link-citations-when-stored.md.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sentencex import get_sentence_boundaries

from convmemory.core.folding import folded
from convmemory.core.text import visible
from search.pages.snippets import without_markup
from search.steering import is_steering
from search.vectors.splitting import guess_language

NO_ANSWER = "NOTHING"
MAX_SENTENCES = 5
# A longer line is no sentence. It also bounds the time of the splitter, which is quadratic.
MAX_LINE_CHARS = 2_000
MIN_QUOTE_CHARS, MIN_QUOTE_WORDS = 4, 3

_CITATION = re.compile(r"\[(\d{1,2})[:,]?\s?[\"\u201c\u201e\u00ab](.{1,400}?)[\"\u201d\u201c\u00bb]\]")
_UNIT_END = re.compile(r"[\"\u201d\u201c\u00bb]\][.!?\u3002]?\s*(?=[^\W_])")
_LIST_MARK = re.compile(r"\A(?:[-*\u2022]|\d{1,2}[.)])\s+")
_LOOSE_SIGNS = re.compile(r"\A[\s.,;:!?\u3002]+")
_UNCOMPARED = re.compile(r"[*_`#|\"'\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019]+")
_GAP = re.compile(r"(?<!\s)\s*+(?:\u2026|\.{3})\s*+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Citation:
    """The number of a turn, and words that are in its text."""

    number: int
    quote: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer, with its checked citations; it has one at least."""

    text: str
    citations: tuple[Citation, ...]


class AnswerReader:
    """Reads the pieces of an answer to `question` over `texts`, the turns by number.

    `is_over` says that no more is needed: the model says that nothing answers, or enough sentences were yielded.
    `refused` counts the sentences that were left out.
    """

    def __init__(self, question: str, texts: Mapping[int, str]) -> None:
        self._texts = {number: _comparable(text) for number, text in texts.items()}
        self._asked = frozenset(_WORD.findall(_comparable(question)))
        self._rest = ""
        self.yielded = 0
        self.refused = 0
        self.is_over = False

    def feed(self, piece: str) -> Iterator[Sentence]:
        """Yield the sentences that this piece completes: those of whole lines, and those that others follow."""
        self._rest += piece
        if not self.yielded and self._rest.lstrip("\n *\"'").startswith(NO_ANSWER):
            self.is_over = True
            return
        ends = [match.end() for match in _UNIT_END.finditer(self._rest)]
        end = max(self._rest.rfind("\n") + 1, max(ends, default=0))
        if len(self._rest) - end > MAX_LINE_CHARS:
            end = len(self._rest)
        whole, self._rest = self._rest[:end], self._rest[end:]
        yield from self._read(whole)

    def finish(self) -> Iterator[Sentence]:
        """Yield what the end of the answer completes."""
        whole, self._rest = self._rest, ""
        yield from self._read(whole)

    def _read(self, text: str) -> Iterator[Sentence]:
        for line in text.splitlines():
            for sentence, citations in _units(line[:MAX_LINE_CHARS]):
                if self.is_over:
                    return
                checked = tuple(citation for citation in citations if self._is_in_turn(citation))
                if not (sentence and checked):
                    self.refused += 1
                    continue
                self.yielded += 1
                self.is_over = self.yielded == MAX_SENTENCES
                yield Sentence(sentence, checked)

    def _is_in_turn(self, citation: Citation) -> bool:
        text = self._texts.get(citation.number, "")
        pieces = [_comparable(piece) for piece in _GAP.split(citation.quote) if piece.strip()]
        # As whole words where they are Latin or numbers.
        return bool(pieces) and all(
            self._is_evidence(piece) and re.search(rf"(?<![0-9a-z]){re.escape(piece)}(?![0-9a-z])", text)
            for piece in pieces
        )

    def _is_evidence(self, quote: str) -> bool:
        """Return whether a quote says something, and more than the question does."""
        words = _WORD.findall(quote)
        is_telling = len(words) >= MIN_QUOTE_WORDS or not all(map(is_steering, words))
        return len(quote) >= MIN_QUOTE_CHARS and is_telling and not self._asked.issuperset(words)


def _units(line: str) -> Iterator[tuple[str, list[Citation]]]:
    """Yield the sentence before each group of citations, and the rest of the line without any."""
    end, citations, sentence = 0, list[Citation](), ""
    for match in _CITATION.finditer(line):
        between = _LOOSE_SIGNS.sub("", line[end : match.start()])
        if between:
            if citations:
                yield sentence, citations
            # The sentences as plain text: a citation belongs to the last one.
            plain = without_markup(visible(_LIST_MARK.sub("", between.strip()))).strip()
            sentences = [boundary["text"].strip() for boundary in get_sentence_boundaries(guess_language(plain), plain)]
            *uncited, sentence = list(filter(None, sentences)) or [plain]
            yield from ((each, []) for each in uncited)
            citations = []
        citations.append(Citation(int(match[1]), " ".join(visible(match[2]).split())))
        end = match.end()
    if citations:
        yield sentence, citations
    if rest := _LOOSE_SIGNS.sub("", line[end:]).strip():
        yield rest, []


def _comparable(text: str) -> str:
    """Return the text as quotes are compared: without case, accents, markup, kinds of quotes and runs of spaces."""
    return " ".join(_UNCOMPARED.sub("", folded(visible(text))).split())
