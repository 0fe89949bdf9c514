"""The errors convmemory raises on purpose.

Each says what is wrong and what to do about it. HTTP codes are chosen at the edge
(`convmemory/problems.py`), never here.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from convmemory.core.text import masked

SHOWN_CHARS = 60  # of an unknown name


class ConvMemoryError(Exception):
    """Root of every error that convmemory raises on purpose. Its text shows no secret of an address.

    `details` are added to the message for programs.
    """

    details: Mapping[str, Any] = MappingProxyType({})

    def __str__(self) -> str:
        return masked(super().__str__())


class InvalidInput(ConvMemoryError):
    """The caller sent something that cannot be accepted; the message says what to send instead."""


def refuse_unknown_names(what: str, names: Iterable[str], allowed: Collection[str]) -> None:
    """Raise InvalidInput if a given name, of `what`, is not known."""
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        there_are = f"use any of {', '.join(sorted(allowed))}" if allowed else "this route takes none"
        raise InvalidInput(f"There is no {what} {unknown[0][:SHOWN_CHARS]!r} here: {there_are}.")


class NotFound(ConvMemoryError):
    """The object does not exist or belongs to another owner: the same answer for both."""


class ConversationBusy(ConvMemoryError):
    """A response is being written to this conversation; wait for it to end and try again."""


class InTrash(ConvMemoryError):
    """The object is in its owner's trash, so it can be neither added again nor changed; the message says what to do."""


class OnLegalHold(ConvMemoryError):
    """A legal hold forbids to delete, replace or move the object; the message says which."""


class SwitchedOff(ConvMemoryError):
    """A setting of this server turns the feature off; the message names it."""


class NotAllowed(ConvMemoryError):
    """The caller's role in a space does not allow the request; the message says whose role does."""


class ReadOnlyKey(ConvMemoryError):
    """A read-only key was used for a request that writes."""

    def __init__(self) -> None:
        super().__init__("This key only reads: use one that may write, made on the page API keys, for this request.")


class QuotaUsedUp(ConvMemoryError):
    """The caller has used the day's quota of the operator's model until `ends_at`, in `retry_after_s` seconds."""

    def __init__(self, message: str, *, ends_at: datetime, retry_after_s: float) -> None:
        self.ends_at = ends_at
        self.retry_after_s = retry_after_s
        super().__init__(message)


class TooLarge(ConvMemoryError):
    """The input is larger than the server accepts; the message names the limit."""


class StorageFull(TooLarge):
    """The caller would store more than one person may; the message says what to delete and where to ask for more."""


class TooManyAtOnce(ConvMemoryError):
    """The caller has as many jobs running as the server accepts; retry when one has ended."""


class EmbeddingError(ConvMemoryError):
    """A text could not be embedded."""


class EmbedderUnavailable(EmbeddingError):
    """The embedding model or endpoint cannot be used now (missing file, wrong key, no answer)."""


class EmbedderMisconfigured(EmbedderUnavailable):
    """The embedding endpoint rejects every request until the settings are changed."""


class RerankerUnavailable(ConvMemoryError):
    """The rerank endpoint gave no order that can be used (no answer in time, an error, an answer of another form)."""


class EndpointError(ConvMemoryError):
    """The endpoint of a chat model did not do what the request says."""


class NoEndpoint(EndpointError):
    """No endpoint of a chat model is set up; the message says how to set one up."""


class EndpointUnavailable(EndpointError):
    """The endpoint cannot be used now (no answer, an error of its own, an answer of another form); a retry
    may succeed.
    """


class EndpointBusy(EndpointUnavailable):
    """The endpoint limits the rate of requests; `retry_after_s` is the wait, if the endpoint sends one."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class EndpointRefused(EndpointError):
    """The endpoint rejects this request; repeating it would not help."""


class ResponseRefused(EndpointRefused):
    """The endpoint's answer is not read to its end: it is too large, or compressed."""


class EndpointMisconfigured(EndpointError):
    """The endpoint rejects every request (key, model or address) until the settings are changed."""


class AddressRefused(EndpointRefused):
    """The host name of an endpoint resolves to an address that its agent's owner may not use."""


class DatabaseUnavailable(ConvMemoryError):
    """The database cannot be reached or started. PostgreSQL restarts in some seconds."""

    retry_after_s = 5.0


class SettingError(ConvMemoryError):
    """An environment variable holds a value that convmemory cannot use."""
