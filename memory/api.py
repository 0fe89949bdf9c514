"""Routes for recalling messages, and for the embeddings of a conversation's messages."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from convmemory.accounts.authentication import READING, caller_of
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import DECLARED
from convmemory.core.config import config
from convmemory.core.web.asgi_types import site_of
from convmemory.embeddings.spaces import token_counter
from memory.context import build_memory_context
from memory.embedding import request_embeddings
from memory.recall import RecallQuery, alive_passages, recall_archives
from memory.records import MemoryStats, memory_stats
from memory.schemas import (
    ConversationRecallIn,
    EmbeddingsOut,
    EmbedIn,
    EverywhereRecallIn,
    MemoryStatsOut,
    RecallIn,
    RecallOut,
)
from memory.tasks import enqueue_embed

router = Router(tags=["memory"])


@router.post(
    "/conversations/{int:conversation_id}/memory/embed",
    response={202: EmbeddingsOut},
    summary="Embed messages that are not embedded yet, or try failed ones again",
)
def embed(request: HttpRequest, conversation_id: int, body: EmbedIn) -> Status[dict[str, Any]]:
    caller = caller_of(request)
    requested = request_embeddings(caller=caller, conversation_id=conversation_id, message_ids=body.message_ids)
    if requested.to_embed:
        enqueue_embed(archive_id=caller.archive_id, conversation_id=conversation_id, message_ids=requested.to_embed)
    return Status(202, {"results": requested.records, "skipped": requested.skipped})


@router.get(
    "/conversations/{int:conversation_id}/memory/stats",
    response=MemoryStatsOut,
    summary="How many messages are embedded",
)
def stats(request: HttpRequest, conversation_id: int) -> MemoryStats:
    return memory_stats(caller=caller_of(request), conversation_id=conversation_id)


@router.post(
    "/memory/recall",
    auth=READING,
    response=RecallOut,
    by_alias=False,
    summary="Recall messages of all conversations",
)
def recall_everywhere(request: HttpRequest, body: EverywhereRecallIn) -> dict[str, Any]:
    return _recall(request, body, caller_of(request), chosen=body.space)


@router.post(
    "/conversations/{int:conversation_id}/memory/recall",
    auth=READING,
    response=RecallOut,
    by_alias=False,
    summary="Recall messages of one conversation",
)
def recall_in_conversation(request: HttpRequest, conversation_id: int, body: ConversationRecallIn) -> dict[str, Any]:
    return _recall(request, body, caller_of(request).alone(), conversation_id=conversation_id)


def _recall(
    request: HttpRequest,
    body: RecallIn,
    caller: Caller,
    conversation_id: int | None = None,
    chosen: str = "",
) -> dict[str, Any]:
    fields = body.model_dump(
        exclude={"query", "max_tokens", "partners", "space", "repository", *DECLARED}, exclude_none=True
    )
    query = RecallQuery(body.query, conversation_id=conversation_id, filters=body.filters(), **fields)
    recalled = recall_archives(caller=caller, chosen=chosen, query=query)
    budget = config.max_recall_tokens if body.max_tokens is None else body.max_tokens
    alive = alive_passages(recalled.messages, query)
    # The context leaves this server, so its links are absolute; `url` is relative, as in every answer of the API.
    site = site_of(request.scheme or "http", request.headers)
    linked = tuple(replace(message, site=site) for message in recalled.messages)
    context = build_memory_context(linked, budget, partners=body.partners, alive=alive, count_tokens=token_counter())
    outcomes = zip(recalled.messages, context.resurrection.outcomes, strict=True)
    return {
        "query": recalled.query,
        "answered": recalled.answered,
        "results": recalled.messages,
        "context": context.text,
        "context_tokens": context.tokens,
        "left_out": [
            {"message_id": message.message_id, "reason": outcome.missing[0].reason}
            for message, outcome in outcomes
            if outcome.left_out
        ],
        "notes": recalled.notes_for_tools,
        "reason": recalled.reason,
        "pending": recalled.pending,
        "total_found": recalled.total_found,
    }
