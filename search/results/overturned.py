"""Finds later turns that decide otherwise than a hit about the same subject, by their words alone. Pure.

A sentence of a later turn counts if it reverses ("instead", "no longer", "doch lieber", "ya no"; the words are in
`cues.json`), shares words of the subject with the earlier turn and names something new. It is quoted word for word.
What no sentence says plainly goes unsaid: `tests/unit/search/test_overturned.py` measures precision and recall.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from convmemory.core.folding import folded
from convmemory.core.text import one_line
from search.languages import CHARACTERS, pairs_of
from search.results.matching import stem
from search.steering import WORDS

# The characters of a text that are read, and of a word that are compared: endings differ.
READ_CHARS, WORD_CHARS = 1_000, 6
# A longer sentence, or one of a longer conclusion, explains: with them 24 of 1,420 pairs of turns of transcripts had a
# sentence that reverses, and few of the 24 decided otherwise; without them two of 3,564 have one.
SHORT_CHARS = 200
# Words of the subject that both turns name, and their share of the sentence's; the next turn needs only one.
SHARED_WORDS, SHARED = 2, 0.2
OBJECT_WORDS = 3  # that say what is reversed
SHARED_PAIRS = 0.15  # of pairs of characters, of which some are halves of two words

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")
_WORD = re.compile(rf"(?:(?![{CHARACTERS}])[^\W_])+")
_FROM_TO = re.compile(r"\b(?:switch(?:ed)?|(?:move|migrate|change)d?)\b[^.\n]{1,60}\bfrom\b[^.\n]{1,60}\bto\b")
_ASKS = re.compile(
    r"\A(?:(?:should|shall|wh(?:at|en|ich|o|y|ere)|how|soll|sollen|sollten|wann|wie|warum|quand|comment|pourquoi|cuándo|cómo)\b|(?:and|und|et|¿?y|e|en|a)\s.*\?$)"
)
_TOO = re.compile(r"\btoo(?=[.,;!]|$)")
# Words behind which stands what is reversed; it must be of the subject. All patterns are of texts in lower case: with
# the flag for both cases the lists took 4 to 15 times as long.
_REVERSED = re.compile(
    r"(?:instead of|rather than|\b(?:an)?statt(?: mit| von| der| des| dem)?\b|anstelle|en lugar de|en vez de|au lieu de"
    r"|plutôt qu|à la place d|invece d|al posto d|em vez de|ao invés de|in plaats van|zamiast"
    r"|\u0432\u043c\u0435\u0441\u0442\u043e|而不是|no longer|\bya no\b|nicht mehr|niet meer"
    r"|\bn(?:e |'|\u2019)\w{1,20} plus\b|non più|não mais|já não|\u0431\u043e\u043b\u044c\u0448\u0435 \u043d\u0435"
    r"|już nie|不再)([^.,;:!?\n\u3002]{1,60})"
)
# An ASCII text to which one of the two patterns applies has one of these words.
_REVERSING_WORDS = frozenset({
    "instead", "rather", "statt", "anstatt", "anstelle", "lugar", "vez", "lieu", "invece", "posto", "plaats", "zamiast",
    "longer", "ya", "mehr", "meer", "plus", "switch", "switched", "move", "moved", "migrate", "migrated", "change",
    "changed",
})  # fmt: skip
_TOKEN = re.compile(r"\w+")
_PARTICLES = "はをのがも了已经就"
"""Characters between a noun and a cue in Japanese and Chinese."""


class Said(NamedTuple):
    """The question of a turn and what it concluded."""

    question: str
    conclusion: str


@dataclass(frozen=True, slots=True)
class Overturning:
    """A later turn that decides otherwise, with the sentence that does."""

    conversation_id: int
    turn_number: int
    quote: str

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"


class _Cues(NamedTuple):
    """The words of one kind, and those of scripts without spaces."""

    spaced: re.Pattern[str]
    unspaced: re.Pattern[str]

    def search(self, text: str) -> re.Match[str] | None:
        return self.spaced.search(text) or self.unspaced.search(text)


@cache
def _lists() -> Mapping[str, Sequence[str]]:
    lists: dict[str, list[str]] = json.loads(
        resources.files("search.results").joinpath("cues.json").read_text(encoding="utf-8")
    )
    return lists


@cache
def _cues() -> Mapping[str, _Cues]:
    def pattern_of(words: Sequence[str], *, before: str = "", after: str = "") -> re.Pattern[str]:
        either = "|".join(map(re.escape, words))
        return re.compile(f"{before}(?:{either}){after}")

    lists = _lists()
    return {
        kind: _Cues(pattern_of(lists[kind], before=r"(?<!\w)", after=r"(?!\w)"), pattern_of(lists[f"{kind}_unspaced"]))
        for kind in ("reverses", "ends", "keeps", "repairs", "adds", "refuses")
    }


@cache
def _cues_by_word() -> Mapping[str, Sequence[str]]:
    """Return the cues that reverse by the longest word of each."""
    by_word: dict[str, list[str]] = {}
    for cue in _lists()["reverses"]:
        by_word.setdefault(max(_TOKEN.findall(cue), key=len), []).append(cue)
    return by_word


def overturning(earlier: Said, later: Said, *, is_next: bool) -> str:
    """Return the sentence of the later turn that decides otherwise, in one line; "" if none plainly does.

    `is_next` says that the later turn follows the earlier one in its conversation.
    """
    sentences = reversing_sentences(later)
    if not sentences:
        return ""
    concluded = _subject(later.conclusion[:READ_CHARS])
    subject = _subject(f"{earlier.question} {earlier.conclusion}")
    for sentence in sentences:
        lower = sentence.lower()
        # Importers put the same sentence in the place of each answer that a session has lost.
        if sentence in earlier.conclusion or not _reverses(lower, subject):
            continue
        about = _subject(sentence)
        new, shared = about - subject, subject & about
        reversed_words = [_subject(" ".join(match[1].split()[:OBJECT_WORDS])) for match in _REVERSED.finditer(lower)]
        if not all(words & subject for words in reversed_words):
            continue
        if sentence.endswith(("?", "\uff1f")):
            is_plain = bool(new & concluded)  # a request, granted
        else:
            is_plain = bool(new or _cues()["ends"].search(lower))
        # A request that names what it reverses says the rest of its subject in its answer.
        more = subject & concluded if reversed_words else frozenset()
        pairs = [word for word in about if len(word) == 2 and not word.isascii()]
        least = max(1, SHARED * (len(about) - len(pairs)), SHARED_PAIRS * len(pairs))
        if is_plain and len(shared) >= least and (is_next or len(shared | more) >= SHARED_WORDS):
            return one_line(sentence, SHORT_CHARS)
    return ""


def reversing_sentences(later: Said) -> list[str]:
    """Return the sentences of a turn that may decide otherwise than an earlier one. Few turns have any."""
    cues, conclusion = _cues(), later.conclusion[:READ_CHARS]
    concluded = _sentences(conclusion) if len(conclusion) <= SHORT_CHARS else ()
    whole = f"{later.question[:READ_CHARS]}\n{conclusion}".lower()
    if not _may_have_cue(whole):
        return []
    sentences = [
        sentence
        for sentence in (*_sentences(later.question), *concluded)
        if len(sentence) <= SHORT_CHARS
        and (_has_spaced_cue(lower := sentence.lower()) or cues["reverses"].unspaced.search(lower))
    ]
    lower = conclusion.lower()
    refuses = cues["refuses"]
    if refuses.spaced.match(lower) or refuses.unspaced.match(lower):
        return []
    if cues["repairs"].search(whole) or cues["keeps"].search(whole):
        return []
    return [
        sentence
        for sentence in sentences
        if not (cues["adds"].search(lower := sentence.lower()) or _TOO.search(lower) or _ASKS.match(lower))
    ]


def _may_have_cue(text: str) -> bool:
    """Return whether a text, in lower case, may have a cue: of most texts their words say that they have none."""
    words, by_word = set(_TOKEN.findall(text)), _cues_by_word()
    if not words.isdisjoint(_REVERSING_WORDS) or any(
        cue in text for word in words & by_word.keys() for cue in by_word[word]
    ):
        return True
    return not text.isascii() and bool(_cues()["reverses"].unspaced.search(text) or _REVERSED.search(text))


def _has_spaced_cue(sentence: str) -> bool:
    return bool(_cues()["reverses"].spaced.search(sentence) or _FROM_TO.search(sentence) or _REVERSED.search(sentence))


def _reverses(sentence: str, subject: frozenset[str]) -> bool:
    """Return whether a sentence, in lower case, has a cue, in scripts without spaces next to words of the subject."""
    if _has_spaced_cue(sentence):
        return True
    for cue in _cues()["reverses"].unspaced.finditer(sentence):
        before = sentence[max(0, cue.start() - WORD_CHARS * 2) : cue.start()].rstrip(_PARTICLES)
        near = [before[-2:], *_WORD.findall(before)[-1:], sentence[cue.end() : cue.end() + WORD_CHARS]]
        if any(_subject(text) & subject for text in near):
            return True
    return False


def _sentences(text: str) -> Iterator[str]:
    return (sentence.strip() for sentence in _SENTENCE.split(text[:READ_CHARS]) if sentence.strip())


def _subject(text: str) -> frozenset[str]:
    """Return the beginnings of the words that name a subject, and pairs of characters of scripts without spaces."""
    plain = folded(text[:READ_CHARS])
    words = (word for word in _WORD.findall(plain) if len(word) > 1 and word not in WORDS)
    return frozenset(stem(word)[:WORD_CHARS] for word in words) | (frozenset(pairs_of(plain)) - WORDS)
