"""Finds the words and phrases of a query in a text, to choose a hit's passage and to mark it.

Words are compared folded and by rough stems, so that accents, case and endings may differ; a phrase is its words in
sequence. In scripts without spaces, pairs of characters are compared as well. A query also has paths and compounds as
words: "src/app.ts", "pre-commit".
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from convmemory.core.folding import WORD, FoldedText, folded, joined_words
from convmemory.core.text import Span
from search.languages import CHARACTERS, is_sign, pairs_of, places_of_pairs

# A word that weighs less than this share of the rarest word is not marked.
STOP_SHARE = 0.15
# Cached stems must stay small, and no query contains a longer word.
MAX_WORD_CHARS = 256
_WORD = re.compile(rf"(?:{WORD}|_)+")
_AMONG_UNSPACED = re.compile(rf"(?<=[{CHARACTERS}])[0-9a-z]++|(?<![0-9a-z])[0-9a-z]++(?=[{CHARACTERS}])")
_RUN = re.compile(WORD)  # without underscores, at which the index splits words
# The same in ASCII texts in lower case, several times as fast.
_ASCII_WORD, _ASCII_RUN = re.compile("[0-9a-z_]+"), re.compile("[0-9a-z]+")


class QueryStems:
    """The words of a query by their rough stems with their weights, and its quoted phrases.

    The words in `unmarked` count, and have no places.
    """

    def __init__(self, weights: Mapping[str, float], phrases: Collection[str] = (), *, unmarked: str = "") -> None:
        rarest = max(weights.values(), default=0.0)
        stems: dict[str, float] = {}
        # The stems of words with separators inside, by their stems without them.
        self._with_separators: dict[str, str] = {}
        for word, weight in weights.items():
            plain = folded(word)
            stems[stem(plain)] = max(weight, stems.get(stem(plain), 0.0))
            self._with_separators |= {stem(joined): stem(plain) for joined, _ in joined_words(plain)}
        self._telling = {word: weight for word, weight in stems.items() if weight >= rarest * STOP_SHARE}
        self._numbers = {word for word in self._telling if any(map(str.isdigit, word))}
        self._total = sum(weights.values()) or 1.0
        self._unmarked = {word for word, _ in _stems_with_places(folded(unmarked))}
        stems_of_phrases = ([word for word, _ in _stems_with_places(folded(phrase))] for phrase in phrases)
        self._phrases = [words for words in stems_of_phrases if words]
        self._signs = [word for word in self._telling if is_sign(word)]
        self._compounds = {
            word: _compound_pattern(word)
            for word in self._telling
            if not _RUN.fullmatch(word) and word not in self._signs
        }

    def places_in(self, text: str) -> list[Span]:
        """Return the places of the query's phrases and of its other words, except those of little weight.

        If the text contains a phrase, the phrase's words are marked only there.
        """
        plain = FoldedText.of(text)
        contained: list[tuple[list[str], list[Span]]] = []
        if self._phrases:
            words = list(_stems_with_places(plain.text))
            contained = [(phrase, spans) for phrase in self._phrases if (spans := _phrase_places(words, phrase))]
        marked = self._telling.keys() - self._unmarked.union(*(phrase for phrase, _ in contained))
        marked |= {joined for joined, word in self._with_separators.items() if word in marked}
        # A stem is the beginning of its word: most words need not be stemmed.
        beginnings = tuple(marked)
        places = [
            match.span()
            for match in (_ASCII_WORD if plain.text.isascii() else _WORD).finditer(plain.text)
            if (word := match.group()).startswith(beginnings) and stem(word) in marked
        ]
        places += [span for word, span in joined_words(plain.text) if stem(word) in marked]
        if not text.isascii():
            places += [match.span() for match in _AMONG_UNSPACED.finditer(plain.text) if stem(match[0]) in marked]
            places += _joined(span for span in places_of_pairs(plain.text) if plain.text[slice(*span)] in self._telling)
        places += [match.span() for sign in self._signs for match in re.finditer(re.escape(sign), plain.text)]
        places += [span for _, spans in contained for span in spans]
        kept: list[Span] = []  # of overlapping places the first and longest
        for start, end in sorted(places, key=lambda span: (span[0], -span[1])):
            if not kept or start >= kept[-1][1]:
                kept.append((start, end))
        return [plain.span_of(*span) for span in kept]

    def held_in(self, text: str) -> list[str]:
        """Return the query's stems that the text contains, except those of little weight."""
        plain = folded(text)
        # A stem is the beginning of its word, so a substring test excludes most stems at once.
        likely = [word for word in self._telling if word in plain]
        separated = {form: word for form, word in self._with_separators.items() if form in plain}
        beginnings, contained = (*likely, *separated), set[str]()
        if beginnings:
            run = _ASCII_RUN if plain.isascii() else _RUN
            contained.update(stem(word) for word in run.findall(plain) if word.startswith(beginnings))
            for word in self._compounds.keys() & likely:
                if any(stem(match[1]) == word for match in self._compounds[word].finditer(plain)):
                    contained.add(word)
            if not plain.isascii():
                contained.update(pairs_of(plain), map(stem, _AMONG_UNSPACED.findall(plain)))
                contained.update(sign for sign in self._signs if sign in plain)
        # The stems of words that have separators, if any of the query's that are missing may be among them.
        bare = plain.replace("-", "").replace(".", "").replace("'", "")
        missing = [word for word in self._telling if word in bare and word not in contained]
        if self._numbers or (missing and any(bare.count(word) > plain.count(word) for word in missing)):
            contained.update(stem(word) for word, _ in joined_words(plain))
        if separated:
            contained.update([word for form, word in separated.items() if form in contained])
        return [word for word in self._telling if word in contained]

    def phrases_in(self, text: str) -> int:
        """Return the number of phrases that the text contains."""
        if not self._phrases:
            return 0
        words = list(_stems_with_places(folded(text)))
        return sum(bool(_phrase_places(words, phrase)) for phrase in self._phrases)

    def anchor_in(self, text: str) -> int:
        """Return the start of the first phrase, otherwise of the first word with the greatest weight, otherwise 0."""
        plain = FoldedText.of(text)
        words = list(_stems_with_places(plain.text))
        starts = [span[0] for phrase in self._phrases for span in _phrase_places(words, phrase)]
        if not starts:
            telling = [(-self._telling[word], span[0]) for word, span in words if word in self._telling]
            starts = [min(telling)[1]] if telling else []
        return plain.span_of(min(starts), min(starts) + 1)[0] if starts else 0

    def share_of(self, words: Iterable[str]) -> float:
        """Return the share of the query's weight that these stems have."""
        return sum([self._telling[word] for word in words]) / self._total

    def counted(self, words: Iterable[str]) -> set[str]:
        """Return the stems of these words of the query, except those of little weight."""
        return {stem(folded(word)) for word in words} & self._telling.keys()

    @property
    def longest_of_phrases(self) -> list[str]:
        """Return the longest stem of each phrase."""
        return [max(phrase, key=len) for phrase in self._phrases]


