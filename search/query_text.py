"""Parses the text of the search box: plain words, "quoted phrases" and -excluded words. Pure."""

import re
from dataclasses import dataclass

_PHRASE = re.compile(r'(?<![\w"])(-?)"([^"]{1,200})"')
_EXCLUDED = re.compile(r"(?:^|(?<=\s))-(?=\w)(\w[\w./:@#-]*)")
_LETTER = re.compile(r"\w")
# An option of a quoted command, `git add -A` or `tail -20`, or a negative number. As exclusions these failed five of
# 471 queries about coding runs (ADR 7).
_OPTION = re.compile(r"[A-Za-z]|\d+")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A parsed query: `text` is searched by meaning and by words; phrases must occur in a turn, exclusions must not."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operators as typed, phrases first."""
        return (*(f'"{phrase}"' for phrase in self.phrases), *map(_as_excluded, self.excluded))


def _as_excluded(text: str) -> str:
    return f"-{text}" if _EXCLUDED.fullmatch(f"-{text}") else f'-"{text}"'


def parse_query(text: str) -> QueryText:
    """Parse a query. Phrases are part of the text too; a query of exclusions alone is taken as plain words.

    A single letter or a number after a hyphen excludes nothing: nearly all turns contain the letter.
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
