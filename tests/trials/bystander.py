"""A user who works as usual while others attack the product: searches, chats, imports conversations and
documents of a few words.

Every request is a sample: what it was, in which phase, how long it took, and what went wrong.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from tests.support.patience import wait_until

TIMEOUT_S = 30.0
SEARCH_PAUSE_S, CHAT_PAUSE_S, IMPORT_PAUSE_S, DOCUMENT_PAUSE_S = 0.25, 4.0, 5.0, 4.0
POLL_S, DOCUMENT_POLL_S = 0.5, 0.2
GIVE_UP_INDEXING_S, GIVE_UP_READING_S = 60.0, 120.0
SUBJECTS = (
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "island",
    "juniper",
    "kelp",
    "lagoon",
)


Work = Callable[[httpx2.Client, int], Iterator["Sample"]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing that the bystander did. `error` is empty where it went well."""

    kind: str  # search, chat, document, import, indexed
    is_attacked: bool
    seconds: float
    error: str = ""


@dataclass(slots=True)
class Bystander:
    """Works with one key, in four threads, until a phase ends."""

    address: str
    key: str
    samples: list[Sample] = field(default_factory=list)
    imported: int = 0
    uploaded: int = 0

    def client(self) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=TIMEOUT_S)

    def settle(self, turns: int, turns_per_conversation: int = 10) -> None:
        """Store an archive and wait until it is indexed."""
        with self.client() as client:
            for first in range(0, turns, turns_per_conversation):
                messages = [m for n in range(first, first + turns_per_conversation) for m in _turn(n)]
                client.post("/api/v1/conversations", json={"messages": messages}).raise_for_status()
            wait_until(lambda: self.is_indexed(client), "the archive's index", timeout_s=600)

    def is_indexed(self, client: httpx2.Client) -> bool:
        status = client.get("/api/v1/index/status").raise_for_status().json()
        assert not status["failed"], status
        return bool(status["turns"] > 0 and status["pending"] == 0)

    @contextmanager
    def working(self, *, is_attacked: bool) -> Iterator[None]:
        """Search, chat and import until the block ends; what is under way is finished and counted."""
        over = threading.Event()
        works = (
            (self.search, SEARCH_PAUSE_S),
            (self.chat, CHAT_PAUSE_S),
            (self.bring_in, IMPORT_PAUSE_S),
            (self.add_document, DOCUMENT_PAUSE_S),
        )
        threads = [threading.Thread(target=self._work, args=(*work, is_attacked, over)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _work(self, work: Work, pause_s: float, is_attacked: bool, over: threading.Event) -> None:
        number = 0
        with self.client() as client:
            while not over.is_set():
                for sample in work(client, number):
                    self.samples.append(Sample(sample.kind, is_attacked, sample.seconds, sample.error))
                number += 1
                over.wait(pause_s)

    def search(self, client: httpx2.Client, number: int) -> Iterator[Sample]:
        query = f"what do we know about {SUBJECTS[number % len(SUBJECTS)]} and number {number % 50}?"
        with timed("search") as done:
            response = client.get("/api/v1/conversations/search", params={"query": query})
            done.check(response, 200)
            done.require(bool(response.json().get("results")), "no results")
        yield done.sample()

    def chat(self, client: httpx2.Client, number: int) -> Iterator[Sample]:
        with timed("chat") as done:
            made = client.post("/api/v1/conversations", json={"title": f"Chat {number}"})
            done.check(made, 201)
            said = {"message": f"Is {SUBJECTS[number % len(SUBJECTS)]} fine?"}
            response = client.post(f"/api/v1/conversations/{made.json()['id']}/stream", json=said)
            done.check(response, 200)
            done.require("event: text" in response.text, "no text")
            done.require("event: error" not in response.text, response.text[-300:])
        yield done.sample()

    def bring_in(self, client: httpx2.Client, number: int) -> Iterator[Sample]:
        """Import a conversation of two messages, then look until a search by meaning finds it."""
        self.imported += 1
        mark = f"arrival{self.imported}"
        started = time.monotonic()
        with timed("import") as done:
            body = json.dumps({"title": mark, "messages": _turn(self.imported, mark)}).encode()
            response = client.post("/api/v1/imports", files={"file": (f"{mark}.json", body)}, data={"wait": "5"})
            if response.status_code == 202:
                response = self._until_imported(client, response.json()["id"])
            done.check(response, 200)
        yield done.sample()
        if not done.error:
            yield self._until_found(client, mark, started)

    def add_document(self, client: httpx2.Client, number: int) -> Iterator[Sample]:
        """Upload a document of one sentence, and look until it has been read."""
        self.uploaded += 1
        said = f"Note {self.uploaded}: {SUBJECTS[number % len(SUBJECTS)]} is settled, it stands here.\n"
        with timed("document") as done:
            response = client.post("/api/v1/documents", files={"file": (f"note-{self.uploaded}.txt", said.encode())})
            done.check(response, 202)
            address = f"/api/v1/documents/{response.json()['id']}"
            while not done.error and response.json()["status"] != "ready":
                time.sleep(DOCUMENT_POLL_S)
                response = client.get(address)
                done.check(response, 200)
                done.require(response.json().get("status") != "failed", response.text[:200])
                done.require(time.monotonic() - done.started < GIVE_UP_READING_S, "the document was not read")
        yield done.sample()

    def _until_imported(self, client: httpx2.Client, import_id: int) -> httpx2.Response:
        deadline = time.monotonic() + GIVE_UP_INDEXING_S
        while True:
            response = client.get(f"/api/v1/imports/{import_id}")
            if response.status_code != 200 or response.json().get("report") or time.monotonic() > deadline:
                return response
            time.sleep(POLL_S)

    def _until_found(self, client: httpx2.Client, mark: str, started: float) -> Sample:
        query: dict[str, str | int] = {"query": f'"{mark}"', "mode": "semantic", "limit": 1}
        with timed("indexed", started) as done:
            while True:
                response = client.get("/api/v1/conversations/search", params=query)
                done.check(response, 200)
                if any(mark in hit["user_question"] for hit in response.json().get("results", ())) or done.error:
                    break
                done.require(time.monotonic() - started < GIVE_UP_INDEXING_S, f"{mark} was not found")
                time.sleep(POLL_S)
        return done.sample()


@dataclass(slots=True)
class timed:
    """Times a block; a request that fails in it is the sample's error, not the trial's."""

    kind: str
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    error: str = ""

    def __enter__(self) -> "timed":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.seconds = time.monotonic() - self.started
        if isinstance(error, httpx2.HTTPError | ValueError):
            self.require(False, repr(error))
            return True
        return False

    def check(self, response: httpx2.Response, status: int) -> None:
        self.require(response.status_code == status, f"{response.status_code} {response.text[:200]}")

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds and not self.error:
            self.error = otherwise

    def sample(self) -> Sample:
        return Sample(self.kind, False, self.seconds, self.error)


def _turn(number: int, mark: str = "") -> list[dict[str, str]]:
    subject = SUBJECTS[number % len(SUBJECTS)]
    question = f"what do we know about {subject} and number {number}? {mark}".strip()
    return [
        {"role": "user", "content": question},
        {
            "role": "assistant",
            "content": f"{subject.title()} {number} is settled. It was written down in step {number}.",
        },
    ]
