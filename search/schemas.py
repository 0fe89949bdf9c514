"""Responses of the search routes."""

from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema

from convmemory.conversations.schemas import SPACE, SPACES, SpaceOut
from convmemory.core.marks import MarkKind
from search.query import SearchQuery
from search.reasons import Reason

ANSWERED = Field(
    None,
    description="false: nothing found is likely to answer, these are only the nearest; null: not known, also while "
    "turns or sections wait that could answer",
)
REASON = Field(None, description="why there are no results, or not all; the last note says it in words")
PENDING = Field(
    0,
    description="turns and sections that pass the filters and that this search may miss, because they wait for their "
    "vectors or words; a document that is being read and an import that has not ended count as one each",
)


class SearchParameters(Schema):
    """The parameters of every search."""

    query: str = Field(description="2 to 10,000 characters, as you would ask a person")
    limit: int = Field(20, description="1 to 50")
    mode: str = Field("hybrid", description="hybrid, semantic or full_text")
    when: Literal["", "any"] = Field(
        "", description='any takes words such as "last month" as plain words, not as a time'
    )
    space: str = Field("", description=SPACES)
    cursor: str = ""

    def query_of(self, **values: Any) -> SearchQuery:
        """Return the query, with values of its own. Raises: InvalidInput."""
        is_timeless = self.when == "any"
        return SearchQuery(
            self.query, limit=self.limit, mode=self.mode, has_operators=True, is_timeless=is_timeless, **values
        )


class TitleOut(Schema):
    """A conversation or a document whose title contains the words of the query."""

    kind: Literal["conversation", "document"]
    id: int
    title: str
    agent: str
    project: str
    created_at: datetime
    updated_at: datetime
    items: int = Field(description="turns or sections")
    url: str
    space: SpaceOut | None = SPACE


TITLES: Any = Field([], description="conversations and documents named like the query; they stand above the results")


class MarkOut(Schema):
    kind: MarkKind
    note: str


MARK: Any = Field(
    None, alias="where.mark", description="what the owner says of the turn; recall leaves out what is wrong"
)


class OverturningOut(Schema):
    conversation_id: int
    turn_number: int
    url: str
    quote: str = Field(description="the sentence that decides otherwise")


OVERTURNED: Any = Field(None, alias="where.overturned", description="a later turn that decides otherwise, if one does")


class OutcomeOut(Schema):
    """What a turn came to, as far as its messages say."""

    conclusion: str = Field(description="of its last answer")
    files: list[str] = Field(description="that it changed")
    passed: str = Field(description="its last command that ended well")
    failed: str = Field(description="its last command that did not")


class _Hit(Schema):
    similarity: float | None = Field(description="cosine similarity, 0 to 1; null if no vectors were compared")
    score: float = Field(description="fused score, comparable within this query only")
    relevance: float | None = Field(
        description="probability that it answers, 0 to 1; null in searches that are not calibrated for hits"
    )
    marks: list[tuple[int, int]] = Field(description="where words of the query stand in the passage")
    matched: list[str] = Field(description="the features by which it stands out")
    url: str
    created_at: datetime
    space: SpaceOut | None = SPACE


class HitOut(_Hit):
    """One ranked turn."""

    conversation_id: int = Field(alias="object_id")
    conversation_title: str = Field(alias="title")
    turn_number: int = Field(alias="number")
    message_id: int = Field(alias="where.message_id")
    user_question: str = Field(alias="heading")
    passage: str = Field(description="the part of the turn that answers best")
    passage_message_id: int | None = Field(
        alias="where.passage_message_id", description="the message that holds the passage"
    )
    passage_part: int = Field(alias="where.passage_part")
    passage_start: int = Field(description="characters of the part's text")
    passage_end: int
    agent: str
    project: str
    outcome: OutcomeOut = Field(alias="where.outcome")
    copies: int = Field(alias="where.copies", description="other sessions whose copy of the turn this page leaves out")
    mark: MarkOut | None = MARK
    overturned: OverturningOut | None = OVERTURNED


class _Page(Schema):
    results: list[Any] = Field(alias="hits")
    next_cursor: str | None
    notes: list[str] = []
    answered: bool | None = ANSWERED
    reason: Reason | None = REASON
    pending: int = PENDING
    titles: list[TitleOut] = TITLES


class SearchPage(_Page):
    results: list[HitOut] = Field(alias="hits")


class SectionOut(_Hit):
    """One ranked section of a document. Offsets count characters of the document's text."""

    kind: Literal["section"] = "section"
    document_id: int = Field(alias="object_id")
    title: str
    section: int = Field(alias="number")
    heading_path: list[str] = Field(alias="where.heading_path")
    page: int | None = Field(alias="where.page", description="page, slide or sheet, from 1")
    start: int = Field(alias="where.start")
    end: int = Field(alias="where.end")
    passage: str = Field(description="the part of the section that answers best")
    passage_start: int
    passage_end: int

    @staticmethod
    def resolve_kind(hit: object) -> str:
        return "section"


class SectionPage(_Page):
    results: list[SectionOut] = Field(alias="hits")


class TurnOut(HitOut):
    """A hit of a conversation among those of documents."""

    kind: Literal["turn"] = "turn"

    @staticmethod
    def resolve_kind(hit: object) -> str:
        return "turn"


class MixedPage(_Page):
    results: list[SectionOut | TurnOut] = Field(alias="hits")


class IndexStatusOut(Schema):
    turns: int
    embedded_turns: int
    messages: int
    passages: int
    pending: int = Field(description="turns and sections that wait for a worker")
    failed: int = Field(description="turns and sections that could not be indexed by meaning")
    sections: int
    embedded_sections: int
    without_words: int = Field(description="those that wait and that a search by words may not find yet either")
    unread_documents: int = Field(description="documents that are being read; their sections are not counted yet")
    unfinished_imports: int = Field(description="imports that wait or run; what is still in them is not counted yet")
