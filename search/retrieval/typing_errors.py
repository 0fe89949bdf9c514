"""Corrects words of a query that the owner's index does not hold to words that it does.

The index holds no list of words, only their numbers: the words that differ by one edit, of longer ones also by two, are
made from the typed one and looked up. Only the postings and titles of one owner are read. Source:
docs/adr/0122-compare-words-in-two-forms.md.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext

from convmemory.core.folding import folded, normal
from convmemory.core.sql import PendingQueries, load_sql
from search.block_cache import NO_BLOCKS
from search.languages import configuration_of
from search.postings.cached import HOMES, current_postings
from search.retrieval.corpus import Corpus, PendingCorpus
from search.steering import is_steering
from search.word_forms import MARK, folded_forms

# Shorter words resemble too many others; words from `FAR_CHARS` on may have two errors.
MIN_CHARS, FAR_CHARS, MAX_CHARS = 5, 8, 20
FAR_COST = 1  # of two edits: "kubernetes" is no error for the stem of "kubelet", which costs 3
KEPT_TWO_CHARS = 7  # Shorter words keep their first two letters, others the first, except where letters are exchanged.
MAX_WORDS = 3
# Longer queries are questions, and have words that the archive need not hold: without a model that knows which are
# words, each of them would be looked up at 20 ms and more.
MAX_QUERY_WORDS, MAX_QUERY_WORDS_WITHOUT_MODEL = 12, 4
_TOKEN, _WORD = re.compile(r"\S+"), re.compile(r"\w+")
# A word in small letters or with a capital: no identifier, abbreviation or number.
_PLAIN = re.compile(r"[\"'(\[]{0,4}+([^\W\d_][^\W\d_A-Z]++)[\"')\].,;:?!\u2026]*+")
_VOWELS = "aeiou"
_SOUND_ALIKE = {
    "b": "p", "c": "ks", "d": "t", "f": "v", "g": "j", "i": "y", "j": "g", "k": "c", "p": "b", "s": "cz", "t": "d",
    "v": "f", "y": "i", "z": "s",
}  # fmt: skip
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "".join(map(chr, [*range(0x430, 0x450), 0x454, 0x456, 0x457])),  # Cyrillic
    "".join(map(chr, range(0x3B1, 0x3CA))),  # Greek
    "".join(map(chr, range(0x5D0, 0x5EB))),  # Hebrew
)


@dataclass(frozen=True, slots=True)
class Correction:
    """The text that is searched for, and the words in it by the words that were typed."""

    text: str
    words: Mapping[str, str]

    @property
    def note(self) -> str:
        sentence = gettext("Results for “%(text)s”. Put words in quotes to search for them as typed: %(typed)s.")
        return sentence % {"text": self.text, "typed": ", ".join(f'"{word}"' for word in self.words)}

    def exactly(self, typed: str) -> str:
        """Return the typed query with these words in quotes: it searches for them as they are."""
        return _WORD.sub(lambda match: f'"{match[0]}"' if match[0] in self.words else match[0], typed)


def correct_typing_errors(
    archive_id: int,
    text: str,
    *,
    corpus: Corpus | None = None,
    unmatched: Callable[[str], bool] = lambda word: True,
    is_word: Callable[[str], bool] | None = None,
) -> Correction | None:
    """Return the text with words corrected that the owner's index does not hold; None if there are none.

    Words that are not `unmatched`, of which the caller knows that they are words (`is_word`), or that are stop words of
    any language, stay. Three queries, and one for the owner's `corpus` without it.
    """
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) > (MAX_QUERY_WORDS if is_word else MAX_QUERY_WORDS_WITHOUT_MODEL):
        return None
    typed = {token: match[1] for token in tokens if (match := _PLAIN.fullmatch(normal(token[0])))}
    words = list(
        dict.fromkeys(word for word in typed.values() if MIN_CHARS <= len(word) <= MAX_CHARS and unmatched(word))
    )
    # Words with which people direct an assistant are words, also where the owner's index does not hold them.
    words = [word for word in words if not (is_steering(word) or (is_word and is_word(word)))]
    if not words:
        return None
    forms = {word: [word.lower(), *folded_forms(word.lower())] for word in words}
    vocabulary = _Vocabulary(archive_id, corpus or PendingCorpus(archive_id, None).corpus)
    counts, of_lists = vocabulary.look_up(
        (form for of_word in forms.values() for form in of_word), [word.lower() for word in words]
    )
    unknown = [word for word in words if not (counts.keys() & set(forms[word]) or word.lower() in of_lists)]
    unknown = sorted(unknown, key=len, reverse=True)[:MAX_WORDS]
    if not unknown:
        return None
    nearest = _nearest(list(map(folded, unknown)), vocabulary)
    meant = {
        word: correction.capitalize() if word[0].isupper() else correction
        for word in unknown
        if (correction := nearest.get(folded(word)))
    }
    if not meant:
        return None
    pieces, end = [], 0
    for token, word in typed.items():
        if word in meant:
            pieces += [text[end : token.start()], normal(token[0]).replace(word, meant[word])]
            end = token.end()
    return Correction("".join([*pieces, text[end:]]), meant)


def _nearest(words: Sequence[str], vocabulary: "_Vocabulary") -> dict[str, str]:
    """Return the word of the vocabulary that was most likely meant by each of the words that has one. Two queries."""
    costs = {word: _edits(word) for word in words}
    counts, _ = vocabulary.look_up(
        form for of_word in costs.values() for edited in of_word for form in (edited, f"{MARK}{edited}")
    )
    meant = {word: _likeliest(word, of_word, counts) for word, of_word in costs.items()}
    far = {word: _two_edits(word, costs[word]) for word in words if not meant[word] and len(word) >= FAR_CHARS}
    if far:
        counts, _ = vocabulary.look_up(edited for of_word in far.values() for edited in of_word)
        meant |= {word: _likeliest(word, of_word, counts) for word, of_word in far.items()}
    return {word: correction for word, correction in meant.items() if correction}


def _likeliest(word: str, costs: Mapping[str, int], counts: "Counts") -> str:
    """Return the edited word with the least costs, of these the most frequent; "" if the vocabulary has none.

    Words whose stem the word begins with are left out: "slower" is no error for "slowed".
    """
    totals: Counter[str] = Counter()
    for form, lexemes in counts.items():
        if (edited := form.removeprefix(MARK)) in costs:
            totals[edited] += sum(
                count for lexeme, count in lexemes.items() if not word.startswith(lexeme.removeprefix(MARK))
            )
    possible = [edited for edited, count in totals.items() if count]
    return min(possible, key=lambda edited: (costs[edited], -totals[edited], edited), default="")


def _edits(word: str, most: int = 2) -> dict[str, int]:
    """Return the words with the same first letter one edit away, each with the cost of the edit, at most `most`.

    Other letters cost nothing if they sound the same: "fense" is rather an error for "fence" than for "fenste", which
    has the stem of German "Fenster".
    """
    letters = next((alphabet for alphabet in _ALPHABETS if word[0] in alphabet), "")
    edits: dict[str, int] = {}
    kept = 2 if len(word) < KEPT_TWO_CHARS else 1  # "fnord" is no error for "fjord"

    def edit(other: str, cost: int) -> None:
        if cost <= most:
            edits[other] = min(cost, edits.get(other, cost))

    for at, letter in enumerate(word):
        before, after = word[:at], word[at + 1 :]
        edit(f"{before}{letter}{letter}{after}", 0)
        if after:
            edit(f"{before}{after[0]}{letter}{after[1:]}", 0)
        if at >= kept:
            edit(f"{before}{after}", 0 if letter == word[at - 1] else 1)
            for others, cost in ((_SOUND_ALIKE.get(letter, ""), 0), (_VOWELS if letter in _VOWELS else "", 1)):
                for other in others:
                    if other in letters:
                        edit(f"{before}{other}{after}", cost)
            for other in letters if most > 1 else "":
                edit(f"{before}{other}{after}", 2)
        for other in letters if most else "":
            edit(f"{before}{letter}{other}{after}", 1)
    edits.pop(word, None)
    return edits


def _two_edits(word: str, near: Mapping[str, int]) -> dict[str, int]:
    """Return the words two edits away, of which one is likely: letters exchanged, doubled, left out or other vowels."""
    far: dict[str, int] = {}
    for edited, cost in near.items():
        if cost == 0 or (cost <= FAR_COST and len(edited) <= len(word)):
            for other, further in _edits(edited, FAR_COST - cost).items():
                if other != word and other not in near:
                    far[other] = min(far.get(other, FAR_COST), cost + further)
    return far


Counts = Mapping[str, Mapping[str, int]]
"""By form of a word, in how many items and titles each of its lexemes occurs; those in none are left out."""


class _Vocabulary:
    """Counts in how many of an owner's items and titles words occur. Reads the owner's postings and titles alone."""

    def __init__(self, archive_id: int, corpus: Corpus) -> None:
        self._archive_id, self._corpus = archive_id, corpus
        self._dictionaries = [f"{configuration_of('')}_stem", *map(configuration_of, sorted(corpus.spoken_in))]

    def look_up(self, words: Iterable[str], listed: Sequence[str] = ()) -> tuple[Counts, set[str]]:
        """Return the counts of words, and which of the `listed` words are stop words of any language. One query."""
        parameters = {
            "owner": self._archive_id, "forms": list(dict.fromkeys(words)), "dictionaries": self._dictionaries
        }  # fmt: skip
        pending = PendingQueries(
            (load_sql("search.retrieval", "lexemes_of_forms"), parameters),
            (load_sql("search.retrieval", "stop_words"), {"words": list(listed)}),
        )
        ((forms, stems, in_titles),), stop_words = pending.of_each
        occurring = Counter(dict(zip(stems or (), in_titles or (), strict=True)))
        lexemes = list(occurring)
        for home, _ in HOMES:
            digest = self._corpus.postings.get(home, NO_BLOCKS)
            if (postings := current_postings(self._archive_id, home, digest)) is not None:
                by_lexeme = np.bincount(postings.occurrences(lexemes).words, minlength=len(lexemes))
                occurring.update(dict(zip(lexemes, by_lexeme.tolist(), strict=True)))
        counts: dict[str, dict[str, int]] = {}
        for form, lexeme in zip(forms or (), stems or (), strict=True):
            if occurring[lexeme]:
                counts.setdefault(form, {})[lexeme] = occurring[lexeme]
        return counts, {word for (word,) in stop_words}
