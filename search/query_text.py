"""Parses the text of the search box: plain words, "quoted phrases" and -excluded words. Pure.

A pasted command is full of hyphens: a hyphen excludes a word only where a person evidently means it (ADR 85).
"""

import re
from dataclasses import dataclass
from unicodedata import category

_PHRASE = re.compile(r'(?<![\w"])(-?)"([^"]{1,200})"')
_EXCLUDED = re.compile(r"(?:^|(?<=\s))-(?=\w)(\w[\w./:@#-]*)")
_LETTER = re.compile(r"\w")
# An option of a quoted command, `git add -A` or `tail -20`, or a negative number. As exclusions these failed five of
# 471 queries about coding runs.
_OPTION = re.compile(r"[A-Za-z]\d*|\d+")
# Options of more letters that often end a command: `ls -la`, `docker run -it`, `ps -aux`.
_BUNDLES = frozenset(("am", "aux", "it", "la", "lah", "nlp", "rf", "vv", "xf", "xvf", "xzf", "xzvf", "zxvf"))
# The signs of a pasted command, path or log: a long option, a pipe, an assignment, a flag that itself has a hyphen.
_PASTED = re.compile(r"(?:^|\s)(?:--\w|-\w+-\w|[|&;]+\s|\w+=\S|\.{0,2}/\w)")
# A noncharacter for the hyphens of phrases while exclusions are looked for: in quotes a hyphen is text.
_HYPHEN = "\ufdd0"
# A longer query, or one of several lines, is pasted: its quotes and hyphens are text.
TYPED_CHARS = 300


@dataclass(frozen=True, slots=True)
class QueryText:
    """A parsed query: `text` is searched by meaning and by words; phrases must occur in a turn, exclusions must not."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operators as typed, phrases first."""
        return (
            *(f'"{phrase}"' for phrase in self.phrases),
            *(f"-{text}" if _EXCLUDED.fullmatch(f"-{text}") else f'-"{text}"' for text in self.excluded),
        )


def parse_query(text: str) -> QueryText:
    """Parse a query. Phrases are part of the text too; a query of exclusions alone has none.

    An unquoted word is excluded only at the end of a query; an option of a pasted command is a word.
    """
    if len(text) > TYPED_CHARS or "\n" in text.strip():
        return QueryText(" ".join(text.split()))
    phrases: list[str] = []
    excluded: list[str] = []

    def take_phrase(match: re.Match[str]) -> str:
        if not _LETTER.search(match[2]):
            return match[0]
        (excluded if match[1] else phrases).append(match[2])
        return " " if match[1] else match[2].replace("-", _HYPHEN)

    plain = _PHRASE.sub(take_phrase, text).strip()
    if not _PASTED.search(text.strip()):
        # The text without its excluded words, and these; none if plain words follow or one is an option.
        words = plain.split()
        places = [position for position, word in enumerate(words) if _EXCLUDED.fullmatch(word)]
        named = [words[position].removeprefix("-") for position in places]
        at_the_end = places == list(range(len(words) - len(places), len(words)))
        if not at_the_end or any(_is_option(word) for word in named):
            excluded_words = []
        else:
            plain, excluded_words = " ".join(words[: len(words) - len(places)]), named
        excluded += excluded_words
    plain = " ".join(plain.split()).replace(_HYPHEN, "-")
    if not _LETTER.search(plain):
        if not excluded:
            return QueryText(text)
        plain = plain if any(category(char) == "So" for char in plain) else ""  # an emoji is searched for
    return QueryText(plain, tuple(phrases), tuple(excluded))


def _is_option(word: str) -> bool:
    plain = word.rstrip("./:@#-")
    return bool(_OPTION.fullmatch(plain)) or plain in _BUNDLES
