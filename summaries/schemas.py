"""Requests and responses of the summary routes."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema


class SummaryIn(Schema):
    from_position: int | None = Field(None, description="the first message, 0-based; default: the first of all")
    to_position: int | None = Field(None, description="the last message, included; default: the last of all")
    method: Literal["model", "extractive"] | None = Field(
        None, description="default: model where a chat endpoint is set up, else extractive"
    )


class SummaryOut(Schema):
    id: int
    conversation_id: int
    from_position: int
    to_position: int
    status: str = Field(description="pending, processing, completed or failed")
    error: str
    content: str = Field(description="Markdown; while a summary is being regenerated, the earlier text")
    method: str = Field(description="model, or extractive: sentences of the conversation itself")
    model: str
    prompt_version: int | None
    token_count: int
    attempts: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None


class SummaryList(Schema):
    results: list[SummaryOut]
