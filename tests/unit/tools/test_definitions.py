"""The tools' definitions: schemas, sizes, and what the models accept."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from jsonschema import Draft202012Validator

from convmemory import __version__
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.mcp_server.server import mcp_tool
from convmemory.tools.definition import Tool
from convmemory.tools.registry import openai_tool, run_tool, tool_definitions, tool_named

TOOLS = tool_definitions()
MAX_LIST_TOKENS = 1_700


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_valid_and_describe_objects(tool: Tool[Any, Any]) -> None:
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert tool.input_schema["additionalProperties"] is False
    assert not {"user", "user_id", "owner", "owner_id", "caller"} & set(tool.input_schema["properties"])


def test_names_are_those_that_are_promised() -> None:
    assert [tool.name for tool in TOOLS] == [
        "ConversationSearch", "search_chat_history", "conversation_recall", "read_conversation", "list_conversations",
        "document_search",
    ]  # fmt: skip


def test_the_whole_list_costs_few_tokens() -> None:
    listed = [mcp_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]
    assert estimated_tokens(json.dumps(listed, separators=(",", ":"))) < MAX_LIST_TOKENS


def estimated_tokens(text: str) -> int:
    """Words of up to nine letters, groups of three digits and runs of up to four signs are one token each.

    A stand-in for o200k_base, which cannot be had without a network: for the list of the first five tools it
    gives 1,298 tokens, where o200k_base gives 1,263 and cl100k_base 1,174.
    """
    pieces = re.findall(r" ?[a-z]+|[A-Z]+[a-z]*|\d{1,3}|[^A-Za-z0-9\s]{1,4}|\s", text)
    return sum(-(-len(piece) // 9) for piece in pieces)


def test_openai_function_tools_carry_name_description_and_parameters() -> None:
    rendered = openai_tool(tool_named("search_chat_history"))
    assert rendered["type"] == "function"
    assert rendered["function"]["name"] == "search_chat_history"
    assert rendered["function"]["parameters"]["required"] == ["query"]
    assert rendered["function"]["parameters"]["properties"]["limit"] == {
        "type": "integer", "minimum": 1, "maximum": 20, "default": 5
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [
        ("ConversationSearch", {}, "query"),
        ("ConversationSearch", {"query": "x" * 501}, "query"),
        ("ConversationSearch", {"query": "egg", "limit": 0}, "limit"),
        ("ConversationSearch", {"query": "egg", "limit": 10_000}, "limit"),
        ("search_chat_history", {"query": ""}, "query"),
        ("search_chat_history", {"query": "x" * 501}, "query"),
        ("search_chat_history", {"query": "egg", "limit": 0}, "limit"),
        ("search_chat_history", {"query": "egg", "limit": 10_000}, "limit"),
        ("search_chat_history", {"query": "egg", "user_id": 1}, "user_id"),
        ("conversation_recall", {}, "query"),
        ("conversation_recall", {"query": "x" * 501}, "query"),
        ("conversation_recall", {"query": "egg", "max_tokens": 0}, "max_tokens"),
        ("conversation_recall", {"query": "egg", "top_k": 0}, "top_k"),
        ("conversation_recall", {"query": "egg", "top_k": 10_000}, "top_k"),
        ("read_conversation", {}, "conversation_id"),
        ("read_conversation", {"conversation_id": 1, "max_tokens": 0}, "max_tokens"),
        ("read_conversation", {"conversation_id": 1, "from_turn": -1}, "from_turn"),
        ("list_conversations", {"limit": 0}, "limit"),
        ("list_conversations", {"limit": 10_000}, "limit"),
        ("list_conversations", {"after": "yesterday"}, "after"),
    ],
)
def test_bad_arguments_are_named(name: str, arguments: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} cannot be called like this: .*{place}"):
        run_tool(name, arguments, None)


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(InvalidInput, match="arguments"):
        run_tool("list_conversations", ["x"], None)  # type: ignore[arg-type]


def test_an_unknown_tool_is_said_with_those_there_are() -> None:
    with pytest.raises(NotFound, match=r"no tool 'magic'.*ConversationSearch"):
        run_tool("magic", {}, None)


def test_the_servers_version_is_the_projects() -> None:
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == __version__
