"""Ranks whole conversations for a query that asks for conversations about a topic.

A conversation counts by its best turn and by the mean of its turns' vectors, which is computed from their codes.
Source: docs/adr/0096-rank-conversations-about-a-topic.md.
"""

import re

import numpy as np

from search.query_text import QueryText
from search.ranking.rankers import Order
from search.retrieval.candidates import ITEM_BITS, ItemKeys, Scores
from search.vectors.blocks import ComparedVectors

# The conversations with the best turns, whose vectors are read: 25 ms for 200 of 20 turns each.
MOST_RANKED = 200
_TOPIC = re.compile(
    r"(?:(?:please )?(?:find|show|list|give|search)(?: me| us)? )?(?:(?:all|any|my|our|the|past|earlier|previous|other|"
    r"which|what) ){0,3}(?:conversations?|chats?|discussions?|sessions?|threads?) "
    r"(?:(?:that |which )?(?:are|were|is|was) )?(?:about|regarding|concerning) (\S.*)",
    re.IGNORECASE,
)


def topic_of(text: QueryText) -> str:
    """Return the topic of "conversations about a topic"; "" for every other query. English only."""
    match = None if text.operators else _TOPIC.fullmatch(" ".join(text.text.split()))
    return match[1].rstrip("?!. ") if match else ""


def one_of_each_source(keys: ItemKeys, scores: Scores, order: Order, compared: ComparedVectors | None) -> Order:
    """Return the best item of each source, in the order of the sources: by its score and by the mean vector.

    Without vectors the score decides alone; a source without any counts like the one that is least like the query.
    """
    _, places = np.unique(keys[order] >> ITEM_BITS, return_index=True)
    firsts = order[np.sort(places)[:MOST_RANKED]]
    total = _scaled(scores[firsts])
    if compared is not None and len(firsts):
        sources = (keys[firsts] >> ITEM_BITS).tolist()
        cosines = compared.mean_cosines(sources)
        least = min(cosines.values(), default=0.0)
        total = total + _scaled(np.array([cosines.get(source, least) for source in sources], np.float32))
    best_first: Order = firsts[np.argsort(-total, kind="stable")]
    return best_first


def _scaled(values: Scores) -> Scores:
    spread = float(np.ptp(values)) if len(values) else 0.0
    scaled: Scores = (values - values.min(initial=np.inf)) / spread if spread > 0 else np.zeros_like(values)
    return scaled
