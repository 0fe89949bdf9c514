"""Chooses the title of a chat: its first question, until the model chooses a title after the first turn.

A title that the owner has set is kept.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Q

from convmemory.chat.completions import open_stream, request_body
from convmemory.chat.deltas import CompletionDraft
from convmemory.chat.metering import metered
from convmemory.chat.replies import SOURCE, ReplyJob
from convmemory.conversations import ingest, responses
from convmemory.conversations.drafts import TITLE_CHARS, MessageDraft
from convmemory.conversations.hidden_keys import text_without_keys
from convmemory.conversations.models import Conversation
from convmemory.conversations.parts import spoken_text
from convmemory.core.errors import ConvMemoryError, NotFound
from convmemory.core.text import cut, one_line, storable
from convmemory.core.threads import in_thread

INSTRUCTION = (
    "Give the conversation that follows a title of three to six words, in the language that it is in, without "
    "quotation marks and without a full stop. Answer with the title alone."
)
TIMEOUT_S = 20.0
# A model that thinks first uses most of these.
TITLE_TOKENS = 400
READ_CHARS = 2_000
AROUND = " \t*_#`\"'“”„«»."

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstTurn:
    """The chat's current title, which is its first question, and its first turn."""

    title: str
    question: str
    answer: str


def first_turn_of(job: ReplyJob, answer: Iterable[MessageDraft]) -> FirstTurn | None:
    """Return the first turn for a title of the reply's chat; None if its owner has set a title."""
    chat = Conversation.objects.filter(pk=job.conversation_id, owner_id=job.owner.pk, source=SOURCE).first()
    if chat is None:
        return None
    asked = {
        row.pk: spoken_text(row.typed_parts) for row in chat.messages.filter(Q(position=0) | Q(pk=job.question_id))
    }
    if job.question_id not in asked or chat.title not in map(responses.title_of, asked.values()):
        return None
    said = spoken_text(part for draft in answer for part in draft.parts)
    return FirstTurn(chat.title, asked[job.question_id], said)


async def give_title(job: ReplyJob, turn: FirstTurn) -> str:
    """Ask the reply's model for a title and store it; return "" if that fails for any reason."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            title = clean_title(await _ask(job, turn))
        is_replaced = bool(title) and await in_thread(_replace_title, job, turn.title, title)
        return title if is_replaced else ""
    except (ConvMemoryError, TimeoutError) as error:
        logger.info("Conversation %s keeps its question as its title: %s", job.conversation_id, error)
        return ""


async def _ask(job: ReplyJob, turn: FirstTurn) -> str:
    """Ask the model for a title. Raises: EndpointError, QuotaUsedUp."""
    recipe = replace(job.agent.recipe, tool_definitions=())
    brief = replace(job, agent=replace(job.agent, reply_tokens=TITLE_TOKENS, recipe=recipe))
    asked = f"Question: {cut(turn.question, READ_CHARS)}\n\nAnswer: {cut(turn.answer, READ_CHARS)}"
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": asked}]
    draft = CompletionDraft()
    body = request_body(brief.agent, messages, may_call=False)
    async with metered(brief, body, draft), open_stream(brief.agent, body) as chunks:
        async for chunk in chunks:
            draft.add(chunk)
            if draft.cut_note:
                break
    return spoken_text(draft.spoken_parts)


def clean_title(text: str) -> str:
    """Return the first line of a model's answer, without the quotes and other marks that models put around titles."""
    lines = [line for line in storable(text[: READ_CHARS * 2]).splitlines() if line.strip(AROUND)]
    first = lines[0].strip(AROUND).removeprefix("Title:").strip(AROUND) if lines else ""
    return one_line(text_without_keys(first), TITLE_CHARS)


def _replace_title(job: ReplyJob, before: str, title: str) -> bool:
    """Store the title, unless the previous one was changed meanwhile; return whether it was stored."""
    with transaction.atomic():
        try:
            chat = responses.lock_conversation(owner=job.owner, conversation_id=job.conversation_id)
        except NotFound:
            return False
        if chat.title != before:
            return False
        ingest.change_conversation(owner=job.owner, conversation_id=chat.pk, values={"title": title})
    return True
