"""The two search tools, over the same search as the page and the API, and the filters of every search tool.

`ConversationSearch` returns everything that a model needs to continue; `search_chat_history` keeps a format that
other programs know: snippets with a cosine distance, and an empty answer with a note instead of an error.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from convmemory.conversations.filters import Filters, filters_of
from convmemory.core.errors import ConvMemoryError
from convmemory.core.text import one_line, storable
from convmemory.tools.definition import (
    Caller,
    Moment,
    Optional,
    Question,
    Text,
    Tool,
    ToolInput,
    ToolOutput,
    archive_owner,
)
from search.query import MAX_QUERY_CHARS
from search.reasons import Explanation, Reason
from search.searching import TURNS_ALONE, Hit, SearchQuery, search
from search.titles import TitleHit

# --- filters --------------------------------------------------------------------------------------
# The filters of the search tools: speakers and conversations.
#
# Each tool defines its own default scope; docs/adr/0038-default-scope-per-tool.md says why.


ScopeName = Literal["user", "assistant", "thinking", "tool"]


def _as_list(value: Any) -> Any:
    """Accept `user,thinking`, as the API and the command do, because models write that too."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Scope = Annotated[list[ScopeName], BeforeValidator(_as_list), Field(description="whose words to search")]
SAID: list[ScopeName] = ["user", "assistant"]
SAID_AND_THOUGHT: list[ScopeName] = ["user", "assistant", "thinking"]

Agent = Annotated[Text, Field(description="exact name")]
Project = Annotated[Text, Field(description="exact name")]
After = Annotated[Moment | Optional, Field(description="said since")]
Before = Annotated[Moment | Optional, Field(description="said until")]


class SearchInput(ToolInput):
    """A question in plain text, and the filters of its search."""

    query: Annotated[Question, Field(description="a full question")]
    scope: Scope = SAID
    agent: Agent = ""
    project: Project = ""
    after: After = None
    before: Before = None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the scope, or the tool's default if it is empty."""
        return frozenset(self.scope or type(self).model_fields["scope"].default)

    @property
    def filters(self) -> Filters:
        """Raises: InvalidInput if the dates are the wrong way round."""
        return filters_of(self.__dict__, kinds=TURNS_ALONE)


# --- searching ------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)

QUESTION_CHARS = 300
SNIPPET_CHARS = 200


class ConversationSearchInput(SearchInput):
    scope: Scope = SAID_AND_THOUGHT
    limit: Annotated[int, Field(ge=1, le=50, description="turns a page")] = 10
    cursor: Annotated[Text, Field(description="next_cursor")] = ""


class FoundTurn(BaseModel):
    conversation_id: int
    conversation_title: str
    turn_number: int
    user_question: str
    passage: str
    similarity: Annotated[float, Field(description="0 to 1")]
    relevance: float | Optional = None
    created_at: datetime
    url: str


Titles = list[Any]
"""The values show what they are; a type of their own would cost every client tokens."""


def named_like_query(titles: Sequence[TitleHit]) -> Titles | None:
    """Return the conversations and documents named like the query for an answer; None leaves them out."""
    return [{"kind": hit.kind, "id": hit.id, "title": hit.title, "url": hit.url} for hit in titles] or None


class ConversationSearchOutput(ToolOutput):
    titles: SkipJsonSchema[Titles | None] = None
    results: list[FoundTurn]
    next_cursor: str | Optional = None
    note: str | Optional = None
    reason: SkipJsonSchema[str | None] = None
    pending: SkipJsonSchema[int | None] = None


def conversation_search(caller: Caller, arguments: ConversationSearchInput) -> ConversationSearchOutput:
    """Return the caller's turns that answer the query, best first. Raises: InvalidInput."""
    query = SearchQuery(text=arguments.query, limit=arguments.limit, scope=arguments.kinds, filters=arguments.filters)
    found = search(caller=caller, query=query, cursor=arguments.cursor)
    return ConversationSearchOutput(
        titles=named_like_query(found.titles),
        results=[_found_turn(hit) for hit in found.hits],
        next_cursor=found.next_cursor,
        note=" ".join(found.notes) or None,
        reason=found.reason,
        pending=found.pending or None,
    )


