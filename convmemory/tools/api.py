"""Routes of the tools: list them, and call one by name."""

from typing import Any

from django.http import HttpRequest
from ninja import Body, Field, Router, Schema

from convmemory.accounts.authentication import READING, caller_of
from convmemory.tools.definition import Tool
from convmemory.tools.registry import run_tool, tool_definitions


class ToolOut(Schema):
    """One tool, as chat and MCP offer it too."""

    name: str
    description: str
    input_schema: dict[str, Any] = Field(description="JSON Schema 2020-12 of the arguments")
    output_schema: dict[str, Any] = Field(description="JSON Schema 2020-12 of the answer")


class ToolList(Schema):
    tools: list[ToolOut]


router = Router(tags=["tools"])


@router.get("/tools", response=ToolList, summary="The tools that agents have")
def list_tools(request: HttpRequest) -> dict[str, tuple[Tool[Any, Any], ...]]:
    return {"tools": tool_definitions()}


@router.post(
    "/tools/{name}", auth=READING, response=dict[str, Any], summary="Call a tool; the body holds its arguments"
)
def call_tool(request: HttpRequest, name: str, arguments: Body[dict[str, Any]] = {}) -> dict[str, Any]:  # noqa: B006
    caller = caller_of(request)
    return run_tool(name, arguments, caller if caller.key else caller.alone())  # a session reads no spaces by tools
