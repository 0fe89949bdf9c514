"""The tools that read one conversation turn by turn, and that list conversations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import archive_of_address
from convmemory.conversations.filters import filters_of
from convmemory.conversations.marking import marks_of
from convmemory.conversations.messages.outcomes import Outcome, call_line, end_of
from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    tool_call_text,
)
from convmemory.conversations.models import Message
from convmemory.conversations.names import with_known_names
from convmemory.conversations.reading import get_conversation, home_turn_of, messages_of, page_of_archives
from convmemory.core.cursors import decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.tokens import cut_to_likely_tokens, likely_tokens
from convmemory.tools.definition import (
    Moment,
    Optional,
    Text,
    Tool,
    ToolInput,
    ToolOutput,
    site,
)
from convmemory.tools.searching import Agent, Project, Space
from search.reasons import Explanation, Reason, explain_no_conversation, explanation_of_all

MESSAGES_AT_ONCE = 50
# An estimate of the tokens of role, turn and position.
TOKENS_AROUND_A_MESSAGE = 20
OUTCOME, STEPS = "outcome", "steps"
"""The roles of entries that are no messages: what a turn came to, and its calls, folded to a line each."""


class ReadConversationInput(ToolInput):
    conversation_id: Annotated[int, Field(description="from a result")]
    from_turn: Annotated[int, Field(ge=0, description="first turn")] = 0
    to_turn: Annotated[int, Field(description="last turn")] | Optional = None
    thinking: Annotated[bool, Field(description="show reasoning")] = False
    whole_tool_results: Annotated[bool, Field(description="calls in full")] = False
    system: Annotated[bool, Field(description="prompts too")] = False
    max_tokens: Annotated[int, Field(ge=100, le=20_000, description="a page")] = 2_000
    cursor: Annotated[Text, Field(description="next_cursor")] = ""

    @property
    def identity(self) -> dict[str, Any]:
        """Return the arguments that a cursor is valid for."""
        return {
            "read": self.conversation_id,
            "from": self.from_turn,
            "to": self.to_turn,
            "thinking": self.thinking,
            "whole": self.whole_tool_results,
            "system": self.system,
        }


class ReadMessage(BaseModel):
    turn_number: int
    position: int
    role: str
    name: str | Optional = None
    text: str


class ReadConversationOutput(ToolOutput):
    conversation_id: int
    title: str
    turn_count: int
    url: str
    messages: list[ReadMessage]
    marks: list[str] | Optional = None
    next_cursor: str | Optional = None


@dataclass(frozen=True, slots=True)
class PageStart:
    """The beginning of a page: a turn, an entry of it, and the number of its characters on earlier pages."""

    turn: int = 0
    entry: int = 0
    offset: int = 0


def read_conversation(caller: Caller | None, arguments: ReadConversationInput) -> ReadConversationOutput:
    """Return a page of the turns of a conversation of the caller, or of a space that their key reads.

    Raises: NotFound (also for foreign ones), InvalidInput.
    """
    if caller is None:
        raise NotFound(f"There is no conversation {arguments.conversation_id}.")
    if arguments.to_turn is not None and arguments.to_turn < arguments.from_turn:
        raise InvalidInput("to_turn is before from_turn: swap the two.")
    archive_id = archive_of_address({"conversation_id": arguments.conversation_id}) if caller.spaces else None
    with caller.in_((caller.reads(archive_id) if archive_id else None) or caller.archive) as there:
        conversation = get_conversation(caller=there, conversation_id=arguments.conversation_id)
        identity = arguments.identity
        start = PageStart(arguments.from_turn)
        if arguments.cursor:
            start = PageStart(*decode_numbers(identity, arguments.cursor, count=3))
        messages, following = _page(_entries(there, arguments, start), start, arguments.max_tokens)
        first = messages[0].turn_number if messages else arguments.from_turn
        marks = marks_of(archive_id=there.archive_id, conversation_id=conversation.pk)
        shown = dict.fromkeys((conversation.pk, message.turn_number) for message in messages)
        return ReadConversationOutput(
            conversation_id=conversation.pk,
            title=conversation.title,
            turn_count=conversation.turn_count,
            url=f"{site()}{conversation.get_absolute_url()}?turn={first}",
            messages=messages,
            marks=[f"turn {turn[1]}: {marks[turn]}" for turn in shown if turn in marks] or None,
            next_cursor=encode_cursor(identity, [following.turn, following.entry, following.offset])
            if following
            else None,
            **_said(None if messages else Explanation(Reason.PAST_END)),
        )


def _said(explanation: Explanation | None) -> dict[str, Any]:
    """Return the note and the reason of an answer."""
    return {"note": explanation.for_tools, "reason": explanation.reason} if explanation else {}


def _entries(caller: Caller, arguments: ReadConversationInput, start: PageStart) -> Iterator[tuple[int, ReadMessage]]:
    """Yield what is shown of the requested turns, from the start on, with its number in its turn."""
    rows = _messages(caller, arguments, start.turn)
    for turn, messages in groupby(rows, key=home_turn_of):
        shown = (row for row in messages if arguments.system or not _instructs(row))
        entries = _in_order(shown, arguments) if arguments.whole_tool_results else _folded(shown, arguments)
        for number, entry in enumerate(entries):
            if turn > start.turn or number >= start.entry:
                yield number, entry


def _messages(caller: Caller, arguments: ReadConversationInput, from_turn: int) -> Iterator[Message]:
    """Yield the messages of the requested turns from one on, reading a few at a time."""
    position = 0
    while True:
        rows = messages_of(
            caller=caller,
            conversation_id=arguments.conversation_id,
            turns=(from_turn, arguments.to_turn),
            from_position=position,
            limit=MESSAGES_AT_ONCE,
        )
        yield from rows
        if len(rows) < MESSAGES_AT_ONCE:
            return
        position = rows[-1].position + 1


def _instructs(message: Message) -> bool:
    """Return whether a message is no speech but instructions: a system prompt, or what a harness wrote as the user."""
    if message.role == "user" and not message.is_real_user:
        return not any(isinstance(part, ToolResultPart) for part in message.typed_parts)
    return message.role == "system"


def _page(
    entries: Iterator[tuple[int, ReadMessage]], start: PageStart, max_tokens: int
) -> tuple[list[ReadMessage], PageStart | None]:
    """Return as many entries as fit the budget, and the beginning of the next page.

    Only an entry that is larger than a whole page is split; it continues on the next page.
    """
    page: list[ReadMessage] = []
    room = max_tokens
    for number, entry in entries:
        offset = start.offset if (entry.turn_number, number) == (start.turn, start.entry) else 0
        text = entry.text[offset:]
        room -= TOKENS_AROUND_A_MESSAGE
        tokens = likely_tokens(text)
        if tokens > room and page:
            return page, PageStart(entry.turn_number, number, offset)
        if tokens > room:
            text = cut_to_likely_tokens(text, room)
            following = PageStart(entry.turn_number, number, offset + len(text))
            return [entry.model_copy(update={"text": text})], following
        page.append(entry.model_copy(update={"text": text}))
        room -= tokens
    return page, None


def _read(message: Message, text: str) -> ReadMessage:
    return ReadMessage(
        turn_number=home_turn_of(message),
        position=message.position,
        role=message.role,
        name=message.name or None,
        text=text,
    )


def _in_order(messages: Iterable[Message], arguments: ReadConversationInput) -> Iterator[ReadMessage]:
    """Yield the messages of a turn as they followed each other, with calls and their results."""
    for message in messages:
        if text := _joined(_shown_part(part, arguments) for part in message.typed_parts):
            yield _read(message, text)


def _folded(messages: Iterable[Message], arguments: ReadConversationInput) -> list[ReadMessage]:
    """Return a turn as its reader needs it: what was asked, the last answer, the outcome, and the steps before it.

    Of the steps, texts are whole and calls are lines. What was said outside of the turn stands at its place.
    """
    before: list[ReadMessage] = []
    asked: list[ReadMessage] = []
    after: list[ReadMessage] = []
    steps: list[tuple[Message, list[ToolCallPart | str]]] = []
    ends: dict[str, str] = {}
    outcome: dict[str, Any] | None = None
    calls, last = 0, None  # the number of calls, and the place of the last step that says something
    for message in messages:
        shown: list[ToolCallPart | str] = []
        for part in message.typed_parts:
            if isinstance(part, ToolResultPart):
                ends[part.call_id] = end_of(part)
            elif isinstance(part, ToolCallPart):
                shown.append(part)
            elif text := _shown_part(part, arguments):
                shown.append(text)
        outcome = outcome or message.outcome
        if message.role == "assistant" and message.turn_number is not None:
            if any(isinstance(part, TextPart) and part.text.strip() for part in message.typed_parts):
                last = len(steps)
            calls += sum(isinstance(part, ToolCallPart) for part in shown)
            if shown:
                steps.append((message, shown))
        elif texts := _texts(shown):
            section = asked if message.turn_number is not None else after if asked or steps else before
            section.append(_read(message, texts))
    if not calls:
        return [*before, *asked, *(_read(message, _texts(shown)) for message, shown in steps), *after]
    answer = []
    if last is not None:
        message, shown = steps[last]
        answer = [_read(message, _texts(shown))]
        steps[last] = (message, [part for part in shown if not isinstance(part, str)])
    return [*before, *asked, *answer, *_outcome_entry(asked or answer, outcome), *_step_entry(steps, ends), *after]


def _outcome_entry(messages: Sequence[ReadMessage], stored: Mapping[str, Any] | None) -> Iterator[ReadMessage]:
    """Yield what a turn changed and which commands it ran, if anything."""
    outcome = Outcome.from_json(stored)
    lines = [
        f"{name}: {value}"
        for name, value in (
            ("changed", ", ".join(outcome.files)),
            ("passed", outcome.passed),
            ("failed", "" if outcome.failed == outcome.passed else outcome.failed),  # it passed at last
        )
        if value
    ]
    if messages and lines:
        first = messages[0]
        yield ReadMessage(turn_number=first.turn_number, position=first.position, role=OUTCOME, text="\n".join(lines))


def _step_entry(
    steps: Iterable[tuple[Message, Sequence[ToolCallPart | str]]], ends: Mapping[str, str]
) -> Iterator[ReadMessage]:
    """Yield the steps of a turn as one entry, if there are any."""
    lines: list[str] = []
    first: Message | None = None
    for message, parts in steps:
        for part in parts:
            first = first or message
            lines.append(part if isinstance(part, str) else call_line(part, ends.get(part.id)))
    if first is not None:
        yield ReadMessage(turn_number=home_turn_of(first), position=first.position, role=STEPS, text="\n".join(lines))


def _texts(shown: Iterable[ToolCallPart | str]) -> str:
    return _joined(part for part in shown if isinstance(part, str))


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def _shown_part(part: Part, arguments: ReadConversationInput) -> str:
    if isinstance(part, ThinkingPart):
        return f"[thinking] {part.text.strip()}" if arguments.thinking and part.text.strip() else ""
    if isinstance(part, TextPart):
        return part.text.strip()
    if isinstance(part, ToolCallPart):
        return f"[tool call] {tool_call_text(part)}"
    if isinstance(part, ToolResultPart):
        text = part.text.strip()
        return f"[tool result] {text}"
    return f"[attachment] {part.name}"


READ_CONVERSATION = Tool(
    name="read_conversation",
    description=(
        "Read a conversation. Use it for turns that a search found, as from_turn=3, to_turn=3; not to search."
    ),
    input_model=ReadConversationInput,
    output_model=ReadConversationOutput,
    function=read_conversation,
)


class ListConversationsInput(ToolInput):
    agent: Agent = ""
    project: Project = ""
    after: Annotated[Moment | Optional, Field(description="active since")] = None
    before: Annotated[Moment | Optional, Field(description="active until")] = None
    archived: Annotated[bool, Field(description="put away")] = False
    space: Space = ""
    limit: Annotated[int, Field(ge=1, le=100, description="a page")] = 20
    cursor: Annotated[Text, Field(description="next_cursor")] = ""


class ListedConversation(BaseModel):
    conversation_id: int
    title: str
    agent: str
    project: str
    turn_count: int
    updated_at: datetime
    url: str
    space: str | Optional = None
    space_id: int | Optional = None


class ListConversationsOutput(ToolOutput):
    results: list[ListedConversation]
    next_cursor: str | Optional = None


def list_conversations(caller: Caller | None, arguments: ListConversationsInput) -> ListConversationsOutput:
    """Return the conversations of the caller, and of the spaces that their key reads, latest first.

    Without a caller there are none. Raises: InvalidInput, NotFound for another space.
    """
    if caller is None:
        return ListConversationsOutput(results=[], **_said(Explanation(Reason.NO_CALLER)))
    filters = filters_of(arguments.__dict__)
    rows, next_cursor = page_of_archives(
        caller=caller,
        chosen=arguments.space,
        filters=filters,
        limit=arguments.limit,
        cursor=arguments.cursor,
    )
    explanation = None
    if not rows and arguments.cursor:
        explanation = Explanation(Reason.PAST_END)
    elif not rows:
        explanations = []
        for access in caller.chosen(arguments.space):
            with caller.in_(access):
                corrected = with_known_names(access.archive_id, filters)
                explanations.append(explain_no_conversation(access.archive_id, corrected))
        explanation = explanation_of_all(explanations)
    return ListConversationsOutput(
        results=[
            ListedConversation(
                conversation_id=row.pk,
                title=row.title,
                agent=row.agent,
                project=row.project,
                turn_count=row.turn_count,
                updated_at=row.updated_at,
                url=f"{site()}{row.get_absolute_url()}",
                space=space.name if space else None,
                space_id=space.id if space else None,
            )
            for row, space in rows
        ],
        next_cursor=next_cursor,
        **_said(explanation),
    )


LIST_CONVERSATIONS = Tool(
    name="list_conversations",
    description="List conversations, the latest first. Use it for 'what did I work on last week'; not for a topic.",
    input_model=ListConversationsInput,
    output_model=ListConversationsOutput,
    function=list_conversations,
)
