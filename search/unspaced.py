"""Scripts without spaces between words: Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer. Pure.

They are searched by pairs of consecutive characters, as is usual without a dictionary.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]

CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The characters of these scripts, for a class of a regular expression."""

_RUN = re.compile(f"[{CHARACTERS}]{{2,}}")


def pairs_of(text: str) -> Iterator[str]:
    """Yield each pair of consecutive characters of such a script, in order."""
    return (text[start:end] for start, end in places_of_pairs(text))


def places_of_pairs(text: str) -> Iterator[Span]:
    """Yield the places of the pairs."""
    for match in _RUN.finditer(text):
        yield from ((at, at + 2) for at in range(match.start(), match.end() - 1))
