"""The replies that this process is writing, their listeners, and the titles of chats.

If a listener leaves, the reply is still written to its end and stored. A heartbeat renews the lease, saves the received
text, and notices requests from other processes to stop the reply. Nothing in this module needs to survive the process:
another one takes over when a dead process's lease has expired. See docs/adr/0014-replies-continue-after-disconnect.md.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from io import StringIO

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from convmemory.chat.clients import close_clients
from convmemory.chat.deltas import CompletionDraft, EventName, ReplyEvent
from convmemory.chat.generation import completion_events, write_reply
from convmemory.chat.models import Reply
from convmemory.chat.progress import ReplyProgress
from convmemory.chat.proxy import finish_recordings
from convmemory.chat.replies import SOURCE, Pulse, ReplyEnding, ReplyJob, ReplyLost, StoredReply, beat, finish_reply
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.drafts import TITLE_CHARS, MessageDraft
from convmemory.conversations.messages.hidden_keys import text_without_keys
from convmemory.conversations.messages.parts import spoken_text
from convmemory.conversations.messages.responses import release_abandoned_responses
from convmemory.conversations.messages.titling import title_of
from convmemory.conversations.models import TITLE_VERSION, Conversation
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.endpoints.completions import endpoint_from_settings
from convmemory.core.errors import ConvMemoryError, EndpointBusy, NotFound, QuotaUsedUp
from convmemory.core.text import cut, storable
from convmemory.core.threads import in_thread
from convmemory.core.titles import plain_title, says_something
from convmemory.core.web import stopping

INSTRUCTION = (
    "Give the question that follows a title of three to six words, in the language that it is in, without quotation "
    "marks and without a full stop. Do not answer the question: reply with the title alone."
)
TIMEOUT_S = 20.0
# A model that thinks first uses most of these.
TITLE_TOKENS = 400
READ_CHARS = 2_000
AROUND = " \t*_#`\"'“”„«»."

logger = logging.getLogger(__name__)


# A chat is called by its first question until the model chooses a title after the first turn. A title that the owner
# has set is kept.
@dataclass(frozen=True, slots=True)
class FirstTurn:
    """The chat's current title, which is its first question, and that question."""

    title: str
    question: str


def first_turn_of(job: ReplyJob) -> FirstTurn | None:
    """Return the first turn for a title of the reply's chat; None if its owner has set a title."""
    chat = Conversation.objects.filter(pk=job.conversation_id, archive_id=job.caller.archive_id, source=SOURCE).first()
    if chat is None:
        return None
    asked = {
        row.pk: spoken_text(row.typed_parts) for row in chat.messages.filter(Q(position=0) | Q(pk=job.question_id))
    }
    if job.question_id not in asked or chat.title not in map(title_of, asked.values()):
        return None
    if not says_something(asked[job.question_id]):
        return None  # the second question becomes the title
    return FirstTurn(chat.title, asked[job.question_id])


async def give_title(job: ReplyJob, turn: FirstTurn) -> str:
    """Ask the reply's model for a title and store it; return "" if that fails for any reason."""
    question = {"role": "user", "content": cut(turn.question, READ_CHARS)}
    messages = [{"role": "system", "content": INSTRUCTION}, question]
    agent, draft = replace(job.agent, reply_tokens=TITLE_TOKENS), CompletionDraft()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            async for _ in completion_events(agent, job.caller, messages, draft):
                pass
            title = clean_title(spoken_text(draft.spoken_parts))
        is_replaced = bool(title) and await in_thread(_replace_title, job, turn.title, title)
        return title if is_replaced else ""
    except (ConvMemoryError, TimeoutError) as error:
        logger.info("Conversation %s keeps its question as its title: %s", job.conversation_id, error)
        return ""


def clean_title(text: str) -> str:
    """Return the first line of a model's answer, without the quotes and other marks that models put around titles."""
    lines = [line for line in storable(text[: READ_CHARS * 2]).splitlines() if line.strip(AROUND)]
    first = lines[0].strip(AROUND).removeprefix("Title:").strip(AROUND) if lines else ""
    return plain_title(text_without_keys(first), TITLE_CHARS)


def _replace_title(job: ReplyJob, before: str, title: str) -> bool:
    """Store the title, unless the previous one was changed meanwhile; return whether it was stored."""
    with transaction.atomic():
        try:
            chat = responses.lock_conversation(caller=job.caller, conversation_id=job.conversation_id)
        except NotFound:
            return False
        if chat.title != before:
            return False
        ingest.change_conversation(
            caller=job.caller, conversation_id=chat.pk, values={"title": title, "title_version": TITLE_VERSION}
        )
    return True


