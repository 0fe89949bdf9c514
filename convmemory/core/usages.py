"""Usages of a command: which of its options and arguments go together, such as `--prune [--yes | --dry-run]`.

Brackets hold what may be left out, a line separates alternatives. A word is an option, the name of an argument, or a
value of one. Pure. Reasons: docs/adr/0120-usages-of-commands.md.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations

MOST_MISSING = 3
"""So many words are looked for that would complete a refused call."""
WORD = re.compile(r"[^\s\[\]|]+")
_TOKEN = re.compile(r"\s*([\[\]|]|[^\s\[\]|]+)\s*")
_SIGNS = {"[": "(?:", "]": ")?", "|": "|"}


def words_of(usages: Iterable[str]) -> set[str]:
    """Return all options, arguments and values in the usages."""
    return {word for usage in usages for word in WORD.findall(usage)}


def refuse(usages: Sequence[str], words: Collection[str]) -> str:
    """Return why a call with these words is none of the usages, and what to do; "" if it is one."""
    if any(is_call(usage, words) for usage in usages):
        return ""
    ordered = sorted(words)
    for one, other in combinations(ordered, 2):
        if not go_together(usages, one, other):
            return f"{_shown(one)} and {_shown(other)} do not go together: leave one of them out."
    missing = " or ".join(dict.fromkeys(" and ".join(map(_shown, extra)) for extra in _completions(usages, words)))
    for word in ordered:
        if missing and any(is_call(usage, [other for other in ordered if other != word]) for usage in usages):
            return f"{_shown(word)} goes only with {missing}: add that, or leave {_shown(word)} out."
    return f"Add {missing}." if missing else f"{', '.join(map(_shown, ordered))} are not allowed in one call."


def go_together(usages: Iterable[str], one: str, other: str) -> bool:
    """Return whether some call has both words."""
    return any(is_call(usage, {one, other}, is_part=True) for usage in usages)


def is_call(usage: str, words: Collection[str], *, is_part: bool = False) -> bool:
    """Return whether the words are a call of this usage, or with `is_part` can be completed to one."""

    def as_pattern(token: re.Match[str]) -> str:
        return _SIGNS.get(token[1]) or f"(?:{re.escape(token[1])} ){'?' if is_part else ''}"

    in_order = [word for word in WORD.findall(usage) if word in words]
    if len(in_order) < len(words):
        return False
    call = "".join(f"{word} " for word in in_order)
    return re.fullmatch(_TOKEN.sub(as_pattern, usage), call) is not None


def _completions(usages: Iterable[str], words: Collection[str]) -> list[tuple[str, ...]]:
    """Return the fewest words that make a call of these, for each usage."""

    def of_usage(usage: str, count: int) -> Iterator[tuple[str, ...]]:
        for extra in combinations([word for word in WORD.findall(usage) if word not in words], count):
            if is_call(usage, {*words, *extra}):
                yield extra

    for count in range(1, MOST_MISSING + 1):
        if extras := [extra for usage in usages for extra in of_usage(usage, count)]:
            return extras
    return []


def _shown(word: str) -> str:
    return word if word.startswith("-") else word.upper()
