"""Scripts that put no space between words: Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer. Pure.

Their words are found by pairs of characters that follow each other, as usual where there is no dictionary.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]

_RUN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]{2,}"
)


def pairs_of(text: str) -> Iterator[str]:
    """Every two characters of such a script that follow each other, in order."""
    return (text[start:end] for start, end in places_of_pairs(text))


def places_of_pairs(text: str) -> Iterator[Span]:
    """Where the pairs stand."""
    for match in _RUN.finditer(text):
        yield from ((at, at + 2) for at in range(match.start(), match.end() - 1))