DELTAS = ("text", "thinking")
# The pause between two heartbeats: what a listener in another process sees is at most this old (ADR 14).
MAX_FLUSH_S = 2.0
# Without a limit, a reply would wait for ever for a database that does not answer.
FINISH_TIMEOUT_S = 30.0
QUIET_S = 15.0
SHUTDOWN = "The server was stopped while the reply was being written."
GONE = "The conversation was deleted, or its reply taken over, while it was being written."
BUG = "The reply failed by an error inside the server; its log has the details."


class Inbox:
    """The events that a listener has not read yet.

    Waiting deltas are joined, so that a slow listener costs no more memory than their text.
    """

    def __init__(self) -> None:
        self._waiting: deque[ReplyEvent | tuple[EventName, StringIO]] = deque()
        self._arrived = asyncio.Event()

    def put(self, event: ReplyEvent) -> None:
        self._arrived.set()
        if event.name not in DELTAS:
            self._waiting.append(event)
            return
        last = self._waiting[-1] if self._waiting else None
        if not isinstance(last, tuple) or last[0] != event.name:
            last = (event.name, StringIO())
            self._waiting.append(last)
        last[1].write(event.data["text"])

    async def get(self) -> ReplyEvent:
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        first = self._waiting.popleft()
        return first if isinstance(first, ReplyEvent) else ReplyEvent(first[0], {"text": first[1].getvalue()})

    async def events(self) -> AsyncGenerator[ReplyEvent | None]:
        """Yield the events up to the last one; None if there was none for `QUIET_S`."""
        event: ReplyEvent | None = None
        while event is None or not event.is_last:
            try:
                event = await asyncio.wait_for(self.get(), QUIET_S)
            except TimeoutError:
                event = None
            yield event


class LiveReply:
    """One reply in progress."""

    def __init__(self, job: ReplyJob) -> None:
        self.job = job
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Inbox] = []
        self._stop = asyncio.Event()
        self._progress = ReplyProgress()
        self._events_of_delta = 0
        self._kept = 0
        self.task = asyncio.create_task(self._run(), name=f"reply-{job.reply_id}")

    def listen(self) -> AsyncIterator[ReplyEvent | None]:
        """Yield the events from this call on, as `Inbox.events` does."""
        inbox = Inbox()
        self._listeners.append(inbox)
        return self._events(inbox)

    async def _events(self, inbox: Inbox) -> AsyncIterator[ReplyEvent | None]:
        try:
            async for event in inbox.events():
                yield event
        finally:
            self._listeners.remove(inbox)

    def stop(self) -> None:
        """Stop the reply at once. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def interrupt(self) -> None:
        """Store the received text, because the process is ending."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def _publish(self, event: ReplyEvent) -> None:
        self._events_of_delta += 1
        for inbox in self._listeners:
            inbox.put(event)

    async def _run(self) -> None:
        try:
            ending = await self._write_until_ending()
            await self._end(ending)
        except Exception:  # the task's boundary: without an event, listeners would wait for ever
            logger.exception("Reply %s could not be stored", self.job.reply_id)
            self._publish(ReplyEvent("error", {"status": "failed", "detail": BUG}))
        finally:
            _replies.pop(self.job.reply_id, None)

    async def _write_until_ending(self) -> ReplyEnding | None:
        """Return how the reply ended; None if it no longer belongs to this process."""
        writing = asyncio.create_task(write_reply(self.job, self._progress, self._publish))
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((writing, watching), return_when=asyncio.FIRST_COMPLETED)
            return _ending_of(writing) if writing.done() else watching.result()
        except asyncio.CancelledError:
            return ReplyEnding(Reply.Status.INTERRUPTED, SHUTDOWN)
        finally:
            for task in (writing, watching):
                task.cancel()
            await asyncio.gather(writing, watching, return_exceptions=True)

    async def _watch(self) -> ReplyEnding | None:
        """Return once a user stops the reply, or it no longer belongs to this process."""
        interval = min(MAX_FLUSH_S, config.chat_lease_s / 5)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._stop.wait()
                    return ReplyEnding(Reply.Status.STOPPED)
            pulse = await self._beat()
            if pulse is Pulse.STOP:
                return ReplyEnding(Reply.Status.STOPPED)
            if pulse is Pulse.LOST:
                return None

    async def _beat(self) -> Pulse:
        """Renew the lease and store new text.

        If the database does not answer for a moment, a heartbeat is lost, not the reply.
        """
        heard = self._events_of_delta
        received = self._received() if heard != self._kept else None
        try:
            pulse = await in_thread(beat, self.job, received)
        except Exception as error:
            logger.warning("Reply %s could not be kept for a moment: %s", self.job.reply_id, error)
            return Pulse.GO_ON
        self._kept = heard
        return pulse

    def _received(self) -> list[MessageDraft]:
        return self._progress.received(now=timezone.now())

    async def _end(self, ending: ReplyEnding | None) -> None:
        if ending is None:
            self._publish(ReplyEvent("error", {"status": "lost", "detail": GONE}))
            return
        received = self._received()
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                stored = await in_thread(finish_reply, self.job, received, ending)
        except ReplyLost:
            self._publish(ReplyEvent("error", {"status": "lost", "detail": GONE}))
            return
        begins = ending.status is Reply.Status.DONE and stored.turn_number == 0
        turn = await in_thread(first_turn_of, self.job) if begins else None
        self._send_end(ending, stored, title_follows=turn is not None)
        if turn is not None:
            title = ""
            try:
                title = await give_title(self.job, turn)
            finally:
                self._publish(ReplyEvent("title", {"title": title}))

    def _send_end(self, ending: ReplyEnding, stored: StoredReply, *, title_follows: bool) -> None:
        if stored.turn_number is not None:
            url = f"/conversations/{self.job.conversation_id}?turn={stored.turn_number}"
            self._publish(ReplyEvent("turn", {"turn_number": stored.turn_number, "url": url}))
        payload = {"status": ending.status.value, "reply_id": self.job.reply_id, "message_id": stored.last_message_id}
        if ending.status in (Reply.Status.DONE, Reply.Status.STOPPED):
            later = {"title_follows": True} if title_follows else {}
            self._publish(ReplyEvent("done", {**payload, "remark": ending.error, **later}))
        else:
            retry = {} if ending.retry_after_s is None else {"retry_after_s": ending.retry_after_s}
            self._publish(ReplyEvent("error", {**payload, "detail": ending.error, **retry}))


