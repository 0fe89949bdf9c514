"""A NUL character, which PostgreSQL cannot store, is the sender's mistake wherever it stands: 4xx, never 500."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from convmemory.accounts.keys import create_key
from convmemory.api import api
from convmemory.conversations.models import Conversation
from convmemory.core.cursors import encode_cursor
from convmemory.tools.registry import tool_definitions
from tests.factories import exchange, make_conversation

pytestmark = pytest.mark.django_db

NUL = "a\x00b"
VALUES = {"query": "bread and butter", "q": "bread and butter"}


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="x")


@pytest.fixture
def conversation(root: User) -> Conversation:
    return make_conversation(root, exchange(("bread?", "Yes.")), title="Bread")


@pytest.fixture
def program(root: User, conversation: Conversation) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=root)}"}, raise_request_exception=False)


@pytest.fixture
def browser(root: User, conversation: Conversation) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(root)
    return client


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def parameters_of(where: str) -> list[tuple[str, str, str]]:
    return [
        (method, path, parameter["name"])
        for method, path, operation in operations()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == where
    ]


def filled(path: str, conversation: Conversation) -> str:
    return re.sub(r"\{[^}]*\}", str(conversation.pk), path)


def refused(answer: Any) -> str:
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.content[:300])
    return str(answer.content.decode())


def test_every_parameter_of_api_refuses_nul(program: Client, conversation: Conversation) -> None:
    for method, path, name in parameters_of("query"):
        query = "&".join(f"{key}={quote(value)}" for key, value in (VALUES | {name: NUL}).items())
        answer = program.generic(method.upper(), f"{filled(path, conversation)}?{query}")
        assert "NUL" in json.loads(refused(answer))["detail"], (method, path, name)
        assert answer.headers["Content-Type"] == "application/problem+json", (method, path, name)


@pytest.mark.parametrize("path", ["/api/v1/tools/a%00b", "/conversations/%00", "/a%00", "/static/%00", "/admin/%00/"])
def test_nul_in_path_is_refused(program: Client, path: str) -> None:
    assert "NUL" in refused(program.get(path))
    refused(program.post(path))


def strings_of(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Field names of an object's schema, with a value that holds a NUL, as far as they take strings."""
    while "$ref" in schema:
        schema = root["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for name, field in schema.get("properties", {}).items():
        kinds = field.get("anyOf", [field])
        if any(kind.get("type") == "string" for kind in kinds):
            yield name, NUL
        elif any(kind.get("type") == "array" for kind in kinds):
            yield name, [NUL]
        elif any(kind.get("type") == "object" for kind in kinds):
            yield name, {NUL: NUL}


def body_fields() -> list[tuple[str, str, str, Any]]:
    schema: dict[str, Any] = api.get_openapi_schema()
    found = []
    for method, path, operation in operations():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for name, value in strings_of(content["schema"], schema):
                found.append((method, path, name, value))
    return found


def test_nul_in_any_body_string_is_no_server_error(program: Client, conversation: Conversation) -> None:
    body = {
        "query": "bread and butter",
        "role": "user",
        "content": "x",
        "turn_number": 5,
        "user": "u",
        "assistant": "a",
    }
    for method, path, name, value in body_fields():
        text = json.dumps(body | {name: value})
        with transaction.atomic():  # what one request removes, the next one finds again
            answer = program.generic(method.upper(), filled(path, conversation), text, content_type="application/json")
            transaction.set_rollback(True)
        assert answer.status_code < 500, (method, path, name, answer.content[:300])


def test_nul_in_any_tool_argument_is_no_server_error(program: Client, conversation: Conversation) -> None:
    for tool in tool_definitions():
        schema = tool.input_schema
        fields = list(strings_of(schema, {"components": {"schemas": schema.get("$defs", {})}}))
        assert fields
        for name, value in fields:
            arguments = {"query": "bread and butter", name: value} if "query" in schema["properties"] else {name: value}
            answer = program.post(f"/api/v1/tools/{tool.name}", json.dumps(arguments), content_type="application/json")
            assert answer.status_code < 500, (tool.name, name, answer.content[:300])


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/v1/conversations", {}),
        ("/api/v1/conversations/search", {"query": "bread and butter"}),
    ],
)
def test_nul_inside_cursor_is_refused(program: Client, path: str, names: dict[str, str]) -> None:
    for place in ([NUL], [NUL, 1], ["2026-01-01\x00", 1]):
        assert "cursor" in refused(program.get(path, names | {"cursor": encode_cursor({}, place)}))


def pages() -> list[str]:
    """Every page's address that takes no text, outside the API and the administration."""
    found: list[str] = []

    def walk(patterns: Any, prefix: str) -> None:
        for pattern in patterns:
            address = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, address)
            elif isinstance(pattern, URLPattern):
                found.append("/" + re.sub(r"<int:\w+>", "1", address))

    walk(get_resolver().url_patterns, "")
    return sorted(
        {path for path in found if not path.startswith(("/api/", "/admin/")) and not re.search(r"[<^$(]", path)}
    )


FIELDS = (
    "q",
    "query",
    "agent",
    "project",
    "title",
    "name",
    "mode",
    "scope",
    "cursor",
    "format",
    "next",
    "turn",
    "text",
)


def test_queries_and_forms_of_every_page_refuse_nul(browser: Client) -> None:
    for path in pages():
        for name in FIELDS:
            assert "NUL" in refused(browser.get(path, {name: NUL})), (path, name)
        answer = browser.post(path, dict.fromkeys(FIELDS, NUL))
        assert 400 <= answer.status_code < 500, (path, answer.status_code)


def changelists() -> list[str]:
    return [f"/admin/{model._meta.app_label}/{model._meta.model_name}/" for model in admin.site._registry]


def test_filters_and_actions_of_every_list_of_administration_refuse_nul(browser: Client) -> None:
    names = ["q", "o", "p", "upto", "owner", "conversation", "e", "all", "id", "pk__exact", "is_staff__exact", "_popup"]
    for path in changelists():
        for name in names:
            assert "NUL" in refused(browser.get(path, {name: NUL})), (path, name)
        for name in ("action", "_selected_action", "index", "select_across"):
            refused(browser.post(path, {"action": "delete_selected", "_selected_action": "1", name: NUL}))
        refused(browser.get(f"{path}a%00b/change/"))


def test_nul_in_dashboard_and_sign_in_forms_is_refused(browser: Client) -> None:
    refused(browser.get("/admin/dashboard/", {"user": NUL}))
    for path in ("/login", "/admin/login/"):
        assert "NUL" in refused(Client().post(path, {"username": NUL, "password": NUL}))


def test_nul_in_stored_text_is_removed(program: Client) -> None:
    body = {"title": "t", "messages": [{"role": "user", "content": "a\x00b"}, {"role": "assistant", "content": "c"}]}
    answer = program.post("/api/v1/conversations", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201
    again = program.post("/api/v1/conversations", json.dumps({"source_id": "a\x00b"}), content_type="application/json")
    assert again.status_code == 201
    taken = program.post("/api/v1/conversations", json.dumps({"source_id": "ab\x00"}), content_type="application/json")
    assert (taken.status_code, taken.json()["id"]) == (200, again.json()["id"])
    messages = program.get(f"/api/v1/conversations/{answer.json()['id']}/messages").json()["results"]
    assert messages[0]["parts"][0]["text"] == "ab"


@pytest.mark.parametrize("query", ["?q=%2500", "?q=a%C3%A9b", "?q=100%25", "?q=%20%2B"])
def test_other_special_characters_are_accepted(browser: Client, query: str) -> None:
    assert browser.get(f"/search{query}").status_code == 200
