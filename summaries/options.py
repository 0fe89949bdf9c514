"""The settings of summaries as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class SummaryOptions(FromSettings):
    """The length of summaries."""

    summary_max_tokens: int
