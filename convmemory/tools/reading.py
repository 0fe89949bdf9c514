"""The tools that read one conversation turn by turn, and that list conversations."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import archive_of_address
from convmemory.conversations.filters import filters_of
from convmemory.conversations.marking import marks_of
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
from convmemory.core.tokens import ESTIMATE, count_tokens, cut_to_tokens
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
from search.vectors.texts import head_and_tail

MESSAGES_AT_ONCE = 50
# An estimate of the tokens of role, turn and position.
TOKENS_AROUND_A_MESSAGE = 20
TOOL_RESULT_CHARS = 600


class ReadConversationInput(ToolInput):
    conversation_id: Annotated[int, Field(description="from a result")]
    from_turn: Annotated[int, Field(ge=0, description="first turn")] = 0
    to_turn: Annotated[int, Field(description="last turn")] | Optional = None
    thinking: Annotated[bool, Field(description="show reasoning")] = False
    whole_tool_results: Annotated[bool, Field(description="in full")] = False
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
    """The beginning of a page: a message, and the number of its characters on earlier pages."""

    position: int = 0
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
        return _read_page(there, arguments)


def _read_page(caller: Caller, arguments: ReadConversationInput) -> ReadConversationOutput:
    conversation = get_conversation(caller=caller, conversation_id=arguments.conversation_id)
    identity = arguments.identity
    start = PageStart(*decode_numbers(identity, arguments.cursor, count=2)) if arguments.cursor else PageStart()
    messages, following = _page(_messages(caller, arguments, start.position), start, arguments)
    first = messages[0].turn_number if messages else arguments.from_turn
    marks = marks_of(archive_id=caller.archive_id, conversation_id=conversation.pk)
    shown = dict.fromkeys((conversation.pk, message.turn_number) for message in messages)
    return ReadConversationOutput(
        conversation_id=conversation.pk,
        title=conversation.title,
        turn_count=conversation.turn_count,
        url=f"{site()}{conversation.get_absolute_url()}?turn={first}",
        messages=messages,
        marks=[f"turn {turn[1]}: {marks[turn]}" for turn in shown if turn in marks] or None,
        next_cursor=encode_cursor(identity, [following.position, following.offset]) if following else None,
        **_said(None if messages else Explanation(Reason.PAST_END)),
    )


def _said(explanation: Explanation | None) -> dict[str, Any]:
    """Return the note and the reason of an answer."""
    return {"note": explanation.for_tools, "reason": explanation.reason} if explanation else {}


def _messages(caller: Caller, arguments: ReadConversationInput, position: int) -> Iterator[Message]:
    """Yield the messages of the requested turns from a position on, reading a few at a time."""
    while True:
        rows = messages_of(
            caller=caller,
            conversation_id=arguments.conversation_id,
            turns=(arguments.from_turn, arguments.to_turn),
            from_position=position,
            limit=MESSAGES_AT_ONCE,
        )
        yield from rows
        if len(rows) < MESSAGES_AT_ONCE:
            return
        position = rows[-1].position + 1


def _page(
    messages: Iterator[Message], start: PageStart, arguments: ReadConversationInput
) -> tuple[list[ReadMessage], PageStart | None]:
    """Return as many messages as fit the budget, and the beginning of the next page.

    Only a message that is larger than a whole page is split; it continues on the next page.
    """
    page: list[ReadMessage] = []
    room = arguments.max_tokens
    for message in messages:
        offset = start.offset if message.position == start.position else 0
        text = shown_text(message.typed_parts, arguments)[offset:]
        if not text:
            continue
        room -= TOKENS_AROUND_A_MESSAGE
        tokens = count_tokens(text, encoding=ESTIMATE)
        if tokens > room and page:
            return page, PageStart(message.position, offset)
        if tokens > room:
            text = cut_to_tokens(text, room, encoding=ESTIMATE)
            return [_read(message, text)], PageStart(message.position, offset + len(text))
        page.append(_read(message, text))
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


def shown_text(parts: tuple[Part, ...], arguments: ReadConversationInput) -> str:
    """Return the text of a message: without thinking, and with short tool output, unless the caller asks for them."""
    return "\n\n".join(filter(None, (_shown_part(part, arguments) for part in parts)))


def _shown_part(part: Part, arguments: ReadConversationInput) -> str:
    if isinstance(part, ThinkingPart):
        return f"[thinking] {part.text.strip()}" if arguments.thinking and part.text.strip() else ""
    if isinstance(part, TextPart):
        return part.text.strip()
    if isinstance(part, ToolCallPart):
        return f"[tool call] {tool_call_text(part)}"
    if isinstance(part, ToolResultPart):
        text = part.text.strip()
        return f"[tool result] {text if arguments.whole_tool_results else head_and_tail(text, TOOL_RESULT_CHARS)}"
    return f"[attachment] {part.name}"


READ_CONVERSATION = Tool(
    name="read_conversation",
    description=(
        "Read turns of one conversation in order. Use it for turns that a search found, as from_turn=3, to_turn=3; "
        "not to look for something: search for that."
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
                known = with_known_names(access.archive_id, filters)
                explanations.append(explain_no_conversation(access.archive_id, known))
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
    description=(
        "List conversations, the latest first. Use it for 'what did I work on last week'; "
        "not for a topic: search for that."
    ),
    input_model=ListConversationsInput,
    output_model=ListConversationsOutput,
    function=list_conversations,
)
