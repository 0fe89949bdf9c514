"""Items as array keys, one 64-bit number for (source, item), and scores aligned with such keys. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from convmemory.core.numbers import MAX_BIGINT

ITEM_BITS = 24
ITEM_MASK = (1 << ITEM_BITS) - 1

ItemKeys = NDArray[np.int64]
Scores = NDArray[np.float32]
NO_ITEMS: ItemKeys = np.empty(0, np.int64)


def item_keys(source_ids: Sequence[int] | ItemKeys, item_numbers: Sequence[int] | ItemKeys) -> ItemKeys:
    """Return keys of items, sorted like (source, item)."""
    return (np.asarray(source_ids, dtype=np.int64) << ITEM_BITS) | np.asarray(item_numbers, dtype=np.int64)


def split_keys(keys: ItemKeys) -> tuple[list[int], list[int]]:
    """Return the source ids and item numbers of the keys."""
    return (keys >> ITEM_BITS).tolist(), (keys & ((1 << ITEM_BITS) - 1)).tolist()


def distinct(keys: ItemKeys) -> ItemKeys:
    """Return the distinct keys, sorted, without numpy's hash table, which is slower."""
    # The stable sort merges runs that are sorted already.
    ordered = np.sort(keys, kind="stable")
    kept: ItemKeys = np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])
    return kept


def are_among(found: ItemKeys, keys: ItemKeys) -> NDArray[np.bool_]:
    """Return whether each of the items `found` is one of `keys` (sorted).

    numpy's `isin` would sort both once more.
    """
    if not len(keys):
        return np.zeros(len(found), np.bool_)
    inside: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, found), len(keys) - 1)] == found
    return inside


def spread(keys: ItemKeys, found: ItemKeys, scores: Scores) -> Scores:
    """Align `scores` of the items `found` with `keys` (sorted); NaN for keys that were not found."""
    return spread_all(keys, found, {"": scores})[""]


def spread_all(
    keys: ItemKeys, found: ItemKeys, features: Mapping[str, Scores], *, unseen: float = np.nan
) -> dict[str, Scores]:
    """Align several features of the items `found` with one look-up; `unseen` for keys that were not found."""
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
    """Return the rank of each row within its group, from 0; groups of these sizes follow each other."""
    ranks: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def source_starts(keys: ItemKeys) -> NDArray[np.int64]:
    """Return the index in `keys` (sorted) at which each source begins."""
    return np.flatnonzero(np.diff(keys >> ITEM_BITS, prepend=-1))


def best_of_source(keys: ItemKeys, scores: Scores) -> Scores:
    """Return for each item (keys sorted) the best score of any item in its source."""
    if not len(keys):
        return scores
    starts = source_starts(keys)
    best: Scores = np.repeat(np.maximum.reduceat(scores, starts), np.diff(starts, append=len(keys)))
    return best


def put_first(order: NDArray[np.int64], keys: ItemKeys, placed: Sequence[int]) -> NDArray[np.int64]:
    """`order` (indices into the sorted `keys`) with the distinct items `placed` first; unknown ones are ignored."""
    wanted = np.array([key for key in placed if key <= MAX_BIGINT], dtype=np.int64)
    if not len(wanted) or not len(keys):
        return order
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    first = places[keys[places] == wanted]
    return np.concatenate([first, order[~np.isin(order, first)]])


def median(values: Scores) -> float:
    """Return the median of at least one value, in half of numpy's time for a few hundred values."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    return float(np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1].mean())
