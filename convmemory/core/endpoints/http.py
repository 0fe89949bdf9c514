"""HTTP clients for the endpoints of models: chat, proxy, summaries, embeddings, rerank. No other module opens one.

They store no cookies, because one client sends the requests of many people, and follow no redirects, because an
endpoint must not choose what this server fetches. They limit the memory that a response can take: a body that is read
whole ends at `max_body_bytes` with ResponseRefused, the body of an error is cut, and a compressed body is refused,
because a few bytes of it can become gigabytes. Callers that stream a body limit it with `streams`.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from convmemory.core.errors import ResponseRefused
from convmemory.core.text import masked

MAX_BODY_BYTES = 32 * 1024**2  # 1,024 vectors of 3,072 numbers are 17 MB in base64
MAX_ERROR_BYTES = 64 * 1024


class EndpointClient(httpx2.Client):
    """A synchronous client with the limits described in the module.

    With `max_retry_after_s`, the `openai` client does not retry a response that asks for a longer wait.
    """

    def __init__(
        self, *, max_body_bytes: int = MAX_BODY_BYTES, max_retry_after_s: float | None = None, **options: Any
    ) -> None:
        super().__init__(**_defaults(), **options)
        self._max_body_bytes = max_body_bytes
        self._max_retry_after_s = max_retry_after_s

    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = super().send(request, stream=True, **options)
        wait_s = retry_after_s(response.headers)
        if self._max_retry_after_s is not None and wait_s is not None and wait_s > self._max_retry_after_s:
            response.headers["x-should-retry"] = "false"  # read by the `openai` client
        try:
            assert isinstance(response.stream, httpx2.SyncByteStream)
            if (limit := _limit(response, stream=stream, max_body_bytes=self._max_body_bytes)) is not None:
                response.stream = _BoundedStream(response.stream, limit, _refusal(response, limit))
            if not stream:
                response.read()
        except BaseException:
            response.close()
            raise
        return response


class AsyncEndpointClient(httpx2.AsyncClient):
    """An asynchronous client with the limits described in the module."""

    def __init__(self, *, max_body_bytes: int = MAX_BODY_BYTES, **options: Any) -> None:
        super().__init__(**_defaults(), **options)
        self._max_body_bytes = max_body_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **options)
        try:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            if (limit := _limit(response, stream=stream, max_body_bytes=self._max_body_bytes)) is not None:
                response.stream = _AsyncBoundedStream(response.stream, limit, _refusal(response, limit))
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


def _defaults() -> dict[str, Any]:
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return {"cookies": no_cookies, "follow_redirects": False, "headers": {"Accept-Encoding": "identity"}}


def _limit(response: httpx2.Response, *, stream: bool, max_body_bytes: int) -> int | None:
    """Return the number of body bytes that may be read; None without a limit.

    Raises: ResponseRefused if it is compressed.
    """
    is_compressed = response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity")
    if response.is_error:
        if is_compressed:
            del response.headers["Content-Encoding"]
        return 0 if is_compressed else MAX_ERROR_BYTES
    if is_compressed:
        raise ResponseRefused(
            f"The endpoint {_address(response)} compresses its answer, although it was asked not to: turn compression "
            "off there."
        )
    return None if stream else max_body_bytes


def _refusal(response: httpx2.Response, limit: int) -> ResponseRefused | None:
    """Return the error for a body over the limit; None for the body of an error, which is cut."""
    if response.is_error:
        return None
    size = f"{limit // 1024**2} MB"
    return ResponseRefused(
        f"The endpoint {_address(response)} answers with more than {size}, which this server does not read."
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`. Its other form, a date, is ignored: the clocks may differ."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _address(response: httpx2.Response) -> str:
    return masked(str(response.request.url))


class _BoundedStream(httpx2.SyncByteStream):
    """The first `limit` bytes of `inner`; at the next byte it raises `refusal`, or ends if there is none."""

    def __init__(self, inner: httpx2.SyncByteStream, limit: int, refusal: ResponseRefused | None) -> None:
        self._inner, self._limit, self._refusal = inner, limit, refusal

    def __iter__(self) -> Iterator[bytes]:
        left = self._limit
        for piece in self._inner:
            if len(piece) > left:
                if self._refusal:
                    raise self._refusal
                yield piece[:left]
                return
            left -= len(piece)
            yield piece

    def close(self) -> None:
        self._inner.close()


class _AsyncBoundedStream(httpx2.AsyncByteStream):
    """The asynchronous form of `_BoundedStream`."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, refusal: ResponseRefused | None) -> None:
        self._inner, self._limit, self._refusal = inner, limit, refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        async for piece in self._inner:
            if len(piece) > left:
                if self._refusal:
                    raise self._refusal
                yield piece[:left]
                return
            left -= len(piece)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
