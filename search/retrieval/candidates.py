"""Turns as array keys: one 64-bit number for (conversation, turn)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TURN_BITS = 24

TurnKeys = NDArray[np.int64]
NO_TURNS: TurnKeys = np.empty(0, np.int64)


def turn_keys(conversation_ids: Sequence[int], turn_numbers: Sequence[int]) -> TurnKeys:
    """Keys of turns, sorted like (conversation, turn)."""
    return (np.asarray(conversation_ids, dtype=np.int64) << TURN_BITS) | np.asarray(turn_numbers, dtype=np.int64)


def split_keys(keys: TurnKeys) -> tuple[list[int], list[int]]:
    """Conversation ids and turn numbers of the keys."""
    return (keys >> TURN_BITS).tolist(), (keys & ((1 << TURN_BITS) - 1)).tolist()


def spread(keys: TurnKeys, found: TurnKeys, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """`scores` of the turns `found`, laid out over `keys` (sorted); NaN where a key was not found."""
    result = np.full(len(keys), np.nan, dtype=np.float32)
    if len(keys) and len(found):
        places = np.searchsorted(keys, found)
        places[places == len(keys)] = 0
        inside = keys[places] == found
        result[places[inside]] = scores[inside]
    return result


def conversation_starts(keys: TurnKeys) -> NDArray[np.int64]:
    """Where among `keys` (sorted) each conversation begins."""
    return np.flatnonzero(np.diff(keys >> TURN_BITS, prepend=-1))


def best_of_conversation(keys: TurnKeys, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each turn (keys sorted), the best score of any turn in its conversation."""
    if not len(keys):
        return scores
    starts = conversation_starts(keys)
    best: NDArray[np.float32] = np.repeat(np.maximum.reduceat(scores, starts), np.diff(starts, append=len(keys)))
    return best
