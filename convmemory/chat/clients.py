"""The open connections to chat endpoints, shared by all replies, and the test of an agent's endpoint.

Creating a client takes tens of milliseconds, because it loads the certificates; 50 replies that begin at once would
wait for that.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from convmemory.accounts.callers import Caller
from convmemory.chat.addresses import Reach, clean_address, origin_of, require_allowed
from convmemory.chat.agents import get_agent
from convmemory.core.encryption import decrypt
from convmemory.core.endpoints.completions import (
    Endpoint,
    SettingNames,
    endpoint_from_settings,
    failure_of,
    make_async_client,
)
from convmemory.core.errors import EndpointUnavailable, NoEndpoint
from convmemory.core.text import one_line, storable
from convmemory.core.threads import in_thread

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI


MAX_CLIENTS = 64
MAX_CONNECTIONS = 1_000
# Replies are streamed, so only lists of models are read whole.
MAX_LIST_BYTES = 4 * 1024**2
# Shorter than the 5 s of common servers: a connection that the server closes at the same moment would fail the next
# request.
KEPT_OPEN_S = 2.0

Key = tuple[str, str, float, bool]
_clients: "WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[Key, AsyncOpenAI]]" = WeakKeyDictionary()
_http_clients: "WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient]" = WeakKeyDictionary()


def client_for(endpoint: Endpoint) -> "AsyncOpenAI":
    """Return this event loop's client for the endpoint; only `close_clients` closes it."""
    opened = _clients.setdefault(asyncio.get_running_loop(), OrderedDict())
    key = (endpoint.base_url, endpoint.api_key, endpoint.timeout_s, endpoint.is_public_only)
    if key not in opened:
        http = _open_http(timeout=endpoint.timeout_s, is_public_only=endpoint.is_public_only)
        opened[key] = make_async_client(endpoint, http).with_options(max_retries=0)
        if len(opened) > MAX_CLIENTS:
            opened.popitem(last=False)  # replies that still use it keep it alive
    opened.move_to_end(key)
    return opened[key]


def _open_http(*, timeout: float, is_public_only: bool = False) -> "httpx2.AsyncClient":
    from httpx2 import Limits

    from convmemory.core.endpoints.http import AsyncEndpointClient

    options: dict[str, Any] = {}
    limits = Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_OPEN_S)
    if is_public_only:
        from convmemory.chat.pinned import PublicTransport

        options["transport"] = PublicTransport(limits)
    return AsyncEndpointClient(limits=limits, timeout=timeout, max_body_bytes=MAX_LIST_BYTES, **options)


def http_client(*, timeout_s: float) -> "httpx2.AsyncClient":
    """Return this event loop's plain HTTP client, for the proxy; `timeout_s` limits the wait for the next bytes."""
    loop = asyncio.get_running_loop()
    if loop not in _http_clients:
        _http_clients[loop] = _open_http(timeout=timeout_s)
    return _http_clients[loop]


async def close_clients() -> None:
    """Close the connections of this event loop."""
    loop = asyncio.get_running_loop()
    for client in _clients.pop(loop, OrderedDict()).values():
        await client.close()
    if plain := _http_clients.pop(loop, None):
        await plain.aclose()


TIMEOUT_S = 15.0
MODELS_SHOWN = 300
MODEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """The values of the form. `agent_id` names the agent whose stored key is used if the form has no key."""

    base_url: str
    api_key: str = ""
    model: str = ""
    agent_id: int | None = None


async def list_models(*, caller: Caller, trial: Trial) -> list[str]:
    """Return the models that the endpoint offers, in alphabetical order.

    Raises: InvalidInput for an address that the owner may not use, NoEndpoint, NotFound, EndpointError.
    """
    from openai import OpenAIError

    endpoint = await in_thread(_endpoint, caller, trial)
    try:
        answer: Any = await client_for(endpoint).get("/models", cast_to=object)
    except OpenAIError as error:
        raise failure_of(error, endpoint) from error
    except (ValueError, RecursionError) as error:  # a body that is not JSON
        raise EndpointUnavailable(f"{endpoint.where} sent no list of models.") from error
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise EndpointUnavailable(f"{endpoint.where} sent no list of models.")
    names = {row["id"] for row in rows[: MODELS_SHOWN * 4] if isinstance(row, dict) and isinstance(row.get("id"), str)}
    return sorted(filter(None, (one_line(storable(name), MODEL_CHARS) for name in names)))[:MODELS_SHOWN]


def _endpoint(caller: Caller, trial: Trial) -> Endpoint:
    """Return the endpoint to test. Raises: InvalidInput, NoEndpoint, NotFound."""
    if not trial.base_url.strip():
        endpoint = endpoint_from_settings()
        if endpoint is None:
            raise NoEndpoint("The server has no endpoint of its own: enter one.")
        return endpoint
    address = clean_address(trial.base_url)
    reach = require_allowed(address, caller=caller)
    return Endpoint(
        base_url=address,
        model=trial.model.strip() or "none chosen",
        context_window=1,
        api_key=trial.api_key.strip() or _stored_key(caller, trial.agent_id, address),
        timeout_s=TIMEOUT_S,
        max_retries=0,
        names=SettingNames("the endpoint", "the key", "the model", "CHAT_TIMEOUT_S"),
        is_public_only=reach is Reach.PUBLIC,
    )


def _stored_key(caller: Caller, agent_id: int | None, address: str) -> str:
    """Return the agent's key, if the address belongs to the server that the key was entered for."""
    if agent_id is None:
        return ""
    agent = get_agent(caller=caller, agent_id=agent_id)
    is_same = bool(agent.base_url) and origin_of(agent.base_url) == origin_of(address)
    return (decrypt(agent.api_key_encrypted) or "") if is_same else ""
