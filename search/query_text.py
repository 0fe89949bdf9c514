"""Parses what a person types into the search box: plain words, "quoted phrases" and -excluded words. Pure."""

import re
from dataclasses import dataclass

_PHRASE = re.compile(r'(?<![\w"])(-?)"([^"]{1,200})"')
_EXCLUDED = re.compile(r"(?:^|(?<=\s))-(?=\w)(\w[\w./:@#-]*)")
_LETTER = re.compile(r"\w")
_OPTION = re.compile(r"[A-Za-z]|\d+")  # of a command that is quoted, `git add -A` or `tail -20`, or a negative number


@dataclass(frozen=True, slots=True)
class QueryText:
    """`text` is searched for by meaning and by words; phrases must occur in a turn, exclusions must not."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators as typed, phrases first."""
        return (*(f'"{phrase}"' for phrase in self.phrases), *map(_as_excluded, self.excluded))


def _as_excluded(text: str) -> str:
    return f"-{text}" if _EXCLUDED.fullmatch(f"-{text}") else f'-"{text}"'


def parse_query(text: str) -> QueryText:
    """Phrases are part of the text too; a query of exclusions alone is taken as plain words.

    A single letter or a number after a hyphen excludes nothing: hardly any turn lacks the letter.
    """
    phrases: list[str] = []
    excluded: list[str] = []

    def take_phrase(match: re.Match[str]) -> str:
        if not _LETTER.search(match[2]):
            return match[0]
        (excluded if match[1] else phrases).append(match[2])
        return " " if match[1] else match[2]

    def take_word(match: re.Match[str]) -> str:
        if _OPTION.fullmatch(match[1].rstrip("./:@#-")):
            return match[0]
        excluded.append(match[1])
        return " "

    plain = " ".join(_EXCLUDED.sub(take_word, _PHRASE.sub(take_phrase, text)).split())
    if not _LETTER.search(plain):
        return QueryText(text)
    return QueryText(plain, tuple(phrases), tuple(excluded))
