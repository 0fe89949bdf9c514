"""Imputes the features that need a vector, for items without one, from the items' own words.

An item has no vector, or an outdated one, if it waits for a worker, if the model refused its text, or if its kind is
not embedded. What was said outside of turns is in no vector at all. Such a feature is missing, which is not the same as
0: it is taken to be as good as the words are, the share of the query that the item contains, compared with the item
whose words fit best. Reads, for a few items that contain much of the query, whether they have a vector. Source:
docs/adr/0082-impute-missing-features.md.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.ranking.rankers import fuse, weights_of
from search.retrieval.candidates import (
    ITEM_BITS,
    LEXICAL,
    Feature,
    FeatureTable,
    ItemKeys,
    Scores,
    are_among,
    item_keys,
    known,
    split_keys,
)
from search.retrieval.prepared import PreparedQuery
from search.vectors.blocks import Blocks

# An item that contains less of the query is not looked up: what would be imputed hardly counts.
LEAST_SHARE = 0.3
# At most this many items are looked up, those with the best words.
LOOKED_UP = 40


def has_any_vector(table: FeatureTable) -> bool:
    """Return whether any candidate was found by a vector."""
    return not bool(_lacks_cosines(table).all())


def with_imputed(query: PreparedQuery, table: FeatureTable, blocks: Blocks, behind: Sequence[int]) -> FeatureTable:
    """Return the table with `imputed` for the candidates that lack vectors.

    `behind` are the sources with items that may not be in the space yet, or not as they are now: for some of these one
    query.
    """
    if Feature.COVERAGE not in table.columns:
        return table
    by_words = scores_by_words(table)
    best = by_words / max(float(by_words.max(initial=0)), 1e-6)
    possible = known(table.columns[Feature.COVERAGE]) * best
    may_lack = _lacks_cosines(table) | np.isin(table.keys >> ITEM_BITS, behind)
    chosen = np.flatnonzero(may_lack & (possible >= LEAST_SHARE))
    chosen = chosen[np.argsort(-possible[chosen], kind="stable")[:LOOKED_UP]]
    imputed = np.zeros(len(table.keys), np.float32)
    if len(chosen):
        keys = table.keys[chosen]
        without = ~are_among(keys, blocks.embedded_items)
        may_be_outdated = ~without & np.isin(keys >> ITEM_BITS, behind)
        if may_be_outdated.any():
            without |= np.isin(keys, _without_vectors(query, keys[may_be_outdated]))
        imputed[chosen[without]] = possible[chosen[without]]
    if Feature.ASIDE_COVERAGE in table.columns:
        imputed = np.maximum(imputed, known(table.columns[Feature.ASIDE_COVERAGE]) * best)
    return replace(table, imputed=imputed) if imputed.any() else table


def scores_by_words(table: FeatureTable) -> Scores:
    """Return the scores of the ranker for words alone, without the date."""
    weights = {name: weight for name, weight in weights_of("full_text").items() if name in LEXICAL}
    return fuse({name: table.columns[name] for name in weights}, weights)


def _lacks_cosines(table: FeatureTable) -> NDArray[np.bool_]:
    """Return which candidates no retriever found by a vector."""
    lacks = np.ones(len(table.keys), np.bool_)
    for name in (Feature.PASSAGE_COSINE, Feature.ITEM_COSINE):
        if name in table.columns:
            lacks &= np.isnan(table.columns[name])
    return lacks


def _without_vectors(query: PreparedQuery, keys: ItemKeys) -> ItemKeys:
    """Return those of the items that have no vector of their current text in the active space. One query."""
    sources, items = split_keys(keys)
    parameters = {"owner": query.archive_id, "space": query.active_space.pk, "sources": sources, "items": items}
    ((found_sources, found_items),) = PendingQuery(
        load_sql("search.ranking", "items_without_vectors"), parameters, keeps_plan=True
    ).rows()
    return item_keys(found_sources or [], found_items or [])
