"""Items as array keys, one 64-bit number for (source, item), and scores aligned with such keys. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

ITEM_BITS = 24
ITEM_MASK = (1 << ITEM_BITS) - 1

ItemKeys = NDArray[np.int64]
Scores = NDArray[np.float32]
MAX_KEY = 2**63 - 1
NO_ITEMS: ItemKeys = np.empty(0, np.int64)


def item_keys(source_ids: Sequence[int] | ItemKeys, item_numbers: Sequence[int] | ItemKeys) -> ItemKeys:
    """Keys of items, sorted like (source, item)."""
    return (np.asarray(source_ids, dtype=np.int64) << ITEM_BITS) | np.asarray(item_numbers, dtype=np.int64)


def split_keys(keys: ItemKeys) -> tuple[list[int], list[int]]:
    """Source ids and item numbers of the keys."""
    return (keys >> ITEM_BITS).tolist(), (keys & ((1 << ITEM_BITS) - 1)).tolist()


def distinct(keys: ItemKeys) -> ItemKeys:
    """The distinct keys, sorted: by sorting alone, which is faster than numpy's hash table."""
    ordered = np.sort(keys, kind="stable")  # merges what is sorted in parts
    kept: ItemKeys = np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])
    return kept


def are_among(found: ItemKeys, keys: ItemKeys) -> NDArray[np.bool_]:
    """Whether each of the items `found` is one of `keys` (sorted): numpy's `isin` would sort both once more."""
    if not len(keys):
        return np.zeros(len(found), np.bool_)
    inside: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, found), len(keys) - 1)] == found
    return inside


def spread(keys: ItemKeys, found: ItemKeys, scores: Scores) -> Scores:
    """`scores` of the items `found`, aligned with `keys` (sorted); NaN for keys that were not found."""
    return spread_all(keys, found, {"": scores})[""]


def spread_all(
    keys: ItemKeys, found: ItemKeys, features: Mapping[str, Scores], *, unseen: float = np.nan
) -> dict[str, Scores]:
    """The same for several features of the items `found`, with one lookup; `unseen` for keys that were not found."""
    if len(keys) == len(found) and np.array_equal(keys, found):
        return {name: scores.astype(np.float32) for name, scores in features.items()}
    columns = {name: np.full(len(keys), unseen, dtype=np.float32) for name in features}
    if len(keys) and len(found):
        places = np.searchsorted(keys, found)
        places[places == len(keys)] = 0
        inside = keys[places] == found
        places = places[inside]
        for name, scores in features.items():
            columns[name][places] = scores[inside]
    return columns


def ranks_within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each row within its group, from 0, where groups of so many rows follow each other."""
    ranks: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def source_starts(keys: ItemKeys) -> NDArray[np.int64]:
    """Where among `keys` (sorted) each source begins."""
    return np.flatnonzero(np.diff(keys >> ITEM_BITS, prepend=-1))


def best_of_source(keys: ItemKeys, scores: Scores) -> Scores:
    """For each item (keys sorted), the best score of any item in its source."""
    if not len(keys):
        return scores
    starts = source_starts(keys)
    best: Scores = np.repeat(np.maximum.reduceat(scores, starts), np.diff(starts, append=len(keys)))
    return best


def put_first(order: NDArray[np.int64], keys: ItemKeys, placed: Sequence[int]) -> NDArray[np.int64]:
    """`order` (indices into the sorted `keys`) with the distinct items `placed` first; unknown ones are ignored."""
    wanted = np.array([key for key in placed if key <= MAX_KEY], dtype=np.int64)
    if not len(wanted) or not len(keys):
        return order
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    first = places[keys[places] == wanted]
    return np.concatenate([first, order[~np.isin(order, first)]])


def median(values: Scores) -> float:
    """The median of at least one value, as numpy gives it in twice the time for a few hundred values."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    return float(np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1].mean())
