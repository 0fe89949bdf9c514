"""The parts of compounds, so that "Vertrag" and "Miete" both find German "Mietvertrag". Pure.

A long word is split at its hyphenation points, which lie between its parts and between syllables. Whatever begins or
ends at one counts as a part; fragments that are not words do no harm, because nobody searches for them. Source:
docs/adr/0053-index-each-text-in-its-language.md.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

import pyphen

PATTERNS = {"german": "de_DE"}
# Only words of these lengths are split.
MIN_CHARS, MAX_CHARS = 8, 60
MIN_PART_CHARS = 4
CACHED_WORDS = 20_000

_WORD = re.compile(r"[^\W\d_]++")


def parts_of_compounds(text: str, language: str) -> Iterator[str]:
    """Yield the parts of the long words of `text`, if `language` writes compounds as one word."""
    if language not in PATTERNS:
        return
    patterns = _patterns_of(language)
    for match in _WORD.finditer(text):
        word = match.group()
        if MIN_CHARS <= len(word) <= MAX_CHARS:
            for at in patterns.positions(word):
                yield from (part for part in (word[:at], word[at:]) if len(part) >= MIN_PART_CHARS)
    if len(patterns.cache) > CACHED_WORDS:
        # pyphen keeps each word that it has seen, without a limit.
        patterns.cache.clear()


@lru_cache(maxsize=len(PATTERNS))
def _patterns_of(language: str) -> pyphen.HyphDict:
    return pyphen.HyphDict(pyphen.LANGUAGES[PATTERNS[language]])
