"""The settings of search, read once for each search."""

from dataclasses import dataclass, field

from django.conf import settings

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`diversity_lambda` is MMR's weight of relevance: 1 turns diversity off.

    `min_relevance` is the probability of an answer below which a search says that nothing answers.
    """

    late_interaction: bool = True
    diversity_lambda: float = 0.97
    min_relevance: float = 0.0

    @classmethod
    def from_settings(cls) -> "SearchOptions":
        """The current values in `convmemory.settings`."""
        return cls(
            late_interaction=settings.LATE_INTERACTION,
            diversity_lambda=settings.MMR_LAMBDA,
            min_relevance=settings.SEARCH_MIN_RELEVANCE,
        )


@dataclass(frozen=True, slots=True)
class RerankSettings(FromSettings):
    """The reranker; an empty address if none is set up."""

    rerank_url: str
    rerank_model: str
    rerank_shape: str
    rerank_timeout_s: float
    rerank_top_k: int
    rerank_api_key: str = field(repr=False)
