"""A real HTTP server with what a model hub tells of one model, its files, and the faults that tests ask for."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "a" * 40
MODEL = "acme/tiny"
LARGE = "model.safetensors"


@dataclass
class FakeHub:
    """The hub's behaviour; tests change it while it runs. `ranges` are the ranges that were asked for."""

    folder: Path
    url: str = ""
    name: str = MODEL
    lost_connections: int = 0
    digest: str = ""
    ranges: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        files = [{"rfilename": path.relative_to(self.folder).as_posix(), "size": path.stat().st_size} for path in paths]
        for file, path in zip(files, paths, strict=True):
            if path.name == LARGE:
                digest = self.digest or hashlib.sha256(path.read_bytes()).hexdigest()
                file["lfs"] = {"sha256": digest, "size": file["size"], "pointerSize": 130}
        files.append({"rfilename": "README.md", "size": 5})
        return {"id": MODEL, "sha": COMMIT, "cardData": {"license": "mit"}, "tags": [], "siblings": files}


@contextmanager
def running_hub(folder: Path) -> Iterator[FakeHub]:
    """A `FakeHub` of the model in `folder` on a free port of 127.0.0.1 for the time of the block."""
    hub = FakeHub(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            place = self.path.partition("?")[0]
            if place == f"/api/models/{MODEL}":
                return self._send(200, json.dumps(hub.describe()).encode(), {"Content-Type": "application/json"})
            prefix = f"/{MODEL}/resolve/{COMMIT}/"
            if not place.startswith(prefix):
                return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return self._send_file((hub.folder / place.removeprefix(prefix)).read_bytes())

        def _send_file(self, content: bytes) -> None:
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
            wanted = self.headers.get("Range", "")
            if wanted:
                hub.ranges.append(wanted)
                start = int(wanted.removeprefix("bytes=").partition("-")[0])
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                return self._send(206, content[start:], headers)
            if hub.lost_connections and self.command == "GET" and len(content) > 10_000:
                hub.lost_connections -= 1
                return self._send(200, content[:5_000], headers | {"Content-Length": str(len(content))})
            return self._send(200, content, headers)

        def _send(self, status: int, payload: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(payload))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
