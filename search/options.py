"""The settings of a search, which tests and measurements replace."""

from dataclasses import dataclass

from convmemory.core.config import config


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of one search. `diversity_lambda` is the weight of relevance in MMR; 1 turns diversity off.

    `min_relevance` is the probability of an answer below which a search says that nothing answers.
    """

    late_interaction: bool = True
    diversity_lambda: float = 0.97
    min_relevance: float = 0.0

    @classmethod
    def from_settings(cls) -> "SearchOptions":
        """Return the current settings."""
        return cls(
            late_interaction=config.late_interaction,
            diversity_lambda=config.mmr_lambda,
            min_relevance=config.search_min_relevance,
        )
