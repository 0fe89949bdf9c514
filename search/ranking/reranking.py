"""The optional last stage of a search: a reranker reads the question and the best turns, and changes their order.

Its score is added to the fused one with the reranker's own weight (`blending.py`); with weight 0 it is not called.

Only the first page calls it. Its order travels in the cursor, so that later pages neither call it again nor repeat or
lose a hit, whatever happens to the endpoint. If it gives no order, the fused one stays, and a note says so.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from convmemory.core.errors import RerankerUnavailable
from convmemory.core.measuring import timed
from convmemory.core.text import one_line
from search.query import SearchQuery
from search.ranking.blending import as_scores, blended_order
from search.ranking.rerank_endpoint import RerankOptions, rerank
from search.ranking.rerank_weights import weight_of
from search.results.hits import Hit

NAME = "reranker"  # in the list of a hit's matches
# Together about 1,000 characters per hit, what the results page shows of it (ADR 20).
QUESTION_CHARS = 600
PASSAGE_CHARS = 400

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placing:
    """Keys of the items that the reranker placed, best first; if none, notes that say why."""

    keys: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def place_hits(query: SearchQuery, hits: Sequence[Hit], options: RerankOptions) -> Placing:
    """Ask the reranker about the best hits, in the fused order; never raises. One query and one HTTP request."""
    best = hits[: options.top_k]
    if len(best) < 2 or not (weight := weight_of(options)):
        return Placing()
    try:
        with timed("rerank", items=len(best)):
            scores = rerank(options, query=query.parsed.text, documents=[document_of(hit) for hit in best])
    except RerankerUnavailable as error:
        logger.warning("Not reranked: %s", error)
        return Placing(notes=(f"Not reranked: {error}",))
    fused = np.array([hit.score for hit in best], np.float32)
    order = blended_order(fused, as_scores(scores), weight)
    return Placing(tuple(best[index].key for index in order))


def document_of(hit: Hit) -> str:
    """Return the text of a turn for the reranker: its question and its best passage, cut to a bounded length."""
    question = one_line(hit.user_question, QUESTION_CHARS)
    passage = one_line(hit.passage, PASSAGE_CHARS)
    return question if passage in question else f"{question}\n{passage}"


def mark_reranked(hits: Sequence[Hit], placed: Sequence[int]) -> list[Hit]:
    """Return the hits; those that the reranker placed list it among their matches."""
    known = set(placed)
    return [replace(hit, matched=(*hit.matched, NAME)) if hit.key in known else hit for hit in hits]
