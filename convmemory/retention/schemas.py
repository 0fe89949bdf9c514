"""The trash and retention rules at the wire."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import AfterValidator, Field

from convmemory.core.text import storable
from convmemory.retention.models import MAX_DAYS

Name = Annotated[str, AfterValidator(storable)]


class TrashedOut(Schema):
    kind: Literal["conversation", "document"]
    id: int
    title: str
    trashed_at: datetime
    kept_until: datetime = Field(description="afterwards it is deleted for good")


class TrashPage(Schema):
    results: list[TrashedOut]
    next_start: int | None


class Emptied(Schema):
    deleted: int


class RuleIn(Schema):
    """Conversations of a source and a project without a new message for some days."""

    source: Name = Field("", max_length=50, description="such as claude-code; empty: any")
    project: Name = Field("", max_length=300, description="its folder, in full; empty: any")
    days: int = Field(ge=1, le=MAX_DAYS, description="days without a new message")


class LimitOut(Schema):
    source: str
    project: str
    days: int
    created_at: datetime


class RuleOut(LimitOut):
    id: int


class RuleList(Schema):
    results: list[RuleOut]
    limits: list[LimitOut] = Field(description="the operator's, for everybody's conversations")


class FoundByRule(Schema):
    conversations: int
