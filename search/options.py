"""What the settings say of a search, read once for each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`diversity_lambda` is MMR's weight of relevance: with 1 nothing is made diverse."""

    late_interaction: bool = True
    diversity_lambda: float = 0.97

    @classmethod
    def from_settings(cls) -> "SearchOptions":
        """What `convmemory.settings` says now."""
        from django.conf import settings

        return cls(late_interaction=settings.LATE_INTERACTION, diversity_lambda=settings.MMR_LAMBDA)
