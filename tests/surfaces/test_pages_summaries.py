"""The summary pages: request, watch, read, regenerate, delete; with and without htmx; foreign ones not found."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.conversations.models import Conversation
from summaries.models import ConversationSummary
from summaries.tasks import make
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.queue import queued

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
PAIRS = [(f"What is the colour of house number {n}?", f"House number {n} is blue and white.") for n in range(4)]


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


@pytest.fixture
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(*PAIRS), title="Houses")


@pytest.fixture(autouse=True)
def _no_endpoint(settings: Any) -> None:
    settings.CHAT_BASE_URL = settings.CHAT_API_KEY = settings.CHAT_MODEL = ""


def text_of(response: Any, status: int = 200) -> str:
    assert response.status_code == status, response.content
    return str(response.content.decode())


def test_range_of_turns_is_summarised_and_watched(client: Client, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    assert f'href="{path}"' in text_of(client.get(f"/conversations/{conversation.pk}"))
    assert "No summary yet" in text_of(client.get(path))
    response = client.post(path, {"from_turn": "2", "to_turn": "3"})
    assert (response.status_code, response.headers["Location"]) == (302, path)
    row = ConversationSummary.objects.get()
    assert (row.from_position, row.to_position) == (2, 5)
    assert queued("summaries.tasks.make") == [("summaries.tasks.make", [row.pk])]
    waiting = text_of(client.get(path))
    assert "Turns 2 to 3" in waiting
    assert 'hx-trigger="every 2s"' in waiting
    assert "<noscript>" in waiting
    make(row.pk, archive_id=row.archive_id)
    card = text_of(client.get(f"{path}/{row.pk}", headers=HTMX))
    assert "<html" not in card
    assert "every 2s" not in card
    assert "House number" in card
    assert "extract of its own sentences" in card
    assert text_of(client.get(f"{path}/{row.pk}")).count("<html") == 1


def test_without_turns_everything_is_summarised(client: Client, conversation: Conversation) -> None:
    client.post(f"/conversations/{conversation.pk}/summaries", {"from_turn": "", "to_turn": ""})
    row = ConversationSummary.objects.get()
    assert (row.from_position, row.to_position) == (0, 7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"from_turn": "2", "to_turn": "1"}, "swap the two"),
        ({"to_turn": "9"}, "its turns are 1 to 4"),
        ({"from_turn": "0"}, "not the number of a turn"),
        ({"from_turn": "two"}, "not the number of a turn"),
        ({"from_turn": "9" * 40}, "not the number of a turn"),
        ({"method": "model"}, "set CHAT_MODEL"),
    ],
)
def test_invalid_summary_range_is_explained_on_page(
    client: Client, conversation: Conversation, given: dict[str, str], said: str
) -> None:
    text = text_of(client.post(f"/conversations/{conversation.pk}/summaries", given), 422)
    assert said in text
    assert "Summarise" in text
    assert not ConversationSummary.objects.exists()


def test_endpoint_can_be_chosen_or_not(client: Client, conversation: Conversation, settings: Any) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    assert "No language model is set up" in text_of(client.get(path))
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", "http://127.0.0.1:9/v1"
    assert "written by some-model" in text_of(client.get(path))
    client.post(path, {"method": "extractive"})
    assert ConversationSummary.objects.get().method == "extractive"


def test_failed_summary_is_shown_and_regenerated_in_place(client: Client, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    client.post(path)
    row = ConversationSummary.objects.get()
    ConversationSummary.objects.update(status="failed", error="The endpoint <b>burns</b>.", content="Old *text*.")
    text = text_of(client.get(path))
    assert "The endpoint &lt;b&gt;burns&lt;/b&gt;." in text
    assert "<em>text</em>" in text
    card = text_of(client.post(f"{path}/{row.pk}/regenerate", headers=HTMX))
    assert 'hx-trigger="every 2s"' in card
    assert "the earlier text" in card
    assert client.post(f"{path}/{row.pk}/regenerate").headers["Location"] == path
    assert client.post(f"{path}/{row.pk}/delete").headers["Location"] == path
    assert not ConversationSummary.objects.exists()


def test_summary_by_model_is_sanitised(client: Client, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    client.post(path)
    ConversationSummary.objects.update(
        status="completed",
        content="<script>alert(1)</script> [x](javascript:alert(1)) ![i](https://evil.example/p.png)",
    )
    text = text_of(client.get(path))
    assert "<script>alert" not in text
    assert 'javascript:alert(1)"' not in text.replace('title="javascript:alert(1)"', "")
    assert "<img" not in text


def test_foreign_summaries_get_404(client: Client, conversation: Conversation) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    client.post(path)
    number = ConversationSummary.objects.get().pk
    stranger = signed_in(make_user())
    assert stranger.get(path).status_code == 404
    assert stranger.post(path).status_code == 404
    assert stranger.get(f"{path}/{number}").status_code == 404
    for action in ("regenerate", "delete"):
        assert stranger.post(f"{path}/{number}/{action}").status_code == 404
        assert Client().post(f"{path}/{number}/{action}").status_code == 302
        assert client.get(f"{path}/{number}/{action}").status_code == 405
    assert ConversationSummary.objects.get().status == "pending"


def test_page_takes_few_queries(client: Client, conversation: Conversation, django_assert_num_queries: Any) -> None:
    path = f"/conversations/{conversation.pk}/summaries"
    for _ in range(4):
        client.post(path)
    with django_assert_num_queries(8):  # session, user, archive, conversation twice, summaries, turns, invitations
        client.get(path)
