"""Conditions typed into the search box: title, star, pin, tag, model, and what a conversation has."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation, Tag
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    plain = make_conversation(owner, exchange(("How is rye bread baked?", "With a levain.")), title="Plain bread")
    code = [user_says("How is rye bread baked by a program?"), assistant_says("```\nbake(rye)\n```", model="haiku-9")]
    marked = make_conversation(owner, code, title="Marked loaf")
    Conversation.objects.filter(pk=marked.pk).update(starred_at=timezone.now(), pinned_at=timezone.now())
    Tag.objects.create(archive_id=owner.pk, conversation=marked, name="Oven")
    for row in (plain, marked):
        index_conversation(conversation_id=row.pk)
    stranger = make_user("stranger")
    foreign = make_conversation(stranger, exchange(("Rye ```secret```?", "https://foreign")), title="Foreign loaf")
    Tag.objects.create(archive_id=stranger.pk, conversation=foreign, name="Oven")
    index_conversation(conversation_id=foreign.pk)
    return client


@pytest.mark.parametrize("words", ["", "rye bread "])
@pytest.mark.parametrize(
    "token", ["is:starred", "is:pinned", "tag:oven", "has:code", "model:haiku", "title:loaf", 'title:"marked loaf"']
)
def test_token_leaves_only_conversations_that_meet_it(pages: Client, words: str, token: str) -> None:
    text = pages.get("/search", {"q": words + token}).content.decode()
    assert "Marked loaf" in text
    assert "Plain bread" not in text
    assert "Foreign" not in text
    assert token.replace('"', "&quot;") in text.split('id="q"')[1][:200]


@pytest.mark.parametrize("token", ["has:image", "has:link", "tag:none", "model:none", "title:none"])
def test_token_that_no_conversation_meets_leaves_none(pages: Client, token: str) -> None:
    for words in ("", "rye bread "):
        text = pages.get("/search", {"q": words + token}).content.decode()
        assert "Marked loaf" not in text
        assert "Plain bread" not in text


def test_space_is_named_and_unknown_one_is_refused(pages: Client, owner: User) -> None:
    space = create_space(person=owner, name="Boat house")
    inside = make_conversation(space, exchange(("Is rye bread for sailors?", "Hard tack.")), title="Sailing")
    index_conversation(conversation_id=inside.pk)
    for words in ("", "rye bread "):
        text = pages.get("/search", {"q": words + "space:boat"}).content.decode()
        assert "Sailing" in text
        assert "Plain bread" not in text
    create_space(person=make_user("other"), name="Secret club")
    refused = pages.get("/search", {"q": "rye space:secret"}).content.decode()
    assert "You read no space “secret” here. Spaces: Boat house." in refused


def test_impossible_value_is_named_with_the_possible_ones(pages: Client) -> None:
    text = pages.get("/search", {"q": "rye bread has:sound"}).content.decode()
    assert "“has:” takes one of these: code, image, link." in text


def test_empty_box_has_examples(pages: Client) -> None:
    assert '<a href="/search?q=has%3Acode"><code>has:code</code></a>' in pages.get("/search").content.decode()
