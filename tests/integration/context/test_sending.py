"""Building the context of a stored conversation: the caller's messages only, one signal, few queries."""

from collections.abc import Iterator
from typing import Any

import pytest

from convmemory.accounts.callers import Caller
from convmemory.context.sending import context_filtered, prepare_context, preview_context
from convmemory.context.values import ContextRecipe
from convmemory.context.wire import wire_messages
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.parts import part_text
from convmemory.core.errors import InvalidInput, NotFound
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """Yield the values that the signal sends."""
    seen: list[dict[str, Any]] = []

    def listen(sender: Any, **values: Any) -> None:
        seen.append(values)

    context_filtered.connect(listen)
    yield seen
    context_filtered.disconnect(listen)


def test_short_conversation_is_sent_as_it_is(told: list[dict[str, Any]], django_assert_num_queries: Any) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("hello", "good day"), ("and?", "fine")))
    recipe = ContextRecipe(window=4_096, reply_tokens=500, system_prompt="Be brief.")
    with django_assert_num_queries(2):
        result = prepare_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    sent = wire_messages(result.system_prompt, result.messages)
    assert [m["content"] for m in sent] == ["Be brief.", "hello", "good day", "and?", "fine"]
    assert told == []


def test_long_conversation_is_cut_and_announced_by_signal(told: list[dict[str, Any]]) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("question " * 50, "answer " * 50)] * 20))
    recipe = ContextRecipe(window=2_000, reply_tokens=200)
    preview = preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    assert told == []
    result = prepare_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    assert result == preview
    assert told == [
        {"signal": context_filtered, "conversation_id": conversation.pk, "archive_id": owner.pk, "result": result}
    ]
    newest = conversation.messages.order_by("-position").values_list("pk", flat=True)
    assert [message.message_id for message in reversed(result.messages)] == list(newest[: len(result.messages)])
    assert 0 < result.tokens_after <= 1_600 < result.tokens_before


def test_strategies_follow_context_settings(settings: Any) -> None:
    settings.CONTEXT_THRESHOLD, settings.CONTEXT_SLIDING_MESSAGES = 0.01, 3
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("question", "answer")] * 20))
    recipe = ContextRecipe(window=4_000, reply_tokens=0, strategies=("sliding_window",))
    assert len(preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe).messages) == 3


def test_foreign_conversation_is_not_found() -> None:
    conversation = make_conversation(make_user(), exchange(("a secret", "indeed")))
    recipe = ContextRecipe(window=4_000, reply_tokens=0)
    for number in (conversation.pk, conversation.pk + 1_000):
        with pytest.raises(NotFound):
            prepare_context(caller=Caller.of(make_user()), conversation_id=number, recipe=recipe)


def test_unknown_strategy_is_refused() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("a", "b")))
    recipe = ContextRecipe(window=4_000, reply_tokens=0, strategies=("magic",))
    with pytest.raises(InvalidInput, match="token_budget"):
        preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)


def test_relevant_dropped_messages_are_recalled() -> None:
    owner = make_user()
    fact = ("Which port does the billing service listen on?", "The billing service listens on port 7411 behind nginx.")
    filler = [(f"Tell me about bird number {n}.", f"Bird number {n} is small and brown. " * 12) for n in range(20)]
    conversation = make_conversation(owner, exchange(fact, *filler))
    stranger = make_conversation(
        make_user(), exchange(("billing service port?", "A stranger's port is 9999."), *filler)
    )
    for row in (conversation, stranger):
        index_conversation(conversation_id=row.pk)
    ingest.append_messages(
        caller=Caller.of(owner),
        conversation_id=conversation.pk,
        drafts=[user_says('On which "port" is the -billing service?')],
    )
    recipe = ContextRecipe(window=3_000, reply_tokens=200, strategies=("token_budget", "resurrection"))
    result = preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    first = result.messages[0]
    (text,) = [part_text(part) for part in first.parts]
    assert (first.role, first.message_id) == ("user", None)
    assert "port 7411" in text
    assert "Which port does the billing service listen on?" in text  # the partner
    assert "9999" not in text
    assert text.startswith("<recalled-memory")
    assert result.tokens_after <= 2_400
    assert result.steps[1].added == 1


def test_no_messages_are_recalled_while_memory_is_off(settings: Any) -> None:
    settings.CONVERSATION_MEMORY_ENABLED = False
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("question " * 50, "answer " * 50)] * 20))
    recipe = ContextRecipe(window=2_000, reply_tokens=200, strategies=("token_budget", "resurrection"))
    result = preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    assert result.steps[1].added == 0
    assert result.fits
