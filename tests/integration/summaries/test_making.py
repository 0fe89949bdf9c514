"""From pending to completed or failed: claims, retries, lost workers, and what a summary is made of."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.context.sending import preview_context
from convmemory.context.values import ContextRecipe
from convmemory.conversations.messages.parts import spoken_text
from convmemory.conversations.models import Conversation
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.queue.retrying import SUMMARIES
from search.adapters.conversations import index_conversation
from summaries.by_model import PROMPT_VERSION
from summaries.making import SummaryOutcome, make_summary, summaries_to_make
from summaries.models import ConversationSummary
from summaries.ordering import (
    completed_summaries,
    delete_summary,
    get_summary,
    regenerate_summary,
    request_summary,
    summaries_of,
)
from tests.factories import exchange, make_conversation, make_user
from tests.support.openai_server import FakeEndpoint, Fault, running_endpoint

pytestmark = pytest.mark.django_db

TOPICS = [
    ("Which bread flour gives a sourdough loaf the most rise?", "A strong bread flour with thirteen percent protein."),
    ("How do I tune a ukulele without any tuner at hand?", "Tune the second string first and the others after it."),
    ("What makes the checkout query on PostgreSQL so slow?", "A missing index on the orders table makes it slow."),
]


@pytest.fixture
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(*TOPICS))


@pytest.fixture
def endpoint(settings: Any) -> Iterator[FakeEndpoint]:
    with running_endpoint(reply=lambda body: "They talked of bread, strings and an index.") as server:
        settings.CHAT_BASE_URL, settings.CHAT_API_KEY, settings.CHAT_MODEL = server.url, server.key, "m"
        yield server


@pytest.fixture(autouse=True)
def _no_endpoint(settings: Any) -> None:
    settings.CHAT_BASE_URL = settings.CHAT_API_KEY = settings.CHAT_MODEL = ""


def ask(owner: User, conversation: Conversation, **values: Any) -> ConversationSummary:
    return request_summary(caller=Caller.of(owner), conversation_id=conversation.pk, **values)


def test_without_endpoint_sentences_are_chosen(owner: User, conversation: Conversation, settings: Any) -> None:
    index_conversation(conversation_id=conversation.pk)
    settings.SUMMARY_MAX_TOKENS = 80
    summary = ask(owner, conversation)
    assert (summary.status, summary.method, summary.from_position, summary.to_position) == (
        "pending", "extractive", 0, 5,
    )  # fmt: skip
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("completed")
    summary.refresh_from_db()
    assert 0 < summary.token_count <= 80
    lines = summary.content.splitlines()
    assert all(line.startswith(("- User: ", "- Assistant: ")) for line in lines)
    assert len(lines) == 3
    places = [next(n for n, topic in enumerate(TOPICS) if line.split(": ")[1] in topic) for line in lines]
    assert places == [0, 1, 2]  # one sentence of each topic, in order
    assert (summary.model, summary.prompt_version) == ("", None)


def test_messages_not_indexed_yet_are_embedded_for_summary(owner: User, conversation: Conversation) -> None:
    summary = ask(owner, conversation, from_position=2, to_position=3)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("completed")
    content = get_summary(caller=Caller.of(owner), conversation_id=conversation.pk, summary_id=summary.pk).content
    assert "ukulele" in content
    assert "sourdough" not in content


def test_range_without_sentences_fails_and_says_so(owner: User) -> None:
    conversation = make_conversation(owner, exchange(("?", "!")))
    summary = ask(owner, conversation)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("failed")
    summary.refresh_from_db()
    assert "no sentences" in summary.error


def test_summary_with_endpoint_is_written_by_model(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    summary = ask(owner, conversation, to_position=3)
    assert summary.method == "model"
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("completed")
    summary.refresh_from_db()
    assert summary.content == "They talked of bread, strings and an index."
    assert (summary.model, summary.prompt_version, summary.attempts) == ("m", PROMPT_VERSION, 1)
    assert summary.completed_at is not None
    (request,) = endpoint.requests
    assert "[3] Assistant: Tune the second" in request["messages"][1]["content"]
    assert "checkout" not in request["messages"][1]["content"]


def test_completed_summary_is_not_made_again(owner: User, conversation: Conversation, endpoint: FakeEndpoint) -> None:
    summary = ask(owner, conversation)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("completed")
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) is None
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk + 1) is None
    assert len(endpoint.requests) == 1


def wake(summary: ConversationSummary) -> None:
    ConversationSummary.objects.filter(pk=summary.pk).update(due_at=timezone.now() - timedelta(seconds=1))


def test_failed_summary_retries_with_backoff_up_to_max(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    broken = Fault(500, {"error": {"message": "out of memory"}}, {"x-should-retry": "false"})
    endpoint.faults.extend([broken] * SUMMARIES.max_attempts)
    summary = ask(owner, conversation)
    for attempt in range(1, SUMMARIES.max_attempts):
        outcome = make_summary(archive_id=summary.archive_id, summary_id=summary.pk)
        assert outcome == SummaryOutcome("pending", again_in_s=15 * 2 ** (attempt - 1))
        assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) is None  # not due yet
        assert summaries_to_make(limit=5) == []
        wake(summary)
        assert summaries_to_make(limit=5) == [(owner.pk, summary.pk, None)]
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("failed")
    summary.refresh_from_db()
    assert summary.attempts == SUMMARIES.max_attempts
    assert "out of memory" in summary.error
    wake(summary)
    assert summaries_to_make(limit=5) == []


def test_retry_after_of_server_sets_delay(owner: User, conversation: Conversation, endpoint: FakeEndpoint) -> None:
    busy = Fault(429, {"error": {"message": "later"}}, {"Retry-After": "300", "x-should-retry": "false"})
    endpoint.faults.append(busy)
    assert make_summary(archive_id=owner.pk, summary_id=ask(owner, conversation).pk) == SummaryOutcome(
        "pending", again_in_s=300
    )


def test_request_refused_by_server_fails_at_once(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    endpoint.faults.append(Fault(400, {"error": {"message": "the context is too long"}}))
    summary = ask(owner, conversation)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("failed")
    summary.refresh_from_db()
    assert "the context is too long" in summary.error


def test_summary_refused_for_its_key_fails_at_once(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    endpoint.key = "another"
    summary = ask(owner, conversation)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("failed")
    summary.refresh_from_db()
    assert "set CHAT_API_KEY" in summary.error
    assert len(endpoint.requests) == 1


def test_summary_of_lost_worker_is_retried_then_fails(owner: User, conversation: Conversation) -> None:
    summary = ask(owner, conversation)
    rows = ConversationSummary.objects.filter(pk=summary.pk)
    rows.update(status="processing", attempts=1, due_at=timezone.now() + timedelta(minutes=5))
    assert summaries_to_make(limit=5) == []
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) is None  # another worker has its lease
    wake(summary)
    assert summaries_to_make(limit=5) == [(owner.pk, summary.pk, None)]
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("completed")
    rows.update(status="processing", attempts=SUMMARIES.max_attempts)
    wake(summary)
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) is None
    summary.refresh_from_db()
    assert (summary.status, summary.error) == ("failed", "The work on it was interrupted 4 times.")


def test_long_range_is_written_in_several_runs(
    owner: User, endpoint: FakeEndpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CHAT_CONTEXT_WINDOW = 2_048
    conversation = make_conversation(owner, exchange(*[("word " * 200, "word " * 200)] * 10))
    summary = ask(owner, conversation)
    clock = iter(range(10_000))
    settings.TASK_TIMEOUT_S, settings.TASK_SLICE_S = 10, 3.0
    monkeypatch.setattr("summaries.making.time.monotonic", lambda: next(clock))
    runs = 0
    while make_summary(archive_id=summary.archive_id, summary_id=summary.pk) == SummaryOutcome("pending", again_in_s=0):
        runs += 1
        assert runs < 30
    summary.refresh_from_db()
    assert runs >= 1
    assert (summary.status, summary.partials) == ("completed", {})
    bodies = [request["messages"][1]["content"] + request["messages"][0]["content"] for request in endpoint.requests]
    assert len(set(bodies)) == len(bodies)


@pytest.mark.django_db(transaction=True)
def test_summary_regenerated_during_run_is_not_overwritten(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    summary = ask(owner, conversation)

    def regenerated_meanwhile(body: dict[str, Any]) -> str:
        regenerate_summary(caller=Caller.of(owner), conversation_id=conversation.pk, summary_id=summary.pk)
        connection.close()  # that of the server's thread
        return "An old text."

    endpoint.reply = regenerated_meanwhile
    assert make_summary(archive_id=summary.archive_id, summary_id=summary.pk) is None
    summary.refresh_from_db()
    assert (summary.status, summary.content, summary.partials) == ("pending", "", {})


def test_regenerating_keeps_text_until_there_is_new_one(
    owner: User, conversation: Conversation, endpoint: FakeEndpoint
) -> None:
    summary = ask(owner, conversation)
    make_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    endpoint.reply = lambda body: "Better."
    again = regenerate_summary(caller=Caller.of(owner), conversation_id=conversation.pk, summary_id=summary.pk)
    assert (again.status, again.content[:11]) == ("pending", "They talked")
    assert completed_summaries(caller=Caller.of(owner), conversation_id=conversation.pk) == []
    make_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    [found] = completed_summaries(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert found.content == "Better."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"from_position": 4, "to_position": 2}, "swap the two"),
        ({"to_position": 6}, "its messages are 0 to 5"),
        ({"from_position": 99}, "its messages are 0 to 5"),
        ({"from_position": -1}, "its messages are 0 to 5"),
        ({"method": "magic"}, "model or extractive"),
        ({"method": "model"}, "set CHAT_MODEL"),
    ],
)
def test_impossible_ranges_are_refused_with_reason(
    owner: User, conversation: Conversation, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        ask(owner, conversation, **values)
    assert not ConversationSummary.objects.exists()


def test_empty_conversation_cannot_be_summarised(owner: User) -> None:
    with pytest.raises(InvalidInput, match="no messages"):
        ask(owner, make_conversation(owner))


def test_foreign_summaries_are_not_found(owner: User, conversation: Conversation) -> None:
    summary = ask(owner, conversation)
    place = {"conversation_id": conversation.pk, "summary_id": summary.pk}
    stranger = make_user()
    for call in (get_summary, regenerate_summary, delete_summary):
        with pytest.raises(NotFound):
            call(caller=Caller.of(stranger), **place)
    with pytest.raises(NotFound):
        summaries_of(caller=Caller.of(stranger), conversation_id=conversation.pk)
    with pytest.raises(NotFound):
        ask(stranger, conversation)
    assert completed_summaries(caller=Caller.of(stranger), conversation_id=conversation.pk) == []
    other = make_conversation(owner)
    with pytest.raises(NotFound):  # the right owner, another conversation
        get_summary(caller=Caller.of(owner), conversation_id=other.pk, summary_id=summary.pk)


def test_context_begins_with_chain_of_completed_summaries(owner: User, conversation: Conversation) -> None:
    rows = [ask(owner, conversation, to_position=last) for last in (1, 3, 4, 2)]
    for row, status in zip(rows, ("completed", "completed", "failed", "pending"), strict=True):
        done = timezone.now() if status == "completed" else None
        ConversationSummary.objects.filter(pk=row.pk).update(
            status=status, content=f"To {row.to_position}.", completed_at=done
        )
    recipe = ContextRecipe(window=1_000, reply_tokens=790, strategies=("summary_boundary", "token_budget"))
    result = preview_context(caller=Caller.of(owner), conversation_id=conversation.pk, recipe=recipe)
    first, *rest = result.messages
    assert (first.role, first.message_id) == ("user", None)
    assert "To 3." in spoken_text(first.parts)
    assert [message.position for message in rest] == [4, 5]
    assert result.strategies_applied == ("summary_boundary", "token_budget")
    assert ConversationSummary.objects.count() == 4  # filtering makes none
