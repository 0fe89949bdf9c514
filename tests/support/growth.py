"""Inputs that drive careless text functions to quadratic time, and a measure of how the time grows with the length.

The size rises tenfold, and the time must stay below twenty times the one before; so what is quadratic is found out
while it is short. LINEAR_CHARS is the largest size: 6,000 characters, and 100,000 in `make trials`, which also shows
what is quadratic in memory copies alone.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

LARGEST = int(os.environ.get("LINEAR_CHARS", "6000"))
SIZES = tuple(size for size in (LARGEST // 100, LARGEST // 10, LARGEST) if size >= 500)
MAX_RATIO = 20
FLOOR_S = min(0.004, 0.001 * (LARGEST / 6_000) ** 2)  # the least time that counts; as small as what is looked for
TRIES = 8  # on a busy machine only the best of several pairs says something

UNITS = (
    *(" ", "a", "A", "7", "é", "中", "`", "\n", "\t", "[", "(", "{", "*", "_", "~", '"', "'", "<", ">", "&", "\\", "|"),
    *("#", "-", ".", ":", "/", "=", "!", "\u200b", "\r", "```", "~~~", "![", "](", "![](", "[a](", "![a]", "[a]: b\n"),
    *("**", "a*", "_a", "- ", "> ", "1. ", " \n", "a ", "aA", "a1", "a_", "a.", "a-", "~/", "1.a-", "1 of ", "may "),
    *(
        "http://",
        "http://a.b ",
        "<a ",
        "<a>",
        "</",
        "<!--",
        "<!-- ",
        "&#",
        "&lt;",
        "data:",
        ";a=a",
        "a@",
        "\\n",
        '{"type":',
    ),
    *("<command-name>", "<command-args>", "<system-reminder>", "</system-reminder>", "< recalled", "A" * 100 + "\n"),
    *("```中", "a; ", "} ", "<ide_selection>", "<ide_selection></ide_selection>", "-->", "->->", "\ufdd0", "1,"),
)
WRONG_END = "\0x"  # a pattern that has taken all before it must give up
MARKDOWN_UNITS = (
    *(" ", "a", "`", "\n", "[", "*", "_", "~", '"', "<", "&", "\\", "|", "```", "![", "](", "![](", "[a](", "![a]"),
    *("[a]: b\n", "**", "a*", "- ", "> ", "http://a.b ", "<!--", "&#"),
)
FEW_UNITS = MARKDOWN_UNITS if LARGEST > 6_000 else ("[", "*", "_", "`", "![", "**", "a*", "> ", "<!--")
PREFIXES = (
    "<command-name>",
    "<command-message></command-message><command-args>",
    "```",
    "![",
    '"',
    "data:a/a",
    "a" * 40,
)


def hostile_texts(size: int) -> Iterator[tuple[str, str]]:
    """(name, text) of each input, about `size` characters long and with an end that fits hardly any pattern."""
    for unit in UNITS:
        yield repr(unit), (unit * (size // len(unit) + 1))[:size] + WRONG_END
    for prefix in PREFIXES:
        yield f"{prefix!r} and spaces", prefix + " " * size
        yield f"{prefix!r} and letters", prefix + "a" * size
    for first, second in (("`", "中"), ("a", " "), (" ", "a"), ("![", "](a)"), ("[", "]"), ("<", ">"), ("\n", "a")):
        yield f"{first!r} then {second!r}", first * (size // 2 // len(first)) + second * (size // 2 // len(second))


def assert_linear(function: Callable[[str], object], *, units: tuple[str, ...] = UNITS) -> None:
    """Fails where the function's time on any hostile text grows much faster than the text.

    `units` names the texts that are looked at, where a function takes too long for all of them.
    """
    for smaller, larger in pairwise(_texts(size, units) for size in SIZES):
        for name in smaller:
            before, now = _times_of_both(function, smaller[name], larger[name])
            assert now < MAX_RATIO * before, f"{name}: {now:.3f} s for {len(larger[name])} after {before:.3f} s"


@lru_cache(maxsize=2 * len(SIZES))
def _texts(size: int, units: tuple[str, ...]) -> dict[str, str]:
    names = set(map(repr, units))
    return {name: text for name, text in hostile_texts(size) if units is UNITS or name in names}


def _times_of_both(function: Callable[[str], object], smaller: str, larger: str) -> tuple[float, float]:
    """Return the CPU seconds of two calls, one right after the other, because a machine's speed may change.

    Where the larger text takes too long, they are those of the best of several such pairs; where it takes next to
    nothing, the smaller one is not looked at.
    """
    now = _time_of(function, larger)
    if now < MAX_RATIO * FLOOR_S:
        return FLOOR_S, now
    found = []
    for _ in range(TRIES):
        before, now = max(_time_of(function, smaller), FLOOR_S), _time_of(function, larger)
        found.append((before, now))
        if now < MAX_RATIO * before:
            break
    return min(found, key=lambda times: times[1] / times[0])


def _time_of(function: Callable[[str], object], text: str) -> float:
    """The garbage collector rests meanwhile: how often it walks through everything depends on what else is alive."""
    gc.disable()
    try:
        start = time.process_time()
        function(text)
        return time.process_time() - start
    finally:
        gc.enable()
