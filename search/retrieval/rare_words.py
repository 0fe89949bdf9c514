"""Shortens a pasted text to its rarest words: a stack trace is found by its identifiers, not by "at" and "line".

The number of the owner's items that contain a word comes from the postings; words of equal rarity, and all words while
there are no postings, are ordered by how much they look like identifiers.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import numpy as np
from django.db.models import Sum

from convmemory.conversations.filters import Filters
from convmemory.core.folding import normal
from search.models import PostingBlock, Source
from search.postings.cached import find_words, read_digest
from search.query import SEARCHED_CHARS
from search.retrieval.corpus import PendingQueryWords, QueryWord

# If at most this share of the items contains some word, words that no item contains are left out: with the highest
# weights of all in late interaction, they would outweigh it.
RARE_SHARE = 0.1
_WORD = re.compile(r"\S+")
_INSIDE = re.compile(r"[^\W_]+")  # without underscores, at which the index splits words
_IDENTIFIER = re.compile(r"[a-z][A-Z]|\w[_.:/\\-]\w|[A-Za-z]\d|\d[A-Za-z]")


def rarest_words(archive_id: int, text: str, filters: Filters) -> tuple[str, bool]:
    """Return the words of `text` that fewest of the owner's items contain, in their order, at most
    `SEARCHED_CHARS` characters.

    Words that no item contains come after those that some do. If one of those is rare, they are left out, and so are
    such parts of identifiers and paths; the second value is whether they were. Five queries.
    """
    words = PendingQueryWords.alone(archive_id, text, filters.kinds).words
    counts, items = _item_counts(archive_id, words)
    written = dict.fromkeys(match[0] for match in _WORD.finditer(normal(text)))
    rarest = min((_rarity(word, counts) for word in written), default=(True, 0, True, 0))
    has_rare = not rarest[0] and rarest[1] <= max(1, items * RARE_SHARE)
    if has_rare:
        written = dict.fromkeys(part for word in written if (part := _without_unknown(word, counts)))
    chosen, left = set[int](), SEARCHED_CHARS
    first_place = {word: position for position, word in enumerate(written)}
    for word in sorted(written, key=lambda word: (*_rarity(word, counts), first_place[word])):
        if len(word) < left:
            chosen.add(first_place[word])
            left -= len(word) + 1
    kept = " ".join(word for word in written if first_place[word] in chosen) or text[:SEARCHED_CHARS]
    return kept, has_rare


def _without_unknown(word: str, counts: Counter[str]) -> str:
    """Return a word without the parts that no item contains; "" if none contains any."""
    parts = [part for part in _INSIDE.findall(word) if part.lower() in counts]
    occurring = [part for part in parts if counts[part.lower()]]
    return word if len(occurring) == len(parts) else " ".join(occurring)


def _item_counts(archive_id: int, words: Iterable[QueryWord]) -> tuple[Counter[str], int]:
    """Return in how many items each written word occurs, without stop words, and how many items there are."""
    lexemes = {word.written: [word.lexeme, *word.folded] for word in words if not word.is_stop_word}
    counts: Counter[str] = Counter(dict.fromkeys(lexemes, 0))
    every_lexeme = list(chain.from_iterable(lexemes.values()))
    word_of = np.repeat(np.arange(len(lexemes)), list(map(len, lexemes.values())))
    for home in (PostingBlock.Home.SPOKEN, PostingBlock.Home.UNSPOKEN):
        digest, has_unpacked = read_digest(archive_id, home)
        for _, _, stands in find_words(archive_id, home, digest, every_lexeme, has_unpacked=has_unpacked):
            items = np.unique(np.stack([word_of[stands.words], stands.places.astype(np.int64)]), axis=1)[0]
            per_word = np.bincount(items, minlength=len(lexemes)).tolist()
            counts.update(dict(zip(lexemes, per_word, strict=True)))
    return counts, Source.objects.filter(archive_id=archive_id).aggregate(items=Sum("item_count"))["items"] or 0


def _rarity(word: str, counts: Counter[str]) -> tuple[bool, int, bool, int]:
    """Return a key by which the rarest word comes first; stop words and marks come last."""
    occurrences = [counts[part] for part in (word.lower(), *map(str.lower, _INSIDE.findall(word))) if part in counts]
    positive = [count for count in occurrences if count]
    return not positive, min(positive, default=0) if occurrences else 1, not _IDENTIFIER.search(word), -len(word)
