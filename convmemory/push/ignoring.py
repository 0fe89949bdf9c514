"""Matches folders against patterns as in .gitignore. Pure; standard library only.

Source: gitignore(5), and wildmatch.c of git, against which `tests/unit/push/test_ignoring.py` compares it.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\s", "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}  # fmt: skip
_NEVER = r"(?!)"
MAX_STEP_CHARS = 1000  # a folder's name has at most 255
# File systems of macOS and Windows mostly ignore case.
_FLAGS = re.DOTALL | (re.IGNORECASE if sys.platform in ("darwin", "win32") else 0)
_Step = re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of the file: a regular expression for each step of a path, None for a step `**`.

    Without `is_anchored` the one step matches at any depth.
    """

    steps: tuple[_Step, ...]
    is_anchored: bool
    is_negated: bool

    def matches(self, path: Sequence[str]) -> bool:
        """Return whether a folder matches, by its steps below the folder of the file."""
        if not self.is_anchored:
            return self.steps[0] is None or self.steps[0].fullmatch(path[-1]) is not None
        # The numbers of the steps that may match next, kept up while the path is read once.
        reached = _with_empty({0}, self.steps)
        for name in path:
            following = set()
            for number in reached:
                if number < len(self.steps):
                    step = self.steps[number]
                    if step is None:
                        following |= {number, number + 1} if number + 1 == len(self.steps) else {number}
                    elif step.fullmatch(name):
                        following.add(number + 1)
            reached = _with_empty(following, self.steps)
        return len(self.steps) in reached


def parse_patterns(text: str) -> tuple[Pattern, ...]:
    """Return the patterns of a file; comments and blank lines are none."""
    patterns = []
    for line in text.removeprefix("\ufeff").split("\n"):
        whole = line.removesuffix("\r")
        words = whole.rstrip(" ")
        if words != whole and (len(words) - len(words.rstrip("\\"))) % 2:
            words += " "  # a backslash escapes the first of the trailing spaces
        if not words or words.startswith("#"):
            continue
        is_negated = words.startswith("!")
        words = words.removeprefix("!").removesuffix("/")
        is_anchored = "/" in words
        names = words.removeprefix("/").split("/")
        steps = tuple(None if len(name) > 1 and not name.strip("*") else _step(name) for name in names)
        patterns.append(Pattern(steps, is_anchored, is_negated))
    return tuple(patterns)


def is_ignored(path: Sequence[str], patterns: Sequence[Pattern]) -> bool | None:
    """Return whether the last pattern that matches leaves the folder out; None if no pattern matches."""
    last = next((pattern for pattern in reversed(patterns) if pattern.matches(path)), None)
    return None if last is None else not last.is_negated


def _with_empty(reached: set[int], steps: Sequence[_Step]) -> set[int]:
    """Add the steps after each `**`, which matches no folder too, except at the end of the pattern."""
    whole = set(reached)
    for number in range(min(reached, default=len(steps)), len(steps) - 1):
        if number in whole and steps[number] is None:
            whole.add(number + 1)
    return whole


@lru_cache(maxsize=1024)
def _step(name: str) -> re.Pattern[str]:
    """Return the regular expression for a name of a folder. Wildcards are atomic, so that matching is linear."""
    literals = [""]  # between the stars
    if len(name) > MAX_STEP_CHARS:
        name, literals = "", [_NEVER]
    position = 0
    while position < len(name):
        mark = name[position]
        position += 1
        if mark == "*":
            literals.append("")
        elif mark == "?":
            literals[-1] += "."
        elif mark == "[":
            members, position = _set(name, position)
            literals[-1] += members
        elif mark == "\\":
            literals[-1] += re.escape(name[position]) if position < len(name) else _NEVER
            position += 1
        else:
            literals[-1] += re.escape(mark)
    expression, *others = literals
    if others:
        *middle, last = others
        expression += "".join(f"(?>.*?{text})" for text in middle if text) + f".*{last}"
    return re.compile(expression, _FLAGS)


def _set(name: str, position: int) -> tuple[str, int]:
    """Return the set that opens before `position` as a regular expression, and the position after it.

    A set that does not end matches nothing.
    """
    is_inverted = name[position : position + 1] in ("!", "^")
    position += is_inverted
    start, members = position, []
    while position < len(name) and (name[position] != "]" or position == start):
        if name.startswith("[:", position) and (end := name.find(":]", position)) > 0:
            members.append(_CLASSES.get(name[position + 2 : end], ""))
            if not members[-1]:
                return _NEVER, len(name)
            position = end + 2
            continue
        first, position = _member(name, position)
        members.append(re.escape(first))  # also of a range that runs backwards
        if name[position : position + 1] == "-" and name[position + 1 : position + 2] not in ("]", ""):
            last, position = _member(name, position + 1)
            if first <= last:
                members.append(f"{re.escape(first)}-{re.escape(last)}")
    if position >= len(name):
        return _NEVER, len(name)
    if not members:
        return ("." if is_inverted else _NEVER), position + 1
    return f"[{'^' if is_inverted else ''}{''.join(members)}]", position + 1


def _member(name: str, position: int) -> tuple[str, int]:
    """Return one character of a set, and the position after it."""
    if name[position] == "\\" and position + 1 < len(name):
        position += 1
    return name[position], position + 1
