"""Shortens a pasted text to its rarest words: a stack trace is found by its identifiers, not by "at" and "line".

The number of the owner's items that contain a word comes from the postings; words of equal rarity, and all words while
there are no postings, are ordered by how much they look like identifiers.
"""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from convmemory.conversations.filters import Filters
from search.models import PostingBlock
from search.postings.cached import current_postings, send_digest_query
from search.query import SEARCHED_CHARS
from search.retrieval.corpus import PendingQueryWords, QueryWord

_WORD = re.compile(r"\S+")
_INSIDE = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"[a-z][A-Z]|\w[_.:/\\-]\w|[A-Za-z]\d|\d[A-Za-z]")


def rarest_words(owner_id: int, text: str, filters: Filters, *, chars: int = SEARCHED_CHARS) -> str:
    """Return the words of `text` that fewest of the owner's items contain, in their order, at most `chars` characters.

    Words that no item contains come after those that some do. Four queries.
    """
    words = PendingQueryWords(owner_id, text, filters.kinds).words
    counts = _item_counts(owner_id, words)
    chosen, left = set[int](), chars
    written = dict.fromkeys(match[0] for match in _WORD.finditer(text))
    first_place = {word: place for place, word in enumerate(written)}
    for word in sorted(written, key=lambda word: (*_rarity(word, counts), first_place[word])):
        if len(word) < left:
            chosen.add(first_place[word])
            left -= len(word) + 1
    return " ".join(word for word in written if first_place[word] in chosen) or text[:chars]


def _item_counts(owner_id: int, words: Iterable[QueryWord]) -> Counter[str]:
    """Return in how many items each written word occurs; stop words are left out."""
    lexemes = {word.written: word.lexeme for word in words if not word.is_stop_word}
    counts: Counter[str] = Counter(dict.fromkeys(lexemes, 0))
    for home in (PostingBlock.Home.SPOKEN, PostingBlock.Home.UNSPOKEN):
        postings = current_postings(owner_id, home, send_digest_query(owner_id, home).rows()[0][:2])
        if postings is None:
            continue
        found = postings.occurrences(list(lexemes.values()))
        items = np.unique(np.stack([found.words, found.places.astype(np.int64)]), axis=1)[0]
        per_word = np.bincount(items, minlength=len(lexemes)).tolist()
        counts.update(dict(zip(lexemes, per_word, strict=True)))
    return counts


def _rarity(word: str, counts: Counter[str]) -> tuple[bool, int, bool, int]:
    """Return a key by which the rarest word comes first; stop words and marks come last."""
    own = [counts[part] for part in (word.lower(), *map(str.lower, _INSIDE.findall(word))) if part in counts]
    found = [count for count in own if count]
    return not found, min(found, default=0) if own else 1, not _IDENTIFIER.search(word), -len(word)
