"""A real HTTP server with a `/rerank` route in both shapes, and the faults that tests ask for."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Scores = Callable[[list[str]], list[float]]
DRIP_S = 0.05
DRIPS = 1_200  # a minute of them: no caller may wait so long


def backwards(documents: list[str]) -> list[float]:
    """The last document is the best."""
    return [float(index) for index in range(len(documents))]


@dataclass
class RerankServer:
    """The server's behaviour; tests change it while it runs. `requests` are the JSON bodies it was sent.

    `body` and `status` replace the answer; `delay_s` comes before it; `drips` names what is sent byte by byte.
    """

    url: str = ""
    key: str = "very-secret-key"
    scores: Scores = backwards
    status: int = 200
    body: bytes | None = None
    delay_s: float = 0.0
    drips: str = ""
    cuts: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, asked: dict[str, Any], authorization: str) -> tuple[int, bytes]:
        self.requests.append(asked)
        if authorization != f"Bearer {self.key}":
            return 401, f"Incorrect key: {authorization}".encode()
        if self.body is not None or self.status != 200:
            return self.status, self.body or f"{authorization} may not ask: {asked}".encode()
        if "texts" in asked:
            rows = [{"index": at, "score": score} for at, score in enumerate(self.scores(asked["texts"]))]
            return 200, json.dumps(sorted(rows, key=lambda row: -row["score"])).encode()
        scores = self.scores(asked["documents"])
        results = [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]
        return 200, json.dumps({"id": "1", "results": results[: asked["top_n"]], "meta": {}}).encode()


@contextmanager
def running_reranker(**behaviour: Any) -> Iterator[RerankServer]:
    """A `RerankServer` on a free port of 127.0.0.1 for the time of the block."""
    reranker = RerankServer(**behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(reranker))
    server.daemon_threads = True
    server.block_on_close = False
    reranker.url = f"http://127.0.0.1:{server.server_address[1]}/v1/rerank"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield reranker
    finally:
        reranker.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(reranker: RerankServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/rerank":
                return self._send(404, b"Not found")
            status, body = reranker.answer(asked, self.headers.get("Authorization", ""))
            reranker.released.wait(reranker.delay_s)
            return self._send(status, body)

        def _send(self, status: int, body: bytes) -> None:
            headers = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            self.close_connection = reranker.cuts or status != 200
            with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up, which some tests are about
                if reranker.drips == "headers":
                    self._drip(headers.encode() + b"X-Slow: ")
                if reranker.drips == "body":
                    self.wfile.write(f"{headers}\r\n".encode())
                    self._drip(body)
                said = body[: len(body) // 2] if reranker.cuts else body
                self.wfile.write(f"{headers}\r\n".encode() + said)

        def _drip(self, data: bytes) -> None:
            for number in range(DRIPS):
                if reranker.released.is_set():
                    return
                self.wfile.write(data[number : number + 1] or b"x")
                self.wfile.flush()
                time.sleep(DRIP_S)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
