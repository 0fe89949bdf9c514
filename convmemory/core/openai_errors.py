"""Explains failures of an OpenAI-compatible endpoint in one sentence that says what to do.

Everything that calls such an endpoint (embeddings, completions) uses it, so that the same failure reads the same.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convmemory.core.masking import masked
from convmemory.core.safe_tracebacks import quoted
from convmemory.core.text import one_line

if TYPE_CHECKING:
    from openai import OpenAIError

SAID_CHARS = 200
_TOO_MUCH = "too many requests, or the account's quota is used up: try later or check the account"


@dataclass(frozen=True, slots=True)
class SettingNames:
    """What the endpoint's settings are called in the place where they can be changed."""

    base_url: str
    api_key: str
    model: str
    timeout: str

    @classmethod
    def with_prefix(cls, prefix: str) -> "SettingNames":
        """The environment variables `PREFIX_BASE_URL`, `PREFIX_API_KEY`, `PREFIX_MODEL` and `PREFIX_TIMEOUT_S`."""
        return cls(f"{prefix}_BASE_URL", f"{prefix}_API_KEY", f"{prefix}_MODEL", f"{prefix}_TIMEOUT_S")


def explain(error: "OpenAIError", *, where: str, names: SettingNames) -> str:
    """One sentence, which begins with `where`, the name of the endpoint; `names` are the settings that it advises to
    change."""
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
    remedies = {
        400: f"it does not take the request ({said})",
        401: f"the key is wrong or missing: set {names.api_key}",
        403: f"the key may not use this model: check {names.api_key} and {names.model}",
        404: f"no such model or address: check {names.model} and {names.base_url}",
        413: f"the request is too large ({said})",
        422: f"it does not take the request ({said})",
        429: _TOO_MUCH,
    }
    return f"{where} answered {error.status_code}: {remedies.get(error.status_code, f'try later ({said})')}."
