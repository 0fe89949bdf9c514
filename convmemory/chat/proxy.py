"""The capture proxy: the routes of OpenAI's and Anthropic's APIs below `/v1/`, forwarded to the server's own endpoint.

A client gains a memory by changing its base URL and using a convmemory key. Requests and replies are forwarded
unchanged, up to the limits of a reply; a copy of the exchange is recorded afterwards. Errors have the format of the API
that the client speaks.
"""

import asyncio
import logging
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from convmemory import problems
from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_header
from convmemory.accounts.pages import SAFE_METHODS
from convmemory.accounts.quota import Reservation, estimated_tokens, reserve
from convmemory.chat.agents import DEFAULT_REPLY_TOKENS, HOW_TO_SET_UP
from convmemory.chat.capture import Origin, ReplyReader, read_exchange, record_exchange
from convmemory.chat.clients import http_client
from convmemory.chat.deltas import usage_of_body
from convmemory.chat.generation import BROKE_OFF, settle_quietly
from convmemory.chat.wires import CHAT, MESSAGES, RESPONSES, Wire
from convmemory.conversations.messages.parts import part_text
from convmemory.core import acting
from convmemory.core.endpoints.completions import (
    Endpoint,
    FailureKind,
    endpoint_from_settings,
    explain_status,
    failure_kind,
)
from convmemory.core.errors import EndpointMisconfigured, NotFound, QuotaUsedUp, ReadOnlyKey, ResponseRefused
from convmemory.core.threads import in_thread

if TYPE_CHECKING:
    import httpx2

FORWARDED = ("content-type", "accept", "user-agent", "openai-beta", "anthropic-version", "anthropic-beta")
RETURNED = ("content-type", "retry-after", "x-request-id", "request-id", "openai-processing-ms")
EVENTS = "text/event-stream"
PROJECT_HEADER, AGENT_HEADER = "X-Convmemory-Project", "X-Convmemory-Agent"
# Names that coding agents give in User-Agent, and the names under which their sessions are imported.
AGENT_OF_CLIENT = {
    "claude-cli": "claude-code",
    "codex_cli_rs": "codex",
    "codex_exec": "codex",
}
# The limit of a reply that is not streamed.
MAX_ANSWER_BYTES = 16 * 1024**2
WENT_SILENT = "{where} went silent before the reply was complete."
CLIENT_LEFT = "The connection to the client ended before the reply was complete."


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the proxy; exchanges in the format `wire` are recorded, everything else is only passed on.

    `parameters` are those of the query that the endpoint is sent, because its API documents them.
    """

    method: str
    path: str
    wire: Wire | None = None
    parameters: tuple[str, ...] = ()


ROUTES = (
    Route("POST", CHAT.path, CHAT),
    Route("POST", RESPONSES.path, RESPONSES),
    Route("POST", MESSAGES.path, MESSAGES, ("beta",)),
    Route("POST", "messages/count_tokens", parameters=("beta",)),
    Route("POST", "embeddings"),
    Route("GET", "models", parameters=("limit", "after_id", "before_id")),
    Route("GET", "models/{id}"),
)
_MODEL = re.compile(
    r"models/(?!\.)[\w.:@ -]{1,100}+(?:/(?!\.)[\w.:@ -]{1,100}+){0,4}"
)  # of hubs with owner and variant
SERVED = ", ".join(f"{route.method} /v1/{route.path}" for route in ROUTES)

logger = logging.getLogger(__name__)
_recordings: set["asyncio.Task[None]"] = set()
_last_of_archive: dict[int, "asyncio.Task[None]"] = {}


@csrf_exempt
async def proxy(request: HttpRequest, path: str) -> HttpResponseBase:
    """Forward the request, and record its conversation for the key's owner."""
    method = "GET" if request.method == "HEAD" else request.method
    pattern = "models/{id}" if _MODEL.fullmatch(path) else path
    route = next((route for route in ROUTES if (route.method, route.path) == (method, pattern)), None)
    speaks_anthropic = path.split("/", maxsplit=1)[0] == MESSAGES.path or "Anthropic-Version" in request.headers
    wire = MESSAGES if speaks_anthropic else (route and route.wire) or CHAT
    if route is None:
        text = f"The capture proxy has no {request.method} /v1/{path[:100]}: it serves {SERVED}."
        return _error(wire, HTTPStatus.NOT_FOUND, text)
    writes = request.method not in SAFE_METHODS
    try:
        caller = await in_thread(caller_of_header, request.headers.get("Authorization", ""), writes=writes)
    except ReadOnlyKey as error:
        return _error(wire, HTTPStatus.FORBIDDEN, f"The proxy takes keys that may write. {error}")
    if caller is None:
        text = "Incorrect API key: send a key that was made on the page API keys."
        return _error(wire, HTTPStatus.UNAUTHORIZED, text)
    acting.authenticated(caller.archive_id)
    endpoint = endpoint_from_settings()
    if endpoint is None:
        return _error(wire, HTTPStatus.SERVICE_UNAVAILABLE, HOW_TO_SET_UP)
    return await _or_error(request, caller, endpoint, replace(route, path=path), wire)


