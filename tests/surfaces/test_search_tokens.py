"""Conditions typed into the search box: title, star, pin, tag, model, and what a conversation has."""

import re
from html import unescape
from itertools import product
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from convmemory.accounts.spaces import create_space
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolCallPart
from convmemory.conversations.models import Conversation, Tag
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db


def baked(path: str) -> MessageDraft:
    """A message with a call that writes a file."""
    call = ToolCallPart(path, "Write", {"file_path": path, "content": "bake(rye)"})
    return MessageDraft(role="assistant", parts=(call,))


@pytest.fixture
def pages(owner: User) -> Client:
    client = signed_in(owner)
    plain = make_conversation(owner, exchange(("How is rye bread baked?", "With a levain.")), title="Plain bread")
    code = [user_says("How is rye bread baked by a program?"), assistant_says("```\nbake(rye)\n```", model="haiku-9")]
    code += [baked("/oven/src/rye.py")]
    marked = make_conversation(owner, code, title="Marked loaf")
    Conversation.objects.filter(pk=marked.pk).update(starred_at=timezone.now(), pinned_at=timezone.now())
    Tag.objects.create(archive_id=owner.pk, conversation=marked, name="Oven")
    for row in (plain, marked):
        index_conversation(conversation_id=row.pk)
    stranger = make_user("stranger")
    said = [*exchange(("Rye ```secret```?", "https://foreign")), baked("/oven/src/rye.py")]
    foreign = make_conversation(stranger, said, title="Foreign loaf")
    Tag.objects.create(archive_id=stranger.pk, conversation=foreign, name="Oven")
    index_conversation(conversation_id=foreign.pk)
    return client


MET = (
    "is:starred", "is:pinned", "tag:oven", "has:code", "model:haiku", "title:loaf", 'title:"marked loaf"',
    "file:rye.py", "file:src/rye.py", "file:/oven/src/rye.py",
)  # fmt: skip
UNMET = ("has:image", "has:link", "tag:none", "model:none", "title:none", "file:e.py")


def test_token_leaves_only_conversations_that_meet_it(pages: Client) -> None:
    for words, token in product(("", "rye bread "), MET + UNMET):
        text = pages.get("/search", {"q": words + token}).content.decode()
        shown = [title in text for title in ("Marked loaf", "Plain bread", "Foreign")]
        assert shown == [token in MET, False, False], words + token
        assert token.replace('"', "&quot;") in text.split('id="q"')[1][:200]


def test_file_leaves_only_turns_that_edited_it(pages: Client, owner: User) -> None:
    turns = [*exchange(("Which rye loaf is sour?", "The second one.")), user_says("Write which rye loaf is sweet."),
             assistant_says("The first one."), baked("/oven/sweet.py")]  # fmt: skip
    made = make_conversation(owner, turns, title="Two turns")
    index_conversation(conversation_id=made.pk)
    text = pages.get("/search", {"q": "rye loaf file:sweet.py"}).content.decode()
    assert [int(turn) for turn in re.findall(rf"/conversations/{made.pk}[?][^\"]*turn=(\d+)", text)][:1] == [1]
    assert not re.search(rf"/conversations/{made.pk}[?][^\"]*turn=0", text)


def test_space_is_named_and_unknown_one_is_refused(pages: Client, owner: User) -> None:
    space = create_space(person=owner, name="Boat house")
    inside = make_conversation(space, exchange(("Is rye bread for sailors?", "Hard tack.")), title="Sailing")
    index_conversation(conversation_id=inside.pk)
    for words in ("", "rye bread "):
        text = pages.get("/search", {"q": words + "space:boat"}).content.decode()
        assert "Sailing" in text
        assert "Plain bread" not in text
    create_space(person=owner, name='The "old" boat')
    for words in ('space:"the old"', 'space:"The old boat"', 'space:the"old"boat'):
        assert "Plain bread" not in pages.get("/search", {"q": words}).content.decode()
    create_space(person=make_user("other"), name="Secret club")
    refused = pages.get("/search", {"q": "rye space:secret"}).content.decode()
    assert "You read no space “secret” here. Spaces: Boat house, The &quot;old&quot; boat." in refused


def test_listing_without_word_is_not_called_unlikely(pages: Client) -> None:
    text = pages.get("/search", {"q": "-marked"}).content.decode()
    assert "Everything without “marked”, the newest first." in text
    assert "Plain bread" in text
    assert "less likely" not in text


def test_impossible_value_is_named_with_the_possible_ones(pages: Client) -> None:
    text = pages.get("/search", {"q": "rye bread has:sound"}).content.decode()
    assert "“has:” takes one of these: code, image, link." in text


def test_empty_box_has_examples(pages: Client) -> None:
    assert '<a href="/search?q=has%3Acode"><code>has:code</code></a>' in pages.get("/search").content.decode()


def test_more_like_hit_searches_by_meaning_for_its_words_without_operators(owner: User, pages: Client) -> None:
    asked = 'How is "rye" bread baked -flour title:loaf?'
    row = make_conversation(owner, exchange((asked, "In tins.")), title="Typed")
    index_conversation(conversation_id=row.pk)
    text = pages.get("/search", {"q": "rye tins"}).content.decode()
    links = [unescape(link) for link in re.findall(r'<a class="like" href="([^"]+)"', text)]
    (address,) = [link for link in links if "flour" in link]
    query = parse_qs(urlsplit(address).query)
    assert query["q"][0].startswith("How is rye bread baked flour title loaf")
    assert query["q"][0].count("flour") == 1
    assert query["mode"] == ["semantic"]
    listed = pages.get(address).content.decode()
    assert "Plain bread" in listed
    assert "Foreign loaf" not in listed
