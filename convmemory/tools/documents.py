"""The tool that searches documents: those attached to the conversation, or outside one all that the caller reads."""

from typing import Annotated

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.tools.definition import (
    Optional,
    Question,
    Text,
    TitledOutput,
    Tool,
    ToolInput,
    site,
)
from convmemory.tools.searching import Space, named_like_query
from search.reasons import Explanation, Reason
from search.searching import DocumentScope, SearchQuery, search

Documents = frozenset[int] | None


class DocumentSearchInput(ToolInput):
    query: Annotated[Question, Field(description="a full question")]
    document_id: Annotated[int, Field(ge=1, description="only this document")] | Optional = None
    limit: Annotated[int, Field(ge=1, le=20, description="sections a page")] = 5
    space: Space = ""
    cursor: Annotated[Text, Field(description="next_cursor")] = ""


class FoundSection(BaseModel):
    cite: Annotated[str, Field(description="put this after what you take from it")]
    document_id: int
    title: str
    headings: list[str]
    page: int | Optional = None
    passage: str
    similarity: Annotated[float, Field(description="0 to 1")] | Optional = None
    relevance: float | Optional = None
    url: str
    space: str | Optional = None
    space_id: int | Optional = None


class DocumentSearchOutput(TitledOutput):
    results: list[FoundSection]
    next_cursor: str | Optional = None


def document_search(
    caller: Caller | None, arguments: DocumentSearchInput, documents: Documents = None
) -> DocumentSearchOutput:
    """Return the sections of the caller, and of the spaces that their key reads, that answer the query.

    They are only from `documents`, if given. Raises: InvalidInput, NotFound for a document or a space that they do not
    read.
    """
    if caller is None:
        nobody = Explanation(Reason.NO_CALLER)
        return DocumentSearchOutput(results=[], note=nobody.for_tools, reason=nobody.reason)
    results = search(
        caller=caller,
        chosen=arguments.space,
        query=SearchQuery(
            text=arguments.query,
            limit=arguments.limit,
            document_scope=DocumentScope(document_id=arguments.document_id, among=documents),
        ),
        cursor=arguments.cursor,
    )
    return DocumentSearchOutput(
        titles=named_like_query(results.titles),
        results=[
            FoundSection(
                # The URL at which the owner sees the passage marked.
                cite=f"[{number}]({site()}{hit.url}&from={hit.passage_start}&to={hit.passage_end}#section-{hit.number})",
                document_id=hit.object_id,
                title=hit.title,
                headings=list(hit.section.heading_path),
                page=hit.section.page,
                passage=hit.passage,
                similarity=hit.similarity,
                relevance=hit.relevance,
                url=f"{site()}{hit.url}",
                space=hit.space.name if hit.space else None,
                space_id=hit.space.id if hit.space else None,
            )
            for number, hit in enumerate(results.hits, 1)
        ],
        next_cursor=results.next_cursor,
        note=" ".join(results.notes) or None,
        reason=results.reason,
        pending=results.pending or None,
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
