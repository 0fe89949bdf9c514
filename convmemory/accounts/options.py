"""The settings of accounts as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class QuotaOptions(FromSettings):
    """The daily quota of tokens per person for the server's model; 0 is unlimited."""

    chat_daily_tokens: int
