"""Replies from any server that implements OpenAI's `POST /chat/completions`, and explanations of its failures.

An `Endpoint` names the server and the model. `make_client` and `make_async_client` open an `openai` client for it, with
time limits and bounded retries, over the clients of `http`; `failure_of` converts that client's exceptions to
our errors. `complete` asks for one whole reply. Nothing here reads the database or keeps a connection open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from convmemory.core import tokens
from convmemory.core.config import config
from convmemory.core.endpoints.streams import MAX_REPLY_CHARS, NAME_CHARS
from convmemory.core.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMisconfigured,
    EndpointRefused,
    EndpointUnavailable,
)
from convmemory.core.logs import quoted
from convmemory.core.text import masked, one_line, storable

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, OpenAI, OpenAIError

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT_S = 10.0
MAX_RETRIES = 2

_NO_KEY = "none"  # never None, or the client would send the key from OPENAI_API_KEY to whatever server this is
_NEWER_LIMIT_HOSTS = ("api.openai.com", ".azure.com")

MESSAGE_CHARS = 200
_OF_THE_REQUEST = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 423, 425, 429})
_TOO_MUCH = "too many requests, or the account's quota is used up: try later or check the account"


class FailureKind(Enum):
    """The meaning of an endpoint's HTTP status for a retry, the same for chat, proxy, summaries and embeddings."""

    OF_THE_REQUEST = "the endpoint does not take this request: it would refuse it again"
    OURS = "the settings are wrong (key, model, address): every request fails until they are changed"
    PASSING = "the endpoint is busy or broken: a later request may succeed"


_ERROR_CLASSES: Mapping[FailureKind, type[EndpointError]] = {
    FailureKind.OF_THE_REQUEST: EndpointRefused,
    FailureKind.OURS: EndpointMisconfigured,
    FailureKind.PASSING: EndpointUnavailable,
}


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
        return f"{where} cannot be used: {quoted(one_line(masked(str(error)), MESSAGE_CHARS))}"
    message = quoted(one_line(masked(error.message), MESSAGE_CHARS))
    if isinstance(error, APITimeoutError):
        return f"{where} gave no answer in time: try again, or raise {names.timeout}."
    if isinstance(error, APIConnectionError):
        return f"{where} cannot be reached: check {names.base_url} and the network."
    if not isinstance(error, APIStatusError):
        return f"{where} answered with something unreadable: {message}"
    return explain_status(error.status_code, message=message, where=where, names=names)


def explain_status(status_code: int, *, message: str, where: str, names: SettingNames) -> str:
    """Return the sentence of `explain` for an HTTP status; `message` is the endpoint's message, quoted and without
    secrets.
    """
    remedies = {
        400: f"it does not take the request ({message})",
        401: f"the key is wrong or missing: set {names.api_key}",
        403: f"the key may not use this model: check {names.api_key} and {names.model}",
        404: f"no such model or address: check {names.model} and {names.base_url}",
        413: f"the request is too large ({message})",
        422: f"it does not take the request ({message})",
        429: _TOO_MUCH,
    }
    is_ours = failure_kind(status_code) is FailureKind.OURS
    other = f"check {names.base_url}" if is_ours else f"try later ({message})"
    return f"{where} answered {status_code}: {remedies.get(status_code, other)}."


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
        """The endpoint's name in messages; without the address of the server's own, which can be internal."""
        if self.names == SettingNames.with_prefix("CHAT"):
            return f"The chat endpoint of this server (model {self.model})"
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
    """Return the endpoint given by CHAT_MODEL with CHAT_BASE_URL or CHAT_API_KEY, or None if none is set up."""
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

    from convmemory.core.endpoints.http import EndpointClient

    arguments = _client_arguments(endpoint)
    return OpenAI(**arguments, http_client=EndpointClient(timeout=arguments["timeout"]))


def make_async_client(endpoint: Endpoint, http_client: "httpx2.AsyncClient | None" = None) -> "AsyncOpenAI":
    """Return an asynchronous client over `http_client`, an AsyncEndpointClient.

    The caller closes it (it is an asynchronous context manager).
    """
    from openai import AsyncOpenAI

    from convmemory.core.endpoints.http import AsyncEndpointClient

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

    from convmemory.core.endpoints.http import retry_after_s

    message = explain(error, where=endpoint.where, names=endpoint.names)
    if isinstance(error, RateLimitError):
        return EndpointBusy(message, retry_after_s=retry_after_s(error.response.headers))
    if not isinstance(error, APIStatusError):
        return EndpointUnavailable(message)
    return _ERROR_CLASSES[failure_kind(error.status_code)](message)


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
    # The client checks no types, so a malformed reply is only noticed here.
    try:
        choice = response.choices[0]
        text = choice.message.content or ""
    except (AttributeError, TypeError, IndexError):
        raise _not_a_completion(endpoint) from None
    if not isinstance(text, str):
        raise _not_a_completion(endpoint)
    usage = response.usage
    completion = Completion(
        text=storable(text[:MAX_REPLY_CHARS]),
        model=storable(str(response.model or endpoint.model)[:NAME_CHARS]),
        finish_reason=str(choice.finish_reason or "")[:NAME_CHARS],
        prompt_tokens=getattr(usage, "prompt_tokens", None),
        completion_tokens=getattr(usage, "completion_tokens", None),
    )
    if not completion.text.strip():
        raise EndpointUnavailable(f"{endpoint.where} gave an empty reply (finish reason {completion.finish_reason!r}).")
    return completion


def _not_a_completion(endpoint: Endpoint) -> EndpointUnavailable:
    return EndpointUnavailable(
        f"{endpoint.where} does not answer as a chat endpoint does: check {endpoint.names.base_url}, "
        "which usually ends in /v1."
    )
