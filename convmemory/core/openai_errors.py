"""Classifies failures of an OpenAI-compatible endpoint, and explains them in one sentence that says what to do.

Everything that calls such an endpoint (chat, proxy, summaries, embeddings) uses it, so that the same failure has the
same consequence and reads the same.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from convmemory.core.masking import masked
from convmemory.core.safe_tracebacks import quoted
from convmemory.core.text import one_line

if TYPE_CHECKING:
    from openai import OpenAIError

SAID_CHARS = 200
_OF_THE_REQUEST = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 423, 425, 429})
_TOO_MUCH = "too many requests, or the account's quota is used up: try later or check the account"


class FailureKind(Enum):
    """The meaning of an endpoint's HTTP status for a retry."""

    OF_THE_REQUEST = "the endpoint does not take this request: it would refuse it again"
    OURS = "the settings are wrong (key, model, address): every request fails until they are changed"
    PASSING = "the endpoint is busy or broken: a later request may succeed"


def failure_kind(status_code: int) -> FailureKind:
    """Return the kind of a status other than 200."""
    if status_code in _OF_THE_REQUEST:
        return FailureKind.OF_THE_REQUEST
    if status_code >= 500 or status_code in _PASSING:
        return FailureKind.PASSING
    return FailureKind.OURS


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The names of the endpoint's settings, as the place where they can be changed shows them."""

    base_url: str
    api_key: str
    model: str
    timeout: str

    @classmethod
    def with_prefix(cls, prefix: str) -> "SettingNames":
        """Return the environment variables `PREFIX_BASE_URL`, `PREFIX_API_KEY`, `PREFIX_MODEL` and
        `PREFIX_TIMEOUT_S`.
        """
        return cls(f"{prefix}_BASE_URL", f"{prefix}_API_KEY", f"{prefix}_MODEL", f"{prefix}_TIMEOUT_S")


def explain(error: "OpenAIError", *, where: str, names: SettingNames) -> str:
    """Return one sentence about the error, which begins with `where`, the name of the endpoint.

    `names` are the settings that it advises to change.
    """
    from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

    if not isinstance(error, APIError):
        return f"{where} cannot be used: {quoted(one_line(masked(str(error)), SAID_CHARS))}"
    said = quoted(one_line(masked(error.message), SAID_CHARS))
    if isinstance(error, APITimeoutError):
        return f"{where} gave no answer in time: try again, or raise {names.timeout}."
    if isinstance(error, APIConnectionError):
        return f"{where} cannot be reached: check {names.base_url} and the network."
    if not isinstance(error, APIStatusError):
        return f"{where} answered with something unreadable: {said}"
    return explain_status(error.status_code, said=said, where=where, names=names)


def explain_status(status_code: int, *, said: str, where: str, names: SettingNames) -> str:
    """Return the sentence of `explain` for an HTTP status; `said` is the endpoint's message, quoted and without
    secrets.
    """
    remedies = {
        400: f"it does not take the request ({said})",
        401: f"the key is wrong or missing: set {names.api_key}",
        403: f"the key may not use this model: check {names.api_key} and {names.model}",
        404: f"no such model or address: check {names.model} and {names.base_url}",
        413: f"the request is too large ({said})",
        422: f"it does not take the request ({said})",
        429: _TOO_MUCH,
    }
    is_ours = failure_kind(status_code) is FailureKind.OURS
    other = f"check {names.base_url}" if is_ours else f"try later ({said})"
    return f"{where} answered {status_code}: {remedies.get(status_code, other)}."
