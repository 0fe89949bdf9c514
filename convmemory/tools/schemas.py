"""Responses of the tool routes."""

from typing import Any

from ninja import Field, Schema


class ToolOut(Schema):
    """One tool, as chat and MCP offer it too."""

    name: str
    description: str
    input_schema: dict[str, Any] = Field(description="JSON Schema 2020-12 of the arguments")
    output_schema: dict[str, Any] = Field(description="JSON Schema 2020-12 of the answer")


class ToolList(Schema):
    tools: list[ToolOut]
