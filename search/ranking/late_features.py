"""Late interaction features of the best items and of the questions just before them.

Reads the passages of these items and of the items before them, and who said them.
"""

from dataclasses import replace

import numpy as np

from search.ranking.exchanges import exchange_features, named_share
from search.ranking.fusion import Order
from search.ranking.late_interaction import find_passages, max_sim_features
from search.retrieval.candidates import ITEM_MASK, are_among, distinct, spread_all
from search.retrieval.features import EXCHANGES, LATE_INTERACTION, FeatureTable
from search.retrieval.retriever import Retrieved
from search.sources import adapter_of


def with_late_features(retrieved: Retrieved, table: FeatureTable, best: Order) -> FeatureTable:
    """The table with these features of the items at `best`. One query, and one for each kind of source."""
    keys = table.keys[best]
    wide_keys = distinct(np.concatenate([keys, keys[keys & ITEM_MASK > 0] - 1]))
    for_questions = ~are_among(wide_keys, keys)
    near = find_passages(retrieved.query, wide_keys, for_questions, retrieved.word_weights)
    if near is None:
        return table.with_columns({}, of=LATE_INTERACTION | EXCHANGES)
    owner_id = retrieved.query.owner_id
    pending = [adapter_of(kind).send_utterances_query(owner_id, ids) for kind, ids in near.elements_by_kind().items()]
    matches = near.matched()
    own = matches.of(~for_questions[matches.items])
    found = max_sim_features(keys, replace(own, items=np.searchsorted(keys, wide_keys[own.items])))
    utterances = {element: said for read in pending for element, said in read().items()}
    found |= exchange_features(keys, wide_keys, matches, utterances, retrieved.query.text.text)
    table = replace(table, named_share=named_share(utterances.values()))
    return table.with_columns(spread_all(table.keys, keys, found), of=LATE_INTERACTION | EXCHANGES)
