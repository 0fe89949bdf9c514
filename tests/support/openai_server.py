"""A real HTTP server with OpenAI's embeddings and whole chat completions, and the faults that tests ask for."""

import base64
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Fault:
    """The failure that the next request gets instead of an answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


NOT_FOUND = Fault(status=404, body={"error": {"message": "Not found"}})


def _echo(body: dict[str, Any]) -> str:
    return f"You said: {body['messages'][-1]['content']}"


@dataclass
class FakeEndpoint:
    """The server's behaviour; tests change it while it runs. `requests` are the JSON bodies it was sent."""

    url: str = ""
    key: str = "secret"
    native_dimensions: int = 8
    can_shorten: bool = False
    refused_words: tuple[str, ...] = ()
    max_characters: int = 10_000
    max_texts: int = 2_048
    drops_texts: bool = False
    takes_base64: bool = True
    takes_nothing: bool = False
    reply: Callable[[dict[str, Any]], str] = _echo
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    offers_batches: bool = False
    looks_until_done: int = 1
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self, path: str) -> Fault:
        """A file, a batch, or all batches."""
        kind, _, name = path.partition("/")
        if not self.offers_batches:
            return NOT_FOUND
        if kind == "files":
            return Fault(body=self.files[name.removesuffix("/content")])
        if name:
            return self.look_at_batch(name)
        return Fault(body={"object": "list", "data": list(self.batches.values()), "has_more": False})

    def keep_file(self, upload: bytes) -> Fault:
        """An uploaded file, of which only the lines of JSON are kept."""
        if not self.offers_batches:
            return NOT_FOUND
        lines = [line for line in upload.splitlines() if line.startswith(b"{")]
        name = f"file-{len(self.files)}"
        self.files[name] = b"\n".join(lines)
        return Fault(body={"id": name, "object": "file", "bytes": len(upload), "created_at": 1, "purpose": "batch"})

    def begin_batch(self, body: dict[str, Any]) -> Fault:
        number = f"batch-{len(self.batches)}"
        self.batches[number] = {
            "id": number, "object": "batch", "status": "in_progress", "looks": 0, "created_at": 1, **body,
        }  # fmt: skip
        return Fault(body=self.batches[number])

    def look_at_batch(self, number: str) -> Fault:
        """One look further; at the last one it is done, without the texts that are refused."""
        batch = self.batches[number]
        batch["looks"] += 1
        if batch["looks"] >= self.looks_until_done and batch["status"] == "in_progress":
            batch |= {"status": "completed", "output_file_id": f"{number}-output"}
            self.files[f"{number}-output"] = b"\n".join(self._results(self.files[batch["input_file_id"]]))
        return Fault(body=batch)

    def _results(self, lines: bytes) -> Iterator[bytes]:
        for request in map(json.loads, lines.splitlines()):
            text, dimensions = request["body"]["input"], request["body"].get("dimensions", self.native_dimensions)
            if any(word in text for word in self.refused_words):
                yield json.dumps({"custom_id": request["custom_id"], "response": None, "error": {}}).encode()
                continue
            body = {"data": [{"index": 0, "embedding": vector_of(text, dimensions).tolist()}]}
            response = {"status_code": 200, "body": body}
            yield json.dumps({"custom_id": request["custom_id"], "response": response}).encode()

    def chat(self, body: dict[str, Any], authorization: str) -> Fault:
        self.requests.append(body)
        if self.faults and (fault := self.faults.popleft()):
            return fault
        if authorization != f"Bearer {self.key}":
            return _problem(401, f"Incorrect API key provided: {authorization}")
        message = {"role": "assistant", "content": self.reply(body)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return Fault(body=completion | {"choices": [choice], "usage": usage})

    def answer(self, body: dict[str, Any], authorization: str) -> Fault:
        self.requests.append(body)
        if self.faults and (fault := self.faults.popleft()).status != 200:
            return fault
        if authorization != f"Bearer {self.key}":
            return _problem(401, f"Incorrect API key provided: {authorization}")
        if "dimensions" in body and not self.can_shorten:
            return _problem(400, "This model does not take dimensions.", param="dimensions")
        if body.get("encoding_format") == "base64" and not self.takes_base64:
            return _problem(400, "Unsupported value: 'encoding_format'.", param="encoding_format")
        if len(body["input"]) > self.max_texts and not self.drops_texts:
            return _problem(422, f"batch size {len(body['input'])} > maximum allowed batch size {self.max_texts}")
        if self.takes_nothing or any(word in text for text in body["input"] for word in self.refused_words):
            return _problem(400, "Invalid input.", param="input")
        if any(len(text) > self.max_characters for text in body["input"]):
            return _problem(400, "This model's maximum context length is exceeded.")
        return Fault(body=self._vectors(body))

    def _vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        dimensions = body.get("dimensions", self.native_dimensions)
        data = [
            {"object": "embedding", "index": index, "embedding": _written(vector_of(text, dimensions), body)}
            for index, text in enumerate(body["input"][: self.max_texts])
        ]
        data.reverse()  # order is told by `index` alone
        return {
            "object": "list",
            "model": body["model"],
            "data": data,
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }


def vector_of(text: str, dimensions: int) -> NDArray[np.float32]:
    """The vector that the server gives for a text, not of unit length."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(0, 3, dimensions).astype(np.float32)


@contextmanager
def running_endpoint(**behaviour: Any) -> Iterator[FakeEndpoint]:
    """A `FakeEndpoint` on a free port of 127.0.0.1 for the time of the block."""
    endpoint = FakeEndpoint(**behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(endpoint))
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(endpoint: FakeEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(endpoint.read(self.path.removeprefix("/v1/").partition("?")[0]))

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/files":
                return self._send(endpoint.keep_file(sent))
            body = json.loads(sent)
            if self.path == "/v1/batches":
                return self._send(endpoint.begin_batch(body))
            routes = {"/v1/embeddings": endpoint.answer, "/v1/chat/completions": endpoint.chat}
            if self.path not in routes:
                return self._send(NOT_FOUND)
            if endpoint.faults and endpoint.faults[0].delay_s:
                time.sleep(endpoint.faults.popleft().delay_s)
            return self._send(routes[self.path](body, self.headers.get("Authorization", "")))

        def _send(self, fault: Fault) -> None:
            payload = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
            kind = "text/html" if isinstance(fault.body, bytes) else "application/json"
            try:
                self.send_response(fault.status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(payload)), **fault.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client gave up waiting, which is what some tests are about

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _problem(status: int, message: str, *, param: str | None = None) -> Fault:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return Fault(status=status, body={"error": error})


def _written(vector: NDArray[np.float32], body: dict[str, Any]) -> Any:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(vector.tobytes()).decode()
    return vector.tolist()
