"""The settings of the limits before Django as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class EdgeOptions(FromSettings):
    """Limits on the size, the pace and the number of requests."""

    max_upload_mb: int
    max_document_mb: int
    max_request_mb: int
    max_anonymous_request_kb: int
    request_idle_s: float
    request_min_bytes_per_s: int
    max_concurrent_requests: int


@dataclass(frozen=True, slots=True)
class CallerOptions(FromSettings):
    """Limits on the concurrent requests of one caller."""

    requests_per_user: int
    requests_beside_others: int
    streams_per_user: int
    waiting_per_user: int
