"""The two search tools, over the same search as the sidebar and the API.

`ConversationSearch` answers with all that a model needs to go on; `search_chat_history` keeps a shape
that other programs know: snippets with a cosine distance, and an empty answer with a note instead of an error.
"""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from convmemory.conversations.reading import Filters
from convmemory.core.errors import ConvMemoryError
from convmemory.core.text import one_line, storable
from convmemory.tools.definition import (
    Caller,
    Optional,
    Question,
    Text,
    Tool,
    ToolInput,
    ToolOutput,
    archive_owner,
)
from search.document_search import TURNS_ALONE
from search.searching import Hit, SearchQuery, search

TURNS = Filters(kinds=TURNS_ALONE)
QUESTION_CHARS = 300
SNIPPET_CHARS = 200
NO_CALLER = "user identity required: nobody is signed in, so there is nothing to search"
NO_HISTORY = "no chat history found"


class ConversationSearchInput(ToolInput):
    query: Question
    limit: Annotated[int, Field(ge=1, le=50)] = 10
    cursor: Text = ""


class FoundTurn(BaseModel):
    conversation_id: int
    conversation_title: str
    turn_number: int
    user_question: str
    passage: str
    similarity: Annotated[float, Field(description="0 to 1")]
    created_at: datetime
    url: str


class ConversationSearchOutput(ToolOutput):
    results: list[FoundTurn]
    next_cursor: str | Optional = None
    note: str | Optional = None


def conversation_search(caller: Caller, arguments: ConversationSearchInput) -> ConversationSearchOutput:
    """The caller's turns that answer the query, best first. Raises: InvalidInput."""
    query = SearchQuery(text=arguments.query, limit=arguments.limit, filters=TURNS)
    found = search(caller=caller, query=query, cursor=arguments.cursor)
    return ConversationSearchOutput(
        results=[_found_turn(hit) for hit in found.hits],
        next_cursor=found.next_cursor,
        note=" ".join(found.notes) or None,
    )


def _found_turn(hit: Hit) -> FoundTurn:
    return FoundTurn(
        conversation_id=hit.conversation_id,
        conversation_title=hit.conversation_title,
        turn_number=hit.turn_number,
        user_question=one_line(hit.user_question, QUESTION_CHARS),
        passage=hit.passage,
        similarity=hit.similarity,
        created_at=hit.created_at,
        url=hit.url,
    )


CONVERSATION_SEARCH = Tool(
    name="ConversationSearch",
    description=(
        "Find the turns of the user's past conversations in which something was discussed, decided or explained. "
        "It compares meaning: ask in a full sentence, best in the user's own words ('why did the nightly backup "
        "stop working'); bare keywords ('backup nightly') find worse turns. "
        "Pass next_cursor as cursor for more. read_conversation shows a turn in full."
    ),
    input_model=ConversationSearchInput,
    output_model=ConversationSearchOutput,
    function=conversation_search,
)


class SearchChatHistoryInput(ToolInput):
    query: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(storable)]
    limit: Annotated[int, Field(ge=1, le=20)] = 5


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


def search_chat_history(caller: Caller, arguments: SearchChatHistoryInput) -> SearchChatHistoryOutput:
    """Snippets of the caller's turns, closest first; what goes wrong is said in `note`, never raised."""
    if archive_owner(caller) is None:
        return _snippets(arguments, [], NO_CALLER)
    if not arguments.query.strip():
        return _snippets(arguments, [], "the query is blank: ask a question")
    try:
        query = SearchQuery(text=arguments.query, limit=arguments.limit, mode="semantic", min_chars=1, filters=TURNS)
        found = search(caller=caller, query=query)
    except ConvMemoryError as error:
        return _snippets(arguments, [], str(error))
    return _snippets(arguments, found.hits, " ".join(found.notes) or ("" if found.hits else NO_HISTORY))


def _snippets(arguments: SearchChatHistoryInput, hits: list[Hit], note: str) -> SearchChatHistoryOutput:
    snippets = [
        Snippet(
            conversationId=hit.conversation_id,
            turnNumber=hit.turn_number,
            snippet=hit.user_question[:SNIPPET_CHARS],
            score=round(1 - hit.similarity, 4),
        )
        for hit in hits
    ]
    return SearchChatHistoryOutput(
        results=sorted(snippets, key=lambda snippet: snippet.score),
        totalFound=len(snippets),
        query=arguments.query,
        note=note or None,
    )


SEARCH_CHAT_HISTORY = Tool(
    name="search_chat_history",
    description="Snippets of the caller's own past chat turns that come closest in meaning to the query.",
    input_model=SearchChatHistoryInput,
    output_model=SearchChatHistoryOutput,
    function=search_chat_history,
)
