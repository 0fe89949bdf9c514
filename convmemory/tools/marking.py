"""The tool with which an agent marks a turn as wrong or outdated for its user."""

from typing import Annotated, Literal

from pydantic import Field

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import archive_of_address
from convmemory.conversations.marking import set_mark
from convmemory.core.config import config
from convmemory.core.errors import NotAllowed, NotFound
from convmemory.core.marks import mark_of
from convmemory.tools.definition import Text, Tool, ToolInput, ToolOutput, site

TOOLS_ONLY_READ = "Tools only read spaces: mark the turn on its page."


class MarkTurnInput(ToolInput):
    conversation_id: Annotated[int, Field(description="of a hit")]
    turn: Annotated[int, Field(description="of a hit")]
    mark: Annotated[Literal["wrong", "outdated", "none"], Field(description="none: unmark")]
    reason: Annotated[Text, Field(description="why")] = ""


class MarkTurnOutput(ToolOutput):
    said: str


def mark_turn(caller: Caller | None, arguments: MarkTurnInput) -> MarkTurnOutput:
    """Mark a turn of the caller. Raises: NotFound, NotAllowed for a turn in a space."""
    if caller is None:
        raise NotFound(f"There is no conversation {arguments.conversation_id}.")
    mark = mark_of("" if arguments.mark == "none" else arguments.mark, arguments.reason)
    try:
        set_mark(caller=caller, conversation_id=arguments.conversation_id, turn_number=arguments.turn, mark=mark)
    except NotFound:
        archive_id = archive_of_address({"conversation_id": arguments.conversation_id})
        if any(space.archive_id == archive_id for space in caller.spaces):
            raise NotAllowed(TOOLS_ONLY_READ) from None
        raise
    link = f"{site()}/conversations/{arguments.conversation_id}?turn={arguments.turn}"
    return MarkTurnOutput(said=f"Turn {arguments.turn}, {link}, is {mark or 'not marked'}.")


MARK_TURN = Tool(
    name="mark_turn",
    description="Mark a turn wrong or outdated. Use it if the user says so, as turn=3; not on a guess.",
    input_model=MarkTurnInput,
    output_model=MarkTurnOutput,
    function=mark_turn,
    as_text=lambda answer: str(answer["said"]),
    is_offered=lambda: config.mcp_marking,
    writes=True,
)