def _compound_pattern(word: str) -> re.Pattern[str]:
    """Return a pattern for this stem of a path or compound, up to the end of its last part."""
    begins = r"(?<![^\W_])" if _RUN.match(word) else ""
    return re.compile(rf"{begins}(?=({re.escape(word)}[^\W_]*+))")


def _stems_with_places(text: str) -> Iterator[tuple[str, Span]]:
    return ((stem(match.group()), match.span()) for match in _WORD.finditer(text))


def _phrase_places(words: Sequence[tuple[str, Span]], phrase: Sequence[str]) -> list[Span]:
    """Return where the stems of the phrase occur in sequence, from the first letter to the last.

    Linear in the text: a phrase is short.
    """
    size = len(phrase)
    starts = (at for at, (word, _) in enumerate(words) if word == phrase[0])
    runs = (words[at : at + size] for at in starts)
    return [(run[0][1][0], run[-1][1][1]) for run in runs if [word for word, _ in run] == phrase]


def _joined(places: Iterable[Span]) -> list[Span]:
    """Merge overlapping places, given in order."""
    joined: list[Span] = []
    for start, end in places:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def stems_of(text: str) -> Counter[str]:
    """Count each rough stem, and each pair of characters of scripts without spaces, in `text`."""
    plain = folded(text)
    return Counter(chain((stem(match.group()) for match in _WORD.finditer(plain)), pairs_of(plain)))


def stem(word: str) -> str:
    """Return a rough stem of a folded word, always its beginning: for marking, and for comparing messages."""
    return _stem(word[:MAX_WORD_CHARS])


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    for ending in ("ingly", "edly", "ings", "ing", "ied", "ies", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)].rstrip("ie")
    return word.rstrip("ie") if len(word) > 3 else word
