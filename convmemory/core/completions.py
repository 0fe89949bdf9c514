"""Replies from any server that implements OpenAI's `POST /chat/completions`.

An `Endpoint` names the server and the model. `make_client` and `make_async_client` open an `openai` client for it, with
time limits and bounded retries, over the clients of `endpoint_http`; `failure_of` converts that client's exceptions to
our errors. `complete` asks for one whole reply. Nothing here reads the database or keeps a connection open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from convmemory.core import tokens
from convmemory.core.config import config
from convmemory.core.endpoint_streams import MAX_REPLY_CHARS, NAME_CHARS
from convmemory.core.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMisconfigured,
    EndpointRefused,
    EndpointUnavailable,
)
from convmemory.core.masking import masked
from convmemory.core.openai_errors import FailureKind, SettingNames, explain, failure_kind
from convmemory.core.text import storable

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, OpenAI, OpenAIError

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT_S = 10.0
MAX_RETRIES = 2

_NO_KEY = "none"  # never None, or the client would send the key from OPENAI_API_KEY to whatever server this is
_NEWER_LIMIT_HOSTS = ("api.openai.com", ".azure.com")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model on a server. `timeout_s` limits the wait for the next bytes; `names` are the settings that configure it.

    With `is_public_only`, only public addresses are connected to, whatever the server's name resolves to.
    """

    base_url: str
    model: str
    context_window: int
    api_key: str = field(default="", repr=False)
    timeout_s: float = 120.0
    max_retries: int = MAX_RETRIES
    names: SettingNames = field(default=SettingNames.with_prefix("CHAT"), repr=False)
    is_public_only: bool = False

    @property
    def encoding(self) -> str:
        """The token encoding of the model, for `convmemory.core.tokens`."""
        return tokens.encoding_for(self.model)

    @property
    def where(self) -> str:
        return f"The chat endpoint {masked(self.base_url)} (model {self.model})"


@dataclass(frozen=True, slots=True)
class Completion:
    """One whole reply, whose text PostgreSQL can store. Token counts are None if the server does not report them."""

    text: str
    model: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """The cost of the request, if the server reports both counts."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens


def endpoint_from_settings() -> Endpoint | None:
    """The endpoint given by CHAT_MODEL with CHAT_BASE_URL or CHAT_API_KEY, or None if none is set up."""
    if not config.chat_model or not (config.chat_base_url or config.chat_api_key):
        return None
    return Endpoint(
        base_url=config.chat_base_url or OPENAI_URL,
        model=config.chat_model,
        context_window=config.chat_context_window,
        api_key=config.chat_api_key,
        timeout_s=config.chat_timeout_s,
    )


def make_client(endpoint: Endpoint) -> "OpenAI":
    """Return a synchronous client; the caller closes it (it is a context manager)."""
    from openai import OpenAI

    from convmemory.core.endpoint_http import EndpointClient

    arguments = _client_arguments(endpoint)
    return OpenAI(**arguments, http_client=EndpointClient(timeout=arguments["timeout"]))


def make_async_client(endpoint: Endpoint, http_client: "httpx2.AsyncClient | None" = None) -> "AsyncOpenAI":
    """Return an asynchronous client over `http_client`, an AsyncEndpointClient.

    The caller closes it (it is an asynchronous context manager).
    """
    from openai import AsyncOpenAI

    from convmemory.core.endpoint_http import AsyncEndpointClient

    arguments = _client_arguments(endpoint)
    return AsyncOpenAI(**arguments, http_client=http_client or AsyncEndpointClient(timeout=arguments["timeout"]))


def _client_arguments(endpoint: Endpoint) -> dict[str, Any]:
    from openai import Timeout

    return {
        "api_key": endpoint.api_key or _NO_KEY,
        "base_url": endpoint.base_url,
        "timeout": Timeout(endpoint.timeout_s, connect=min(CONNECT_TIMEOUT_S, endpoint.timeout_s)),
        "max_retries": endpoint.max_retries,
    }


def reply_limit(endpoint: Endpoint, max_tokens: int) -> dict[str, int]:
    """Return the request parameter that limits a reply.

    OpenAI's reasoning models accept only the newer name, other servers the older.
    Source: https://platform.openai.com/docs/api-reference/chat/create
    """
    is_newer = any(host in endpoint.base_url for host in _NEWER_LIMIT_HOSTS)
    return {"max_completion_tokens" if is_newer else "max_tokens": max_tokens}


def failure_of(error: "OpenAIError", endpoint: Endpoint) -> EndpointError:
    """Convert an exception of the `openai` client to one of our errors: busy, refused, misconfigured, or
    unavailable.
    """
    from openai import APIStatusError, RateLimitError

    said = explain(error, where=endpoint.where, names=endpoint.names)
    if isinstance(error, RateLimitError):
        return EndpointBusy(said, retry_after_s=_retry_after_s(error.response.headers))
    if not isinstance(error, APIStatusError):
        return EndpointUnavailable(said)
    return _ERROR_OF[failure_kind(error.status_code)](said)


_ERROR_OF: Mapping[FailureKind, type[EndpointError]] = {
    FailureKind.OF_THE_REQUEST: EndpointRefused,
    FailureKind.OURS: EndpointMisconfigured,
    FailureKind.PASSING: EndpointUnavailable,
}


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`. Its other form, a date, is ignored: the clocks may differ."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def complete(
    client: "OpenAI", endpoint: Endpoint, *, messages: Sequence[Mapping[str, Any]], max_tokens: int
) -> Completion:
    """Request one whole reply to `messages` (OpenAI's shape) of at most `max_tokens` tokens.

    If the model ignores that limit, the text is cut at `MAX_REPLY_CHARS`.

    Raises:
        EndpointBusy, EndpointRefused, EndpointMisconfigured, EndpointUnavailable: no reply, or one that is empty or has
            another form.
    """
    from openai import OpenAIError

    create: Any = client.chat.completions.create
    try:
        response = create(model=endpoint.model, messages=list(messages), **reply_limit(endpoint, max_tokens))
    except OpenAIError as error:
        raise failure_of(error, endpoint) from error
    except (ValueError, RecursionError) as error:  # the content type says JSON, the body is none
        raise _not_a_completion(endpoint) from error
    completion = _parse(response, endpoint)
    if not completion.text.strip():
        raise EndpointUnavailable(f"{endpoint.where} gave an empty reply (finish reason {completion.finish_reason!r}).")
    return completion


def _parse(response: Any, endpoint: Endpoint) -> Completion:
    """Read a reply. The client checks no types, so a malformed one is only noticed here."""
    try:
        choice = response.choices[0]
        text = choice.message.content or ""
    except (AttributeError, TypeError, IndexError):
        raise _not_a_completion(endpoint) from None
    if not isinstance(text, str):
        raise _not_a_completion(endpoint)
    usage = response.usage
    return Completion(
        text=storable(text[:MAX_REPLY_CHARS]),
        model=storable(str(response.model or endpoint.model)[:NAME_CHARS]),
        finish_reason=str(choice.finish_reason or "")[:NAME_CHARS],
        prompt_tokens=getattr(usage, "prompt_tokens", None),
        completion_tokens=getattr(usage, "completion_tokens", None),
    )


def _not_a_completion(endpoint: Endpoint) -> EndpointUnavailable:
    return EndpointUnavailable(
        f"{endpoint.where} does not answer as a chat endpoint does: check {endpoint.names.base_url}, "
        "which usually ends in /v1."
    )
