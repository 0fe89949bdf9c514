"""The dry run of an agent's context: the route and the page; foreign conversations and agents are not found."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.chat.agents import create_agent
from convmemory.chat.models import Agent
from convmemory.conversations.models import Conversation
from summaries.models import ConversationSummary
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, problem_of, signed_in

pytestmark = pytest.mark.django_db

FILLER = "some words that take room " * 40


@pytest.fixture
def conversation(owner: User) -> Conversation:
    pairs = [(f"question {number} {FILLER}", f"answer {number} {FILLER}") for number in range(10)]
    return make_conversation(owner, exchange(*pairs), title="Long talk")


@pytest.fixture(autouse=True)
def _endpoint(settings: Any) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_API_KEY, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "", "some-model"


def make_agent(owner: User, **values: Any) -> Agent:
    standard = {"name": "Tutor", "context_window": 4_096, "reply_tokens": 500, "system_prompt": "Be brief."}
    return create_agent(caller=Caller.of(owner), values={**standard, **values})


def summarise(conversation: Conversation) -> None:
    ConversationSummary.objects.create(
        archive_id=conversation.archive_id,
        conversation=conversation,
        from_position=0,
        to_position=9,
        status="completed",
        content="They talked.",
        method="model",
        due_at=timezone.now(),
        completed_at=timezone.now(),
    )


def test_route_tells_what_would_be_sent(owner: User, conversation: Conversation) -> None:
    agent = make_agent(owner, context_strategies=["summary_boundary", "token_budget"])
    summarise(conversation)
    answer = Api(owner).get(f"/conversations/{conversation.pk}/context", agent_id=agent.pk)
    assert answer.status_code == 200, answer.content
    run = answer.json()
    assert (run["agent"], run["model"], run["window"], run["fits"]) == ("Tutor", "some-model", 4_096, True)
    assert run["strategies_applied"] == ["summary_boundary", "token_budget"]
    assert [message["role"] for message in run["messages"][:2]] == ["system", "user"]
    assert "They talked." in run["messages"][1]["content"]
    assert run["removed_ids"] == [number for step in run["steps"] for number in step["removed_ids"]]
    assert len(run["steps"][0]["removed_ids"]) == 10
    [told] = run["steps"][0]["summaries"]
    assert (told["from_position"], told["to_position"], told["stands_for"]) == (0, 9, [[0, 9]])
    assert run["tokens_after"] <= 4_096 * 0.8 < run["tokens_before"]


def test_page_shows_what_stays_and_what_goes(owner: User, conversation: Conversation) -> None:
    make_agent(owner, context_strategies=["summary_boundary", "token_budget"])
    summarise(conversation)
    client = signed_in(owner)
    path = f"/conversations/{conversation.pk}/context"
    assert f'href="{path}"' in client.get(f"/conversations/{conversation.pk}").content.decode()
    text = " ".join(client.get(path).content.decode().split())
    assert "to Tutor, some-model" in text
    assert "10 messages by <code>summary_boundary</code>" in text
    assert "Summary of messages 1 to 10</a> stands for messages 1 to 10" in text
    assert "inserted" in text
    assert "answer 9" in text
    assert "answer 0" not in text
    assert client.get(path, {"agent": "nonsense"}).status_code == 422


def test_without_endpoint_page_says_how_to_set_one_up(owner: User, conversation: Conversation, settings: Any) -> None:
    settings.CHAT_BASE_URL = settings.CHAT_MODEL = ""
    client = signed_in(owner)
    text = client.get(f"/conversations/{conversation.pk}/context").content.decode()
    assert "CHAT_BASE_URL" not in text
    assert "ask who runs this server" in text.lower()
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    assert "CHAT_BASE_URL" in client.get(f"/conversations/{conversation.pk}/context").content.decode()


def test_dry_run_reports_context_that_does_not_fit(owner: User) -> None:
    huge = make_conversation(owner, exchange(("word " * 9_000, "no")))
    make_agent(owner)
    run = Api(owner).get(f"/conversations/{huge.pk}/context").json()
    assert run["fits"] is False
    assert "shorten the message" in run["error"]


def test_dry_run_of_foreign_conversation_or_agent_gets_404(owner: User, conversation: Conversation) -> None:
    stranger = make_user()
    agent = make_agent(stranger)
    path = f"/conversations/{conversation.pk}/context"
    assert problem_of(Api(stranger).get(path, agent_id=agent.pk), 404)
    assert problem_of(Api(owner).get(path, agent_id=agent.pk), 404)
    client = signed_in(stranger)
    assert client.get(path).status_code == 404
