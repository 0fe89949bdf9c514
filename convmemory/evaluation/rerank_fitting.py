"""Determines how much the reranker should count, by asking it about the hits of labelled questions.

Reads what a search would show, sends it to the reranker, and stores the weight for every search from then on.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from django.contrib.auth.models import User

from convmemory.core.errors import InvalidInput
from convmemory.evaluation.haystacks import Haystack
from convmemory.evaluation.running import Observation, OnProgress, observe_haystack, query_of
from search.ranking.blending import Reranked, WeightFit, as_scores, fit_weight
from search.ranking.rerank_endpoint import RerankOptions, rerank
from search.ranking.rerank_weights import keep_weight
from search.ranking.reranking import document_of
from search.searching import search

PATIENCE_S = 60.0  # nobody waits for the page


def reranker_in_use() -> RerankOptions:
    """The reranker that the settings name, with time to answer. Raises: InvalidInput if there is none."""
    options = RerankOptions.from_settings()
    if options is None:
        raise InvalidInput("No reranker is set up: set RERANK_URL.")
    return replace(options, timeout_s=max(options.timeout_s, PATIENCE_S))


def rerank_haystack(
    owner: User, haystack: Haystack, options: RerankOptions, *, mode: str, progress: OnProgress
) -> list[Reranked]:
    """The reranker's scores for the best hits of each question that a stored turn answers.

    Raises:
        RerankerUnavailable: it gave no scores for a question.
    """
    observed = observe_haystack(owner, haystack, mode=mode, progress=progress)
    return [_reranked(owner, observation, options, mode) for observation in observed]


def _reranked(owner: User, observation: Observation, options: RerankOptions, mode: str) -> Reranked:
    question = observation.question
    query = query_of(question, mode, limit=options.top_k)
    hits = search(caller=owner, query=query, may_rerank=False).hits
    scores = rerank(options, query=query.parsed.text, documents=[document_of(hit) for hit in hits]) if hits else []
    return Reranked(
        fold=question.fold,
        fused=np.array([hit.score for hit in hits], np.float32),
        reranked=as_scores(scores),
        right=np.isin([hit.key for hit in hits], observation.gold),
    )


def keep_fitted_weight(options: RerankOptions, questions: Sequence[Reranked]) -> WeightFit:
    """Fit the weight to the questions and store it for every search from now on."""
    fit = fit_weight(questions)
    keep_weight(options, fit)
    return fit
