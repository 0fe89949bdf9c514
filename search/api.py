"""Routes for search and for the state of the index."""

from dataclasses import replace

from django.http import HttpRequest
from ninja import P, Query, QueryEx, Router

from convmemory.accounts.authentication import caller_in, caller_of
from convmemory.accounts.callers import MINE
from convmemory.conversations.filters import FilterSchema, each_name
from convmemory.conversations.reading import find_by_source
from convmemory.conversations.schemas import ONE_ARCHIVE
from convmemory.core.errors import NotFound
from search.indexing.status import IndexStatus, index_status
from search.schemas import IndexStatusOut, MixedPage, SearchPage, SearchParameters, SectionPage
from search.searching import (
    TURNS_ALONE,
    DocumentScope,
    SearchResults,
    parse_kinds,
    parse_scope,
    search,
)

router = Router(tags=["search"])

SCOPE = "any of user, assistant, thinking, tool, separated by commas"


@router.get("/conversations/search", response=SearchPage, by_alias=False, summary="Find turns")
def search_conversations(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    asked: Query[SearchParameters],
    scope: QueryEx[str, P(description=SCOPE)] = "",
    source_id: QueryEx[str, P(description="your own id of a conversation, to search it alone")] = "",
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
    query = asked.query_of(scope=parse_scope(scope), filters=filters)
    space = MINE if source_id else asked.space
    return search(caller=caller_of(request), query=query, chosen=space, cursor=asked.cursor, folds_copies=True)


@router.get("/documents/search", response=SectionPage, by_alias=False, summary="Find sections of documents")
def search_in_documents(
    request: HttpRequest,
    asked: Query[SearchParameters],
    document_id: QueryEx[int | None, P(description="only this document")] = None,
    conversation_id: QueryEx[int | None, P(description="only documents attached to this conversation")] = None,
) -> SearchResults:
    query = asked.query_of(document_scope=DocumentScope(document_id, conversation_id))
    return search(caller=caller_of(request), query=query, chosen=asked.space, cursor=asked.cursor)


@router.get("/search", response=MixedPage, by_alias=False, summary="Find turns and sections together")
def search_everything(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    asked: Query[SearchParameters],
    kind: QueryEx[str, P(description="turn, section, or both, separated by commas")] = "turn,section",
    scope: QueryEx[str, P(description=SCOPE)] = "",
) -> SearchResults:
    query = asked.query_of(scope=parse_scope(scope), filters=chosen.filters(kinds=parse_kinds(kind)))
    return search(caller=caller_of(request), query=query, chosen=asked.space, cursor=asked.cursor, folds_copies=True)


@router.get("/index/status", response=IndexStatusOut, summary="How far your archive is indexed")
def show_index_status(request: HttpRequest, space: QueryEx[str, P(description=ONE_ARCHIVE)] = "") -> IndexStatus:
    return index_status(caller=caller_in(request, space))
