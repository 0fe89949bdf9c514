"""The passages of a large owner nearest to a query by binary quantization, compared in this process (Hamming scan).

Why not in SQL: docs/adr/0010-exact-scan-or-index.md.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.retrieval.candidates import ItemKeys, item_keys
from search.retrieval.filters import EXCEPTED, excepted_parameters, item_conditions, source_conditions
from search.retrieval.prepared import PreparedQuery
from search.vectors.blocks import Blocks, Codes, ask_digest, current_blocks

Mask = NDArray[np.bool_]


def nearest_by_hamming_distance(query: PreparedQuery, *, limit: int) -> list[int]:
    """Ids of the owner's passages whose binary codes differ least from the query's, in no order of nearness.

    `limit` at most: of those that are equally far, the newest. Asks for the digest, for what the filters leave out,
    and, where something changed since this process looked last, for that.
    """
    pending_digest = ask_digest(query.owner_id, query.active_space)
    pending_others = _ask_others(query)
    matching, excepted = _matching_items(query), _excepted_items(query)
    blocks = current_blocks(query.owner_id, query.active_space, pending_digest)
    if blocks is None:
        return []
    eligible = _of_kinds(blocks.codes, query.passage_kinds)
    if pending_others is not None:
        ((others,),) = pending_others.rows()
        eligible &= _outside(blocks, others or [])
    if query.filters.turns is not None:
        first, last = query.filters.turns
        eligible &= (blocks.codes.items >= first) & (blocks.codes.items <= last)
    if matching is not None:
        eligible &= np.isin(blocks.item_keys(), matching)
    if excepted is not None:
        eligible &= np.isin(blocks.item_keys(), excepted, invert=True)
    candidates = np.flatnonzero(eligible)
    found = _least(blocks.codes.distances(query.vector)[candidates], blocks.codes.ids[candidates], limit)
    nearest: list[int] = blocks.codes.ids[candidates[found]].tolist()
    return nearest


def _least(distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Where the `limit` least distances stand; of those that are as far as the last of them, the highest ids."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])


def _of_kinds(codes: Codes, kinds: Sequence[int]) -> Mask:
    wanted = np.zeros(256, bool)
    wanted[list(kinds)] = True
    return wanted[codes.kinds]


def _outside(blocks: Blocks, sources: Sequence[int]) -> Mask:
    """Which passages stand in none of the sources."""
    return np.repeat(np.isin(blocks.sources, sources, invert=True), blocks.counts)


def _ask_others(query: PreparedQuery) -> PendingQuery | None:
    """Send what finds the sources that do not pass the filters; None where there are no such filters."""
    conditions, parameters = source_conditions(query.filters, "e")
    if not conditions:
        return None
    statement = load_sql("search", "other_sources").replace("{filters}", " AND ".join(conditions))
    return PendingQuery(statement, parameters | {"owner": query.owner_id})


def _matching_items(query: PreparedQuery) -> ItemKeys | None:
    """The items that pass the filters of single items; None where there are no such filters. One query or none."""
    conditions, parameters = item_conditions(query.filters, query.text)
    if not conditions:
        return None
    statement = load_sql("search", "matching_items").replace("{filters}", " AND ".join(conditions))
    ((sources, items),) = PendingQuery(statement, parameters | {"owner": query.owner_id}).rows()
    return item_keys(sources or [], items or [])


def _excepted_items(query: PreparedQuery) -> ItemKeys | None:
    """The items that the filters name as not wanted; None where there are none. One query or none."""
    if not query.filters.except_turns:
        return None
    statement = load_sql("search", "excepted_items").replace("{excepted}", EXCEPTED)
    pending = PendingQuery(statement, excepted_parameters(query.filters) | {"owner": query.owner_id})
    ((sources, items),) = pending.rows()
    return item_keys(sources or [], items or [])
