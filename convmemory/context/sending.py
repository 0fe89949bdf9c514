"""Builds what a model is sent from a stored conversation, and recalls what was left out and concerns the question.

Reads messages and summaries. `prepare_context` sends a signal if something was left out, `preview_context` sends none.
Both are synchronous and take two or three queries.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from django.db.models import Max
from django.dispatch import Signal

from convmemory.accounts.callers import Caller
from convmemory.context.pipeline import build_context
from convmemory.context.values import (
    ContextMessage,
    ContextRecipe,
    CountTokens,
    FilterResult,
    StrategyOptions,
    SummaryText,
)
from convmemory.conversations.models import Message
from convmemory.conversations.reading import get_conversation
from convmemory.core.config import config
from convmemory.core.errors import SwitchedOff
from convmemory.core.text import one_line
from convmemory.core.tokens import ESTIMATE, count_tokens
from memory.context import build_memory_context
from memory.recall import RecallQuery, recall
from search.query import SEARCHED_CHARS, is_too_short
from summaries.ordering import completed_summaries

if TYPE_CHECKING:
    from convmemory.conversations.messages.parts import Role

# Sent when the context of a model differs from the stored conversation.
# Arguments: conversation_id: int, archive_id: int, result: FilterResult.
context_filtered = Signal()


def strategy_options() -> StrategyOptions:
    """The strategies' options from the settings."""
    return StrategyOptions(
        sliding_messages=config.context_sliding_messages,
        tool_output_tokens=config.context_tool_output_tokens,
        resurrection_tokens=config.context_resurrection_tokens,
    )


def prepare_context(
    *, caller: Caller, conversation_id: int, recipe: ContextRecipe, encoding: str = ESTIMATE
) -> FilterResult:
    """Return the context that is about to be sent to a model. `encoding` is the model's (`Endpoint.encoding`).

    Sends the signal `context_filtered` if the context differs from the conversation. Raises: NotFound, InvalidInput. A
    context that does not fit raises nothing: check `FilterResult.error`.
    """
    result = preview_context(caller=caller, conversation_id=conversation_id, recipe=recipe, encoding=encoding)
    if result.was_filtered:
        context_filtered.send(sender=None, conversation_id=conversation_id, archive_id=caller.archive_id, result=result)
    return result


def preview_context(
    *, caller: Caller, conversation_id: int, recipe: ContextRecipe, encoding: str = ESTIMATE
) -> FilterResult:
    """Return the context that a model would be sent now; nothing is stored. Raises: NotFound, InvalidInput."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    threshold = config.context_threshold if recipe.threshold is None else recipe.threshold
    stored = conversation.messages.filter(superseded=False).order_by("position")
    rows = stored.only("conversation", "position", "role", "parts", "turn_number")
    messages = list(map(_context_message, rows))
    summaries: list[SummaryText] = []
    if "summary_boundary" in recipe.strategies:
        for row in completed_summaries(caller=caller, conversation_id=conversation_id):
            summaries.append(SummaryText(row.pk, row.from_position, row.to_position, row.content))
    return build_context(
        messages=messages,
        recipe=replace(recipe, threshold=threshold, options=recipe.options or strategy_options()),
        count_tokens=_counter(encoding),
        summaries=summaries,
        recall=partial(recall_left_out, caller=caller, conversation_id=conversation_id, encoding=encoding)
        if "resurrection" in recipe.strategies
        else None,
    )


@cache
def _counter(encoding: str) -> CountTokens:
    """Return the same function for the same encoding, so that its results can be cached."""
    return partial(count_tokens, encoding=encoding)


def _context_message(row: Message) -> ContextMessage:
    return ContextMessage(
        message_id=row.pk,
        position=row.position,
        role=cast("Role", row.role),
        parts=row.typed_parts,
        turn_number=row.turn_number,
    )


# More than fit usually: some of the messages found are still in the context and are dropped.
TOP_K = 20


def recall_left_out(
    question: str,
    left_out: Sequence[int],
    max_tokens: int,
    *,
    caller: Caller,
    conversation_id: int,
    encoding: str,
) -> str:
    """Return fenced passages of the messages `left_out`, in at most `max_tokens` tokens; "" if nothing is found."""
    query = one_line(question, SEARCHED_CHARS)
    if is_too_short(query):
        return ""
    gone_messages = Message.objects.filter(archive_id=caller.archive_id, pk__in=left_out)
    newest = gone_messages.aggregate(position=Max("position"))["position"] or 0
    asked = RecallQuery(query, top_k=TOP_K, conversation_id=conversation_id, before_position=newest + 1)
    try:
        recalled = recall(caller=caller, query=asked)
    except SwitchedOff:
        return ""
    gone = frozenset(left_out)
    messages = [message for message in recalled.messages if message.message_id in gone]
    # The keys of openings that the model already sees, so that they are not inserted again.
    openings = (opening for message in messages for opening in (message.question_opening, message.answer_opening))
    alive = {opening.passage.key for opening in openings if opening and opening.passage.message_id not in gone}
    return build_memory_context(messages, max_tokens, alive=alive, count_tokens=_counter(encoding)).text
