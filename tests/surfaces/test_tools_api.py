"""The tools over HTTP: the list, calls, and errors as problem JSON."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from jsonschema import validate

from convmemory.accounts.keys import create_key
from convmemory.conversations.messages.drafts import EventDraft
from convmemory.conversations.messages.event_log import add_events
from convmemory.tools.registry import tool_definitions
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.documents import indexed, upload

pytestmark = pytest.mark.django_db

BREAD = ("how do I keep a sourdough starter alive?", "Feed it flour and water once a week.")


@pytest.fixture
def client(owner: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=owner)}"})


def call(client: Client, name: str, body: Any = "") -> Any:
    data = body if isinstance(body, str) else json.dumps(body)
    return client.post(f"/api/v1/tools/{name}", data, content_type="application/json")


def test_list_holds_every_tool_with_its_schemas(client: Client) -> None:
    tools = client.get("/api/v1/tools").json()["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in tool_definitions()]
    assert all(tool["input_schema"]["type"] == tool["output_schema"]["type"] == "object" for tool in tools)


def test_every_tool_answers_as_its_schema_says(client: Client, owner: User) -> None:
    conversation = make_conversation(owner, exchange(BREAD))
    index_conversation(conversation_id=conversation.pk)
    indexed(upload(owner, " ".join(BREAD), "bread.txt"))
    add_events(conversation, [EventDraft(1, "tool:post", payload={"output": "sourdough"})])
    named = {"file": "sourdough.md", "error": "SourdoughError: the sourdough is cold"}
    arguments = named | {"query": "sourdough starter", "conversation_id": conversation.pk}
    for tool in client.get("/api/v1/tools").json()["tools"]:
        wanted = {name: arguments[name] for name in tool["input_schema"].get("required", [])}
        answer = call(client, tool["name"], wanted)
        assert answer.status_code == 200, answer.content
        validate(answer.json(), tool["output_schema"])
        assert "sourdough" in answer.content.decode(), tool["name"]


def test_call_without_body_has_no_arguments(client: Client) -> None:
    assert call(client, "list_conversations").json()["results"] == []


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("magic", {}, 404, "no tool 'magic'"),
        ("ConversationSearch", {}, 422, "query"),
        ("ConversationSearch", {"query": "x" * 10_001}, 422, "10000"),
        ("ConversationSearch", {"query": "egg", "limit": 10_000}, 422, "limit"),
        ("read_conversation", {"conversation_id": 0}, 404, "no conversation 0"),
        ("list_conversations", ["x"], 422, "dictionary"),
        ("list_conversations", "{", 400, "line 1 column 2"),
        ("search", {"query": "\x00"}, 422, "2 to 10,000 characters"),
        ("recall", {"query": "\x00"}, 422, "2 to 10,000 characters"),
        ("search", {"query": "egg", "limitt": 3}, 422, "limitt: there is no such argument, use any of query, scope"),
    ],
)
def test_bad_calls_are_explained(client: Client, name: str, body: Any, status: int, said: str) -> None:
    answer = call(client, name, body)
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert said in answer.json()["detail"]


def test_search_chat_history_reports_bad_arguments_in_its_own_shape(client: Client) -> None:
    answer = call(client, "search_chat_history", {"query": "egg", "limit": 10_000})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["results"], body["totalFound"], body["query"]) == ([], 0, "egg")
    assert "limit" in body["note"]


def test_without_memory_its_tool_is_not_offered(client: Client, settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    assert 'recall"' not in client.get("/api/v1/tools").content.decode()
    assert call(client, "conversation_recall", {"query": "egg"}).status_code == 404


def test_foreign_conversation_answers_like_unknown_one(client: Client) -> None:
    foreign = make_conversation(make_user(), exchange(BREAD)).pk
    answers = [call(client, "read_conversation", {"conversation_id": number}) for number in (foreign, foreign + 1000)]
    assert [answer.status_code for answer in answers] == [404, 404]
    details = [answer.json()["detail"] for answer in answers]
    assert details[0].replace(str(foreign), "N") == details[1].replace(str(foreign + 1000), "N")


def test_tools_without_key_get_401(db: None) -> None:
    assert Client().get("/api/v1/tools").status_code == 401
    assert call(Client(), "list_conversations", {}).status_code == 401
