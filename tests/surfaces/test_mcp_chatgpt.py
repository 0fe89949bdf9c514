"""The tools that ChatGPT prescribes, at an address of their own."""

import json
from functools import partial
from typing import Any

import httpx2
import mcp_types as types
import pytest
from django.contrib.auth.models import User
from jsonschema import validate
from mcp import Client

from convmemory.accounts.keys import create_key
from convmemory.conversations.models import Conversation
from convmemory.tools.registry import mcp_tools
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.mcp_client import Session, over_http

pytestmark = pytest.mark.django_db(transaction=True)

BREAD = ("how do I keep a sourdough starter alive?", "Feed it flour and water once a week.")


@pytest.fixture
def session(owner: User, address: str) -> Session:
    return partial(over_http, address, create_key(person=owner), path="/mcp?profile=chatgpt")


@pytest.fixture
def bread(owner: User) -> Conversation:
    made = make_conversation(owner, exchange(("which flour?", "Rye."), BREAD), title="Bread")
    index_conversation(conversation_id=made.pk)
    return made


def test_chatgpt_searches_and_fetches_result(session: Session, bread: Conversation, address: str) -> None:
    async def steps(client: Client) -> dict[str, Any]:
        tools = {tool.name: tool for tool in mcp_tools("chatgpt")}
        assert {tool.name for tool in (await client.list_tools()).tools} == set(tools) == {"search", "fetch"}
        found = await client.call_tool("search", {"query": "keep a sourdough starter alive"})
        (text,) = found.content
        assert isinstance(text, types.TextContent)
        assert json.loads(text.text) == found.structured_content
        validate(found.structured_content, tools["search"].output_schema)
        first, *_ = found.structured_content["results"]
        assert first == {
            "id": f"{bread.pk}-1",
            "title": f"Bread: {BREAD[0]}",
            "url": f"{address}/conversations/{bread.pk}?turn=1",
        }
        fetched = await client.call_tool("fetch", {"id": first["id"]})
        assert (await client.call_tool("fetch", {"id": first["url"]})).structured_content == fetched.structured_content
        validate(fetched.structured_content, tools["fetch"].output_schema)
        values: dict[str, Any] = fetched.structured_content
        return values

    fetched = session(steps)
    assert (fetched["id"], fetched["title"], fetched["metadata"]) == (f"{bread.pk}-1", "Bread", {"turn": 2, "turns": 2})
    assert fetched["text"] == f"user: {BREAD[0]}\n\nassistant: {BREAD[1]}"
    assert "which flour" not in fetched["text"]


@pytest.mark.parametrize("wrong", ["7", "x-1", "../etc/passwd", "99999-0"])
def test_wrong_and_foreign_ids_are_refused(session: Session, wrong: str) -> None:
    foreign = make_conversation(make_user("stranger"), exchange(BREAD), title="Theirs")

    async def steps(client: Client) -> None:
        for given in (wrong, f"{foreign.pk}-0"):
            assert (await client.call_tool("fetch", {"id": given})).is_error

    session(steps)


def test_unknown_profile_is_refused_with_its_name(address: str, owner: User) -> None:
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
    answer = httpx2.post(f"{address}/mcp?profile=gemini", json={}, headers=headers)
    assert answer.status_code == 404
    assert "profile 'gemini'" in answer.json()["detail"]
