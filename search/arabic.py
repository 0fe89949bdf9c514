"""Stems Arabic words: without article, prefixed particles and common endings. Pure.

PostgreSQL's stemmer removes endings depending on the article, and keeps a prefixed "and", so that the same word has two
stems. The forms made here are searched for as well.
"""

import re
from collections.abc import Iterator

# At least this many characters must remain when a prefixed "and" is removed.
MIN_CHARS = 3
# At least this many characters must remain when an article or an ending is removed.
MIN_CORE_CHARS = 2

_WORD = re.compile("[\u0621-\u0652\u0670\u0671]{2,60}+")
_PLAIN = str.maketrans(
    {**dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627"), "\u0649": "\u064a"},  # alef and yeh in one form each
) | dict.fromkeys([0x0640, *range(0x064B, 0x0653), 0x0670])  # removes tatweel and vowel signs
_AND = "\u0648"
_ARTICLES = (
    "\u0648\u0627\u0644", "\u0628\u0627\u0644", "\u0643\u0627\u0644", "\u0641\u0627\u0644", "\u0648\u0644\u0644",
    "\u0627\u0644", "\u0644\u0644",
)  # fmt: skip
_ENDINGS = (
    "\u0647\u0627", "\u0627\u0646", "\u0627\u062a", "\u0648\u0646", "\u064a\u0646", "\u064a\u0647", "\u064a\u0629",
    "\u0647", "\u0629", "\u064a",
)  # fmt: skip


def stems_of_arabic(text: str) -> Iterator[str]:
    """Yield the stem of each Arabic word of two letters or more, in order."""
    for match in _WORD.finditer(text):
        yield _without_endings(_without_article(match.group().translate(_PLAIN)))


def _without_article(word: str) -> str:
    for article in _ARTICLES:
        if word.startswith(article) and len(word) - len(article) >= MIN_CORE_CHARS:
            return word[len(article) :]
    return word[1:] if word.startswith(_AND) and len(word) > MIN_CHARS else word


def _without_endings(word: str) -> str:
    """Remove endings one after the other: a plural ending may follow letters that look like an ending."""
    while True:
        found = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= MIN_CORE_CHARS), "")
        if not found:
            return word
        word = word[: -len(found)]
