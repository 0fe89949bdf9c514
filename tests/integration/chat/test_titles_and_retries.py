"""Titles that models give, and threads that go on from an earlier question."""

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.live import _replace_title, clean_title, first_turn_of
from convmemory.chat.models import Reply
from convmemory.chat.replies import (
    ReplyEnding,
    ReplyJob,
    begin_reply,
    finish_reply,
    question_asked_here,
    start_conversation,
)
from convmemory.chat.versions import choose_version
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.ingest import change_conversation
from convmemory.conversations.messages.parts import AttachmentPart, TextPart
from convmemory.conversations.models import Conversation
from convmemory.core.errors import ConversationBusy, NotFound
from tests.factories import assistant_says, exchange, make_conversation, make_user
from tests.support.documents import GUIDE, upload

pytestmark = pytest.mark.django_db

QUESTION = "Which flour do I take for rye bread?"


@pytest.fixture(autouse=True)
def _endpoint(settings: Settings) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"


def asked(
    owner: User, text: str = QUESTION, *, chat: Conversation | None = None, replaces: int | None = None
) -> ReplyJob:
    chat = chat or start_conversation(caller=Caller.of(owner), text=text, agent_id=None)
    return begin_reply(caller=Caller.of(owner), conversation_id=chat.pk, text=text, replaces=replaces)


def answered(
    owner: User, text: str = QUESTION, *, chat: Conversation | None = None, replaces: int | None = None
) -> ReplyJob:
    job = asked(owner, text, chat=chat, replaces=replaces)
    finish_reply(job, [assistant_says(f"About {text}")], ReplyEnding(Reply.Status.DONE))
    return job


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ('"Flour for rye bread."', "Flour for rye bread"),
        ("**Title: Flour for rye bread**\n\nBecause", "Flour for rye bread"),
        ("\n\n  Flour   for\trye bread \n", "Flour for rye bread"),
        ("", ""),
        ("...", ""),
        ("word " * 60, "word " * 15 + "word…"),
    ],
)
def test_model_s_title_is_cleaned(said: str, title: str) -> None:
    assert clean_title(said) == title


def test_generated_title_replaces_only_question_as_title(owner: User) -> None:
    job = answered(owner)
    turn = first_turn_of(job)
    assert turn is not None
    assert (turn.title, turn.question) == (QUESTION, QUESTION)
    change_conversation(caller=Caller.of(owner), conversation_id=job.conversation_id, values={"title": "Mine"})
    assert first_turn_of(job) is None
    assert not _replace_title(job, QUESTION, "Flour")
    change_conversation(caller=Caller.of(owner), conversation_id=job.conversation_id, values={"title": QUESTION})
    assert _replace_title(job, QUESTION, "Flour")
    assert Conversation.objects.get().title == "Flour"


def test_replaced_question_as_title_is_generated_again(owner: User) -> None:
    first = answered(owner)
    again = answered(owner, "Which flour for cake?", chat=Conversation.objects.get(), replaces=first.question_id)
    turn = first_turn_of(again)
    assert turn is not None
    assert (turn.title, turn.question) == (QUESTION, "Which flour for cake?")


def test_conversation_begun_by_program_gets_no_generated_title(owner: User) -> None:
    program = make_conversation(owner, exchange())
    assert first_turn_of(answered(owner, chat=program)) is None


def test_replaced_question_supersedes_all_later_messages(owner: User) -> None:
    first = answered(owner)
    chat = Conversation.objects.get()
    answered(owner, "And for cake?", chat=chat)
    again = answered(owner, "Which flour for oat bread?", chat=chat, replaces=first.question_id)
    chat.refresh_from_db()
    assert (chat.turn_count, chat.message_count, chat.status) == (1, 6, "idle")
    live = chat.messages.filter(superseded=False).order_by("position")
    assert [(row.pk == again.question_id, row.turn_number) for row in live] == [(True, 0), (False, 0)]
    assert set(chat.messages.filter(superseded=True).values_list("turn_number", flat=True)) == {None}


@pytest.mark.usefixtures("documents_here")
def test_replaced_question_keeps_its_documents(owner: User) -> None:
    chat = start_conversation(caller=Caller.of(owner), text=QUESTION, agent_id=None)
    ids = [upload(owner, GUIDE, "mills.md").pk]
    first = begin_reply(caller=Caller.of(owner), conversation_id=chat.pk, text=QUESTION, document_ids=ids)
    finish_reply(first, [assistant_says("Rye.")], ReplyEnding(Reply.Status.DONE))
    again = asked(owner, "And for cake?", chat=chat, replaces=first.question_id)
    text, attached = chat.messages.get(pk=again.question_id).typed_parts
    assert text == TextPart("And for cake?")
    assert isinstance(attached, AttachmentPart)
    assert attached.name == "mills.md"


def test_only_current_questions_of_chat_can_be_replaced(owner: User) -> None:
    job = answered(owner)
    chat = Conversation.objects.get()
    told = make_conversation(owner, exchange(("told", "so")))
    answer = chat.messages.get(role="assistant")
    imported = told.messages.get(role="user")
    for home, message_id in ((chat, answer.pk), (told, imported.pk), (told, job.question_id), (chat, 10**9)):
        with pytest.raises(NotFound):
            answered(owner, chat=home, replaces=message_id)
    with pytest.raises(NotFound):
        question_asked_here(caller=Caller.of(make_user()), conversation_id=chat.pk, message_id=job.question_id)
    answered(owner, chat=chat, replaces=job.question_id)
    with pytest.raises(NotFound):
        answered(owner, chat=chat, replaces=job.question_id)


def test_chosen_version_comes_back_with_what_followed_it(owner: User) -> None:
    first = answered(owner)
    chat = Conversation.objects.get()
    second = answered(owner, "And for cake?", chat=chat)
    third = answered(owner, "And for biscuits?", chat=chat, replaces=second.question_id)
    other = answered(owner, "Which flour for oat bread?", chat=chat, replaces=first.question_id)

    def thread() -> list[tuple[int, int | None]]:
        real = chat.messages.filter(superseded=False, is_real_user=True).order_by("position")
        return list(real.values_list("pk", "turn_number"))

    def choose(message_id: int, *, by: User = owner) -> None:
        choose_version(caller=Caller.of(by), conversation_id=chat.pk, message_id=message_id)

    assert thread() == [(other.question_id, 0)]
    choose(first.question_id)
    assert thread() == [(first.question_id, 0), (third.question_id, 1)]
    choose(second.question_id)
    assert thread() == [(first.question_id, 0), (second.question_id, 1)]
    choose(other.question_id)
    for refused, by in ((second.question_id, owner), (10**9, owner), (first.question_id, make_user())):
        with pytest.raises(NotFound):
            choose(refused, by=by)
    assert thread() == [(other.question_id, 0)]


def test_replacing_question_during_reply_is_refused(owner: User) -> None:
    job = asked(owner)
    with pytest.raises(ConversationBusy):
        asked(owner, chat=Conversation.objects.get(), replaces=job.question_id)
    received = MessageDraft(role="assistant", parts=(TextPart("Rye."),))
    finish_reply(job, [received], ReplyEnding(Reply.Status.DONE))
    assert not Conversation.objects.get().messages.filter(superseded=True).exists()
