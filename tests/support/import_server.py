"""A server that takes uploads as the import route does, and can be busy, refuse, or die."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


@dataclass
class ImportServer:
    """`uploads` are the archives that were taken, in order. `answer` gives a status for the n-th request.

    `spaces` are those that the key reads, and `queries` what the uploads were sent with.
    """

    address: str = ""
    uploads: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    requests: int = 0
    spaces: list[dict[str, object]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    answer: Callable[[int, bytes], int] = lambda number, body: 202


@contextmanager
def import_server() -> Iterator[ImportServer]:
    """The server, for as long as the test needs it."""
    state = ImportServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            archive = body.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
            status = state.answer(state.requests, archive)
            state.requests += 1
            if not status:
                self.connection.close()  # it dies without a word
                return
            if status < 300:
                state.uploads.append(archive)
                state.keys.append(self.headers["Authorization"])
                state.queries.append(self.path.partition("?")[2])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"detail": "said the server"}')

        def do_GET(self) -> None:
            results: list[dict[str, object]] = state.spaces
            if self.path != "/api/v1/spaces":
                query = dict(parse_qsl(urlsplit(self.path).query))
                state.asked.append(query["digest"])
                archives = zip(state.uploads, state.queries, strict=True)
                known = any(
                    hashlib.sha256(upload).hexdigest() == query["digest"]
                    and dict(parse_qsl(sent)).get("space") == query.get("space")
                    for upload, sent in archives
                )
                results = [{"state": "done"}] if known else []
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"results": results}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
