"""The activities of the trial `faults`: an import, uploads of documents, chat streams, a reembed.

Each is begun, is then under way, tries to continue while something is broken, is repeated afterwards as its user would
repeat it, and in the end finds what was lost, doubled or left half-written. What the server accepted has to be there.
"""

import io
import json
import re
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2

from tests.support.chat_server import ChatServer, Hold, Say, Script
from tests.support.installation import ROOT, Installation
from tests.support.patience import wait_until
from tests.support.raw_http import connect, head
from tests.support.stored_state import StoredState
from tests.support.tiny_bert import write_tiny_bert

MARKER = "quincemarmalade"
"""Is in every uploaded text, and nowhere else."""
ACCEPTED = (200, 201, 202)
HONEST = (*ACCEPTED, 429, 503, 507)
NO_ANSWER = 0
MESSAGES_PER_CONVERSATION = 100
NEW_SHARE = 10  # one conversation in ten of a further import is new
LINES, PADDING = 400, 1_000  # of a document: 400 KB, which the server does not keep in memory, but little text
REQUEST_TIMEOUT_S, STREAM_TIMEOUT_S, COMMAND_TIMEOUT_S = 30, 120, 300
BOUNDARY = "between-two-parts"


@dataclass(slots=True)
class Scene:
    """The installation under a fault, its two users and the chat endpoint. `serial` numbers everything uploaded."""

    installation: Installation
    stored: StoredState
    endpoint: ChatServer
    messages: int
    keys: dict[str, str] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    serial: int = 0
    commands: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Commands that were started and may still run."""
    may_refuse: bool = False
    """The disk is full: an accepted upload may fail with a reason."""

    def next_number(self) -> int:
        self.serial += 1
        return self.serial

    def client(self, user: str) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.keys[user]}"}
        address = self.installation.address  # without TLS: no time is spent on reading certificates
        return httpx2.Client(base_url=address, headers=headers, timeout=REQUEST_TIMEOUT_S, verify=False)

    def send(self, user: str, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
        """The status and the JSON of the answer; status 0 if none came."""
        try:
            with self.client(user) as client:
                response = client.request(method, f"/api/v1{path}", **options)
                return response.status_code, response.json() if response.content else {}
        except (httpx2.HTTPError, ValueError, OSError):
            return NO_ANSWER, {}

    def send_until_accepted(self, user: str, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The JSON of the first answer that accepts the request."""
        for _ in range(20):
            status, body = self.send(user, method, path, **options)
            if status in ACCEPTED:
                return body
            time.sleep(1)
        raise AssertionError(f"{method} {path} is not accepted after the recovery: {status} {str(body)[:300]}")


