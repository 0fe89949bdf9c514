"""Routes for summaries: request one, poll it, read it, make it again, delete it."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from convmemory.accounts.authentication import caller_of
from summaries import ordering
from summaries.models import ConversationSummary
from summaries.schemas import SummaryIn, SummaryList, SummaryOut
from summaries.tasks import enqueue_summary

router = Router(tags=["summaries"])
LIST = "/conversations/{int:conversation_id}/summaries"
ONE = LIST + "/{int:summary_id}"


@router.post(LIST, response={201: SummaryOut}, summary="Summarise a range of messages")
def create_summary(
    request: HttpRequest, conversation_id: int, body: SummaryIn | None = None
) -> Status[ConversationSummary]:
    values = body.model_dump() if body else {}
    summary = ordering.request_summary(caller=caller_of(request), conversation_id=conversation_id, **values)
    enqueue_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    return Status(201, summary)


@router.get(LIST, response=SummaryList, summary="The conversation's summaries, newest first")
def list_summaries(request: HttpRequest, conversation_id: int) -> dict[str, Any]:
    return {"results": ordering.summaries_of(caller=caller_of(request), conversation_id=conversation_id)}


@router.get(ONE, response=SummaryOut, summary="One summary, for polling")
def show_summary(request: HttpRequest, conversation_id: int, summary_id: int) -> ConversationSummary:
    return ordering.get_summary(caller=caller_of(request), conversation_id=conversation_id, summary_id=summary_id)


@router.post(ONE + "/regenerate", response={202: SummaryOut}, summary="Regenerate a summary")
def regenerate_summary(request: HttpRequest, conversation_id: int, summary_id: int) -> Status[ConversationSummary]:
    summary = ordering.regenerate_summary(
        caller=caller_of(request), conversation_id=conversation_id, summary_id=summary_id
    )
    enqueue_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    return Status(202, summary)


@router.delete(ONE, response={204: None}, summary="Delete a summary for good")
def delete_summary(request: HttpRequest, conversation_id: int, summary_id: int) -> Status[None]:
    ordering.delete_summary(caller=caller_of(request), conversation_id=conversation_id, summary_id=summary_id)
    return Status(204, None)
