"""The language of a text, and what its words are found by: stems, parts of compounds, pairs of characters. Pure.

A language is detected by its script and, in Latin script, by its commonest words. A text that is not clearly in another
language is indexed as English, so that code, logs and names are unaffected.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources

import pyphen

from convmemory.core.text import Span
from search.vectors.splitting import FENCE

SAMPLE_CHARS = 4_000
# With these thresholds no message of LoCoMo is taken for another language, and all 240 German, Spanish and Arabic
# sample texts are recognised; py3langid took 11 of LoCoMo's 2,760 messages for another language (ADR 53).
MIN_WORDS = 3  # different common words of the language that a text must contain
MIN_SHARE = 0.1  # the share of such words among its words
SCRIPT_SHARE = 0.3  # the share of letters in another script
ENGLISH = "english"
CONFIGURATION = "convmemory"
"""The configuration for English and for languages without a stemmer."""

_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = {
    "arabic": re.compile("[\u0600-\u06ff]"),
    "armenian": re.compile("[\u0530-\u058f]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "hindi": re.compile("[\u0900-\u097f]"),
    "russian": re.compile("[\u0400-\u04ff]"),
    "tamil": re.compile("[\u0b80-\u0bff]"),
}
_LETTERS = {
    "german": "ß",
    "spanish": "ñ",
    "portuguese": "ãõ",
    "romanian": "țș",
    "turkish": "ğ\u0131",
    "hungarian": "őű",
}
"""Letters that only one of these languages has; a word with one counts as a common word."""


COMMON_IN = {
    language: frozenset(words)
    for language, words in json.loads(
        resources.files("search").joinpath("common_words.json").read_text(encoding="utf-8")
    ).items()
}
"""The commonest words of each language that is recognised by them."""
_BY_WORD = {
    word: frozenset(language for language, common in COMMON_IN.items() if word in common)
    for word in frozenset().union(*COMMON_IN.values())
}
COMMON_WORDS = frozenset(_BY_WORD)
# ASCII letters in lower case; other characters become spaces.
_LETTERS_ALONE = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalpha() else 32 for code in range(256))
_BY_LETTER = {letter: language for language, letters in _LETTERS.items() for letter in letters}
LANGUAGES = tuple(sorted((_SCRIPTS.keys() | COMMON_IN.keys()) - {ENGLISH}))
"""The languages that have a configuration in addition to English, named as PostgreSQL names its stemmers."""


def languages_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the language of each text of a group, by key; only texts in one of `LANGUAGES`.

    A text too short for detection has the language of the whole group.
    """
    languages = {key: language_of(text) for key, text in texts.items() if text}
    if any(languages.values()) and not all(languages.values()):
        group = "\n".join(text[:SAMPLE_CHARS] for text in texts.values())
        common = language_of(group, max_chars=len(languages) * SAMPLE_CHARS)
        languages = {key: language or common for key, language in languages.items()}
    return {key: language for key, language in languages.items() if language in LANGUAGES}


def language_of(text: str, max_chars: int = SAMPLE_CHARS) -> str:
    """Return `ENGLISH`, one of `LANGUAGES`, or "" if the beginning of the text is not clear."""
    sample = FENCE.sub(" ", text[:max_chars])
    if sample.isascii():  # of no other script, and its words are found several times as fast
        return _by_common_words(Counter(sample.encode().translate(_LETTERS_ALONE).decode().split()))
    words = [word.lower() for word in _WORD.findall(sample)]
    letters = sum(map(len, words))
    for language, pattern in _SCRIPTS.items():
        if len(pattern.findall(sample)) > SCRIPT_SHARE * letters:
            return language
    return _by_common_words(Counter(words))


def is_foreign(text: str) -> bool:
    """Return whether a text is clearly in another language than English."""
    return language_of(text) not in ("", ENGLISH) or next(places_of_pairs(text), None) is not None


def _by_common_words(words: Counter[str]) -> str:
    """Return the language with the most common words among these, English on a tie; "" if there are too few."""
    occurrences: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    # Most words are neither common in any language nor have a letter of their own: set operations skip them.
    for word in (words.keys() & _BY_WORD.keys()) | {word for word in words if not word.isascii()}:
        count = words[word]
        # A common word of these languages, or with a letter that one of them alone has.
        languages = _BY_WORD.get(word, frozenset())
        if not word.isascii():
            languages |= {_BY_LETTER[letter] for letter in _BY_LETTER.keys() & word}
        for language in languages:
            occurrences[language] += count
            distinct[language] += 1
    best = max(COMMON_IN, key=lambda language: (occurrences[language], language == ENGLISH))
    is_enough = occurrences[best] >= MIN_SHARE * words.total()
    return best if is_enough and distinct[best] >= MIN_WORDS else ""


