"""Requests and responses of the memory routes."""

from datetime import datetime
from typing import Any

from ninja import Field, Schema

from convmemory.conversations.filters import Filters, FilterSchema
from convmemory.conversations.schemas import SPACE, SPACES, RepositoryIn, SpaceOut
from search.reasons import Reason
from search.schemas import PENDING, REASON, MarkOut, OverturningOut


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
    failed: int
    tokens: int


class RecallIn(FilterSchema):
    """What to recall; nothing is given unasked."""

    query: str = Field(description="2 to 10,000 characters, as you would ask a person")
    top_k: int | None = Field(None, description="1 to 50; RECALL_TOP_K where it is left out")
    threshold: float | None = Field(
        None,
        description="least cosine similarity, 0 to 1; where it is left out, RECALL_THRESHOLD if the probability of an "
        "answer is not known, otherwise none",
    )
    min_relevance: float | None = Field(
        None,
        description="nothing comes where the probability that anything answers is lower, 0 to 1; "
        "RECALL_MIN_RELEVANCE where it is left out",
    )
    scope: list[str] = Field([], description="any of user, assistant, thinking, tool; empty: what was said")
    alive_message_ids: list[int] = Field(
        [], max_length=50_000, description="messages that the model sees already: they do not come back"
    )
    exclude_session: str = Field(
        "", max_length=300, description="id of the caller's own session: it and its subagents are not recalled"
    )
    repository: RepositoryIn | None = Field(None, description="of the folder `project`, if that is known")
    max_tokens: int | None = Field(None, description="of `context`, at least 1; MAX_RECALL_TOKENS where it is left out")
    partners: bool = Field(default=True, description="bring the openings of each turn into `context`")

    def filters(self, **further: Any) -> Filters:
        """Raises: InvalidInput."""
        return super().filters(**further, repository=self.repository.value if self.repository else None)


class EverywhereRecallIn(RecallIn):
    space: str = Field("", description=SPACES)


class ConversationRecallIn(RecallIn):
    before_position: int | None = Field(None, description="only messages before this one")
    after_position: int | None = Field(None, description="only messages after this one")


class RecalledPassageOut(Schema):
    part_index: int
    start: int = Field(description="characters of the part's text")
    end: int
    text: str
    similarity: float | None


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
    similarity: float | None = Field(
        description="cosine similarity of its best passage, 0 to 1; null if no vectors were compared"
    )
    score: float = Field(description="fused score, comparable within this recall only")
    passages: list[RecalledPassageOut]
    mark: MarkOut | None = Field(None, description="what the owner says of its turn")
    overturned: OverturningOut | None = Field(None, description="a later turn that decides otherwise, if one does")
    space: SpaceOut | None = SPACE
    url: str


class LeftOutOut(Schema):
    message_id: int
    reason: str


class RecallOut(Schema):
    query: str
    answered: bool | None = Field(description="false: nothing is likely to answer, so nothing came; null: not known")
    reason: Reason | None = REASON
    pending: int = PENDING
    total_found: int = Field(description="messages that may answer, whatever top_k is")
    results: list[RecalledMessageOut]
    context: str = Field(description="the results for a model, fenced as data, the best conversation first")
    context_tokens: int = Field(description="of `context`, by the embedding model's tokenizer, estimated without it")
    left_out: list[LeftOutOut] = Field(description="results that did not fit into `context`")
    notes: list[str]
