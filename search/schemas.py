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
    matched: list[str] = Field(description="the signals that found it")
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


class RecallIn(Schema):
    """What to recall; nothing is given unasked."""

    query: str = Field(description="2 to 500 characters, as you would ask a person")
    top_k: int | None = Field(None, description="1 to 50; RECALL_TOP_K where it is left out")
    threshold: float | None = Field(
        None, description="least cosine similarity, 0 to 1; RECALL_THRESHOLD where it is left out"
    )
    scope: list[str] = Field([], description="any of user, assistant, thinking, tool; empty: what was said")


class ConversationRecallIn(RecallIn):
    before_position: int | None = Field(None, description="only messages before this one")
    after_position: int | None = Field(None, description="only messages after this one")


class RecalledPassageOut(Schema):
    part_index: int
    start: int = Field(description="characters of the part's text")
    end: int
    text: str
    similarity: float


class RecalledMessageOut(Schema):
    """One message that answers, with its passages nearest to the query in the order of the text."""

    message_id: int
    conversation_id: int
    conversation_title: str = Field(alias="title")
    turn_number: int
    position: int
    role: str
    speaker: str
    created_at: datetime | None
    similarity: float = Field(description="cosine similarity of its best passage, 0 to 1")
    score: float = Field(description="fused score, comparable within this recall only")
    passages: list[RecalledPassageOut]
    url: str


class RecallOut(Schema):
    query: str
    results: list[RecalledMessageOut] = Field(alias="messages")
    notes: list[str] = []
