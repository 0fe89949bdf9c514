"""The settings of accounts as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class QuotaOptions(FromSettings):
    """How much of the server's model a person may use per day; 0 is unlimited."""

    chat_daily_tokens: int
