"""Routes for search and for the state of the index."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import P, QueryEx, Router

from convmemory.accounts.authentication import READING, caller_of
from convmemory.conversations.reading import Filters
from memory.context import build_memory_context
from search.indexing.status import IndexStatus, index_status
from search.recall import recall
from search.schemas import ConversationRecallIn, IndexStatusOut, RecallIn, RecallOut, SearchPage
from search.searching import SearchQuery, SearchResults, parse_scope, search

router = Router(tags=["search"])


@router.get("/conversations/search", response=SearchPage, by_alias=False, summary="Find turns")
def search_conversations(
    request: HttpRequest,
    query: QueryEx[str, P(description="2 to 500 characters, as you would ask a person")],
    limit: QueryEx[int, P(description="1 to 50")] = 20,
    mode: QueryEx[str, P(description="hybrid, semantic or full_text")] = "hybrid",
    scope: QueryEx[str, P(description="any of user, assistant, thinking, tool, separated by commas")] = "",
    agent: str = "",
    project: str = "",
    source: str = "",
    after: datetime | None = None,
    before: datetime | None = None,
    archived: bool = False,
    cursor: str = "",
) -> SearchResults:
    filters = Filters(agent=agent, project=project, source=source, after=after, before=before, archived=archived)
    checked = SearchQuery(text=query, limit=limit, mode=mode, scope=parse_scope(scope), filters=filters)
    return search(caller=caller_of(request), query=checked, cursor=cursor)


@router.get("/index/status", response=IndexStatusOut, summary="How far your archive is indexed")
def show_index_status(request: HttpRequest) -> IndexStatus:
    return index_status(owner=caller_of(request))


@router.post(
    "/memory/recall",
    auth=READING,
    response=RecallOut,
    by_alias=False,
    tags=["memory"],
    summary="Recall messages of all conversations",
)
def recall_everywhere(request: HttpRequest, body: RecallIn) -> dict[str, Any]:
    return _recall(request, body)


@router.post(
    "/conversations/{int:conversation_id}/memory/recall",
    auth=READING,
    response=RecallOut,
    by_alias=False,
    tags=["memory"],
    summary="Recall messages of one conversation",
)
def recall_in_conversation(request: HttpRequest, conversation_id: int, body: ConversationRecallIn) -> dict[str, Any]:
    return _recall(request, body, conversation_id=conversation_id)


def _recall(request: HttpRequest, body: RecallIn, conversation_id: int | None = None) -> dict[str, Any]:
    asked = body.model_dump(exclude={"max_tokens", "partners"})
    found = recall(owner=caller_of(request), conversation_id=conversation_id, **asked)
    budget = settings.MAX_RECALL_TOKENS if body.max_tokens is None else body.max_tokens
    context = build_memory_context(found.messages, budget, partners=body.partners)
    outcomes = zip(found.messages, context.resurrection.outcomes, strict=True)
    return {
        "query": found.query,
        "results": found.messages,
        "context": context.text,
        "context_tokens": context.tokens,
        "left_out": [
            {"message_id": message.message_id, "reason": outcome.missing[0].reason}
            for message, outcome in outcomes
            if outcome.left_out
        ],
        "notes": found.notes,
    }
