"""Requests to the server, and sending archives to its `POST /api/v1/imports`, with pauses while it is busy."""

import hashlib
import http.client
import json
import ssl
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

CHUNK_BYTES = 256 * 1024
TIMEOUT_S = 120  # longer than `WAIT_S`, for which the server may delay its answer
WAIT_S = 60  # the longest that the server delays its response for the import's end
LONGEST_PAUSE_S = 60.0
BUSY = (429, 502, 503, 504)  # statuses after which the request is sent again
TAKEN_STATES = ("queued", "running", "done")  # states of an import


class PushError(Exception):
    """Nothing can be sent now; the message says what to do."""


class Offline(PushError):
    """The server does not answer: unsent files stay for the next run."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server's address, and a key that may write there."""

    address: str
    key: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PushError(f"{self.address!r} is no address of a server: give one like https://memory.example.org")


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome for an archive: accepted, refused for good, or postponed; and the reason."""

    taken: bool
    detail: str = ""
    outcome: str = "taken"


def space_to_write(server: Server, chosen: str) -> int:
    """Return the number of the space with this number or name, if the key may write to it.

    Raises: Offline, PushError that says why it may not.
    """
    status, body = request(server, "GET", "/api/v1/spaces")
    if status in BUSY:
        raise Offline(f"{server.address} is busy: {detail_of(body)}")
    if status != http.client.OK:
        raise PushError(f"{server.address} does not list the spaces of the key (status {status}): {detail_of(body)}")
    spaces = json.loads(body)["results"]
    name = " ".join(chosen.split()).casefold()
    named = [each for each in spaces if str(each["id"]) == name] or [
        each for each in spaces if each["name"].casefold() == name
    ]
    if not named:
        listed = ", ".join(f"{each['name']} ({each['id']})" for each in spaces) or "none"
        raise PushError(f"The key reads no space {chosen}. Of the spaces of its owner it reads: {listed}.")
    if len(named) > 1:
        numbers = ", ".join(str(each["id"]) for each in named)
        raise PushError(f"Several spaces are called {named[0]['name']}: name one by its number, {numbers}.")
    space = named[0]
    if space["role"] == "reader":
        raise PushError(f"You only read the space {space['name']}: ask one of its managers to make you a contributor.")
    if not space["writes"]:
        raise PushError(
            f"The key only reads the space {space['name']}: create one that also writes to spaces (Settings, API keys)."
        )
    return int(space["id"])


def send(archive: Path, *, server: Server, space: int | None = None) -> Answer:
    """Send one archive, repeatedly while the server is busy, until it has answered; to a space if one is given.

    An archive that the server already has, because the client was killed before it recorded that, is not sent again.

    Raises: Offline if it does not answer, PushError if the key is refused.
    """
    parameter = "" if space is None else f"&space={space}"
    # The client may have been killed after the server's answer and before recording it.
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status, body = request(server, "GET", f"/api/v1/imports?limit=1&digest={digest}{parameter}")
    if status != http.client.OK:
        is_there = False
    else:
        try:
            results = json.loads(body)["results"]
            is_there = bool(results) and results[0]["state"] in TAKEN_STATES
        except (ValueError, KeyError, TypeError):
            is_there = False
    if is_there:
        return Answer(taken=True)
    pause_s = 1.0
    while True:
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{archive.name}"\r\n'
            "Content-Type: application/zip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head) + archive.stat().st_size + len(tail)),
        }
        path = f"/api/v1/imports?wait={WAIT_S}{parameter}"
        status, body = request(server, "POST", path, _body(head, archive, tail), headers)
        if status in (200, 202):
            return Answer(taken=True)
        if status in (401, 403):
            raise PushError(f"The server refuses the key: {detail_of(body)}")
        if space is not None and status == http.client.NOT_FOUND:
            raise PushError(f"The space cannot be written to any more: {detail_of(body)}")
        if status not in BUSY:
            return Answer(taken=False, detail=detail_of(body), outcome="refused")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def request(
    server: Server,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> tuple[int, bytes]:
    """Return the status and body of the response. Raises: Offline."""
    address = urlsplit(server.address)
    netloc = address.netloc.rpartition("@")[2]
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        connection = http.client.HTTPSConnection(netloc, timeout=timeout_s, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(netloc, timeout=timeout_s)
    try:
        connection.request(
            method, f"{address.path.rstrip('/')}{path}", body=body or None,
            headers={"Authorization": f"Bearer {server.key}", **(headers or {})},
        )  # fmt: skip
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Offline(f"{server.address} does not answer: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _body(head: bytes, archive: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    with archive.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
    yield tail


def detail_of(body: bytes) -> str:
    """Return the reason in a problem document, or the beginning of any other body."""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    detail = value.get("detail") if isinstance(value, dict) else None
    return str(detail or body[:200].decode("utf-8", "replace"))
