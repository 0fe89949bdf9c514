"""The tool that searches documents: those attached to the conversation, or all of the caller's outside one."""

from typing import Annotated

from pydantic import BaseModel, Field

from convmemory.tools.definition import Caller, Optional, Question, Text, Tool, ToolInput, ToolOutput, archive_owner
from search.searching import MixedResults, SearchQuery, SectionHit, search_documents

NO_DOCUMENT = "No document is attached to this conversation: attach one on its page, or name none."
NO_CALLER = "Nobody is signed in: there is nothing to search."
Documents = frozenset[int] | None


class DocumentSearchInput(ToolInput):
    query: Annotated[Question, Field(description="a full question")]
    document_id: Annotated[int, Field(ge=1, description="only this document")] | Optional = None
    limit: Annotated[int, Field(ge=1, le=20, description="sections a page")] = 5
    cursor: Annotated[Text, Field(description="next_cursor")] = ""


class FoundSection(BaseModel):
    cite: Annotated[str, Field(description="put this after what you take from it")]
    document_id: int
    title: str
    headings: list[str]
    page: int | Optional = None
    passage: str
    similarity: Annotated[float, Field(description="0 to 1")]
    relevance: float | Optional = None
    url: str


class DocumentSearchOutput(ToolOutput):
    results: list[FoundSection]
    next_cursor: str | Optional = None
    note: str | Optional = None


def document_search(
    caller: Caller, arguments: DocumentSearchInput, documents: Documents = None
) -> DocumentSearchOutput:
    """Return the sections that answer the query, only from `documents` if given. Raises: InvalidInput, NotFound."""
    owner = archive_owner(caller)
    if owner is None:
        return DocumentSearchOutput(results=[], note=NO_CALLER)
    found = search_documents(
        caller=owner,
        query=SearchQuery(text=arguments.query, limit=arguments.limit),
        document_id=arguments.document_id,
        among=documents,
        cursor=arguments.cursor,
    )
    notes = [*found.notes, *([NO_DOCUMENT] if documents is not None and not documents else [])]
    return _answer(found, " ".join(notes))


def _answer(found: MixedResults, note: str) -> DocumentSearchOutput:
    results = [_found(number, hit) for number, hit in enumerate(found.sections, 1)]
    return DocumentSearchOutput(results=results, next_cursor=found.next_cursor, note=note or None)


def _found(number: int, hit: SectionHit) -> FoundSection:
    return FoundSection(
        cite=f"[{number}]({hit.marked_url})",
        document_id=hit.document_id,
        title=hit.title,
        headings=list(hit.heading_path),
        page=hit.page,
        passage=hit.passage,
        similarity=hit.similarity,
        relevance=hit.relevance,
        url=hit.url,
    )


DOCUMENT_SEARCH = Tool(
    name="document_search",
    description=(
        "Find what the user's documents say. Use it for what files hold; for what was said use ConversationSearch. "
        "Good query: 'how long is the notice period'. Bad: 'notice'. Put each result's cite after what you take "
        "from it."
    ),
    input_model=DocumentSearchInput,
    output_model=DocumentSearchOutput,
    function=document_search,
    sees_documents=True,
)
