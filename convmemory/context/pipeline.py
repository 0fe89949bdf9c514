"""The cumulative pipeline that builds the context of a model. Pure: values in, a `FilterResult` out.

Up to the threshold of the window nothing changes. Above it, each strategy runs on the result of the previous one, in
the order chosen by the agent's owner. System messages that open the conversation belong to the system prompt and always
stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from convmemory.context.strategies import STRATEGIES, Messages, Surroundings, clean_strategies, total
from convmemory.context.values import (
    DEFAULT_THRESHOLD,
    ContextMessage,
    ContextOverflow,
    ContextRecipe,
    CountTokens,
    FilterResult,
    RecallLeftOut,
    StrategyOptions,
    StrategyStep,
    SummaryText,
)
from convmemory.context.wire import definition_tokens, measured, text_tokens

# `resurrection` may claim at most this fraction of the target; see ADR 13.
RESERVE_DIVISOR = 4


def build_context(
    *,
    messages: Sequence[ContextMessage],
    recipe: ContextRecipe,
    count_tokens: CountTokens,
    summaries: Sequence[SummaryText] = (),
    recall: RecallLeftOut | None = None,
) -> FilterResult:
    """Build the context of a model from all messages of a conversation, and record how each strategy changed it.

    `summaries` are the completed ones, newest first; `resurrection` calls `recall`. `FilterResult.error` is set if the
    context still does not fit the window. Raises: InvalidInput for an unknown strategy.
    """
    names = clean_strategies(list(recipe.strategies))
    weighed = tuple(measured(message, count_tokens) for message in messages)
    pinned = tuple(takewhile(lambda message: message.role == "system", weighed))
    rest = weighed[len(pinned) :]
    tools = definition_tokens(recipe.tool_definitions, count_tokens)
    fixed = text_tokens(recipe.system_prompt, count_tokens) + tools + recipe.reply_tokens + total(pinned)
    before = fixed + total(rest)
    steps: tuple[StrategyStep, ...] = ()
    limit = int(recipe.window * (DEFAULT_THRESHOLD if recipe.threshold is None else recipe.threshold))
    if before > limit:
        options = recipe.options or StrategyOptions()
        # The target is the threshold, not the window: token counts are estimates for most models.
        around = Surroundings(max(limit - fixed, 0), count_tokens, options, summaries, recall)
        rest, steps = _run(names, rest, around)
    after = fixed + total(rest)
    if after <= recipe.window:
        error = None
    else:
        reserved = f"{fixed:,} of them for the system prompt, the tools and a reply of {recipe.reply_tokens:,}"
        remedy = (
            "shorten the system prompt, enable fewer tools, or lower the reply limit"
            if fixed >= recipe.window
            else "shorten the message, or add token_budget to the agent's context strategies"
            if "token_budget" not in recipe.strategies
            else "shorten the message, or add tool_output_trim to the agent's context strategies"
        )
        reason = (
            f"The context needs {after:,} tokens ({reserved}), the model's window holds {recipe.window:,}: {remedy}, "
            "or choose a model with a larger window."
        )
        error = ContextOverflow(reason, tokens_needed=after, window=recipe.window)
    return FilterResult(
        system_prompt=recipe.system_prompt,
        messages=pinned + rest,
        steps=steps,
        tokens_before=before,
        tokens_after=after,
        fixed_tokens=fixed,
        window=recipe.window,
        error=error,
    )


def _run(names: Sequence[str], messages: Messages, around: Surroundings) -> tuple[Messages, tuple[StrategyStep, ...]]:
    steps: list[StrategyStep] = []
    for number, name in enumerate(names):
        # Lower the target if a later strategy brings messages back, so that they find room.
        if around.recall is None or "resurrection" not in names[number + 1 :]:
            reserved = around
        else:
            reserve = min(around.options.resurrection_tokens, around.target // RESERVE_DIVISOR)
            reserved = replace(around, target=around.target - reserve)
        left = STRATEGIES[name](messages, reserved)
        kept = {message.message_id: message for message in left}
        stored = [message for message in messages if message.message_id is not None]
        shortened = [message for message in stored if kept.get(message.message_id, message).parts != message.parts]
        step = StrategyStep(
            name=name,
            removed_ids=_ids(message for message in stored if message.message_id not in kept),
            shortened_ids=_ids(shortened),
            added=_inserted(left) - _inserted(messages),
            tokens_before=total(messages),
            tokens_after=total(left),
            summaries=tuple(use for message in left if message not in messages for use in message.summaries),
        )
        around = replace(around, left_out=around.left_out + step.removed_ids)
        steps.append(step)
        messages = left
    return messages, tuple(steps)


def _ids(messages: Iterable[ContextMessage]) -> tuple[int, ...]:
    return tuple(message.message_id for message in messages if message.message_id is not None)


def _inserted(messages: Messages) -> int:
    return sum(message.message_id is None for message in messages)