async def finish_recordings() -> None:
    """Wait for running recordings, because the process ends."""
    await asyncio.gather(*_recordings, return_exceptions=True)


async def _or_error(
    request: HttpRequest, caller: Caller, endpoint: Endpoint, route: Route, wire: Wire
) -> HttpResponseBase:
    import httpx2

    try:
        return await _forward(request, caller, endpoint, route)
    except QuotaUsedUp as error:
        # The same answer as OpenAI's, so that clients wait or give up instead of retrying at once.
        response = _error(wire, HTTPStatus.TOO_MANY_REQUESTS, str(error), kind="insufficient_quota")
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        return response
    except httpx2.TimeoutException:
        return _error(wire, HTTPStatus.GATEWAY_TIMEOUT, f"{endpoint.where} gave no answer in time.")
    except httpx2.HTTPError as error:
        logger.warning("The proxy cannot reach its endpoint: %r", error)
        text = f"{endpoint.where} cannot be reached: check {endpoint.names.base_url}."
        return _error(wire, HTTPStatus.BAD_GATEWAY, text)
    except Exception as error:
        refusal = problems.refusal_of(error)
        if refusal is None:
            raise
        return _error(wire, refusal.status, refusal.detail)


def _error(wire: Wire, status: HTTPStatus, message: str, *, kind: str = "") -> JsonResponse:
    return JsonResponse(wire.error(status, message, kind), status=status)


async def _forward(request: HttpRequest, caller: Caller, endpoint: Endpoint, route: Route) -> HttpResponseBase:
    if route.method == "GET":
        upstream = await _send(request, endpoint, route, b"")
        return _passed_on(upstream, await _read(upstream, endpoint))
    asked = request.body
    tokens = estimated_tokens(asked) + (DEFAULT_REPLY_TOKENS if route.wire else 0)
    reservation = await in_thread(reserve, archive_id=caller.archive_id, person_id=caller.person_id, tokens=tokens)
    try:
        upstream = await _send(request, endpoint, route, asked)
        if upstream.status_code != HTTPStatus.OK or route.wire is None:
            body = await _read(upstream, endpoint)
    except BaseException:
        await settle_quietly(reservation, tokens=0)
        raise
    if upstream.status_code != HTTPStatus.OK:
        await settle_quietly(reservation, tokens=0)
        return _passed_on(upstream, body)
    if route.wire is None:
        is_count = route.path.endswith("count_tokens")
        await settle_quietly(reservation, tokens=0 if is_count else usage_of_body(body) or estimated_tokens(asked))
        return _passed_on(upstream, body)
    # The client's name: what it says itself, or the first name in User-Agent.
    client = request.headers.get("User-Agent", "")[:200].split(" ")[0].partition("/")[0]
    agent = request.headers.get(AGENT_HEADER) or AGENT_OF_CLIENT.get(client.lower(), client)
    origin = Origin(route.wire, timezone.now(), agent=agent, project=request.headers.get(PROJECT_HEADER, ""))
    exchange = Exchange(caller, origin, asked, reservation, ReplyReader(route.wire))
    if upstream.headers.get("content-type", "").startswith(EVENTS):
        return _passed_on(upstream, _recorded(upstream, endpoint, exchange))
    cut_by = BROKE_OFF.format(where=endpoint.where)
    try:
        body = await _read(upstream, endpoint)
        cut_by = ""
        exchange.reply.add(body)
    finally:
        _record_later(exchange, cut_by=cut_by)
    return _passed_on(upstream, body)


async def _send(request: HttpRequest, endpoint: Endpoint, route: Route, body: bytes) -> "httpx2.Response":
    """Send the request; return the endpoint's response with its body unread.

    Raises: EndpointMisconfigured for a status that is this server's fault: its client cannot correct the key, and must
    not read the endpoint's message about it; ResponseRefused; and whatever the HTTP client raises.
    """
    headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
        if route.path.split("/")[0] == MESSAGES.path:
            headers["X-Api-Key"] = endpoint.api_key
    client = http_client(timeout_s=endpoint.timeout_s)
    query = urlencode({name: request.GET[name] for name in route.parameters if name in request.GET})
    address = f"{endpoint.base_url.rstrip('/')}/{quote(route.path)}{query and f'?{query}'}"
    made = client.build_request(route.method, address, content=body, headers=headers)
    upstream = await client.send(made, stream=True)
    status = upstream.status_code
    if status != HTTPStatus.OK and failure_kind(status) is FailureKind.OURS:
        await upstream.aclose()
        text = explain_status(status, message="", where=endpoint.where, names=endpoint.names)
        logger.warning("The proxy cannot use its endpoint: %s", text)
        raise NotFound(text) if status == HTTPStatus.NOT_FOUND else EndpointMisconfigured(text)
    return upstream


