"""The passages and items of a large owner nearest to a query by binary codes, compared in this process (Hamming scan).

Why not in SQL: docs/adr/0010-exact-scan-or-index.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.retrieval.candidates import NO_ITEMS, ItemKeys, Scores
from search.retrieval.corpus import Corpus
from search.retrieval.eligibility import Mask
from search.retrieval.prepared import PreparedQuery
from search.vectors.blocks import Blocks, current_blocks, send_digest_query
from search.vectors.item_codes import current_item_codes


@dataclass(frozen=True, slots=True)
class ScannedVectors:
    """Vectors by their Hamming distances to the query, (n,): ids, the keys of their items, and distances."""

    ids: NDArray[np.int64]
    items: ItemKeys
    distances: NDArray[np.uint16]

    def parted(self, count: int) -> tuple["ScannedVectors", "ScannedVectors"]:
        """The nearest `count`, and the rest."""
        is_near = np.zeros(len(self.ids), np.bool_)
        is_near[_least(self.distances, self.ids, count)] = True
        return self.those(is_near), self.those(~is_near)

    def of_ids(self, ids: Sequence[int]) -> "ScannedVectors":
        """The vectors with these ids, all of which are here, in the order of the ids."""
        order = np.argsort(self.ids)
        return self.those(order[np.searchsorted(self.ids, ids, sorter=order)])

    def those(self, wanted: Mask | NDArray[np.int64]) -> "ScannedVectors":
        return ScannedVectors(self.ids[wanted], self.items[wanted], self.distances[wanted])


NO_VECTORS = ScannedVectors(np.empty(0, np.int64), NO_ITEMS, np.empty(0, np.uint16))


def blocks_of(query: PreparedQuery) -> Blocks | None:
    """The blocks of the owner's passages, None if there are none.

    Waits for their digest, and queries what changed since this process last looked, if anything.
    """
    pending_digest = query.pending_digest or send_digest_query(query.owner_id, query.active_space)
    return current_blocks(query.owner_id, query.active_space, pending_digest)


def scan_passages(blocks: Blocks | None, query: PreparedQuery, limit: int) -> ScannedVectors:
    """The passages whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest.
    """
    if blocks is None:
        return NO_VECTORS
    scanned = ScannedVectors(blocks.codes.ids, blocks.items, blocks.codes.distances(query.vector))
    if not blocks.kinds <= set(query.passage_kinds):
        scanned = scanned.those(blocks.codes.are_of(query.passage_kinds))
    return _nearest_admitted(scanned, query, limit)


def scan_items(query: PreparedQuery, corpus: Corpus, limit: int) -> ScannedVectors:
    """The owner's item vectors whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest. Queries the codes that this process lacks, if any.
    """
    codes = current_item_codes(
        query.owner_id, query.active_space, corpus.sources, corpus.newest_vectors, are_all=not query.filters.kinds
    )
    return _nearest_admitted(ScannedVectors(codes.ids, codes.items, codes.distances(query.vector)), query, limit)


def _nearest_admitted(scanned: ScannedVectors, query: PreparedQuery, limit: int) -> ScannedVectors:
    """The nearest of these vectors whose items pass the query's filters."""
    if not query.eligibility.admits_all:
        scanned = scanned.those(query.eligibility.admitted(scanned.items))
    return scanned.those(_least(scanned.distances, scanned.ids, limit))


def estimated_cosines(known: ScannedVectors, cosines: Scores, others: ScannedVectors) -> Scores:
    """The cosines of vectors of which only the Hamming distance is known, by the line through those of `known`.

    Of texts' vectors a line is closer than the cosine of the expected angle: docs/adr/0010-exact-scan-or-index.md.
    """
    distances = known.distances.astype(np.float32)
    mean, variance = distances.mean(), distances.var()
    slope = ((distances - mean) * cosines).mean() / variance if variance else 0.0
    estimated: Scores = (cosines.mean() + slope * (others.distances - mean)).astype(np.float32)
    return estimated


def _least(distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The places of the `limit` smallest distances; among ties for the last, the highest ids."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])
