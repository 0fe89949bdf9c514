"""Streams the reply to a message as server-sent events, for the API and the page."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from django.http import StreamingHttpResponse

from convmemory.accounts.callers import Caller
from convmemory.chat.deltas import KEEP_ALIVE, ReplyEvent, encode_event
from convmemory.chat.live import start_reply
from convmemory.chat.replies import ReplyJob, begin_reply, question_asked_here, start_conversation
from convmemory.core.threads import first_in_thread

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass(frozen=True, slots=True)
class Request:
    """A message to be answered, in a new conversation if the id is None.

    `replaces` is the message id of an earlier question that it replaces; if the text is blank, that question is asked
    again unchanged. `document_ids` are the documents to attach.
    """

    caller: Caller
    conversation_id: int | None
    text: str
    agent_id: int | None = None
    replaces: int | None = None
    document_ids: Collection[int] = ()


async def stream_reply(asked: Request) -> StreamingHttpResponse:
    """Begin a reply and stream it. Raises: like `replies.begin_reply`, before anything is stored."""
    job = await first_in_thread(_begin, asked)
    events = start_reply(job).listen()
    return StreamingHttpResponse(_lines(job, events), content_type="text/event-stream", headers=HEADERS)


async def wait_for_reply(asked: Request) -> str:
    """Begin a reply, wait for its end, and return its URL. Raises: like `stream_reply`."""
    job = await first_in_thread(_begin, asked)
    url = f"/conversations/{job.conversation_id}"
    async for event in start_reply(job).listen():
        if event is not None and event.name == "turn":
            url = f"{event.data['url']}#turn-{event.data['turn_number']}"
    return url


def _begin(asked: Request) -> ReplyJob:
    caller, conversation_id, text, replaces = asked.caller, asked.conversation_id, asked.text, asked.replaces
    if conversation_id is None:
        agent_id, files = asked.agent_id, asked.document_ids
        conversation_id = start_conversation(caller=caller, text=text, agent_id=agent_id, document_ids=files).pk
    elif replaces is not None and not text.strip():
        text = question_asked_here(caller=caller, conversation_id=conversation_id, message_id=replaces)
    return begin_reply(
        caller=caller,
        conversation_id=conversation_id,
        text=text,
        agent_id=asked.agent_id,
        replaces=replaces,
        document_ids=asked.document_ids,
    )


async def _lines(job: ReplyJob, events: AsyncIterator[ReplyEvent | None]) -> AsyncIterator[bytes]:
    yield encode_event(started_event(job))
    async for event in events:
        yield KEEP_ALIVE if event is None else encode_event(event)


def started_event(job: ReplyJob) -> ReplyEvent:
    data = {
        "conversation_id": job.conversation_id,
        "reply_id": job.reply_id,
        "message_id": job.question_id,
        "agent": job.agent.name,
        "model": job.agent.endpoint.model,
        "url": f"/conversations/{job.conversation_id}",
    }
    return ReplyEvent("message_started", data)
