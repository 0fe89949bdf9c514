"""Counts the cost of requests to the operator's endpoint against the caller's quota.

If the endpoint does not report its usage, it is estimated from the lengths of the request and the reply.
"""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from django.db import DatabaseError

from convmemory.accounts.quota import Reservation, estimated_tokens, reserve, settle
from convmemory.chat.deltas import CompletionDraft
from convmemory.chat.replies import ReplyJob
from convmemory.core.threads import in_thread

logger = logging.getLogger(__name__)


@asynccontextmanager
async def metered(job: ReplyJob, body: dict[str, Any], draft: CompletionDraft) -> AsyncIterator[None]:
    """Reserve the maximum cost of one completion of the job's agent, then count the actual cost of `draft`.

    Agents with an endpoint of their own cost nothing. Raises: QuotaUsedUp.
    """
    if not job.agent.is_metered:
        yield
        return
    asked = estimated_tokens(json.dumps(body, ensure_ascii=False))
    reservation = await in_thread(reserve, owner_id=job.owner.pk, tokens=asked + job.agent.reply_tokens)
    try:
        yield
    finally:
        await settle_quietly(reservation, tokens=_cost(draft, asked))


def _cost(draft: CompletionDraft, asked: int) -> int:
    if draft.total_tokens is not None:
        return draft.total_tokens
    received = draft.received_texts
    return asked + estimated_tokens("".join(received)) if received else 0


async def settle_quietly(reservation: Reservation, *, tokens: int) -> None:
    """Settle the reservation; if the database does not answer, only the correction is lost, not the reply."""
    try:
        await in_thread(settle, reservation, tokens=tokens)
    except DatabaseError as error:
        logger.warning("What a reply cost could not be counted, its estimate stays: %s", error)
