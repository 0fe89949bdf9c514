"""Computes late interaction features of the best items and of the questions just before them.

Reads the passages of these items and of the items before them, and their speakers.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from search.ranking.exchanges import exchange_features, named_share
from search.ranking.late_interaction import NearPassages, find_passages, max_sim_features
from search.retrieval.candidates import ITEM_MASK, ItemKeys, are_among, distinct, spread_all
from search.retrieval.features import EXCHANGES, LATE_INTERACTION, FeatureTable
from search.retrieval.retriever import Retrieved
from search.sources import adapter_of


@dataclass(frozen=True, slots=True)
class PassagesOfBest:
    """Passages `near` the query, of the best items `keys` and the items just before them, together `wide_keys`.

    `for_questions` marks those of `wide_keys` that only precede a best item: of these, only passages that ask count.
    """

    keys: ItemKeys
    wide_keys: ItemKeys
    for_questions: NDArray[np.bool_]
    near: NearPassages


def passages_of_best(retrieved: Retrieved, keys: ItemKeys) -> PassagesOfBest | None:
    """Return the passages to compare for the best items, by their keys (sorted). One query; None if there are none."""
    wide_keys = distinct(np.concatenate([keys, keys[keys & ITEM_MASK > 0] - 1]))
    for_questions = ~are_among(wide_keys, keys)
    near = find_passages(retrieved, wide_keys, for_questions)
    return PassagesOfBest(keys, wide_keys, for_questions, near) if near else None


def with_late_features(retrieved: Retrieved, table: FeatureTable, passages: PassagesOfBest | None) -> FeatureTable:
    """Return the table with these features of the best items. One query for each kind of source."""
    if passages is None:
        return table.with_columns({}, of=LATE_INTERACTION | EXCHANGES)
    keys, wide_keys, near = passages.keys, passages.wide_keys, passages.near
    owner_id = retrieved.query.owner_id
    # Sent before the comparison, so that PostgreSQL looks up the speakers meanwhile.
    pending = [adapter_of(kind).send_utterances_query(owner_id, ids) for kind, ids in near.elements_by_kind().items()]
    matches = near.matched()
    own = matches.of(~passages.for_questions[matches.items])
    found = max_sim_features(keys, replace(own, items=np.searchsorted(keys, wide_keys[own.items])))
    utterances = {element: said for read in pending for element, said in read().items()}
    found |= exchange_features(keys, wide_keys, matches, utterances, retrieved.query.text.text)
    table = replace(table, named_share=named_share(utterances.values()))
    return table.with_columns(spread_all(table.keys, keys, found), of=LATE_INTERACTION | EXCHANGES)