def _found_turn(hit: Hit) -> FoundTurn:
    return FoundTurn(
        conversation_id=hit.conversation_id,
        conversation_title=hit.conversation_title,
        turn_number=hit.turn_number,
        user_question=one_line(hit.user_question, QUESTION_CHARS),
        passage=hit.passage,
        similarity=hit.similarity,
        relevance=hit.relevance,
        created_at=hit.created_at,
        url=hit.url,
    )


CONVERSATION_SEARCH = Tool(
    name="ConversationSearch",
    description=(
        "Find turns of the user's past conversations, by meaning and by words. Use it when earlier work, a decision or "
        "an explanation matters; not for what you see already. Good query: 'why did the nightly backup stop working'. "
        "Bad: 'backup nightly'. Quotes and hyphens are plain text."
    ),
    input_model=ConversationSearchInput,
    output_model=ConversationSearchOutput,
    function=conversation_search,
)


class SearchChatHistoryInput(SearchInput):
    query: Annotated[
        str, Field(min_length=1, max_length=MAX_QUERY_CHARS, description="a full question"), AfterValidator(storable)
    ]
    limit: Annotated[int, Field(ge=1, le=20, description="snippets at most")] = 5


class Snippet(BaseModel):
    conversationId: int
    turnNumber: int
    snippet: str
    score: Annotated[float, Field(description="cosine distance, lower is closer")]


class SearchChatHistoryOutput(ToolOutput):
    results: list[Snippet]
    totalFound: int
    query: str
    note: str | Optional = None
    reason: SkipJsonSchema[str | None] = None
    pending: SkipJsonSchema[int | None] = None


def search_chat_history(caller: Caller, arguments: SearchChatHistoryInput) -> SearchChatHistoryOutput:
    """Return snippets of the caller's turns, closest first; report errors in `note` and raise none."""
    if archive_owner(caller) is None:
        nobody = Explanation(Reason.NO_CALLER)
        return _nothing(arguments.query, nobody.for_tools, nobody.reason)
    if not arguments.query.strip():
        return _nothing(arguments.query, "the query is blank: ask a question")
    try:
        query = SearchQuery(
            text=arguments.query,
            limit=arguments.limit,
            mode="semantic",
            scope=arguments.kinds,
            filters=arguments.filters,
            min_chars=1,
            by_distance=True,
        )
        found = search(caller=caller, query=query, may_rerank=False)
    except ConvMemoryError as error:
        return _nothing(arguments.query, str(error))
    # The boundary of this tool, whose format promises an answer for every error.
    except Exception:
        logger.exception("search_chat_history failed")
        return _nothing(arguments.query, "the search failed; the server's log says why")
    return SearchChatHistoryOutput(
        results=[_snippet(hit) for hit in found.hits],
        totalFound=found.total,
        query=arguments.query,
        note=" ".join(found.notes) or None,
        reason=found.reason,
        pending=found.pending or None,
    )


def _snippet(hit: Hit) -> Snippet:
    return Snippet(
        conversationId=hit.conversation_id,
        turnNumber=hit.turn_number,
        snippet=hit.user_question[:SNIPPET_CHARS],
        score=round(1 - hit.similarity, 4),
    )


def _nothing(query: str, note: str, reason: Reason | None = None) -> SearchChatHistoryOutput:
    return SearchChatHistoryOutput(results=[], totalFound=0, query=query, note=note, reason=reason)


def _refused(arguments: object, reason: str) -> SearchChatHistoryOutput:
    """Return the answer to invalid arguments: no results, and the reason."""
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return _nothing(storable(query)[:MAX_QUERY_CHARS] if isinstance(query, str) else "", reason)


SEARCH_CHAT_HISTORY = Tool(
    name="search_chat_history",
    description=(
        "The past turns nearest in meaning, as snippets of their questions. Use it to see whether something came up; "
        "for what was said use ConversationSearch. Good query: 'how do I renew the certificate'. Bad: 'certificate'."
    ),
    input_model=SearchChatHistoryInput,
    output_model=SearchChatHistoryOutput,
    function=search_chat_history,
    refuse=_refused,
)
