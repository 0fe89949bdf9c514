"""The settings of operations as frozen values."""

from dataclasses import dataclass, field

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class MetricsOptions(FromSettings):
    """Whether metrics are served, to whom, and how often they are stored."""

    metrics: bool
    measures_flush_s: float
    metrics_token: str = field(repr=False)