async def _read(upstream: "httpx2.Response", endpoint: Endpoint) -> bytes:
    """Return the body, without the key in an error that quotes it. Raises: ResponseRefused if it is too large."""
    received = bytearray()
    async with aclosing(_body(upstream)) as pieces:
        async for piece in pieces:
            received += piece
            if len(received) > MAX_ANSWER_BYTES:
                raise ResponseRefused(
                    f"{endpoint.where} answers with more than {MAX_ANSWER_BYTES // 1024**2} MB, which this server does "
                    "not pass on: ask for a stream, or for less."
                )
    key = endpoint.api_key.encode()
    is_error = upstream.status_code != HTTPStatus.OK
    return bytes(received.replace(key, b"***") if key and is_error else received)


def _passed_on(upstream: "httpx2.Response", body: AsyncIterator[bytes] | bytes) -> HttpResponseBase:
    headers = {name: upstream.headers[name] for name in RETURNED if name in upstream.headers}
    status = upstream.status_code
    response = (HttpResponse if isinstance(body, bytes) else StreamingHttpResponse)(
        body, status=status, headers=headers
    )
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _body(upstream: "httpx2.Response") -> AsyncGenerator[bytes, None]:
    try:
        async for piece in upstream.aiter_raw():
            yield piece
    finally:
        await upstream.aclose()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that is being answered: its owner, origin and body, its reservation of the quota, and its reply."""

    caller: Caller
    origin: Origin
    asked: bytes
    reservation: Reservation
    reply: ReplyReader


async def _recorded(upstream: "httpx2.Response", endpoint: Endpoint, exchange: Exchange) -> AsyncIterator[bytes]:
    """Yield the events as they arrive, up to the limits of a reply; then record the reply."""
    import httpx2

    # A generator that ends early without an error of the endpoint was closed by the client.
    cut_by = CLIENT_LEFT
    try:
        async with aclosing(_body(upstream)) as pieces:
            async for piece in pieces:
                if note := exchange.reply.feed(piece):
                    yield _ended_with(exchange.origin.wire, note, piece)
                    break
                yield piece
        cut_by = BROKE_OFF  # counts only if the reply had no end
    except httpx2.TimeoutException:
        cut_by = WENT_SILENT
        raise
    except httpx2.HTTPError:
        cut_by = BROKE_OFF
        raise
    finally:
        _record_later(exchange, cut_by=cut_by.format(where=endpoint.where))


def _ended_with(wire: Wire, note: str, piece: bytes) -> bytes:
    """Return the whole events of the last piece, and the note as an error that clients of the API raise.

    Nothing in the middle of an event, which a client cannot read before its end.
    """
    ends = [at + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if (at := piece.rfind(blank)) >= 0]
    return piece[: max(ends)] + wire.error_event(note) if ends else b""


def _record_later(exchange: Exchange, *, cut_by: str) -> None:
    """Record the exchange after the earlier ones of its owner, so that a follow-up finds what it continues."""
    archive_id = exchange.caller.archive_id
    task = asyncio.create_task(_record(exchange, cut_by, after=_last_of_archive.get(archive_id)))
    _recordings.add(task)
    _last_of_archive[archive_id] = task

    def forget(done: "asyncio.Task[None]") -> None:
        _recordings.discard(done)
        if _last_of_archive.get(archive_id) is done:
            del _last_of_archive[archive_id]

    task.add_done_callback(forget)


async def _record(exchange: Exchange, cut_by: str, after: "asyncio.Task[None] | None") -> None:
    if after is not None:
        await asyncio.wait([after])
    tokens = estimated_tokens(exchange.asked)
    try:
        captured = await asyncio.to_thread(
            lambda: read_exchange(exchange.origin, exchange.asked, exchange.reply.received(), cut_by=cut_by)
        )
        if captured is None:
            logger.warning("A request that passed the proxy is not recorded: it has no message that can be read")
        else:
            spoken = captured.reply.parts if captured.reply else ()
            tokens = captured.total_tokens or tokens + estimated_tokens(*map(part_text, spoken))
            await in_thread(record_exchange, caller=exchange.caller, captured=captured)
    except Exception:  # the boundary of recording, which must never break a reply
        logger.exception("An exchange that passed the proxy could not be recorded")
    await settle_quietly(exchange.reservation, tokens=tokens)
