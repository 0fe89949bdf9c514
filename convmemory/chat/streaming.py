"""The answer to a message as a stream of server-sent events, for the API and the page alike.

Who calls must not have been asked in the request's own thread: it would hold its database connection as long as the
stream lasts, and with as many streams as the pool has connections nobody would get any.
"""

from collections.abc import AsyncIterator

from django.contrib.auth.models import User
from django.http import StreamingHttpResponse

from convmemory.chat.events import KEEP_ALIVE, Event, encode_event
from convmemory.chat.live import start_reply
from convmemory.chat.replies import ReplyJob, begin_reply, start_conversation
from convmemory.core.threads import first_in_thread

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream_reply(
    *, owner: User, conversation_id: int | None, text: str, agent_id: int | None
) -> StreamingHttpResponse:
    """Begin a reply to `text`, in a new conversation where the id is None, and stream it.

    Raises: as `replies.begin_reply`, before anything is stored.
    """
    job = await first_in_thread(_begin, owner, conversation_id, text, agent_id)
    events = start_reply(job).listen()
    return StreamingHttpResponse(_lines(job, events), content_type="text/event-stream", headers=HEADERS)


async def wait_for_reply(*, owner: User, conversation_id: int | None, text: str, agent_id: int | None) -> str:
    """The same without a stream: where the finished reply stands. Raises: as `stream_reply`."""
    job = await first_in_thread(_begin, owner, conversation_id, text, agent_id)
    url = f"/conversations/{job.conversation_id}"
    async for event in start_reply(job).listen():
        if event is not None and event.name == "turn":
            url = f"{event.data['url']}#turn-{event.data['turn_number']}"
    return url


def _begin(owner: User, conversation_id: int | None, text: str, agent_id: int | None) -> ReplyJob:
    if conversation_id is None:
        conversation_id = start_conversation(owner=owner, text=text, agent_id=agent_id).pk
    return begin_reply(owner=owner, conversation_id=conversation_id, text=text, agent_id=agent_id)


async def _lines(job: ReplyJob, events: AsyncIterator[Event | None]) -> AsyncIterator[bytes]:
    yield encode_event(started_event(job))
    async for event in events:
        yield KEEP_ALIVE if event is None else encode_event(event)


def started_event(job: ReplyJob) -> Event:
    data = {
        "conversation_id": job.conversation_id,
        "reply_id": job.reply_id,
        "message_id": job.question_id,
        "agent": job.agent.name,
        "model": job.agent.endpoint.model,
        "url": f"/conversations/{job.conversation_id}",
    }
    return Event("message_started", data)
