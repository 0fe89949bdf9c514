"""The tools' definitions: schemas, sizes, and what the models accept."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from convmemory.conversations.messages.echo import is_own_tool
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.mcp_server.server import mcp_tool
from convmemory.tools.definition import Tool, ToolInput
from convmemory.tools.reading import ReadConversationInput
from convmemory.tools.recalling import ConversationRecallInput
from convmemory.tools.registry import chat_tools, mcp_tools, openai_tool, run_tool, tool_definitions, tool_named
from convmemory.tools.searching import LATER_CHARS, ShortSearchInput, search_as_text

TOOLS = tool_definitions()
MAX_CHAT_TOKENS = 2_000  # of ten tools, whose answers say why they are empty or incomplete
MAX_MCP_TOKENS = 1_300  # of six tools, which each session of each agent pays for
SEARCH_TOOLS = [tool for tool in TOOLS if "query" in tool.input_schema["properties"]]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_valid_and_describe_objects(tool: Tool[Any, Any]) -> None:
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert tool.input_schema["additionalProperties"] is False
    assert not {"user", "user_id", "owner", "owner_id", "caller"} & set(tool.input_schema["properties"])


def test_tool_names_are_fixed() -> None:
    assert [tool.name for tool in TOOLS] == [
        "search", "read_conversation", "recall", "list_conversations", "why", "find_fix",
        "ConversationSearch", "search_chat_history", "conversation_recall", "document_search", "search_events",
        "conversation_ask",
    ]  # fmt: skip
    assert [tool.name for tool in mcp_tools()] == [
        "convmemory_search", "convmemory_read_conversation", "convmemory_recall", "convmemory_list_conversations",
        "convmemory_why", "convmemory_find_fix",
    ]  # fmt: skip


def test_names_with_and_without_prefix_mean_the_same_tool() -> None:
    for tool in TOOLS:
        assert tool_named(tool.name) == tool_named(f"convmemory_{tool.name}") == tool
    with pytest.raises(NotFound, match="no tool 'convmemory_magic'"):
        tool_named("convmemory_magic")


def test_setting_lists_every_tool_over_mcp(settings: Any) -> None:
    settings.MCP_ALL_TOOLS = True
    assert [tool.name for tool in mcp_tools()] == [f"convmemory_{tool.name}" for tool in tool_definitions()]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_parameter_is_described(tool: Tool[Any, Any]) -> None:
    properties = tool.input_schema["properties"]
    assert not [name for name, schema in properties.items() if not schema.get("description")]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_descriptions_say_when_to_use_tool_and_when_not(tool: Tool[Any, Any]) -> None:
    assert "Use it" in tool.description
    assert re.search(r"; (?:not|for .* use) ", tool.description)
    assert "'" in tool.description or "=" in tool.description, "an example"


@pytest.mark.parametrize("tool", SEARCH_TOOLS, ids=lambda tool: tool.name)
def test_search_tools_have_good_and_bad_query_and_every_filter(tool: Tool[Any, Any]) -> None:
    assert re.search(r"Good query: '[^']+'. Bad: '[^']+'", tool.description)
    properties = tool.input_schema["properties"]
    if tool.name == "document_search":
        return  # documents have neither speakers nor agents
    assert {"scope", "agent", "project", "after", "before"} <= set(properties)
    assert properties["scope"]["items"]["enum"] == ["user", "assistant", "thinking", "tool"]
    assert "assistant" in properties["scope"]["default"]


def test_tool_that_setting_turns_off_is_in_no_list(settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    names = {tool.name.removeprefix("convmemory_") for tool in (*tool_definitions(), *mcp_tools())}
    assert not {"recall", "conversation_recall"} & names
    with pytest.raises(NotFound, match="no tool 'conversation_recall'"):
        run_tool("conversation_recall", {"query": "egg"}, None)


@pytest.mark.parametrize(("tools", "limit"), [(mcp_tools(), MAX_MCP_TOKENS), (chat_tools(), MAX_CHAT_TOKENS)])
def test_lists_of_tools_cost_few_tokens(tools: tuple[Tool[Any, Any], ...], limit: int) -> None:
    listed = [mcp_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert estimated_tokens(json.dumps(listed, separators=(",", ":"))) <= limit


def test_tool_that_marks_fits_and_is_announced_as_writing(settings: Any) -> None:
    settings.MCP_MARKING = True
    listed = [mcp_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in mcp_tools()]
    assert estimated_tokens(json.dumps(listed, separators=(",", ":"))) <= MAX_MCP_TOKENS
    assert [tool["name"] for tool in listed if not tool["annotations"].get("readOnlyHint")] == ["convmemory_mark_turn"]


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
        "type": "integer", "minimum": 1, "maximum": 20, "default": 5, "description": "snippets at most"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [
        ("ConversationSearch", {}, "query"),
        ("ConversationSearch", {"query": "x" * 10_001}, "query"),
        ("ConversationSearch", {"query": "egg", "limit": 0}, "limit"),
        ("ConversationSearch", {"query": "egg", "limit": 10_000}, "limit"),
        ("ConversationSearch", {"query": "egg", "scope": ["dreams"]}, "scope"),
        ("conversation_recall", {}, "query"),
        ("conversation_recall", {"query": "x" * 10_001}, "query"),
        ("conversation_recall", {"query": "egg", "max_tokens": 0}, "max_tokens"),
        ("conversation_recall", {"query": "egg", "top_k": 0}, "top_k"),
        ("conversation_recall", {"query": "egg", "top_k": 10_000}, "top_k"),
        ("conversation_recall", {"query": "egg", "alive_message_ids": "all"}, "alive_message_ids"),
        ("read_conversation", {}, "conversation_id"),
        ("read_conversation", {"conversation_id": 1, "max_tokens": 0}, "max_tokens"),
        ("read_conversation", {"conversation_id": 1, "from_turn": -1}, "from_turn"),
        ("list_conversations", {"limit": 0}, "limit"),
        ("list_conversations", {"limit": 10_000}, "limit"),
        ("list_conversations", {"after": "yesterday"}, "after: not a date: write it as 2026-05-31"),
        ("search", {"query": "egg", "before": "May"}, "before: not a date: write it as 2026-05-31"),
    ],
)
def test_bad_arguments_are_named(name: str, arguments: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} cannot be called like this: .*{place}"):
        run_tool(name, arguments, None)


@pytest.mark.parametrize(
    ("arguments", "query", "place"),
    [
        ({}, "", "query"),
        ({"query": ""}, "", "query"),
        ({"query": 7}, "", "query"),
        ({"query": "x" * 10_001}, "x" * 10_000, "query"),
        ({"query": "egg", "limit": 0}, "egg", "limit"),
        ({"query": "egg", "limit": "many"}, "egg", "limit"),
        ({"query": "egg", "user_id": 1}, "egg", "user_id"),
        ({"query": "egg", "scope": ["dreams"]}, "egg", "scope"),
        (["egg"], "", "arguments"),
    ],
)
def test_search_chat_history_answers_bad_arguments_in_its_own_shape(arguments: Any, query: str, place: str) -> None:
    answer = run_tool("search_chat_history", arguments, None)
    note = answer.pop("note")
    assert answer == {"results": [], "totalFound": 0, "query": query}
    assert place in note


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(InvalidInput, match="arguments"):
        run_tool("list_conversations", ["x"], None)  # type: ignore[arg-type]


def test_unknown_tool_error_lists_tools() -> None:
    with pytest.raises(NotFound, match=r"no tool 'magic'.*ConversationSearch"):
        run_tool("magic", {}, None)


@pytest.mark.parametrize(
    "spelling",
    [
        "{}", "mcp__convmemory__{}", "mcp_convmemory_{}", "convmemory-{}", "convmemory_{}", "convmemory_convmemory_{}",
        "mcp__plugin_convmemory_convmemory__convmemory_{}",
    ],
)  # fmt: skip
def test_every_tool_is_known_as_echo_in_agents_spellings(spelling: str) -> None:
    named_alone = [
        tool for tool in TOOLS if tool.name not in ("search", "recall", "why", "find_fix")
    ]  # other servers have these, too
    tools = named_alone if spelling == "{}" else TOOLS
    assert all(is_own_tool(spelling.format(tool.name)) for tool in tools)
    assert not any(map(is_own_tool, ["Bash", "convmemory", "search", "mcp__wiki__search", "my_convmemory_search"]))


@pytest.mark.parametrize(
    ("model", "arguments", "same"),
    [
        (
            ShortSearchInput,
            {
                "query": "pump",
                "agent": None,
                "project": "null",
                "after": None,
                "limit": 5,
                "scope": None,
                "space": None,
            },
            {"query": "pump", "limit": 5},
        ),
        (
            ShortSearchInput,
            {"query": "pump", "scope": '["user", "tool"]'},
            {"query": "pump", "scope": ["user", "tool"]},
        ),
        (
            ReadConversationInput,
            {"conversation_id": "35", "cursor": None, "max_tokens": None, "to_turn": "null"},
            {"conversation_id": 35},
        ),
        (
            ReadConversationInput,
            {"conversation_id": "https://memory.example.org/conversations/35?turn=3"},
            {"conversation_id": 35, "from_turn": 3, "to_turn": 3},
        ),
        (
            ReadConversationInput,
            {"conversation_id": "convmemory://conversations/35/turns/3", "from_turn": 1},
            {"conversation_id": 35, "from_turn": 1},
        ),
        (
            ConversationRecallInput,
            {"query": "pump", "alive_message_ids": "[1, 2]", "conversation_id": None},
            {"query": "pump", "alive_message_ids": [1, 2]},
        ),
    ],
)
def test_arguments_as_models_write_them(
    model: type[ToolInput], arguments: dict[str, Any], same: dict[str, Any]
) -> None:
    assert model.model_validate(arguments) == model.model_validate(same)


def test_required_argument_of_null_is_refused() -> None:
    with pytest.raises(ValidationError):
        ShortSearchInput.model_validate({"query": None})


TURN = {
    "conversation_id": 1, "turn_number": 0, "conversation_title": "Pump", "url": "/conversations/1?turn=0",
    "created_at": "2026-05-01T00:00:00", "project": "", "agent": "", "user_question": "which?", "passage": "that",
}  # fmt: skip


def test_line_behind_the_first_tells_sentences_once_and_as_many_as_it_has_room_for() -> None:
    first, second = "The pump stands in the cellar of the old mill by the river.", "Its valve opens to the left."
    telling = [first, f"Sure. {first}", second, "It is green."]
    lines = search_as_text({"results": [TURN, TURN | {"turn_number": 1, "telling": telling}]}).splitlines()
    assert lines[1].endswith(f" | found: {first} … {second}")
    (_, long) = search_as_text({"results": [TURN, TURN | {"telling": ["word " * 90, second]}]}).splitlines()
    assert len(long.partition("found: ")[2]) <= LATER_CHARS


def test_turns_of_one_conversation_follow_each_other() -> None:
    other = TURN | {"conversation_id": 2, "conversation_title": "Mill", "url": "/conversations/2?turn=0"}
    lines = search_as_text({"results": [TURN, other, TURN | {"turn_number": 3}]}).splitlines()
    assert [line.partition("](")[0].partition(" |")[0] for line in lines] == ["- [Pump", "- turn 3", "- [Mill"]


def test_first_line_says_what_was_asked_next_unless_a_later_turn_says_otherwise() -> None:
    first = TURN | {"next_question": "the third, but make it 500"}
    assert search_as_text({"results": [first]}).endswith(" | then asked: the third, but make it 500")
    later = {"turn_number": 1, "url": "/conversations/1?turn=1", "quote": "Take the fourth instead."}
    assert "then asked" not in search_as_text({"results": [first | {"overturned": later}]})


def test_that_nothing_answers_is_said_before_the_hits() -> None:
    said = search_as_text({"results": [TURN], "note": "Nothing found seems to answer this.", "reason": "below_bar"})
    assert said.startswith("Nothing found")
    assert search_as_text({"results": [TURN], "note": "3 turns wait.", "reason": "pending"}).endswith("wait.")
