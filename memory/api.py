"""Routes for the embeddings of a conversation's messages."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from convmemory.accounts.authentication import caller_of
from memory.embedding import WAITS_FOR_ANSWER, Requested, request_embeddings
from memory.models import MessageEmbedding
from memory.records import MemoryStats, memory_stats
from memory.schemas import EmbeddingsOut, EmbedIn, MemoryStatsOut
from memory.tasks import enqueue_embed

router = Router(tags=["memory"])


@router.post(
    "/conversations/{int:conversation_id}/memory/embed",
    response={202: EmbeddingsOut},
    summary="Embed messages that are not embedded yet, or try failed ones again",
)
def embed(request: HttpRequest, conversation_id: int, body: EmbedIn) -> Status[dict[str, Any]]:
    requested = request_embeddings(
        owner=caller_of(request), conversation_id=conversation_id, message_ids=body.message_ids
    )
    if requested.to_embed:
        enqueue_embed(conversation_id, requested.to_embed)
    results = [_shown(record, requested) for record in requested.records]
    return Status(202, {"results": results, "skipped": requested.skipped})


@router.get(
    "/conversations/{int:conversation_id}/memory/stats",
    response=MemoryStatsOut,
    summary="How many messages are embedded",
)
def stats(request: HttpRequest, conversation_id: int) -> MemoryStats:
    return memory_stats(owner=caller_of(request), conversation_id=conversation_id)


def _shown(record: MessageEmbedding, requested: Requested) -> dict[str, Any]:
    waits = record.message_id in requested.waiting and record.status == MessageEmbedding.Status.PENDING
    names = ("message_id", "position", "role", "status", "error", "token_count", "attempts")
    return {name: getattr(record, name) for name in names} | {"note": WAITS_FOR_ANSWER if waits else ""}
