"""Brings a text to the forms in which words are compared, however they are typed. Pure.

`normal` keeps what a language tells apart: composed characters, plain widths, ligatures as letters, digits as 0 to 9,
no invisible characters, no vowel points. `folded` also drops accents and case. Source: Unicode Standard Annex 15;
Unicode's property Default_Ignorable_Code_Point; docs/adr/0122-compare-words-in-two-forms.md.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from convmemory.core.text import Span

# Combining characters of scripts with spaces between words: they are letters to PostgreSQL, and not to Python's \w.
MARKS = (
    "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-"
    "\u0983\u09bc-\u09d7\u0a01-\u0a51\u0abc-\u0acd\u0b3c-\u0b57\u0bbe-\u0bcd\u0c3c-\u0c56\u0cbc-\u0cd6\u0d3b-\u0d4d\u0dca-\u0ddf"
)
WORD = rf"[^\W_](?:[^\W_]|[{MARKS}])*+"
"""A run of letters, digits and combining characters."""

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Optional in their scripts: Hebrew points, Arabic vowel signs and the stretching tatweel.
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0670]")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_ALIKE = str.maketrans({
    "\u0130": "I",  # lower-cased, the dot would become a character of its own
    "\u2010": "-", "\u2011": "-", "\u2019": "'", "\u02bc": "'",
})  # fmt: skip
# Accents, and the Indic nukta. The breve of Cyrillic short i, which makes another letter, is never left out.
_ACCENT = re.compile(
    "[\u0300-\u0305\u0307-\u036f\u0653-\u0655\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc]|(?<!\u0438)\u0306"
)
# Letters that are typed as others and do not decompose.
_TYPED_AS = str.maketrans({
    "\u00f8": "o", "\u0142": "l", "\u0111": "d", "\u00f0": "d", "\u00fe": "th", "\u00e6": "ae", "\u0153": "oe",
    "\u0131": "i", "\u0127": "h", "\u0167": "t", "\u014b": "n", "\u0259": "e", "\u0491": "\u0433", "\u02bb": None,
    "\u0649": "\u064a", "\u06cc": "\u064a", "\u06a9": "\u0643", "\u0629": "\u0647", "\u0671": "\u0627",
})  # fmt: skip
_WITH_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u093c\u09bc\u0a3c\u1161-\u11ff\u3099\u309a\uff9e\uff9f"
)
_CLUSTERS = re.compile(rf"[\x00-\x7f]+(?![{_WITH_MARKS}])|.[{_WITH_MARKS}]*", re.DOTALL)

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
SHORT_CHARS = 24  # The forms of longer runs are not cached.
Form = Callable[[str], str]

# Words with separators inside: "re-entrant", "O'Brien", "Ph.D", not "don't", versions or addresses.
_COMPOUND = re.compile(r"(?<![\w'.@/\\-])\w++(?:['.-]\w++){1,3}(?![\w@/\\-]|[.']\w)")
_NUMBER_AFTER_DOT = re.compile(r"\.[0-9]")
# What most texts lack: each pattern begins with characters that the search skips to, and spares a slower one.
_SEPARATED = re.compile(r"['.-](?<=\w.)(?!(?<=')(?:s|t|d|m|re|ve|ll)\b)(?=\w)", re.IGNORECASE)
_TWO_DIGITS, _GROUPED = re.compile("[0-9][0-9]"), re.compile("[0-9][0-9 ()./-]{5}")
_CONTRACTED = re.compile(r"'(?:s|t|d|m|re|ve|ll)\Z", re.IGNORECASE)
MAX_COMPOUND_CHARS = 40
# Numbers in groups: of telephones, cards, and accounts, which begin with letters.
_ACCOUNT = re.compile(r"\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}+(?:[ -]?[A-Za-z0-9]{1,3})?\b")
_GROUPS = re.compile(r"(?<![\w.,:/-])\+?\(?[0-9][0-9 ()./-]{5,}+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SEPARATORS = re.compile(r"\W+")
MIN_DIGITS, MAX_DIGITS, MAX_SEPARATORS = 7, 19, 7
# The calling codes of one and two digits; all others have three.
_CALLING_CODE = re.compile("1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[0-9]{3}")

PATTERN_CHARS = 24
_UNSURE = re.compile(r"[^0-9A-Za-z]")  # a pattern may interpret it, and databases differ in its case


def normal(text: str) -> str:
    """Return `text` with each character in one form; case and accents stay."""
    return text if text.isascii() else _by_runs(text, str, _normal_run, _cached_normal_run)


def folded(text: str) -> str:
    """Return the normal form of `text` without accents, in lower case."""
    return text.lower() if text.isascii() else _by_runs(text, str.lower, _folded_run, _cached_folded_run)


def _by_runs(text: str, of_ascii: Form, of_run: Form, of_short_run: Form) -> str:
    """Return the forms of the stretches of ASCII in a text, and of the runs between them, joined.

    A run begins with the character before it, to which its first marks may belong. Most texts have few and short runs.
    """
    pieces: list[str] = []
    end = 0
    for match in _FOREIGN.finditer(text):
        start = max(match.start() - 1, end)
        run = text[start : match.end()]
        pieces += (of_ascii(text[end:start]), of_short_run(run) if len(run) <= SHORT_CHARS else of_run(run))
        end = match.end()
    return "".join([*pieces, of_ascii(text[end:])])


def _normal_run(text: str) -> str:
    text = unicodedata.normalize("NFKC", _IGNORABLE.sub("", text)).translate(_ALIKE)
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), _POINTS.sub("", text))


def _folded_run(text: str) -> str:
    plain = _ACCENT.sub("", unicodedata.normalize("NFD", _normal_run(text).casefold()))
    return unicodedata.normalize("NFC", plain).translate(_TYPED_AS)


_cached_normal_run = lru_cache(maxsize=10_000)(_normal_run)
_cached_folded_run = lru_cache(maxsize=10_000)(_folded_run)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """The folded form of a text, with the place in the text of each of its characters; None if they are the same."""

    text: str
    places: Sequence[Span] | None = None

    @classmethod
    def of(cls, text: str) -> "FoldedText":
        if text.isascii():
            return cls(text.lower())
        pieces: list[str] = []
        places: list[Span] = []
        for match in _CLUSTERS.finditer(text):
            start, end = match.span()
            if match[0].isascii():
                pieces.append(match[0].lower())
                places += [(at, at + 1) for at in range(start, end)]
            else:
                piece = _cached_folded_run(match[0]) if len(match[0]) <= SHORT_CHARS else _folded_run(match[0])
                pieces.append(piece)
                places += [(start, end)] * len(piece)
        return cls("".join(pieces), places)

    def span_of(self, start: int, end: int) -> Span:
        """Return the place in the original text of these characters, one or more, of the folded text."""
        return (start, end) if self.places is None else (self.places[start][0], self.places[end - 1][1])


def joined_words(text: str) -> Iterator[tuple[str, Span]]:
    """Yield each word or number of a normal text that has separators inside, without them, with its place.

    A telephone number with a country code has two forms: with the code, and with the zero of calls within the country.
    """
    for match in _COMPOUND.finditer(text) if _SEPARATED.search(text) else ():
        word = match[0]
        is_word = word[0].isalpha() and len(word) <= MAX_COMPOUND_CHARS
        if is_word and not _CONTRACTED.search(word) and not _NUMBER_AFTER_DOT.search(word):
            yield _SEPARATORS.sub("", word).lower(), match.span()
    for match in _ACCOUNT.finditer(text) if _TWO_DIGITS.search(text) else ():
        if not match[0].isalnum():
            yield _SEPARATORS.sub("", match[0]).lower(), match.span()
    for match in _GROUPS.finditer(text) if _GROUPED.search(text) else ():
        written = match[0].rstrip(" (./-")
        digits = _SEPARATORS.sub("", written.replace("(0)", ""))
        separators = len(_SEPARATORS.findall(written.lstrip("+(")))
        is_grouped = separators > 0 or written[0] == "+"
        if MIN_DIGITS <= len(digits) <= MAX_DIGITS and is_grouped and separators <= MAX_SEPARATORS:
            if _DATE.search(written) or ("." in written and "-" in written):
                continue
            span = match.start(), match.start() + len(written)
            yield from ((form, span) for form in _number_forms(written, digits))


def _number_forms(written: str, digits: str) -> list[str]:
    if not written.startswith(("+", "00")):
        return [digits]
    digits = digits.removeprefix("00")
    code = _CALLING_CODE.match(digits)
    return [digits, f"0{digits[code.end() :]}"] if code else [digits]


def pattern_of(word: str) -> str:
    """Return PostgreSQL's pattern for texts that may contain a folded word; few other texts match.

    Accents, separators and invisible characters may be inside.
    """
    letters = (_UNSURE.sub(".", letter) for letter in word[:PATTERN_CHARS])
    return "[^0-9A-Za-z]*".join(f"(?:{letter}|[^\x01-\x7f])" for letter in letters)


def places_of_words(text: str, words: Sequence[str]) -> list[Span] | None:
    """Return the first place of each folded word in the text, with or without separators inside; None without all."""
    plain = FoldedText.of(text)
    joined = None
    places: list[Span] = []
    for word in words:
        start = plain.text.find(word)
        if start >= 0:
            places.append(plain.span_of(start, start + len(word)))
            continue
        joined = dict(joined_words(plain.text)) if joined is None else joined
        span = next((span for form, span in joined.items() if word in form), None)
        if span is None:
            return None
        places.append(plain.span_of(*span))
    return places
