"""The tool that brings old context back. It runs only when it is called: nothing is ever injected unasked."""

from typing import Annotated

from pydantic import BaseModel, Field

from convmemory.tools.definition import Caller, Optional, Question, Tool, ToolInput, ToolOutput, archive_owner
from memory.context import build_memory_context
from memory.options import RecallOptions
from memory.recall import MAX_TOP_K, recall
from memory.recalled import RecalledMessage
from memory.resurrection import Outcome

MAX_TOKENS = 20_000


class ConversationRecallInput(ToolInput):
    query: Question
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] = RecallOptions.from_settings().recall_top_k
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = RecallOptions.from_settings().max_recall_tokens


class RecalledTurn(BaseModel):
    conversation_id: int
    turn_number: int
    message_id: int
    similarity: float
    url: str
    in_context: bool


class ConversationRecallOutput(ToolOutput):
    context: str
    tokens: int
    results: list[RecalledTurn]
    note: str | Optional = None


def conversation_recall(caller: Caller, arguments: ConversationRecallInput) -> ConversationRecallOutput:
    """What the caller's conversations say on the query, within the budget. Raises: InvalidInput, SwitchedOff."""
    found = recall(owner=archive_owner(caller), query=arguments.query, top_k=arguments.top_k)
    context = build_memory_context(found.messages, arguments.max_tokens)
    results = [
        _recalled(message, outcome)
        for message, outcome in zip(found.messages, context.resurrection.outcomes, strict=True)
    ]
    notes = found.notes
    if found.messages and not context.text:
        notes = (*notes, "Nothing fits into max_tokens: raise it, or read a turn with read_conversation.")
    return ConversationRecallOutput(
        context=context.text, tokens=context.tokens, results=results, note=" ".join(notes) or None
    )


def _recalled(message: RecalledMessage, outcome: Outcome) -> RecalledTurn:
    return RecalledTurn(
        conversation_id=message.conversation_id,
        turn_number=message.turn_number,
        message_id=message.message_id,
        similarity=message.similarity,
        url=message.url,
        in_context=not outcome.left_out,
    )


CONVERSATION_RECALL = Tool(
    name="conversation_recall",
    description=(
        "Bring back what earlier conversations said on a question: excerpts with their question and answer's opening, "
        "fenced as data, within max_tokens."
    ),
    input_model=ConversationRecallInput,
    output_model=ConversationRecallOutput,
    function=conversation_recall,
)
