"""What the memory routes take and give."""

from ninja import Field, Schema


class EmbedIn(Schema):
    message_ids: list[int] = Field(min_length=1, max_length=1000, description="messages of this conversation")


class EmbeddingOut(Schema):
    message_id: int
    position: int
    role: str
    status: str = Field(description="pending, processing, completed or failed")
    error: str
    token_count: int
    attempts: int
    note: str = Field("", description="why it waits, where it does")


class SkippedOut(Schema):
    message_id: int
    role: str
    reason: str


class EmbeddingsOut(Schema):
    results: list[EmbeddingOut]
    skipped: list[SkippedOut]


class MemoryStatsOut(Schema):
    embedded: int
    pending: int
    waiting_for_answer: int = Field(description="of the pending: their turn has no answer yet")
    failed: int
    tokens: int
