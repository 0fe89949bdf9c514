"""The passages of a large owner nearest to a query by binary codes, compared in this process (Hamming scan).

Why not in SQL: docs/adr/0010-exact-scan-or-index.md.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from search.retrieval.eligibility import Mask, PendingEligibility
from search.retrieval.prepared import PreparedQuery
from search.vectors.blocks import Codes, current_blocks, send_digest_query


def nearest_by_hamming_distance(query: PreparedQuery, *, limit: int) -> list[int]:
    """Ids of the owner's passages whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest. Queries the digest, the sources that the filters exclude,
    and, if something changed since this process last looked, the changes.
    """
    pending_digest = send_digest_query(query.owner_id, query.active_space)
    pending_eligibility = PendingEligibility(query)
    blocks = current_blocks(query.owner_id, query.active_space, pending_digest)
    eligibility = pending_eligibility.read()
    if blocks is None:
        return []
    eligible = _of_kinds(blocks.codes, query.passage_kinds)
    if not eligibility.admits_all:
        eligible &= eligibility.admitted(blocks.item_keys())
    candidates = np.flatnonzero(eligible)
    found = _least(blocks.codes.distances(query.vector)[candidates], blocks.codes.ids[candidates], limit)
    nearest: list[int] = blocks.codes.ids[candidates[found]].tolist()
    return nearest


def _least(distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The places of the `limit` smallest distances; among ties for the last, the highest ids."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])


def _of_kinds(codes: Codes, kinds: Sequence[int]) -> Mask:
    wanted = np.zeros(256, bool)
    wanted[list(kinds)] = True
    return wanted[codes.kinds]
