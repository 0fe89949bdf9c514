"""The chat's additions to a conversation's page, and its receivers of conversation signals."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.chat.agents import DEFAULT_NAME, agents_of, model_of, state_of_chat
from convmemory.chat.models import Reply
from convmemory.chat.progress import read_partial
from convmemory.chat.replies import take_over
from convmemory.chat.versions import threads_of
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.pages.markdown_html import render_markdown
from convmemory.conversations.pages.rendering import Note
from convmemory.conversations.signals import PageAddition

ENDINGS: dict[str, str] = {
    Reply.Status.STOPPED: "The reply was stopped.",
    Reply.Status.INTERRUPTED: "The reply was interrupted.",
    Reply.Status.FAILED: "The reply failed.",
}

# What an endpoint answered, within the sentence about it (`completions.explain`).
_RAW = re.compile(r"(?:: | \()(“.*”)\)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """One line of the composer's list, an agent with its model; value 0 is the server's own agent."""

    value: int
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ComposerContent:
    """The initial content of the composer; `replaces` is the id of the question that it replaces."""

    text: str = ""
    replaces: int | None = None


NOTHING_WRITTEN = ComposerContent()


@dataclass(frozen=True, slots=True)
class Composer:
    """The form at the end of a conversation. `can_send` is false if no endpoint is set up.

    `last_question` is the id of the last question if it can be asked again.
    """

    conversation_id: int | None
    choices: tuple[AgentChoice, ...]
    can_send: bool
    is_busy: bool
    written: ComposerContent = NOTHING_WRITTEN
    last_question: int | None = None


def composer_for(
    *, caller: Caller, conversation: Conversation | None, written: ComposerContent = NOTHING_WRITTEN
) -> Composer:
    """Return the form for the caller's conversation, or for a new one. Two queries."""
    models = ((agent, model_of(agent, caller=caller)) for agent in [None, *agents_of(caller)])
    usable = [(agent, model) for agent, model in models if model is not None]
    state = state_of_chat(caller=caller, conversation_id=conversation.pk if conversation else None)
    return Composer(
        conversation_id=conversation.pk if conversation else None,
        choices=tuple(
            AgentChoice(value, " · ".join(filter(None, (name, model))), value == state.agent_id)
            for value, name, model in (
                (agent.pk if agent else 0, agent.name if agent else DEFAULT_NAME, model) for agent, model in usable
            )
        ),
        can_send=bool(usable),
        is_busy=state.is_busy and conversation is not None and conversation.status == Conversation.Status.PROCESSING,
        written=written,
        last_question=state.last_question,
    )


def notes_on(replies: Iterable[Reply], messages: Sequence[Message]) -> dict[int, list[Note]]:
    """Return notes by message id: at a question, the messages left out of the context; at a reply, how it ended."""
    by_question = {reply.question_id: reply for reply in replies}
    notes: dict[int, list[Note]] = {}
    current: Reply | None = None
    for index, message in enumerate(messages):
        current = by_question.get(message.pk, None if message.is_real_user else current)
        if current is None:
            continue
        of_message = notes.setdefault(message.pk, [])
        if message.pk == current.question_id:
            of_message += _context_notes(current)
        if index + 1 == len(messages) or messages[index + 1].is_real_user:
            raw = _RAW.search(current.error)
            error = _RAW.sub("", current.error, count=1)
            text = f"{ENDINGS.get(current.status, '')} {error}".strip()
            is_warning = current.status != Reply.Status.STOPPED
            of_message += [Note(text, is_warning=is_warning, raw=raw[1] if raw else "")] if text else []
    return notes


def _context_notes(reply: Reply) -> list[Note]:
    context = reply.context
    if not context:
        return []
    left_out, shortened = context.get("left_out", 0), context.get("shortened", 0)
    facts = []
    if left_out:
        facts.append(f"{left_out} older message{'s were' if left_out > 1 else ' was'} left out")
    if shortened:
        facts.append(f"{shortened} tool output{'s were' if shortened > 1 else ' was'} shortened")
    text = ", ".join(facts) or "the conversation was rearranged"
    address = f"/conversations/{reply.conversation_id}/replies/{reply.pk}"
    return [Note(f"For this answer {text}.", address=address)]


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """A part of a reply in progress, for a page that is opened meanwhile."""

    type: str
    html: str


def received_parts(reply: Reply) -> list[ReceivedPart]:
    """Return the content of a running reply so far, as safe HTML."""
    parts = [part for draft in read_partial(reply.partial)[0] for part in draft.parts]
    return [
        ReceivedPart(part.type, render_markdown(part.text))
        for part in parts
        if isinstance(part, (TextPart, ThinkingPart)) and part.text.strip()
    ]


def on_response_abandoned(sender: Any, *, conversation: Conversation, **kwargs: Any) -> list[MessageDraft]:
    return take_over(conversation)


def on_conversation_shown(
    sender: Any,
    *,
    caller: Caller,
    conversation: Conversation,
    messages: Sequence[Message],
    is_whole: bool,
    **kwargs: Any,
) -> PageAddition:
    values: dict[str, Any] = {}
    if is_whole and not caller.space:
        values = {"composer": composer_for(caller=caller, conversation=conversation)}
    replies = list(
        Reply.objects.filter(archive_id=caller.archive_id, conversation=conversation, question__in=messages).order_by(
            "pk"
        )
    )
    values["asked_here"] = {reply.question_id for reply in replies}
    notes = notes_on(replies, messages)
    threads = threads_of(conversation) if replies else None
    if threads is None:
        return PageAddition(values, notes)
    return PageAddition(values, notes, threads.versions(), threads.left_out(messages))
