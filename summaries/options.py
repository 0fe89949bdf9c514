"""The settings of summaries as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class SummaryOptions(FromSettings):
    """How long a summary is."""

    summary_max_tokens: int
