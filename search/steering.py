"""The words with which people direct an assistant whatever the work is about: "now do the same for the other file".

They and stop words say nothing about what a prompt asks; see docs/adr/0125-steering-is-not-asking.md. Pure.
"""

import re
from importlib import resources

from search.languages import COMMON_WORDS, pairs_of

_JOINTS = re.compile(r"[-'\u2019]")
_LISTED = resources.files("search").joinpath("steering.txt").read_text(encoding="utf-8")
WORDS = frozenset(_LISTED.split()) | frozenset(pairs_of(_LISTED)) | COMMON_WORDS
"""Such words of European languages, and the pairs of characters in sentences of Chinese and Japanese."""


def is_steering(word: str) -> bool:
    """Return whether a word directs an assistant and says nothing about a subject: also "montre-moi", or a letter."""
    return all(len(part) < 2 or part in WORDS for part in _JOINTS.split(word.lower()))
