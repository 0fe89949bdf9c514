"""Chooses the sentences that represent a whole conversation. Pure: vectors in, indexes out.

Facility location: a set of sentences is as good as the similarity of every sentence to its nearest chosen one, so that
central sentences win and a second one that says the same gains nothing. Greedy by gain under a budget; length counts a
little. Source: Lin and Bilmes, "A Class of Submodular Functions for Document Summarization", ACL 2011.
"""

from collections.abc import Sequence

import numpy as np

from convmemory.embeddings.embedder import Vector

# The similarity matrix grows with the square of the candidates: 16 MB at 2,000.
MAX_CANDIDATES = 2_000
# With 1, which is the gain per token, fragments win because they are short (ADR 13).
COST_EXPONENT = 0.3


def choose_sentences(
    vectors: Vector, token_counts: Sequence[int], *, max_tokens: int, weights: Sequence[float] | None = None
) -> list[int]:
    """Return the indexes of the chosen sentences, in order.

    `vectors` is (n, dim), of unit length. `weights` give the importance of representing each sentence. The chosen
    sentences have at most `max_tokens` tokens together. From more than 2,000 sentences, an evenly spread sample is
    considered.
    """
    if not len(vectors):
        return []
    looked_at = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_CANDIDATES)).astype(int))
    costs = np.maximum(np.asarray(token_counts, dtype=np.float32)[looked_at], 1)
    importance = np.ones(len(looked_at), np.float32) if weights is None else np.asarray(weights, np.float32)[looked_at]
    similarity = np.maximum(vectors[looked_at] @ vectors[looked_at].T, 0) * importance
    # Choose candidates (rows) greedily by their gain in coverage of all sentences (columns).
    chosen: list[int] = []
    covered = np.zeros(similarity.shape[1], np.float32)
    room = float(max_tokens)
    open_ = costs <= room
    while open_.any():
        gains = np.where(open_, np.maximum(similarity - covered, 0).sum(axis=1) / costs**COST_EXPONENT, -1.0)
        best = int(gains.argmax())
        if gains[best] <= 0:
            break
        chosen.append(best)
        covered = np.maximum(covered, similarity[best])
        room -= float(costs[best])
        open_[best] = False
        open_ &= costs <= room
    return sorted(int(looked_at[index]) for index in chosen)
