"""Finds the nearest passages and items of a large owner by binary codes, compared in this process.

A Hamming scan over all of them keeps few; these are compared asymmetrically, the query uncoded, which tells far better
how near they are. Why not in SQL, and how well: docs/adr/0010-exact-scan-hamming-scan-or-index.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.retrieval.candidates import NO_ITEMS, ItemKeys, Scores
from search.retrieval.corpus import Corpus
from search.retrieval.eligibility import Mask
from search.retrieval.prepared import PreparedQuery
from search.vectors.blocks import Blocks, Words, code_similarities, current_blocks, hamming_distances, send_digest_query
from search.vectors.item_codes import current_item_codes


@dataclass(frozen=True, slots=True)
class ScannedVectors:
    """Vectors with approximate cosines to the query, (n,): ids, the keys of their items, and these cosines."""

    ids: NDArray[np.int64]
    items: ItemKeys
    similarities: Scores

    def parted(self, count: int) -> tuple["ScannedVectors", "ScannedVectors"]:
        """Return the most similar `count` vectors, and the rest; of equals, the newest come first."""
        order = np.lexsort((-self.ids, -self.similarities))
        return self.those(order[:count]), self.those(order[count:])

    def of_ids(self, ids: Sequence[int]) -> "ScannedVectors":
        """Return the vectors with these ids, all of which are present, in the order of the ids."""
        order = np.argsort(self.ids)
        return self.those(order[np.searchsorted(self.ids, ids, sorter=order)])

    def those(self, wanted: NDArray[np.int64]) -> "ScannedVectors":
        return ScannedVectors(self.ids[wanted], self.items[wanted], self.similarities[wanted])


NO_VECTORS = ScannedVectors(np.empty(0, np.int64), NO_ITEMS, np.empty(0, np.float32))


def blocks_of(query: PreparedQuery) -> Blocks | None:
    """Return the blocks of the owner's passages, None if there are none.

    Waits for their digest, and reads the blocks that this process lacks, if any.
    """
    pending_digest = query.pending_digest or send_digest_query(query.owner_id, query.active_space)
    return current_blocks(query.owner_id, query.active_space, pending_digest)


def scan_passages(blocks: Blocks | None, query: PreparedQuery, limit: int) -> ScannedVectors:
    """Return the passages whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest.
    """
    if blocks is None:
        return NO_VECTORS
    are_all_in_scope = blocks.kinds <= set(query.passage_kinds)
    in_scope = None if are_all_in_scope else blocks.codes.are_of(query.passage_kinds)
    return _scan(blocks.codes.ids, blocks.items, blocks.codes.words, query, limit, in_scope)


def scan_items(query: PreparedQuery, corpus: Corpus, limit: int) -> ScannedVectors:
    """Return the owner's item vectors whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest. Reads the codes that this process lacks, if any.
    """
    codes = current_item_codes(
        query.owner_id, query.active_space, corpus.sources, corpus.newest_vectors, are_all=not query.filters.kinds
    )
    return _scan(codes.ids, codes.items, codes.words, query, limit)


def _scan(
    ids: NDArray[np.int64],
    items: ItemKeys,
    words: Words,
    query: PreparedQuery,
    limit: int,
    wanted: Mask | None = None,
) -> ScannedVectors:
    """Return the nearest of the `wanted` vectors whose items pass the query's filters; with None, all are wanted."""
    if not query.eligibility.admits_all:
        admitted = query.eligibility.admitted(items)
        wanted = admitted if wanted is None else wanted & admitted
    distances = hamming_distances(words, query.vector)
    places = _least(distances, ids, limit) if wanted is None else _least_of(wanted, distances, ids, limit)
    return ScannedVectors(ids[places], items[places], code_similarities(words[:, places], query.vector))


def estimated_cosines(known: ScannedVectors, cosines: Scores, others: ScannedVectors) -> Scores:
    """Estimate the cosines of vectors that were compared by code alone, by the line through the exact ones of
    `known`.
    """
    mean, mean_cosine = known.similarities.mean(), cosines.mean()
    deviations = known.similarities - mean
    variance = (deviations**2).mean()
    slope = (deviations * (cosines - mean_cosine)).mean() / variance if variance else 0.0
    estimated: Scores = (mean_cosine + slope * (others.similarities - mean)).astype(np.float32)
    return estimated


def _least_of(wanted: Mask, distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the same as `_least`, of the `wanted` alone.

    Marks the others in `distances`, which is faster than a copy.
    """
    beyond = distances.max(initial=0) + 1
    distances[~wanted] = beyond
    places = _least(distances, ids, limit)
    found: NDArray[np.int64] = places[distances[places] < beyond]
    return found


def _least(distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the places of the `limit` smallest distances; among ties for the last, the highest ids."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])
