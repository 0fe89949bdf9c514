"""Moving and copying at the wire."""

from typing import Literal

from ninja import Schema
from pydantic import Field


class MoveIn(Schema):
    kind: Literal["conversation", "document"]
    id: int = Field(ge=1)
    space: int | None = Field(None, description="the number of a space; null: your own archive")
    copy_it: bool = Field(default=False, alias="copy", description="leave it where it is, too")


class Moved(Schema):
    kind: Literal["conversation", "document"]
    id: int = Field(description="of a copy another one")
    url: str
