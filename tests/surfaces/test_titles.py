"""Conversations and documents whose names contain the query come before the hits, on every surface."""

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from search.pages.palette import palette_sections
from search.reasons import ONLY_NEAREST
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, signed_in
from tests.support.documents import indexed, upload
from tests.support.stored_rows import stored_for_file

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

TITLE = "Harbour dues of Zeebrugge"
PAIRS = [("what does a berth cost?", "Eleven euros a night."), ("and in winter?", "Half of that.")]


def store_owner() -> User:
    owner = make_user()
    made = make_conversation(owner, exchange(*PAIRS), title=TITLE, project="/home/ada/boats")
    other = make_conversation(owner, exchange(("how do I bake rye bread?", "With a sour starter.")), title="Bread")
    make_conversation(make_user(), exchange(*PAIRS), title=TITLE)
    for conversation in (made, other):
        index_conversation(conversation_id=conversation.pk)
    return owner


owner = stored_for_file(store_owner)


@pytest.fixture
def harbour(owner: User, settings: Any) -> Conversation:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    return Conversation.objects.get(archive_id=owner.pk, title=TITLE)


def titles_of(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(title["kind"], title["id"]) for title in answer.get("titles", [])]


@pytest.mark.parametrize("query", [TITLE, "the dues of the harbours", "Zeebrugge"])
@pytest.mark.parametrize("path", ["/conversations/search", "/search"])
def test_title_stands_above_results_of_api(owner: User, harbour: Conversation, query: str, path: str) -> None:
    found = Api(owner).get(path, query=query).json()
    assert titles_of(found) == [("conversation", harbour.pk)]
    assert found["titles"][0]["url"] == f"/conversations/{harbour.pk}"
    assert (found["answered"], found["reason"]) == (True, None)
    assert ONLY_NEAREST.for_tools not in found["notes"]


@pytest.mark.parametrize("query", ["harbour dues of Ghent", "what does a berth cost?", "of the", "bread harbour"])
def test_title_that_lacks_word_is_not_named(owner: User, harbour: Conversation, query: str) -> None:
    assert titles_of(Api(owner).get("/search", query=query).json()) == []


def test_titles_pass_filters_and_stand_on_first_page_alone(owner: User, harbour: Conversation) -> None:
    api = Api(owner)
    assert titles_of(api.get("/search", query=TITLE, project="boats").json()) == [("conversation", harbour.pk)]
    assert titles_of(api.get("/search", query=TITLE, project="other").json()) == []
    assert titles_of(api.get("/search", query=TITLE, kind="section").json()) == []
    assert titles_of(api.get("/search", query=TITLE, after="2026-02-01").json()) == []
    first = api.get("/search", query=TITLE, limit=1).json()
    assert titles_of(api.get("/search", query=TITLE, limit=1, cursor=first["next_cursor"]).json()) == []


def test_new_title_is_found_at_once(owner: User, harbour: Conversation) -> None:
    ingest.change_conversation(caller=Caller.of(owner), conversation_id=harbour.pk, values={"title": "Moorings"})
    assert titles_of(Api(owner).get("/search", query="moorings", mode="full_text").json()) == [
        ("conversation", harbour.pk)
    ]
    assert titles_of(Api(owner).get("/search", query=TITLE).json()) == []


def test_documents_are_found_by_title_and_by_file_name(owner: User, harbour: Conversation) -> None:
    document = indexed(upload(owner, "# Tide tables\n\nHigh water is at noon.", "almanac_2026-belgium.md"))
    api = Api(owner)
    for query in ("tide tables", "almanac 2026", "belgium"):
        for path in ("/search", "/documents/search"):
            assert titles_of(api.get(path, query=query).json()) == [("document", document.pk)]
        assert titles_of(run_tool("document_search", {"query": query}, Caller.of(owner))) == [("document", document.pk)]
    assert titles_of(api.get("/conversations/search", query="tide tables").json()) == []


def test_page_shows_title_above_hits(owner: User, harbour: Conversation) -> None:
    client = signed_in(owner)
    text = client.get("/search", {"q": TITLE}).content.decode()
    link = f'href="/conversations/{harbour.pk}?q=Harbour+dues+of+Zeebrugge'
    assert link in text
    assert text.index(link) < text.index('class="item hit"')
    assert "seems to answer" not in text
    alone = client.get("/search", {"q": TITLE, "mode": "full_text"}).content.decode()
    assert link in alone
    assert "Nothing found for" not in alone


def test_command_tool_and_palette_name_title(owner: User, harbour: Conversation) -> None:
    out = StringIO()
    call_command("conversation_search", "--query", TITLE, "--user", owner.username, stdout=out)
    assert out.getvalue().startswith(f"conversation {TITLE}\n")
    out = StringIO()
    call_command("conversation_search", "--query", TITLE, "--user", owner.username, "--json", stdout=out)
    assert titles_of(json.loads(out.getvalue())) == [("conversation", harbour.pk)]
    assert titles_of(run_tool("ConversationSearch", {"query": TITLE}, Caller.of(owner))) == [
        ("conversation", harbour.pk)
    ]
    entries = [
        entry.label
        for section in palette_sections(caller=Caller.of(owner), text="zeebrugge")
        for entry in section.entries
    ]
    assert TITLE in entries
