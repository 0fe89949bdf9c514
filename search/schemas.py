"""What the search routes give."""

from datetime import datetime

from ninja import Field, Schema


class HitOut(Schema):
    """One ranked turn."""

    conversation_id: int
    conversation_title: str
    turn_number: int
    message_id: int
    similarity: float = Field(description="cosine similarity, 0 to 1")
    score: float = Field(description="fused score, comparable within this query only")
    user_question: str
    passage: str = Field(description="the part of the turn that answers best")
    marks: list[tuple[int, int]] = Field(description="where words of the query stand in the passage")
    passage_message_id: int | None = Field(description="the message that holds the passage")
    passage_part: int
    passage_start: int = Field(description="characters of the part's text")
    passage_end: int
    url: str
    matched: list[str] = Field(description="the features by which it stands out")
    created_at: datetime
    agent: str
    project: str


class SearchPage(Schema):
    results: list[HitOut] = Field(alias="hits")
    next_cursor: str | None
    notes: list[str] = []


class IndexStatusOut(Schema):
    turns: int
    embedded_turns: int
    messages: int
    passages: int
    pending: int
    failed: int
