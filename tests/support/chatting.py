"""Talking to the product's chat over real HTTP, as a program does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from django.contrib.auth.models import User

from convmemory.accounts.keys import create_key

TIMEOUT_S = 20.0
Events = list[tuple[str, dict[str, Any]]]


class Talker:
    """A caller with a key, at the address of a running site."""

    def __init__(self, address: str, owner: User) -> None:
        self.key = create_key(person=owner)
        self.http = httpx2.Client(
            base_url=address, headers={"Authorization": f"Bearer {self.key}"}, timeout=TIMEOUT_S, trust_env=False
        )

    def close(self) -> None:
        self.http.close()

    def post(self, path: str, **body: Any) -> httpx2.Response:
        return self.http.post(f"/api/v1{path}", json=body)

    def get(self, path: str) -> Any:
        response = self.http.get(f"/api/v1{path}")
        assert response.status_code == 200, response.text
        return response.json()

    def new_conversation(self) -> int:
        response = self.post("/conversations", title="")
        assert response.status_code == 201, response.text
        return int(response.json()["id"])

    @contextmanager
    def streaming(self, conversation_id: int, message: str, **values: Any) -> Iterator[Iterator[tuple[str, Any]]]:
        """The events of a reply as they come; leaving the block early leaves the stream."""
        path = f"/api/v1/conversations/{conversation_id}/stream"
        with self.http.stream("POST", path, json={"message": message, **values}) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["Content-Type"] == "text/event-stream"
            yield parsed_events(response.iter_lines())

    def ask(self, conversation_id: int, message: str, **values: Any) -> Events:
        """All events of a reply."""
        with self.streaming(conversation_id, message, **values) as events:
            return list(events)

    def messages(self, conversation_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/conversations/{conversation_id}/messages")["results"]
        return found

    def conversation(self, conversation_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/conversations/{conversation_id}")
        return found

    def last_reply(self, conversation_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/conversations/{conversation_id}/replies")["results"][0]
        return found


def parsed_events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def said(events: Events, name: str = "text") -> str:
    """The text of all events of one name."""
    return "".join(data["text"] for event, data in events if event == name)


def names(events: Events) -> list[str]:
    """The names of the events, repeated ones once."""
    found = [name for name, _ in events]
    return [name for index, name in enumerate(found) if index == 0 or found[index - 1] != name]
