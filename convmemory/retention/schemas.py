"""The trash at the wire."""

from datetime import datetime
from typing import Literal

from ninja import Schema
from pydantic import Field


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
