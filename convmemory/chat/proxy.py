"""The capture proxy: OpenAI's `/v1/chat/completions` and `/v1/models`, forwarded to the server's own endpoint.

A client gains a memory by changing its base URL and using a convmemory key. Requests and replies are forwarded
unchanged, up to the limits of a reply; a copy of the exchange is recorded afterwards. Errors have OpenAI's format.
"""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from convmemory import problems
from convmemory.accounts.authentication import SAFE_METHODS
from convmemory.accounts.keys import caller_of_header
from convmemory.accounts.quota import Reservation, estimated_tokens, reserve
from convmemory.chat.agents import DEFAULT_REPLY_TOKENS, HOW_TO_SET_UP
from convmemory.chat.capture import ReceivedReply, StreamedReply, read_exchange, record_exchange, whole_reply
from convmemory.chat.clients import http_client
from convmemory.chat.generation import BROKE_OFF, settle_quietly
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

FORWARDED = ("content-type", "accept", "user-agent", "openai-beta")
RETURNED = ("content-type", "retry-after", "x-request-id", "openai-processing-ms")
EVENTS = "text/event-stream"
# The limit of a reply that is not streamed.
MAX_ANSWER_BYTES = 16 * 1024**2
WENT_SILENT = "{where} went silent before the reply was complete."
CLIENT_LEFT = "The connection to the client ended before the reply was complete."

logger = logging.getLogger(__name__)
_recordings: set["asyncio.Task[None]"] = set()

Handler = Callable[[HttpRequest, User, Endpoint], Awaitable[HttpResponseBase]]


@csrf_exempt
@require_POST
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """Forward the request, and record its conversation for the key's owner."""
    return await _answer(request, _forward_chat)


@csrf_exempt
@require_safe
async def models(request: HttpRequest) -> HttpResponseBase:
    """Forward the request for the list of models."""
    return await _answer(request, _forward_models)


async def finish_recordings() -> None:
    """Wait for running recordings, because the process ends."""
    await asyncio.gather(*_recordings, return_exceptions=True)


async def _answer(request: HttpRequest, handler: Handler) -> HttpResponseBase:
    writes = request.method not in SAFE_METHODS
    try:
        caller = await in_thread(caller_of_header, request.headers.get("Authorization", ""), writes=writes)
    except ReadOnlyKey as error:
        return _error(HTTPStatus.FORBIDDEN, f"What passes the proxy is recorded. {error}")
    if caller is None:
        return _error(HTTPStatus.UNAUTHORIZED, "Incorrect API key: send a key that was made on the page API keys.")
    acting.authenticated(caller.pk)
    endpoint = endpoint_from_settings()
    if endpoint is None:
        return _error(HTTPStatus.SERVICE_UNAVAILABLE, HOW_TO_SET_UP)
    return await _or_error(handler(request, caller, endpoint), endpoint)


async def _or_error(answering: Awaitable[HttpResponseBase], endpoint: Endpoint) -> HttpResponseBase:
    import httpx2

    try:
        return await answering
    except QuotaUsedUp as error:
        # The same answer as OpenAI's, so that clients wait or give up instead of retrying at once.
        response = _error(HTTPStatus.TOO_MANY_REQUESTS, str(error), kind="insufficient_quota")
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        return response
    except httpx2.TimeoutException:
        return _error(HTTPStatus.GATEWAY_TIMEOUT, f"{endpoint.where} gave no answer in time.", kind="api_error")
    except httpx2.HTTPError as error:
        logger.warning("The proxy cannot reach its endpoint: %r", error)
        said = f"{endpoint.where} cannot be reached: check {endpoint.names.base_url}."
        return _error(HTTPStatus.BAD_GATEWAY, said, kind="api_error")
    except Exception as error:
        told = problems.told(error)
        if told is None:
            raise
        return _error(told.status, told.detail, kind="api_error" if told.status >= 500 else "invalid_request_error")


def _error(status: HTTPStatus, message: str, *, kind: str = "invalid_request_error") -> JsonResponse:
    return JsonResponse({"error": _error_values(message, kind)}, status=status)


def _error_values(message: str, kind: str) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": None, "code": None}


# --- forwarding -----------------------------------------------------------------------------------


async def _forward_models(request: HttpRequest, caller: User, endpoint: Endpoint) -> HttpResponseBase:
    upstream = await _send(request, endpoint, "GET", "/models", b"")
    return _passed_on(upstream, await _read(upstream, endpoint))