class Activity(Protocol):
    """The work of a user while a fault strikes."""

    def begin(self) -> None:
        """Start it."""

    def is_under_way(self) -> bool:
        """Return whether it is half done; start it again if it has ended already."""

    def continue_while_broken(self) -> None:
        """Finish what was half sent, and begin something new."""

    def repeat(self) -> None:
        """Do again what was not accepted."""

    def is_settled(self) -> bool:
        """Return whether everything accepted has come to its end."""

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each lost, doubled, half-written or wrongly answered item."""


@dataclass(frozen=True, slots=True)
class SentImport:
    """An uploaded archive, the conversations in it, and the number of its import; 0 if it was not accepted."""

    user: str
    names: tuple[str, ...]
    size: int
    id: int = 0
    again: int = 0


@dataclass(slots=True)
class LargeImport:
    """An import of `Scene.messages` messages; while something is broken, also small ones of another user."""

    scene: Scene
    sent: list[SentImport] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def begin(self) -> None:
        count, number = self.scene.messages // MESSAGES_PER_CONVERSATION, self.scene.next_number()
        new = max(1, count // NEW_SHARE)
        names = [f"import-{number}-{n}" for n in range(new)] + [f"import-{n}" for n in range(count - new)]
        self._upload("ada", tuple(names), MESSAGES_PER_CONVERSATION)

    def is_under_way(self) -> bool:
        own = self.sent[-1].id
        rows = self.scene.stored.rows("SELECT state, messages_read FROM conversations_import WHERE id = %s", [own])
        if not rows or rows[0][0] not in ("queued", "running"):
            self.begin()
            return False
        state, messages_read = rows[0]
        return bool(state == "running" and messages_read > 0)

    def continue_while_broken(self) -> None:
        names = tuple(f"small-{self.scene.next_number()}-{n}" for n in range(3))
        self._upload("bea", names, 4)

    def repeat(self) -> None:
        self.sent = [one if one.id else self._sent_again(one) for one in self.sent]

    def is_settled(self) -> bool:
        states = {one: self._state(one) for one in self.sent}
        if self.scene.may_refuse:
            self.sent = [self._sent_again(one) if states[one] == "failed" else one for one in self.sent]
        return all(state in ("done", "failed") for state in states.values()) and all(
            self._state(one) in ("done", "failed") for one in self.sent
        )

    def complaints(self) -> Iterator[str]:
        yield from _wrong_answers(self.statuses)
        yield from self.reasons
        for one in self.sent:
            if (state := self._state(one)) != "done":
                error = self.scene.stored.value("SELECT error FROM conversations_import WHERE id = %s", [one.id])
                yield f"import {one.id} is {state}: {error}"
            yield from self._lost(one)

    def _lost(self, one: SentImport) -> Iterator[str]:
        query = """
            SELECT c.source_id, count(m.id), count(DISTINCT m.content_hash), count(DISTINCT m.position), c.message_count
            FROM conversations_conversation AS c JOIN conversations_message AS m ON m.conversation_id = c.id
            WHERE c.owner_id = %s AND c.source_id = ANY(%s) GROUP BY c.id
        """
        found = {
            row[0]: row[1:] for row in self.scene.stored.rows(query, [self.scene.owners[one.user], list(one.names)])
        }
        if missing := set(one.names) - set(found):
            yield f"{len(missing)} conversations of import {one.id} are missing"
        if wrong := [name for name, counts in found.items() if set(counts) != {one.size}]:
            yield f"{len(wrong)} conversations of import {one.id} have other messages than were sent"

    def _state(self, one: SentImport) -> Any:
        return self.scene.stored.value("SELECT state FROM conversations_import WHERE id = %s", [one.id])

    def _upload(self, user: str, names: tuple[str, ...], size: int) -> None:
        status, body = self.scene.send(user, "POST", "/imports", **_import_form(names, size))
        self.statuses.append(status)
        self.sent.append(SentImport(user, names, size, int(body.get("id", 0)) if status in ACCEPTED else 0))

    def _sent_again(self, one: SentImport) -> SentImport:
        if one.again > 2:
            return one
        form = _import_form(one.names, one.size)
        body = self.scene.send_until_accepted(one.user, "POST", "/imports", **form)
        return SentImport(one.user, one.names, one.size, int(body["id"]), one.again + 1)


def _import_form(names: tuple[str, ...], size: int) -> dict[str, Any]:
    lines = [
        json.dumps({"id": name, "title": name, "messages": [_message(name, number) for number in range(size)]})
        for name in names
    ]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("conversations.jsonl", "\n".join(lines))
    return {"files": {"file": (f"{names[0]}.zip", packed.getvalue())}, "data": {"wait": "0"}}


def _message(name: str, number: int) -> dict[str, str]:
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": f"the cat of {name} sat on mat {number}, {MARKER}."}


@dataclass(slots=True)
class Uploads:
    """Documents: one whose upload is half sent, one that a worker reads, and one sent while something is broken."""

    scene: Scene
    sent: list[int] = field(default_factory=list)
    half: socket.socket | None = None
    rest: bytes = b""
    statuses: list[int] = field(default_factory=list)

    def begin(self) -> None:
        number = self.scene.next_number()
        body = _document_form(number)
        self.sent.append(number)
        self.half, self.rest = connect(self.scene.installation.address), body[len(body) // 2 :]
        key = f"Authorization: Bearer {self.scene.keys['bea']}"
        kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
        length = f"Content-Length: {len(body)}"
        self.half.sendall(head("/api/v1/documents", key, kind, length, "Connection: close") + body[: len(body) // 2])
        self._upload()

    def is_under_way(self) -> bool:
        status = self.scene.stored.value("SELECT status FROM documents_document ORDER BY id DESC LIMIT 1")
        if status not in ("uploaded", "processing"):
            self._upload()
        return status == "processing" and self.scene.installation.temporary_bytes() > 0

    def continue_while_broken(self) -> None:
        self.statuses.append(self._send_rest())
        self._upload()

    def repeat(self) -> None:
        for number in self.sent:
            self._send_again(number)

    def is_settled(self) -> bool:
        if self.scene.may_refuse:
            for number in self.sent:
                if self._state(number) == "failed":
                    own = self.scene.stored.value("SELECT id FROM documents_document WHERE name = %s", [_name(number)])
                    self.scene.send("bea", "DELETE", f"/documents/{own}")
                    self._send_again(number)
        return all(self._state(number) in ("ready", "failed") for number in self.sent)

    def complaints(self) -> Iterator[str]:
        yield from _wrong_answers(self.statuses)
        for number in self.sent:
            rows = self.scene.stored.rows(
                """SELECT d.status, d.error, string_agg(s.text, E'\\n' ORDER BY s.number), count(DISTINCT d.id)
                FROM documents_document AS d LEFT JOIN documents_section AS s ON s.document_id = d.id
                WHERE d.name = %s GROUP BY d.status, d.error""",
                [_name(number)],
            )
            if not rows or rows[0][0] != "ready":
                yield f"document {number} is {rows[0][:2] if rows else 'not there'}"
                continue
            lines = re.findall(r"line (\d+)\.", rows[0][2] or "")
            if len(rows) > 1 or rows[0][3] != 1 or lines != [str(n) for n in range(LINES)]:
                yield f"document {number} is ready with {len(lines)} of {LINES} lines"

    def _state(self, number: int) -> Any:
        return self.scene.stored.value("SELECT status FROM documents_document WHERE name = %s", [_name(number)])

    def _upload(self) -> None:
        number = self.scene.next_number()
        self.sent.append(number)
        status, _ = self.scene.send("bea", "POST", "/documents", files={"file": (_name(number), _document(number))})
        self.statuses.append(status)

    def _send_again(self, number: int) -> None:
        form = {"files": {"file": (_name(number), _document(number))}}
        self.scene.send_until_accepted("bea", "POST", "/documents", **form)

    def _send_rest(self) -> int:
        assert self.half
        with self.half, suppress(OSError, IndexError, ValueError):
            self.half.settimeout(REQUEST_TIMEOUT_S)
            self.half.sendall(self.rest)
            return int(self.half.recv(65_536).split()[1])
        return NO_ANSWER


def _name(number: int) -> str:
    return f"document-{number}.md"


def _document(number: int) -> bytes:
    """A Markdown file with a heading every hundred lines, and spaces at the ends of lines."""
    lines = []
    for line in range(LINES):
        lines += [f"# Part {line // 100} of {number}", ""] if line % 100 == 0 else []
        lines += [f"The cat {number} sat on a mat, which is {MARKER}, in line {line}.{' ' * PADDING}", ""]
    return "\n".join(lines).encode()


def _document_form(number: int) -> bytes:
    disposition = f'Content-Disposition: form-data; name="file"; filename="{_name(number)}"'
    start = f"--{BOUNDARY}\r\n{disposition}\r\nContent-Type: text/markdown\r\n\r\n"
    return start.encode() + _document(number) + f"\r\n--{BOUNDARY}--\r\n".encode()


@dataclass(slots=True)
class Stream:
    """A conversation in which a reply arrives. The endpoint sends its end when `may_end` is set."""

    conversation_id: int
    question: str
    first: str
    may_end: threading.Event = field(default_factory=threading.Event)
    received: str = ""
    status: int = NO_ANSWER
    thread: threading.Thread | None = None


@dataclass(slots=True)
class Chats:
    """Two streams: the endpoint ends one reply while something is broken, the other after the recovery."""

    scene: Scene
    streams: list[Stream] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    began: float = 0.0

    def begin(self) -> None:
        for _ in range(2):
            self._open()

    def is_under_way(self) -> bool:
        if not all(stream.first in stream.received for stream in self.streams):
            self.began = time.monotonic()
        return time.monotonic() - self.began > 1  # a heartbeat has stored the first words

    def continue_while_broken(self) -> None:
        self.streams[0].may_end.set()
        status, body = self.scene.send("bea", "POST", "/conversations", json={"title": "while broken"})
        self.statuses.append(status)
        if status in ACCEPTED:
            path = f"/conversations/{body['id']}/stream"
            status, _ = self.scene.send("bea", "POST", path, json={"message": "still there?"})
            self.statuses.append(status)

    def repeat(self) -> None:
        for stream in self.streams:
            stream.may_end.set()
        for stream in self.streams:
            assert stream.thread
            stream.thread.join(STREAM_TIMEOUT_S)

    def is_settled(self) -> bool:
        query = "SELECT count(*) FROM conversations_conversation WHERE owner_id = %s AND status = 'processing'"
        return bool(self.scene.stored.value(query, [self.scene.owners["bea"]]) == 0)

    def complaints(self) -> Iterator[str]:
        yield from _wrong_answers([*self.statuses, *(stream.status for stream in self.streams)])
        for stream in self.streams:
            texts = self._texts(stream)
            answer = " ".join(texts[1:])
            if texts[:1] != [stream.question]:
                yield f"the question is stored {texts.count(stream.question)} times in {len(texts)} messages"
            if stream.first not in answer:
                yield "the words of the reply that had arrived are lost"
            if "event: done" in stream.received and not answer.endswith("to the end."):
                yield "a reply that was reported as done is not whole"
            yield from self._goes_on(stream)

    def _goes_on(self, stream: Stream) -> Iterator[str]:
        before = len(self._texts(stream))
        with self.scene.client("bea") as client:
            path = f"/api/v1/conversations/{stream.conversation_id}/stream"
            response = client.post(path, json={"message": "and now?"})
        if "event: done" not in response.text or len(self._texts(stream)) != before + 2:
            yield f"the conversation cannot go on: {response.status_code} {response.text[-300:]}"

    def _texts(self, stream: Stream) -> list[str]:
        query = "SELECT parts FROM conversations_message WHERE conversation_id = %s ORDER BY position"
        found = self.scene.stored.rows(query, [stream.conversation_id])
        return ["".join(part.get("text", "") for part in parts) for (parts,) in found]

    def _open(self) -> None:
        number = self.scene.next_number()
        body = self.scene.send_until_accepted("bea", "POST", "/conversations", json={"title": f"chat {number}"})
        stream = Stream(int(body["id"]), f"what is {MARKER} {number}?", f"begun {number},")
        steps = (Say(f"{stream.first} "), Hold(stream.may_end), Say("to the end."))
        self.scene.endpoint.scripts.append(Script(steps))
        stream.thread = threading.Thread(target=self._listen, args=(stream,))
        stream.thread.start()
        self.streams.append(stream)
        wait_until(lambda: stream.first in stream.received, "the first words of a reply", 60)

    def _listen(self, stream: Stream) -> None:
        path = f"/api/v1/conversations/{stream.conversation_id}/stream"
        said = {"message": stream.question}
        with (
            suppress(httpx2.HTTPError, OSError),
            self.scene.client("bea") as client,
            client.stream("POST", path, json=said) as response,
        ):
            stream.status = response.status_code
            for piece in response.iter_text():
                stream.received += piece


@dataclass(slots=True)
class Reembed:
    """`manage.py reembed` of one user's archive with another model; it is run again until it has all of it."""

    scene: Scene
    model: str = ""
    process: subprocess.Popen[bytes] | None = None
    reasons: list[str] = field(default_factory=list)

    def begin(self) -> None:
        cancel_building(self.scene.stored)
        self.model = f"model-{self.scene.next_number()}"
        folder = write_tiny_bert(self.scene.installation.folder / "models" / self.model, seed=self.scene.serial)
        with (self.scene.installation.folder / "reembed.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(str(folder)), cwd=ROOT, env=self.scene.installation.environment(), stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self.scene.commands.append(self.process)

    def is_under_way(self) -> bool:
        assert self.process
        if self.process.poll() is not None:
            self.begin()
            return False
        return bool(self.scene.stored.value(f"SELECT count(*) FROM search_itemembedding WHERE space_id = ({SPACE})"))

    def continue_while_broken(self) -> None:
        """It goes on by itself, or ends with an error."""

    def repeat(self) -> None:
        assert self.process
        try:
            self.process.wait(COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.reasons.append(f"reembed did not end within {COMMAND_TIMEOUT_S} s")
            self.process.kill()
            self.process.wait()

    def is_settled(self) -> bool:
        waiting = "SELECT count(*) FROM core_ownertask WHERE owner_id = %s"
        return bool(self.scene.stored.value(waiting, [self.scene.owners["bea"]]) == 0)

    def complaints(self) -> Iterator[str]:
        yield from self.reasons
        folder = self.scene.installation.folder / "models" / self.model
        command = self._command(str(folder))
        done = subprocess.run(
            command, cwd=ROOT, env=self.scene.installation.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"reembed fails when it is run again: {done.stderr[-300:]}"
        for which in ("is_active", "is_building"):
            space = self.scene.stored.value(f"SELECT id FROM embeddings_embeddingspace WHERE {which}")
            if space is None:
                yield f"there is no space that {which}"
                continue
            defects = self.scene.stored.vector_defects(archive_id=self.scene.owners["bea"], space_id=space)
            yield from (f"{defect}, space that {which}" for defect in defects)
        cancel_building(self.scene.stored)

    def _command(self, model: str) -> list[str]:
        return [sys.executable, "manage.py", "reembed", "--model", model, "--user", "bea", "--workers", "1"]


SPACE = "SELECT id FROM embeddings_embeddingspace WHERE is_building"


def cancel_building(stored: StoredState) -> None:
    """Do what `reembed --cancel` does, without starting a process."""
    stored.rows("UPDATE embeddings_embeddingspace SET is_building = FALSE, retired_at = now() WHERE is_building")


def _wrong_answers(statuses: list[int]) -> list[str]:
    wrong = [status for status in statuses if status not in (NO_ANSWER, *HONEST)]
    return [f"answered with {status}" for status in sorted(set(wrong))]


ACTIVITIES: dict[str, type[Reembed] | type[Chats] | type[LargeImport] | type[Uploads]] = {
    "reembed": Reembed,
    "chat": Chats,
    "import": LargeImport,
    "upload": Uploads,
}
"""What takes longest until it is under way is first."""
