"""Clients of a user: of the API with a key, of pages with a session."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.keys import caller_of_key, create_key


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


class Api:
    """A caller with a key."""

    def __init__(self, user: User) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {create_key(person=user)}"})

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(f"/api/v1{path}", query)

    def send(self, method: str, path: str, body: Any) -> Any:
        data = body if isinstance(body, str) else json.dumps(body)
        return self.client.generic(method, f"/api/v1{path}", data, content_type="application/json")


def problem_of(response: Any, status: int) -> str:
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    return str(body["detail"])


def person_of(key: str, *, writes: bool = True) -> User | None:
    """Return whose key it is, if it still holds."""
    caller = caller_of_key(key, writes=writes)
    return caller.person if caller else None
