"""Routes for search and for the state of the index."""

from dataclasses import replace
from typing import Literal

from django.http import HttpRequest
from ninja import P, Query, QueryEx, Router

from convmemory.accounts.authentication import caller_in, caller_of
from convmemory.accounts.callers import MINE
from convmemory.conversations.filters import FilterSchema, each_name
from convmemory.conversations.reading import find_by_source
from convmemory.conversations.schemas import ONE_ARCHIVE, SPACES
from convmemory.core.errors import NotFound
from search.indexing.status import IndexStatus, index_status
from search.schemas import IndexStatusOut, MixedPage, SearchPage, SectionPage
from search.searching import (
    TURNS_ALONE,
    DocumentScope,
    SearchQuery,
    SearchResults,
    parse_kinds,
    parse_scope,
    search,
)

router = Router(tags=["search"])

WhenParameter = Literal["", "any"]
WHEN = 'any takes words such as "last month" as plain words, not as a time'


@router.get("/conversations/search", response=SearchPage, by_alias=False, summary="Find turns")
def search_conversations(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    query: QueryEx[str, P(description="2 to 10,000 characters, as you would ask a person")],
    limit: QueryEx[int, P(description="1 to 50")] = 20,
    mode: QueryEx[str, P(description="hybrid, semantic or full_text")] = "hybrid",
    scope: QueryEx[str, P(description="any of user, assistant, thinking, tool, separated by commas")] = "",
    source_id: QueryEx[str, P(description="your own id of a conversation, to search it alone")] = "",
    when: QueryEx[WhenParameter, P(description=WHEN)] = "",
    space: QueryEx[str, P(description=SPACES)] = "",
    cursor: str = "",
) -> SearchResults:
    filters = chosen.filters(kinds=TURNS_ALONE)
    if source_id:
        # The caller's conversation with this source id.
        conversation = find_by_source(
            caller=caller_of(request), source="".join(each_name(filters.source)), source_id=source_id
        )
        if conversation is None:
            raise NotFound(f"There is no conversation with the source id {source_id!r}.")
        filters = replace(filters, archived=None, conversation_id=conversation.pk)
        space = MINE
    checked = SearchQuery(
        text=query, limit=limit, mode=mode, scope=parse_scope(scope), filters=filters, has_operators=True,
        is_timeless=when == "any",
    )  # fmt: skip
    return search(caller=caller_of(request), query=checked, chosen=space, cursor=cursor, folds_copies=True)


@router.get("/documents/search", response=SectionPage, by_alias=False, summary="Find sections of documents")
def search_in_documents(
    request: HttpRequest,
    query: QueryEx[str, P(description="2 to 10,000 characters, as you would ask a person")],
    limit: QueryEx[int, P(description="1 to 50")] = 20,
    mode: QueryEx[str, P(description="hybrid, semantic or full_text")] = "hybrid",
    document_id: QueryEx[int | None, P(description="only this document")] = None,
    conversation_id: QueryEx[int | None, P(description="only documents attached to this conversation")] = None,
    when: QueryEx[WhenParameter, P(description=WHEN)] = "",
    space: QueryEx[str, P(description=SPACES)] = "",
    cursor: str = "",
) -> SearchResults:
    checked = SearchQuery(
        text=query, limit=limit, mode=mode, has_operators=True, is_timeless=when == "any",
        document_scope=DocumentScope(document_id, conversation_id),
    )  # fmt: skip
    return search(caller=caller_of(request), query=checked, chosen=space, cursor=cursor)


@router.get("/search", response=MixedPage, by_alias=False, summary="Find turns and sections together")
def search_everything(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    query: QueryEx[str, P(description="2 to 10,000 characters, as you would ask a person")],
    kind: QueryEx[str, P(description="turn, section, or both, separated by commas")] = "turn,section",
    limit: QueryEx[int, P(description="1 to 50")] = 20,
    mode: QueryEx[str, P(description="hybrid, semantic or full_text")] = "hybrid",
    scope: QueryEx[str, P(description="any of user, assistant, thinking, tool, separated by commas")] = "",
    when: QueryEx[WhenParameter, P(description=WHEN)] = "",
    space: QueryEx[str, P(description=SPACES)] = "",
    cursor: str = "",
) -> SearchResults:
    checked = SearchQuery(
        text=query, limit=limit, mode=mode, scope=parse_scope(scope), filters=chosen.filters(kinds=parse_kinds(kind)),
        has_operators=True, is_timeless=when == "any",
    )  # fmt: skip
    return search(caller=caller_of(request), query=checked, chosen=space, cursor=cursor, folds_copies=True)


@router.get("/index/status", response=IndexStatusOut, summary="How far your archive is indexed")
def show_index_status(request: HttpRequest, space: QueryEx[str, P(description=ONE_ARCHIVE)] = "") -> IndexStatus:
    return index_status(caller=caller_in(request, space))
