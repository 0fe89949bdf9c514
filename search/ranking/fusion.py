"""How signals become one order. Pure: arrays in, arrays out.

A signal is an array of scores over the candidate turns, NaN where the leg that makes it did not
see the turn. Each is scaled to 0..1 within the query, then added with its weight: scaled scores keep
the margins that reciprocal ranks throw away. Source: docs/adr/0007-fusion.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

# Fitted on development sets only; reasons and figures in docs/adr/0007-fusion.md.
FIRST_STAGE: Mapping[str, float] = {
    "passage": 2.59,
    "passage_conversation": 1.13,
    "turn": 2.69,
    "lexical": 1.62,
    "conversation": 1.21,
    "conversation_best": 1.19,
    "neighbour_coverage": 2.23,
    "date": 6.24,
}
SECOND_STAGE: Mapping[str, float] = {
    "late": 1.98,
    "late_neighbours": 1.56,
    "late_passage": 0.63,
    "passage": 0.69,
    "passage_conversation": 0.78,
    "turn": 1.85,
    "lexical": 0.62,
    "conversation": 1.16,
    "conversation_best": 1.09,
    "neighbour_coverage": 1.19,
    "date": 6.36,
}
# The second stage where turns are long, as in the runs of coding agents; fitted on such runs alone. No query of theirs
# names a date: that weight is SECOND_STAGE's.
LONG_TURNS: Mapping[str, float] = {
    "late": 3.56,
    "late_neighbours": 0.68,
    "late_passage": 0.37,
    "passage": 0.68,
    "passage_conversation": 1.44,
    "turn": 0.26,
    "lexical": 3.15,
    "conversation_rare": 1.85,
    "neighbour_coverage": 0.37,
    "date": 6.36,
}
LONG_TURN_WORDS, STEEPNESS = 350, 4  # turns of so many words lie half way between the two tables
LEXICAL_ONLY: Mapping[str, float] = {
    "lexical": 2.22,
    "neighbours": 1.27,
    "conversation": 1.4,
    "conversation_best": 2.09,
    "neighbour_coverage": 1.97,
    "date": 6.72,
}
SEMANTIC_ONLY: Mapping[str, float] = {
    "late": 2.55,
    "late_neighbours": 4.02,
    "late_passage": 1.15,
    "passage_conversation": 1.23,
    "turn": 2.1,
    "date": 6.09,
}
# Of messages inside the best turns; docs/adr/0011-recall-of-messages.md.
MESSAGES: Mapping[str, float] = {
    "cosine_neighbours": 0.57,
    "late": 2.39,
    "late_neighbours": 2.27,
    "speaker": 2.92,
    "turn": 3.09,
    "turn_neighbours": 2.94,
}
MESSAGES_LEXICAL_ONLY: Mapping[str, float] = {"turn": 3.0, "words": 2.0, "words_density": 1.0, "speaker": 0.5}


def long_share(mean_turn_length: float) -> float:
    """How far turns of this mean length, in words, count as long: 0 to 1, without a step.

    Chats of 60 words a turn have .001, questions to an assistant with 140 .02, agents' runs with 760 .96.
    """
    length, middle = max(mean_turn_length, 0.0) ** STEEPNESS, float(LONG_TURN_WORDS**STEEPNESS)
    return length / (length + middle)


def second_stage(mean_turn_length: float) -> Mapping[str, float]:
    """The weights of the second stage for an owner whose turns have this mean length, in words."""
    share = long_share(mean_turn_length)
    return {
        name: (1 - share) * SECOND_STAGE.get(name, 0.0) + share * LONG_TURNS.get(name, 0.0)
        for name in (*SECOND_STAGE, *(LONG_TURNS.keys() - SECOND_STAGE.keys()))
    }


def scale(scores: Scores) -> Scores:
    """Min-max scaled to 0..1; unseen turns get 0, equal scores all get 1."""
    seen = ~np.isnan(scores)
    if not seen.any():
        return np.zeros_like(scores)
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    scaled = np.ones_like(scores) if high <= low else (scores - low) / (high - low)
    return np.where(seen, scaled, 0.0).astype(np.float32)


def fuse(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """The weighted sum of the scaled signals; signals without a weight do not count."""
    size = len(next(iter(signals.values())))
    total = np.zeros(size, dtype=np.float32)
    for name, scores in signals.items():
        if weight := weights.get(name):
            total += np.float32(weight) * scale(scores)
    return total


def inverse_document_frequency(found_in: NDArray[np.int64], documents: int) -> Scores:
    """BM25's idf, never negative: ln(1 + (N - df + .5) / (df + .5))."""
    return np.log1p((documents - found_in + 0.5) / (found_in + 0.5)).clip(min=0).astype(np.float32)


def best_first(scores: Scores, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices from the highest score to the lowest; ties in a fixed order, the newest first."""
    return np.lexsort((-keys, -scores))


def diversify(scores: Scores, similarity: NDArray[np.float32], *, relevance: float) -> NDArray[np.int64]:
    """Maximal marginal relevance: indices in the order `relevance * score - (1 - relevance) * max similarity`.

    `scores` (n,) are scaled to 0..1 first; `similarity` (n, n) holds cosines. Source: Carbonell and
    Goldstein, 1998.
    """
    scaled = scale(scores)
    left = list(range(len(scores)))
    chosen: list[int] = []
    nearest = np.zeros(len(scores), np.float32)
    while left:
        gain = relevance * scaled[left] - (1 - relevance) * nearest[left]
        best = left.pop(int(np.argmax(gain)))
        chosen.append(best)
        nearest = np.maximum(nearest, similarity[best])
    return np.array(chosen, dtype=np.int64)