async def _forward_chat(request: HttpRequest, caller: User, endpoint: Endpoint) -> HttpResponseBase:
    asked = request.body
    tokens = estimated_tokens(asked) + DEFAULT_REPLY_TOKENS
    exchange = Exchange(caller, asked, await in_thread(reserve, owner_id=caller.pk, tokens=tokens))
    try:
        upstream = await _send(request, endpoint, "POST", "/chat/completions", asked)
    except BaseException:
        await settle_quietly(exchange.reservation, tokens=0)
        raise
    if upstream.status_code != HTTPStatus.OK:
        await settle_quietly(exchange.reservation, tokens=0)
        return _passed_on(upstream, await _read(upstream, endpoint))
    if upstream.headers.get("content-type", "").startswith(EVENTS):
        return _passed_on(upstream, _recorded(upstream, endpoint, exchange))
    body = b""
    try:
        body = await _read(upstream, endpoint)
    finally:
        _record_later(exchange, partial(whole_reply, body) if body else lambda: None)
    return _passed_on(upstream, body)


async def _send(request: HttpRequest, endpoint: Endpoint, method: str, path: str, body: bytes) -> "httpx2.Response":
    """Send the request; return the endpoint's response with its body unread.

    Raises: EndpointMisconfigured for a status that is this server's fault: its client cannot correct the key, and must
    not read the endpoint's message about it; ResponseRefused; and whatever the HTTP client raises.
    """
    headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
    headers |= {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    client = http_client(timeout_s=endpoint.timeout_s)
    made = client.build_request(method, endpoint.base_url.rstrip("/") + path, content=body, headers=headers)
    upstream = await client.send(made, stream=True)
    status = upstream.status_code
    if status != HTTPStatus.OK and failure_kind(status) is FailureKind.OURS:
        await upstream.aclose()
        said = explain_status(status, said="", where=endpoint.where, names=endpoint.names)
        logger.warning("The proxy cannot use its endpoint: %s", said)
        raise NotFound(said) if status == HTTPStatus.NOT_FOUND else EndpointMisconfigured(said)
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
    """A request that is being answered: its owner, its body, and its reservation of the quota."""

    caller: User
    asked: bytes
    reservation: Reservation


async def _recorded(upstream: "httpx2.Response", endpoint: Endpoint, exchange: Exchange) -> AsyncIterator[bytes]:
    """Yield the events as they arrive, up to the limits of a reply; then record the reply."""
    import httpx2

    reply = StreamedReply()
    # A generator that ends early without an error of the endpoint was closed by the client.
    cut_by = CLIENT_LEFT
    try:
        async with aclosing(_body(upstream)) as pieces:
            async for piece in pieces:
                if note := reply.feed(piece):
                    yield _ended_with(note, piece)
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
        _record_later(exchange, reply.received, cut_by=cut_by.format(where=endpoint.where))


def _ended_with(note: str, piece: bytes) -> bytes:
    """Return the whole events of the last piece, and the note as an error that clients of OpenAI's API raise.

    Nothing in the middle of an event, which a client cannot read before its end.
    """
    ends = [at + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if (at := piece.rfind(blank)) >= 0]
    if not ends:
        return b""
    said = json.dumps({"error": _error_values(note, "api_error")}).encode()
    return piece[: max(ends)] + b"data: " + said + b"\n\n"


def _record_later(exchange: Exchange, read: Callable[[], ReceivedReply | None], *, cut_by: str = "") -> None:
    task = asyncio.create_task(_record(exchange, read, cut_by))
    _recordings.add(task)
    task.add_done_callback(_recordings.discard)


async def _record(exchange: Exchange, read: Callable[[], ReceivedReply | None], cut_by: str) -> None:
    tokens = estimated_tokens(exchange.asked)
    try:
        captured = await asyncio.to_thread(lambda: read_exchange(exchange.asked, read(), cut_by=cut_by))
        if captured is not None:
            tokens = captured.total_tokens or tokens + estimated_tokens(*map(part_text, captured.reply.parts))
            await in_thread(record_exchange, owner=exchange.caller, captured=captured)
    except Exception:  # the boundary of recording, which must never break a reply
        logger.exception("An exchange that passed the proxy could not be recorded")
    await settle_quietly(exchange.reservation, tokens=tokens)
