"""The passages of a large owner nearest to a query vector by their signs, compared in this process.

Why not in SQL: docs/adr/0010-exact-scan-or-index.md.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.reading import Filters
from convmemory.core.sql import Asked, load_sql
from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.models import EmbeddingSpace
from search.candidates import TurnKeys, turn_keys
from search.filters import conversation_conditions, turn_conditions
from search.query_text import QueryText
from search.vectors.blocks import Blocks, Codes, ask_digest, current_blocks

Mask = NDArray[np.bool_]


def nearest_by_signs(
    *,
    owner_id: int,
    space: EmbeddingSpace,
    question: Vector,
    kinds: Sequence[int],
    filters: Filters,
    text: QueryText,
    limit: int,
) -> list[int]:
    """Ids of the owner's passages whose signs differ least from the question's (dim,), in no order of nearness.

    `limit` at most: of those that are equally far, the newest. Asks for the digest, for what the filters leave out,
    and, where something changed since this process looked last, for that.
    """
    asked_digest = ask_digest(owner_id, space)
    asked_others = _ask_others(owner_id, filters)
    matching = _matching_turns(owner_id, filters, text)
    blocks = current_blocks(owner_id, space, asked_digest)
    if blocks is None:
        return []
    eligible = _of_kinds(blocks.codes, kinds)
    if asked_others is not None:
        ((others,),) = asked_others.rows()
        eligible &= _outside(blocks, others or [])
    if filters.turns is not None:
        first, last = filters.turns
        eligible &= (blocks.codes.items >= first) & (blocks.codes.items <= last)
    if matching is not None:
        eligible &= np.isin(blocks.item_keys(), matching)
    candidates = np.flatnonzero(eligible)
    found = _least(blocks.codes.distances(question)[candidates], blocks.codes.ids[candidates], limit)
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


def _outside(blocks: Blocks, conversations: Sequence[int]) -> Mask:
    """Which passages stand in none of the conversations."""
    return np.repeat(np.isin(blocks.sources, conversations, invert=True), blocks.counts)


def _ask_others(owner_id: int, filters: Filters) -> Asked | None:
    """Send what finds the conversations that do not pass the filters; None where there are no such filters."""
    conditions, parameters = conversation_conditions(filters, "e")
    if not conditions:
        return None
    statement = load_sql("search", "other_conversations").replace("{filters}", " AND ".join(conditions))
    return Asked(statement, parameters | {"owner": owner_id})


def _matching_turns(owner_id: int, filters: Filters, text: QueryText) -> TurnKeys | None:
    """The turns that pass the filters of single turns; None where there are no such filters. One query or none."""
    conditions, parameters = turn_conditions(filters, text)
    if not conditions:
        return None
    statement = load_sql("search", "matching_turns").replace("{filters}", " AND ".join(conditions))
    ((conversations, turns),) = Asked(statement, parameters | {"owner": owner_id}).rows()
    return turn_keys(conversations or [], turns or [])