def configuration_of(language: str) -> str:
    """Return the text search configuration for a language; "" is English."""
    return f"{CONFIGURATION}_{language}" if language else CONFIGURATION


# At least this many characters must remain when a prefixed "and" is removed.
ARABIC_MIN_CHARS = 3
# At least this many characters must remain when an article or an ending is removed.
MIN_CORE_CHARS = 2

_ARABIC_WORD = re.compile("[\u0621-\u0652\u0670\u0671]{2,60}+")
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


# PostgreSQL's stemmer removes endings depending on the article, and keeps a prefixed "and", so that the same word has
# two stems. Words are stemmed here without article, prefixed particles and common endings, and these forms are searched
# for as well.
def stems_of_arabic(text: str) -> Iterator[str]:
    """Yield the stem of each Arabic word of two letters or more, in order."""
    for match in _ARABIC_WORD.finditer(text):
        word = match.group().translate(_PLAIN)
        for article in _ARTICLES:
            if word.startswith(article) and len(word) - len(article) >= MIN_CORE_CHARS:
                word = word[len(article) :]
                break
        else:
            word = word[1:] if word.startswith(_AND) and len(word) > ARABIC_MIN_CHARS else word
        # One ending after the other: a plural ending may follow letters that look like an ending.
        while endings := [end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= MIN_CORE_CHARS]:
            word = word[: -len(endings[0])]
        yield word


PATTERNS = {"german": "de_DE"}
# Only words of these lengths are split.
COMPOUND_MIN_CHARS, COMPOUND_MAX_CHARS = 8, 60
MIN_PART_CHARS = 4
CACHED_WORDS = 20_000

_COMPOUND_WORD = re.compile(r"[^\W\d_]++")


# "Vertrag" and "Miete" both match German "Mietvertrag". A long word is split at its hyphenation points, which lie
# between its parts and between syllables. Whatever begins or ends at one counts as a part; fragments that are not words
# do no harm, because users do not search for them. Source: docs/adr/0053-index-each-text-in-its-language.md.
def parts_of_compounds(text: str, language: str) -> Iterator[str]:
    """Yield the parts of the long words of `text`, if `language` writes compounds as one word."""
    if language not in PATTERNS:
        return
    patterns = _patterns_of(language)
    for match in _COMPOUND_WORD.finditer(text):
        word = match.group()
        if COMPOUND_MIN_CHARS <= len(word) <= COMPOUND_MAX_CHARS:
            for at in patterns.positions(word):
                yield from (part for part in (word[:at], word[at:]) if len(part) >= MIN_PART_CHARS)
    if len(patterns.cache) > CACHED_WORDS:
        # pyphen keeps each word that it has seen, without a limit.
        patterns.cache.clear()


@lru_cache(maxsize=len(PATTERNS))
def _patterns_of(language: str) -> pyphen.HyphDict:
    return pyphen.HyphDict(pyphen.LANGUAGES[PATTERNS[language]])


CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The characters of these scripts, for a class of a regular expression."""

_RUN = re.compile(f"[{CHARACTERS}]{{2,}}")
_CHARACTER = re.compile(f"[{CHARACTERS}]")
# One emoji can be several code points: a base, a skin tone, a variation selector, joiners.
_OF_EMOJI = frozenset(("So", "Sk", "Mn", "Cf"))
MAX_SIGN_CHARS = 16


# Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer are searched by pairs of consecutive characters, as is usual
# without a dictionary.
def pairs_of(text: str) -> Iterator[str]:
    """Yield each pair of consecutive characters of such a script, in order."""
    return (text[start:end] for start, end in places_of_pairs(text))


def places_of_pairs(text: str) -> Iterator[Span]:
    """Yield the places of the pairs."""
    for match in _RUN.finditer(text):
        yield from ((at, at + 2) for at in range(match.start(), match.end() - 1))


def is_sign(text: str) -> bool:
    """Return whether a text is one character of such a script, or an emoji: no word that the index has in all texts."""
    if _CHARACTER.fullmatch(text):
        return True
    kinds = [unicodedata.category(character) for character in text[: MAX_SIGN_CHARS + 1]]
    return 0 < len(kinds) <= MAX_SIGN_CHARS and kinds[0] == "So" and _OF_EMOJI.issuperset(kinds)
