"""The HTTP clients for endpoints: no cookies, bounded bodies, nothing compressed; and no other clients."""

import asyncio
import gzip
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from django.conf import settings as django_settings

from convmemory.chat.clients import client_for, close_clients, http_client
from convmemory.core.endpoints.completions import Endpoint, complete, make_client
from convmemory.core.endpoints.http import MAX_ERROR_BYTES, AsyncEndpointClient, EndpointClient
from convmemory.core.errors import ConvMemoryError, ResponseRefused
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.options import EmbeddingOptions
from search.ranking.reranking import RerankOptions, rerank


@dataclass
class Server:
    """Answers every request with `body`; `requests` are the headers of those."""

    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    recorded = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            recorded.requests.append({name.lower(): value for name, value in self.headers.items()})
            with suppress(OSError):  # the client closes the connection where it has read enough
                self.send_response(recorded.status)
                for name, value in {"Content-Type": "application/json", **recorded.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(recorded.body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield recorded
    http.shutdown()
    http.server_close()
    thread.join()


def endpoint_at(server: Server) -> Endpoint:
    return Endpoint(base_url=server.url, model="m", context_window=1_000, api_key="k", timeout_s=20, max_retries=0)


def ask_for_summary(server: Server) -> None:
    with make_client(endpoint_at(server)) as client:
        for _ in range(2):
            with suppress(ConvMemoryError):
                complete(client, endpoint_at(server), messages=[], max_tokens=5)


def ask_for_vectors(server: Server) -> None:
    tmp_path = Path("unused")
    options = EmbeddingOptions(
        provider="openai", model="m", base_url=server.url, api_key="k", dimensions=8, max_tokens=10, timeout_s=20,
        model_path=None, threads=0, cache_folder=tmp_path,
    )  # fmt: skip
    embedder = OpenAIEmbedder(options, max_retries=0)
    for _ in range(2):
        with suppress(ConvMemoryError):
            embedder.embed_query("hello")
    embedder.close()


def ask_for_order(server: Server) -> None:
    options = RerankOptions(url=server.url, api_key="k", model="m", shape="cohere", timeout_s=20, top_k=5)
    for _ in range(2):
        with suppress(ConvMemoryError):
            rerank(options, query="q", documents=["a"])


def ask_in_chat(server: Server) -> None:
    async def ask() -> None:
        for _ in range(2):
            await client_for(endpoint_at(server)).get("/models", cast_to=object)
        await close_clients()

    asyncio.run(ask())


def ask_through_proxy(server: Server) -> None:
    async def ask() -> None:
        for _ in range(2):
            await http_client(timeout_s=20).get(f"{server.url}/models")
        await close_clients()

    asyncio.run(ask())


ASKING = [ask_for_summary, ask_for_vectors, ask_for_order, ask_in_chat, ask_through_proxy]


@pytest.mark.parametrize("ask", ASKING, ids=lambda ask: ask.__name__)
def test_cookie_of_endpoint_is_not_sent_back(server: Server, ask: Callable[[Server], None]) -> None:
    server.headers = {"Set-Cookie": "session=of-another-person; Path=/"}
    ask(server)
    assert len(server.requests) >= 2  # vectors are asked for a second time, without base64
    assert not any("cookie" in headers for headers in server.requests)
    assert {headers["accept-encoding"] for headers in server.requests} == {"identity"}


def test_no_other_module_makes_http_clients() -> None:
    sources = [
        (str(file.relative_to(django_settings.BASE_DIR)), file.read_text())
        for folder in ("convmemory", "search", "summaries", "memory")
        for file in Path(django_settings.BASE_DIR / folder).rglob("*.py")
    ]
    assert [
        name for name, text in sources if re.search(r"httpx2\.(Async)?Client\(|Default(Async)?HttpxClient", text)
    ] == []
    of_openai = {name: text for name, text in sources if re.search(r"return (Async)?OpenAI\(", text)}
    assert len(of_openai) == 2
    assert all("http_client=" in text for text in of_openai.values())


def get(server: Server, *, stream: bool = False, max_body_bytes: int = 1024**2) -> httpx2.Response:
    with EndpointClient(max_body_bytes=max_body_bytes, timeout=20) as client:
        response = client.send(client.build_request("GET", server.url), stream=stream)
        response.read()
        return response


def get_async(server: Server, *, stream: bool = False, max_body_bytes: int = 1024**2) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        async with AsyncEndpointClient(max_body_bytes=max_body_bytes, timeout=20) as client:
            response = await client.send(client.build_request("GET", server.url), stream=stream)
            await response.aread()
            return response

    return asyncio.run(ask())


both = pytest.mark.parametrize("get", [get, get_async], ids=["sync", "async"])


@both
def test_body_over_limit_is_refused(server: Server, get: Callable[..., httpx2.Response]) -> None:
    server.body = b"x" * (2 * 1024**2)
    with pytest.raises(ResponseRefused, match="more than 1 MB"):
        get(server)
    server.body = b"x" * 1024**2
    assert get(server).content == server.body


@both
@pytest.mark.parametrize("stream", [True, False])
def test_compressed_body_is_refused_unread(server: Server, get: Callable[..., httpx2.Response], stream: bool) -> None:
    server.body = gzip.compress(bytes(50 * 1024**2))
    server.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(ResponseRefused, match="compresses"):
        get(server, stream=stream)


@both
@pytest.mark.parametrize("stream", [True, False])
def test_body_of_error_is_cut(server: Server, get: Callable[..., httpx2.Response], stream: bool) -> None:
    server.status, server.body = 500, b"x" * (2 * 1024**2)
    response = get(server, stream=stream)
    assert (response.status_code, len(response.content)) == (500, MAX_ERROR_BYTES)
    server.headers, server.body = {"Content-Encoding": "gzip"}, gzip.compress(bytes(50 * 1024**2))
    assert get(server, stream=stream).content == b""


@both
def test_redirect_is_not_followed(server: Server, get: Callable[..., httpx2.Response]) -> None:
    server.status, server.headers = 307, {"Location": server.url}
    assert get(server).status_code == 307
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"data": ' + b"[" * 200_000])
def test_deeply_nested_json_is_failure_of_endpoint(server: Server, body: bytes) -> None:
    server.body = body
    with make_client(endpoint_at(server)) as client, pytest.raises(ConvMemoryError, match="usually ends in /v1"):
        complete(client, endpoint_at(server), messages=[], max_tokens=5)
