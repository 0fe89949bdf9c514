"""What a stored conversation is made into: the caller's messages only, one signal, no surprise in the database."""

from collections.abc import Iterator
from typing import Any

import pytest

from convmemory.context.sending import make_recipe, prepare_context, preview_context
from convmemory.context.signals import context_filtered
from convmemory.context.wire import wire_messages
from convmemory.core.errors import InvalidInput, NotFound
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """What the signal told."""
    seen: list[dict[str, Any]] = []

    def listen(sender: Any, **values: Any) -> None:
        seen.append(values)

    context_filtered.connect(listen)
    yield seen
    context_filtered.disconnect(listen)


def test_a_short_conversation_is_sent_as_it_is(told: list[dict[str, Any]], django_assert_num_queries: Any) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("hello", "good day"), ("and?", "fine")))
    recipe = make_recipe(window=4_096, reply_tokens=500, system_prompt="Be brief.")
    with django_assert_num_queries(2):
        result = prepare_context(owner=owner, conversation_id=conversation.pk, recipe=recipe)
    sent = wire_messages(result.system_prompt, result.messages)
    assert [m["content"] for m in sent] == ["Be brief.", "hello", "good day", "and?", "fine"]
    assert told == []


def test_a_long_one_is_cut_and_told(told: list[dict[str, Any]]) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("question " * 50, "answer " * 50)] * 20))
    recipe = make_recipe(window=2_000, reply_tokens=200)
    preview = preview_context(owner=owner, conversation_id=conversation.pk, recipe=recipe)
    assert told == []
    result = prepare_context(owner=owner, conversation_id=conversation.pk, recipe=recipe)
    assert result == preview
    assert told == [
        {"signal": context_filtered, "conversation_id": conversation.pk, "owner_id": owner.pk, "result": result}
    ]
    newest = conversation.messages.order_by("-position").values_list("pk", flat=True)
    assert [message.message_id for message in reversed(result.messages)] == list(newest[: len(result.messages)])
    assert 0 < result.tokens_after <= 1_600 < result.tokens_before


def test_settings_say_how_far_the_strategies_go(settings: Any) -> None:
    settings.CONTEXT_THRESHOLD, settings.CONTEXT_SLIDING_MESSAGES = 0.01, 3
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("question", "answer")] * 20))
    recipe = make_recipe(window=4_000, reply_tokens=0, strategies="sliding_window")
    assert len(preview_context(owner=owner, conversation_id=conversation.pk, recipe=recipe).messages) == 3


def test_a_foreign_conversation_is_not_found() -> None:
    conversation = make_conversation(make_user(), exchange(("a secret", "indeed")))
    recipe = make_recipe(window=4_000, reply_tokens=0)
    for number in (conversation.pk, conversation.pk + 1_000):
        with pytest.raises(NotFound):
            prepare_context(owner=make_user(), conversation_id=number, recipe=recipe)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="token_budget"):
        make_recipe(window=4_000, reply_tokens=0, strategies=["magic"])
