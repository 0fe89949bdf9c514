"""Routes of the tools: list them, and call one by name."""

from typing import Any

from django.http import HttpRequest
from ninja import Body, Router

from convmemory.accounts.authentication import READING, caller_of
from convmemory.tools.definition import Tool
from convmemory.tools.registry import run_tool, tool_definitions
from convmemory.tools.schemas import ToolList

router = Router(tags=["tools"])


@router.get("/tools", response=ToolList, summary="The tools that agents have")
def list_tools(request: HttpRequest) -> dict[str, tuple[Tool[Any, Any], ...]]:
    return {"tools": tool_definitions()}


@router.post(
    "/tools/{name}", auth=READING, response=dict[str, Any], summary="Call a tool; the body holds its arguments"
)
def call_tool(request: HttpRequest, name: str, arguments: Body[dict[str, Any]] = {}) -> dict[str, Any]:  # noqa: B006
    return run_tool(name, arguments, caller_of(request))
