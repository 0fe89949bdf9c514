"""The capture proxy: OpenAI's `/v1/chat/completions` and `/v1/models`, forwarded to the server's own endpoint.

Any client gains a memory by changing its base URL and using a convmemory key. Requests and replies are forwarded
unchanged; a copy of the exchange is recorded afterwards. Errors have OpenAI's format.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from convmemory.accounts.authentication import SAFE_METHODS
from convmemory.accounts.keys import caller_of_header
from convmemory.accounts.quota import Reservation, estimated_tokens, reserve
from convmemory.chat.agents import DEFAULT_REPLY_TOKENS, HOW_TO_SET_UP
from convmemory.chat.capture import Answer, read_exchange, record_exchange
from convmemory.chat.clients import http_client
from convmemory.chat.generation import BROKE_OFF
from convmemory.chat.metering import settle_quietly
from convmemory.conversations.parts import part_text
from convmemory.core import acting
from convmemory.core.completions import Endpoint, endpoint_from_settings
from convmemory.core.errors import QuotaUsedUp, ReadOnlyKey
from convmemory.core.threads import in_thread

if TYPE_CHECKING:
    import httpx2

FORWARDED = ("content-type", "accept", "user-agent", "openai-beta")
RETURNED = ("content-type", "content-length", "retry-after", "x-request-id", "openai-processing-ms")
EVENTS = "text/event-stream"
WENT_SILENT = "{where} went silent before the reply was complete."
CLIENT_LEFT = "The connection to the client ended before the reply was complete."

logger = logging.getLogger(__name__)
_recordings: set["asyncio.Task[None]"] = set()

Handler = Callable[[HttpRequest, User, Endpoint], Awaitable[HttpResponseBase]]


@csrf_exempt
@require_POST
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """Forward the request; its conversation is recorded for the key's owner."""
    return await _answer(request, _forward_chat)


@csrf_exempt
@require_safe
async def models(request: HttpRequest) -> HttpResponseBase:
    """The models of the endpoint."""
    return await _answer(request, _forward_models)


async def finish_recordings() -> None:
    """Wait for what is still being recorded, because the process ends."""
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
    try:
        return await handler(request, caller, endpoint)
    except QuotaUsedUp as error:
        # As OpenAI says it, so that clients wait or give up instead of asking at once again.
        response = _error(HTTPStatus.TOO_MANY_REQUESTS, str(error), kind="insufficient_quota")
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        return response
    except RequestDataTooBig:
        return _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is larger than MAX_REQUEST_MB.")


def _error(status: HTTPStatus, message: str, *, kind: str = "invalid_request_error") -> JsonResponse:
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JsonResponse({"error": error}, status=status)


# --- forwarding -----------------------------------------------------------------------------------


async def _forward_models(request: HttpRequest, caller: User, endpoint: Endpoint) -> HttpResponseBase:
    upstream = await _send(request, endpoint, "GET", "/models", b"")
    return upstream if isinstance(upstream, JsonResponse) else _passed_on(upstream, _body(upstream))


async def _forward_chat(request: HttpRequest, caller: User, endpoint: Endpoint) -> HttpResponseBase:
    asked = request.body
    tokens = estimated_tokens(asked) + DEFAULT_REPLY_TOKENS
    reservation = await in_thread(reserve, owner_id=caller.pk, tokens=tokens)
    upstream = await _send(request, endpoint, "POST", "/chat/completions", asked)
    if isinstance(upstream, JsonResponse) or upstream.status_code != HTTPStatus.OK:
        await settle_quietly(reservation, tokens=0)
        return upstream if isinstance(upstream, JsonResponse) else _passed_on(upstream, _body(upstream))
    return _passed_on(upstream, _recorded(upstream, endpoint, Exchange(caller, asked, reservation)))


async def _send(
    request: HttpRequest, endpoint: Endpoint, method: str, path: str, body: bytes
) -> "httpx2.Response | JsonResponse":
    """The endpoint's response with its body unread, or an error if there is none."""
    import httpx2

    headers = {name: request.headers[name] for name in FORWARDED if name in request.headers}
    headers |= {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    headers["Accept-Encoding"] = "identity"
    client = http_client(timeout_s=endpoint.timeout_s)
    made = client.build_request(method, endpoint.base_url.rstrip("/") + path, content=body, headers=headers)
    try:
        return await client.send(made, stream=True)
    except httpx2.TimeoutException:
        return _error(HTTPStatus.GATEWAY_TIMEOUT, f"{endpoint.where} gave no answer in time.")
    except httpx2.HTTPError as error:
        logger.warning("The proxy cannot reach its endpoint: %r", error)
        return _error(HTTPStatus.BAD_GATEWAY, f"{endpoint.where} cannot be reached: check CHAT_BASE_URL.")


def _passed_on(upstream: "httpx2.Response", body: AsyncIterator[bytes]) -> StreamingHttpResponse:
    headers = {name: upstream.headers[name] for name in RETURNED if name in upstream.headers}
    response = StreamingHttpResponse(body, status=upstream.status_code, headers=headers)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _body(upstream: "httpx2.Response") -> AsyncIterator[bytes]:
    try:
        async for piece in upstream.aiter_raw():
            yield piece
    finally:
        await upstream.aclose()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request being answered: its owner, its body, and its reservation of the quota."""

    caller: User
    asked: bytes
    reservation: Reservation


async def _recorded(upstream: "httpx2.Response", endpoint: Endpoint, exchange: Exchange) -> AsyncIterator[bytes]:
    """The body as it arrives; afterwards the reply is recorded, and if it broke off, why."""
    import httpx2

    is_stream = upstream.headers.get("content-type", "").startswith(EVENTS)
    received: list[bytes] = []
    cut_by = CLIENT_LEFT  # what ends this generator early without an error of the endpoint's
    try:
        async for piece in _body(upstream):
            received.append(piece)
            yield piece
        cut_by = BROKE_OFF  # counts only where the reply had no end
    except httpx2.TimeoutException:
        cut_by = WENT_SILENT
        raise
    except httpx2.HTTPError:
        cut_by = BROKE_OFF
        raise
    finally:
        answer = Answer(b"".join(received), is_stream=is_stream, cut_by=cut_by.format(where=endpoint.where))
        task = asyncio.create_task(_record(exchange, answer))
        _recordings.add(task)
        task.add_done_callback(_recordings.discard)


async def _record(exchange: Exchange, answer: Answer) -> None:
    tokens = estimated_tokens(exchange.asked)
    try:
        captured = await asyncio.to_thread(read_exchange, exchange.asked, answer)
        if captured is not None:
            tokens = captured.total_tokens or tokens + estimated_tokens(*map(part_text, captured.reply.parts))
            await in_thread(record_exchange, owner=exchange.caller, captured=captured)
    except Exception:  # the boundary of what must never break a reply
        logger.exception("An exchange that passed the proxy could not be recorded")
    await settle_quietly(exchange.reservation, tokens=tokens)
