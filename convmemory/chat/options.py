"""The settings of the chat as frozen values."""

from dataclasses import dataclass

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class ChatOptions(FromSettings):
    """How long the lease of a reply is, and which endpoints agents may have."""

    chat_lease_s: int
    chat_context_window: int
    chat_timeout_s: float
    chat_allowed_hosts: list[str]
