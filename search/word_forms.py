"""The forms in which words are indexed and looked up: as written, and folded, which counts less. Pure.

A folded form has `MARK` before it, so that it is a word of its own: "reunion" is looked up as it is, and as the folded
form of "r\u00e9union". Words with separators inside are folded to one word. Source:
docs/adr/0122-compare-words-in-two-forms.md.
"""

import re
from collections.abc import Iterable

from convmemory.core.folding import MARKS, WORD, folded, joined_words, normal
from convmemory.core.text import quoted_lexeme
from search.vectors.texts import LEXICAL_CHARS, searchable

MARK = "\u01bf"
"""A letter of no language of today, which PostgreSQL takes for part of a word and no stemmer changes."""

# Words behind these are not folded: with the folded forms of more, a text of distinct words would outgrow a tsvector.
FOLDED_CHARS = 100_000
_WORD = re.compile(WORD)
# A word with a character outside of ASCII: of others, which are most, no folded form is stored.
_FOREIGN_WORD = re.compile(
    rf"(?<![0-9A-Za-z])(?:[0-9A-Za-z]++(?:[^\W_\x00-\x7f]|[{MARKS}])|[^\W_\x00-\x7f])(?:[^\W_]|[{MARKS}])*+"
)
# Vowels of two letters in which Germans and Scandinavians write one with a sign; and the other way round.
_TWO_LETTERS = re.compile("([aou])e|a(a)")
_IN_TWO_LETTERS = str.maketrans({
    "\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00f8": "oe", "\u00e5": "aa",
})  # fmt: skip


def indexed_text(text: str, language: str = "", *, has_joined: bool = True) -> tuple[str, str]:
    """Return a text for `to_tsvector`, and the same with folded forms in the places of their words; "" if it has none.

    With `has_joined`, words with separators inside follow without them.
    """
    if not text:
        return "", ""
    plain = normal(text)[:LEXICAL_CHARS]
    indexed = _lower(searchable(plain, language))
    marked = ""
    if not indexed.isascii():
        marked = _FOREIGN_WORD.sub(_marked, indexed[:FOLDED_CHARS]) + indexed[FOLDED_CHARS:]
    is_folded = marked not in ("", indexed)
    if has_joined and (joined := dict.fromkeys(f"{MARK}{folded(word)}" for word, _ in joined_words(plain))):
        line = f"\n{' '.join(joined)}"
        indexed, marked = indexed + line, marked + line
    return indexed, marked if is_folded else ""


def has_other_forms(text: str) -> bool:
    """Return whether words of `text` may be indexed in other forms than as they are written."""
    return not text.isascii() or next(joined_words(text), None) is not None


def _lower(text: str) -> str:
    return text if text.isascii() else text.casefold()


def _marked(match: re.Match[str]) -> str:
    word = match[0]
    return word if (plain := folded(word)) == word else f"{MARK}{plain}"


def queried_text(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the text of a query for PostgreSQL, and the folded forms of its words, by the word in normal form."""
    plain = normal(text)
    joined = {plain[slice(*span)].casefold(): word for word, span in joined_words(plain)}
    numbers = [word for word in joined.values() if word[0].isdigit() or word[-1].isdigit()]
    queried = _lower(searchable(plain))
    if numbers:
        queried = f"{queried}\n{' '.join(numbers)}"
    forms = {word: folded_forms(word) for word in _WORD.findall(queried.casefold())}
    return queried, forms | {written: (word, f"{MARK}{word}") for written, word in joined.items()}


def folded_forms(word: str) -> tuple[str, ...]:
    """Return the other forms of a word in lower case: with `MARK` of those in the index, and as others may write it."""
    plain = folded(word)
    forms = [f"{MARK}{plain}"]
    if plain != word:
        forms += dict.fromkeys((plain, word.translate(_IN_TWO_LETTERS)))
    if (one_letter := _TWO_LETTERS.sub(_one_letter, plain)) != plain:
        forms.append(f"{MARK}{one_letter}")
    return tuple(form for form in forms if form != word)


def _one_letter(match: re.Match[str]) -> str:
    return match[1] or match[2]


def phrase_query(phrase: str) -> str:
    """Return a phrase for `to_tsquery`: its words in sequence, each in any of its forms."""
    words = [word for word in normal(phrase).casefold().split() if _WORD.search(word)]
    return " <-> ".join(f"({' | '.join(map(quoted_lexeme, _forms_of(word)))})" for word in words)


def _forms_of(word: str) -> Iterable[str]:
    parts = _WORD.findall(word)
    plain = [form for form, _ in joined_words(word)] or (parts if len(parts) == 1 else [])
    return dict.fromkeys([word, *(form for part in plain for form in (part, *folded_forms(part)))])
