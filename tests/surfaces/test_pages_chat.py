"""The chat's page addresses without a browser: who may use them, and what a refused message gets."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.chat.models import Agent, Reply
from convmemory.conversations.models import Conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner(settings: Settings) -> User:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"
    return make_user()


def test_chat_pages_of_foreign_conversation_get_404(owner: User) -> None:
    conversation = make_conversation(owner, exchange(("their question", "their answer")))
    reply = Reply.objects.create(
        archive_id=owner.pk, conversation=conversation, context={"left_out": 3}, status="running"
    )
    stranger = signed_in(make_user())
    for number in (conversation.pk, conversation.pk + 1):
        path = f"/conversations/{number}"
        assert stranger.get(f"{path}/running").status_code == 404
        assert stranger.get(f"{path}/replies/{reply.pk}").status_code == 404
        assert stranger.post(f"{path}/stop").status_code == 404
        assert stranger.post(f"{path}/send", {"message": "Hi"}).status_code == 404
        events = stranger.post(f"{path}/send", {"message": "Hi"}, headers={"Accept": "text/event-stream"})
        assert events.status_code == 404
    assert not Reply.objects.get().stop_requested
    assert conversation.messages.count() == 2


def test_foreign_conversation_is_unknown_though_no_model_is_set_up(owner: User, settings: Settings) -> None:
    settings.CHAT_MODEL = ""
    foreign = make_conversation(owner, exchange(("their question", "their answer")))
    stranger = signed_in(make_user())
    for message in ("Hi", " "):
        path = f"/conversations/{foreign.pk}/send"
        assert stranger.post(path, {"message": message}).status_code == 404
        events = stranger.post(path, {"message": message}, headers={"Accept": "text/event-stream"})
        assert events.status_code in (404, 422 if message == " " else 404)
    assert stranger.post("/chat/send", {"message": "Hi"}).status_code == 503


def test_another_conversations_reply_is_not_shown_under_this_one(owner: User) -> None:
    one, other = (make_conversation(owner, exchange(("q", "a"))) for _ in range(2))
    reply = Reply.objects.create(archive_id=owner.pk, conversation=one, status="done")
    client = signed_in(owner)
    assert client.get(f"/conversations/{one.pk}/replies/{reply.pk}").status_code == 200
    assert client.get(f"/conversations/{other.pk}/replies/{reply.pk}").status_code == 404


def test_chat_without_session_leads_to_login(owner: User) -> None:
    conversation = make_conversation(owner)
    sent = Client().post(f"/conversations/{conversation.pk}/send", {"message": "Hi"})
    assert sent.headers["Location"] == f"/login?next=/conversations/{conversation.pk}&ended=1"
    asked = Client().post("/chat/send", {"message": "Hi"}, headers={"Accept": "text/event-stream"})
    assert asked.status_code == 401


def test_message_that_was_refused_is_shown_again_with_reason(owner: User) -> None:
    conversation = make_conversation(owner, exchange(("q", "a")))
    Conversation.objects.update(status="processing", processing_until="2999-01-01T00:00Z")
    answer = signed_in(owner).post(f"/conversations/{conversation.pk}/send", {"message": "My <b>long</b> text"})
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "is being answered" in text
    assert "My &lt;b&gt;long&lt;/b&gt; text" in text


def test_without_endpoint_everything_else_works_and_composer_says_how(owner: User, settings: Settings) -> None:
    settings.CHAT_MODEL = ""
    conversation = make_conversation(owner, exchange(("q", "a")))
    client = signed_in(owner)
    page = client.get(f"/conversations/{conversation.pk}")
    assert page.status_code == 200
    assert "No chat model is set up on this server." in page.content.decode()
    sent = client.post("/chat/send", {"message": "Hi"})
    assert sent.status_code == 503
    assert Conversation.objects.count() == 1, "no empty conversation is left behind"
    assert "CHAT_BASE_URL" not in client.get("/agents").content.decode()
    User.objects.update(is_staff=True)
    assert "CHAT_BASE_URL" in client.get("/agents").content.decode()


def test_form_without_its_token_is_refused(owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.post("/chat/send", {"message": "Hi"}).status_code == 403


def test_versions_of_answers_do_not_count_as_messages(owner: User) -> None:
    chat = make_conversation(owner, exchange(("q", "a"), ("q", "b")), source="chat")
    chat.messages.filter(position__lt=2).update(superseded=True)
    assert "2 messages" in signed_in(owner).get(f"/conversations/{chat.pk}").content.decode()


def test_composer_names_models_and_offers_retry_with_another_agent(owner: User) -> None:
    Agent.objects.create(archive_id=owner.pk, name="Baker", model="rye-9")
    chat = make_conversation(owner, exchange(("q", "a")), source="chat")
    question = chat.messages.get(position=0)
    Reply.objects.create(archive_id=owner.pk, conversation=chat, question_id=question.pk, status="failed")
    page = signed_in(owner).get(f"/conversations/{chat.pk}").content.decode()
    agent = Agent.objects.get()
    assert f'<button class="menu-item" name="agent" value="{agent.pk}">Baker · rye-9</button>' in flat(page)
    assert f'<option value="{agent.pk}">Baker · rye-9</option>' in page
    assert " · m</option>" in page
