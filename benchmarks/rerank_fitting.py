"""Asks the reranker for its scores of the hits of labelled questions, to which its weight is fitted."""

from dataclasses import replace

import numpy as np

from benchmarks.datasets.haystacks import Haystack
from benchmarks.running import OnProgress, observe_haystack, query_of
from convmemory.accounts.callers import Caller
from convmemory.core.errors import InvalidInput
from search.ranking.blending import Reranked, as_scores
from search.ranking.reranking import RerankOptions, document_of, rerank
from search.searching import search

PATIENCE_S = 60.0  # longer than in a search: no user waits


def reranker_in_use() -> RerankOptions:
    """Return the reranker of the settings with a longer time limit. Raises: InvalidInput if there is none."""
    options = RerankOptions.from_settings()
    if options is None:
        raise InvalidInput("No reranker is set up: set RERANK_URL.")
    return replace(options, timeout_s=max(options.timeout_s, PATIENCE_S))


def rerank_haystack(
    caller: Caller, haystack: Haystack, options: RerankOptions, *, mode: str, progress: OnProgress
) -> list[Reranked]:
    """Return the reranker's scores for the best hits of each question that a stored turn answers.

    Raises: RerankerUnavailable if it gave no scores for a question.
    """
    observed = observe_haystack(caller, haystack, mode=mode, progress=progress)
    reranked: list[Reranked] = []
    for observation in observed:
        question = observation.question
        query = replace(query_of(question, mode, limit=options.top_k), may_rerank=False)
        hits = search(caller=caller, query=query).hits
        scores = rerank(options, query=query.parsed.text, documents=[document_of(hit) for hit in hits]) if hits else []
        reranked.append(
            Reranked(
                fold=question.fold,
                fused=np.array([hit.score for hit in hits], np.float32),
                reranked=as_scores(scores),
                right=np.isin([hit.key for hit in hits], observation.gold),
            )
        )
    return reranked