def _ending_of(writing: "asyncio.Task[str]") -> ReplyEnding:
    try:
        return ReplyEnding(Reply.Status.DONE, writing.result())
    except (EndpointBusy, QuotaUsedUp) as error:
        return ReplyEnding(Reply.Status.FAILED, str(error), error.retry_after_s)
    except ConvMemoryError as error:
        return ReplyEnding(Reply.Status.FAILED, str(error))
    except Exception:  # the boundary of a reply's writer: the reader gets a short text, the log the details
        logger.exception("A reply failed")
        return ReplyEnding(Reply.Status.FAILED, BUG)


_replies: dict[int, LiveReply] = {}


def start_reply(job: ReplyJob) -> LiveReply:
    """Start writing a reply in the running event loop."""
    reply = _replies[job.reply_id] = LiveReply(job)
    return reply


def stop_here(reply_id: int) -> None:
    """Stop the reply at once if this process is writing it; other processes notice at their next heartbeat."""
    if reply := _replies.get(reply_id):
        reply.stop()


async def end_replies(within_s: float) -> None:
    """Wait for the replies of this process, which is ending; store the received text of those that take longer."""
    if tasks := [reply.task for reply in _replies.values()]:
        await asyncio.wait(tasks, timeout=within_s)
    await asyncio.gather(*(reply.interrupt() for reply in list(_replies.values())))


# Expired leases are taken back this often at least (ADR 14).
MAX_PAUSE_S = 10.0


@asynccontextmanager
async def chat_is_running() -> AsyncIterator[None]:
    """Run while the server serves; at the end, wait for replies in progress, or store them as interrupted."""
    watching = asyncio.create_task(_release_abandoned(), name="release-abandoned-replies")
    warming = asyncio.create_task(asyncio.to_thread(_warm_up))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await warming
        await end_replies(stopping.remaining_s())
        await finish_recordings()
        await close_clients()


def _warm_up() -> None:
    """Import the client before the first reply needs it: the import takes a second."""
    if endpoint_from_settings() is not None:
        import openai  # noqa: F401


async def _release_abandoned() -> None:
    """Release abandoned replies every few seconds, so that a conversation is idle soon after its lease has expired.

    The worker's sweep does the same every minute, if no web process runs.
    """
    while True:
        try:
            with acting.maintenance():
                await in_thread(release_abandoned_responses)
        except Exception as error:  # the loop's boundary: the next round tries again
            logger.warning("Abandoned replies could not be looked for: %s", error)
        await asyncio.sleep(min(MAX_PAUSE_S, config.chat_lease_s / 3))
