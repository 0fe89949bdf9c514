"""Building what a model is sent of a stored conversation: loads the caller's messages and runs the pipeline.

Reads messages and summaries; `prepare_context` tells by signal when something was left out, `preview_context` only
looks. Both are synchronous and take two or three queries.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser

from convmemory.context.pipeline import build_context
from convmemory.context.signals import context_filtered
from convmemory.context.strategies import clean_strategies
from convmemory.context.values import ContextMessage, ContextRecipe, FilterResult, StrategyOptions, SummaryText
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.reading import get_conversation
from convmemory.core.tokens import ESTIMATE, count_tokens
from summaries.reading import latest_completed

if TYPE_CHECKING:
    from convmemory.conversations.parts import Role


def make_recipe(
    *,
    window: int,
    reply_tokens: int,
    system_prompt: str = "",
    strategies: object = None,
    tool_definitions: Iterable[Mapping[str, object]] = (),
) -> ContextRecipe:
    """The recipe of an agent, with what the settings say of the strategies.

    Raises: InvalidInput for the name of an unknown strategy.
    """
    return ContextRecipe(
        window=window,
        reply_tokens=reply_tokens,
        system_prompt=system_prompt,
        strategies=tuple(clean_strategies(strategies)),
        tool_definitions=tuple(dict(definition) for definition in tool_definitions),
        threshold=settings.CONTEXT_THRESHOLD,
        options=StrategyOptions(
            sliding_messages=settings.CONTEXT_SLIDING_MESSAGES,
            tool_output_tokens=settings.CONTEXT_TOOL_OUTPUT_TOKENS,
            resurrection_tokens=settings.CONTEXT_RESURRECTION_TOKENS,
        ),
    )


def prepare_context(
    *, owner: AbstractBaseUser, conversation_id: int, recipe: ContextRecipe, encoding: str = ESTIMATE
) -> FilterResult:
    """What a model is about to be sent of the conversation. `encoding` is the model's (`Endpoint.encoding`).

    Tells by the signal `context_filtered` where that is not the conversation as it is.
    Raises: NotFound, InvalidInput. A context that does not fit is no exception: look at `FilterResult.error`.
    """
    result = preview_context(owner=owner, conversation_id=conversation_id, recipe=recipe, encoding=encoding)
    if result.was_filtered:
        context_filtered.send(sender=None, conversation_id=conversation_id, owner_id=owner.pk, result=result)
    return result


def preview_context(
    *, owner: AbstractBaseUser, conversation_id: int, recipe: ContextRecipe, encoding: str = ESTIMATE
) -> FilterResult:
    """What a model would be sent of the conversation now; nothing is told or stored. Raises: NotFound, InvalidInput."""
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    return build_context(
        messages=_stored_messages(conversation),
        recipe=recipe,
        count_tokens=partial(count_tokens, encoding=encoding),
        summary=_latest_summary(owner, conversation_id) if "summary_boundary" in recipe.strategies else None,
    )


def _latest_summary(owner: AbstractBaseUser, conversation_id: int) -> SummaryText | None:
    found = latest_completed(owner=owner, conversation_id=conversation_id)
    if found is None:
        return None
    return SummaryText(found.pk, found.from_position, found.to_position, found.content)


def _stored_messages(conversation: Conversation) -> list[ContextMessage]:
    rows = conversation.messages.only("conversation", "position", "role", "parts", "turn_number").order_by("position")
    return [_context_message(row) for row in rows]


def _context_message(row: Message) -> ContextMessage:
    return ContextMessage(
        message_id=row.pk,
        position=row.position,
        role=cast("Role", row.role),
        parts=row.typed_parts,
        turn_number=row.turn_number,
    )
