"""The search page and its parts: results, states in which there are none, filters, paging, isolation."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import strip_tags

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.core.errors import EmbedderUnavailable
from search.adapters.conversations import index_conversation
from search.models import PastSearch
from search.pages.past_searches import KEPT, remember_search
from search.retrieval import dense
from search.searching import SearchQuery, search
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

TYPING = {"HX-Request": "true", "HX-Target": "results", "X-Search-Step": "goes-on"}


class Pages:
    """The pages as one user gets them."""

    def __init__(self, user: User) -> None:
        self.client = Client()
        self.client.force_login(user)

    def get(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> str:
        self.response = self.client.get(path, query, headers=headers)
        assert self.response.status_code == status, self.response.content
        return flat(self.response.content.decode())


@pytest.fixture
def pages(owner: User) -> Pages:
    return Pages(owner)


def indexed(owner: User, *pairs: tuple[str, str], **values: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **values)
    index_conversation(conversation_id=conversation.pk)
    return conversation


PERU = ("what is the capital of Peru?", "The capital is **Lima**, on the coast.")
BREAD = ("why is my sourdough flat?", "The starter was too young.")


def test_result_shows_title_band_question_passage_date_and_agent(owner: User, pages: Pages) -> None:
    conversation = indexed(owner, BREAD, PERU, title="Geography", agent="tutor")
    text = pages.get("/search", {"q": "capital of Peru"})
    first = text.split('class="item hit"')[1]
    question = conversation.messages.get(position=2).pk
    place = f"m={question}&amp;part=0&amp;from=0&amp;to={len(PERU[0])}"
    assert f'href="/conversations/{conversation.pk}?turn=1&amp;q=capital+of+Peru&amp;{place}#turn-1"' in first
    for piece in (
        "what is the <mark>capital</mark> of <mark>Peru</mark>?",
        "1 Jan 2026",
        "turn 2",
        '<span class="band is-strong">strong</span>',
        "<li>It contains words of the query.</li>",
    ):
        assert piece in first
    head = text.split('class="hit-group"')[1].split('class="item hit"')[0]
    assert "Geography" in head
    assert "tutor" in head


def test_hits_are_grouped_by_conversation_three_at_most(owner: User, pages: Pages) -> None:
    indexed(owner, *[(f"what about the glacier, part {n}?", "The glacier moves.") for n in range(5)], title="Ice")
    indexed(owner, ("is the glacier old?", "Very."), title="Age")
    text = pages.get("/search", {"q": "glacier"})
    assert text.count('class="hit-group"') == 2
    ice = text.split(">Ice<")[1].split('class="hit-group"')[0]
    shown, _, more = ice.partition('class="more-hits"')
    assert shown.count('class="item hit"') == 3
    assert more.count('class="item hit"') == 2
    assert "+2 more here" in more


def test_typing_gets_list_alone_and_address_that_goes_with_it(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    text = pages.get("/search", {"q": "Peru"}, headers={**TYPING, "HX-Current-URL": "http://testserver/"})
    assert "<html" not in text
    assert 'class="item hit"' in text
    assert pages.response.headers["HX-Replace-Url"] == "/search?q=Peru"
    in_conversation = {"HX-Current-URL": "http://testserver/conversations/7?turn=3&q=old"}
    pages.get("/search", {"q": "Peru", "mode": "full_text"}, headers={**TYPING, **in_conversation})
    assert pages.response.headers["HX-Replace-Url"] == "/conversations/7?turn=3&q=Peru&mode=full_text"
    pages.get("/search", {"q": ""}, headers={**TYPING, "HX-Current-URL": "http://testserver/search?q=Peru"})
    assert pages.response.headers["HX-Replace-Url"] == "/"
    begun = {**TYPING, "X-Search-Step": "typed", "HX-Current-URL": "http://testserver/"}
    pages.get("/search", {"q": "Peru"}, headers=begun)
    assert pages.response.headers["HX-Push-Url"] == "/search?q=Peru"
    chosen = {**TYPING, "X-Search-Step": "chosen", "HX-Current-URL": "http://testserver/search?q=Peru"}
    pages.get("/search", {"q": "Peru"}, headers=chosen)
    assert pages.response.headers["HX-Replace-Url"] == "/search?q=Peru"
    for elsewhere in ("http://testserver/settings/keys", "https://evil.example/search"):
        pages.get("/search", {"q": "Peru"}, headers={**TYPING, "HX-Current-URL": elsewhere})
        assert "HX-Replace-Url" not in pages.response.headers


def test_number_of_results_is_announced(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    text = pages.get("/search", {"q": "Peru"}, headers=TYPING)
    assert '<p id="search-status" hx-swap-oob="innerHTML">1 result</p>' in text


def test_more_results_come_by_cursor(owner: User, pages: Pages) -> None:
    indexed(owner, *[(f"what about topic number {number}?", "nothing new about the topic") for number in range(50)])
    seen: list[str] = []
    text = pages.get("/search", {"q": "topic"}, headers=TYPING)
    while True:
        seen += [piece.split('"')[0] for piece in text.split('data-turn-link="')[1:]]
        if "cursor=" not in text:
            break
        address = text.split('class="more" href="')[1].split('"')[0].replace("&amp;", "&")
        text = pages.get(address, headers=TYPING)
        assert "<html" not in text
    assert len(seen) == len(set(seen)) == 50


def test_without_query_newest_conversations_are_listed_in_pages(owner: User, pages: Pages) -> None:
    for number in range(35):
        make_conversation(owner, title=f"number {number:02}", project="C:\\work\\billing")
    text = pages.get("/")
    assert "<html" in text
    titles = [piece.split("<")[0] for piece in text.split('class="item-title">')[1:]]
    assert titles == [f"number {number:02}" for number in range(34, 4, -1)]
    assert "<span>billing</span>" in text
    more = text.split('class="more" href="')[1].split('"')[0]
    rest = pages.get(more, headers=TYPING)
    assert rest.count('class="item"') == 5
    assert pages.get(more).count('class="item"') == 5  # as a plain link


def test_before_anything_is_imported_page_says_how(pages: Pages) -> None:
    for text in (pages.get("/"), pages.get("/search", {"q": "anything at all"})):
        assert "Nothing here yet" in text
        assert "~/.claude/projects" in text
        assert "/api/v1/imports" in text


def test_empty_results_suggest_searching_without_filters(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    text = pages.get("/search", {"q": "zyxwvut", "mode": "full_text", "agent": "nobody"})
    assert "Nothing found for “zyxwvut”" in text
    assert "Search without the filters" in text


def test_no_hits_say_that_turns_wait_for_their_index(owner: User, pages: Pages) -> None:
    make_conversation(owner, exchange(PERU))
    assert "Not everything can be found yet: 1 of 1 turns only by words, not by meaning." in pages.get(
        "/search", {"q": "zyxwvut"}
    )


def test_query_of_one_character_asks_for_two(pages: Pages) -> None:
    assert "at least 2 characters" in pages.get("/search", {"q": "x"})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"q": "x" * 10_001}, "2 to 10,000 characters"),
        ({"q": "Peru", "mode": "magic"}, "no mode"),
        ({"q": "Peru", "scope": "everything"}, "no scope"),
        ({"q": "Peru", "after": "yesterday"}, "is not a date"),
        ({"q": "Peru", "after": "2026-02-31"}, "is not a date"),
        ({"q": "Peru", "after": "2026-02-02", "before": "2026-02-01"}, "swap the two dates"),
        ({"q": "Peru", "cursor": "nonsense"}, "cursor"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"after": "0001-01-01", "before": "x"}, "is not a date"),
    ],
)
def test_invalid_search_parameters_are_explained_on_page(
    owner: User, pages: Pages, query: dict[str, str], message: str
) -> None:
    indexed(owner, PERU)
    assert message in pages.get("/search", query, status=422)
    assert message in pages.get("/search", query, status=422, headers=TYPING)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "' OR 1=1 --", "& | ! :*", "🦜🦜", "%s %(q)s"])
def test_hostile_query_is_escaped(owner: User, pages: Pages, text: str) -> None:
    indexed(owner, PERU)
    assert "<script>alert" not in pages.get("/search", {"q": text})


def test_search_page_without_embedder_uses_words_and_says_so(
    owner: User, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(owner, PERU)

    def unavailable(*_: Any, **__: Any) -> Any:
        raise EmbedderUnavailable("the model file is missing")

    monkeypatch.setattr(dense, "query_embedding", unavailable)
    text = pages.get("/search", {"q": "Peru"})
    assert 'class="item hit"' in text
    assert "the model file is missing" in text


def test_filters_are_in_form_and_in_every_link(owner: User, pages: Pages) -> None:
    conversation = indexed(owner, PERU, agent="tutor", project="/src/geo")
    indexed(owner, PERU, agent="other", project="/src/else")
    query = {"q": "Peru", "mode": "full_text", "scope": ["user", "tool"], "agent": "tutor", "before": "2026-12-31"}
    text = pages.get("/search", query)
    assert text.count('class="item hit"') == 1
    assert f"/conversations/{conversation.pk}?turn=0&amp;q=Peru&amp;mode=full_text&amp;scope=user%2Ctool" in text
    for checked in ('name="mode" value="full_text" checked', 'value="tool" checked', 'value="tutor" checked'):
        assert checked in text
    assert 'value="assistant" checked' not in text
    assert 'name="before" value="2026-12-31"' in text
    (way,) = set(re.findall(r'<noscript><p class="help">\s*<a href="([^"]+)"', text))
    without_scripts = pages.get(unescape(way))
    assert 'value="/src/geo"' in without_scripts
    assert 'value="/src/else"' not in without_scripts, "no conversation of this agent is in that project"
    assert '<span id="chip-agent">tutor</span>' in text
    assert 'aria-label="Remove the filter Until 31 Dec 2026"' in text


def test_several_agents_and_projects_are_chosen_and_told_apart(owner: User, pages: Pages) -> None:
    indexed(owner, PERU, agent="tutor", project="/home/geo")
    indexed(owner, PERU, agent="other", project="/srv/geo")
    indexed(owner, PERU, agent="third", project="/srv/maps")
    indexed(owner, PERU, source="notebook")
    text = pages.get("/search", {"q": "Peru", "agent": ["tutor", "other", "notebook"]})
    assert text.count('class="item hit"') == 3
    assert '<span id="chip-agent">tutor +2</span>' in text
    assert 'value="notebook" checked' in text, "a conversation that names no agent counts for its source"
    choices = pages.get("/search/filters", {"q": "Peru", "agent": ["tutor", "other", "notebook"]})
    assert "<span>home/geo</span>" in choices
    assert "<span>srv/geo</span>" in choices
    assert "agent=tutor&amp;agent=other&amp;agent=notebook" in text
    alone = pages.get("/search", {"q": "Peru", "agent": ["tutor", "other"], "project": "/srv/geo"})
    assert alone.count('class="item hit"') == 1
    rows = pages.get("/search", {"agent": ["third", "notebook"]}, headers=TYPING)
    assert rows.count('<a class="item"') == 2


def test_words_of_time_are_not_marked(owner: User, pages: Pages) -> None:
    indexed(owner, ("what did we bake in march 2024?", "In march 2024 rye bread."))
    html = pages.get("/search", {"q": "bread in march 2024"})
    assert "<mark>bread</mark>" in html
    assert not re.search("<mark>(march|2024)", html, re.IGNORECASE)


def test_filters_are_typed_as_tokens(owner: User, pages: Pages) -> None:
    conversation = indexed(owner, PERU, agent="tutor", project="/src/geo")
    indexed(owner, PERU, agent="other", project="/src/else")
    text = pages.get("/search", {"q": "Peru agent:Tutor project:geo after:2025-12 before:2026 in:questions"})
    assert text.count('class="item hit"') == 1
    wanted = "q=Peru&amp;scope=user&amp;agent=tutor&amp;project=%2Fsrc%2Fgeo&amp;after=2025-12-01&amp;before=2026-12-31"
    assert f"/conversations/{conversation.pk}?turn=0&amp;{wanted}" in text
    assert 'id="q" name="q" type="search" value="Peru"' in text
    typed = {**TYPING, "X-Search-Step": "chosen", "HX-Current-URL": "http://testserver/search"}
    pages.get("/search", {"q": "Peru agent:tutor "}, headers=typed)
    assert pages.response.headers["HX-Push-Url"] == "/search?q=Peru&agent=tutor"
    assert '"rest": "Peru"' in pages.response.headers["HX-Trigger-After-Swap"]
    unfinished = pages.get("/search", {"q": "Peru agent:tu"}, headers=TYPING)
    assert unfinished.count('class="item hit"') == 2, "a token that is still being typed filters nothing yet"


def test_newest_first_is_order_of_best(owner: User, pages: Pages) -> None:
    for year, title in ((2024, "old"), (2026, "new"), (2025, "middle")):
        said = exchange(PERU)
        dated = [replace(message, created_at=datetime(year, 5, 5, tzinfo=UTC)) for message in said]
        made = make_conversation(owner, dated, title=title)
        index_conversation(conversation_id=made.pk)
    text = pages.get("/search", {"q": "capital of Peru", "sort": "date"})
    assert re.findall(r'class="hit-group-title">(\w+)<', text) == ["new", "middle", "old"]
    assert "Newest first" in text


def test_typed_search_is_remembered_once_and_its_beginnings_are_not(owner: User, pages: Pages) -> None:
    made = indexed(owner, PERU, BREAD)
    for typed in ("bre", "bread", "Pe", "Peru", "Peru nonsensical"):
        pages.get("/search", {"q": typed, "agent": ""}, headers=TYPING)
    pages.get("/search", {"q": "Peru", "agent": ""})
    pages.get("/search/hits-in", {"q": "capital", "conversation": made.pk, "turn": "0"})
    assert [row.address for row in PastSearch.objects.order_by("pk")] == ["q=bread", "q=Peru"]
    assert 'href="/search?q=Peru"' in pages.get("/search")
    assert "q=Peru" not in Pages(make_user()).get("/search")


def test_saved_search_stays_and_can_be_taken_off(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    assert pages.client.post("/search/keep?q=Peru&after=2025-01-01").status_code == 302
    pages.get("/search", {"q": "Peru", "after": "2025-01-01"})
    row = PastSearch.objects.get()
    assert row.saved_at
    assert "Saved searches" in pages.get("/search")
    stranger = signed_in(make_user())
    assert stranger.post(f"/search/{row.pk}/drop").status_code == 404
    assert pages.client.post(f"/search/{row.pk}/drop").status_code == 302
    assert not PastSearch.objects.exists()
    assert pages.client.post("/search/keep").status_code == 422


def test_past_searches_name_their_filters_as_chips_do(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    address = "q=Peru&mode=full_text&scope=thinking&project=/home/ada/atlas&project=b&after=2025-01-01&archived=1"
    assert pages.client.post(f"/search/keep?{address}").status_code == 302
    said = "atlas +1, Since 1 Jan 2025, Thinking, archived, By words"
    assert f"<small>{said}</small>" in pages.get("/search")
    assert said in pages.get("/palette", {"go": "Peru"})


def test_recent_searches_are_bounded(owner: User) -> None:
    for number in range(KEPT + 5):
        remember_search(caller=Caller.of(owner), box=SearchBox(q=f"query {number}"))
    assert PastSearch.objects.filter(archive_id=owner.pk).count() == KEPT
    assert not PastSearch.objects.filter(text="query 0").exists()


def test_preview_shows_turn_with_its_passage_and_way_to_it(owner: User, pages: Pages) -> None:
    conversation = indexed(owner, BREAD, PERU, title="Geography")
    text = pages.get("/search", {"q": "capital of Peru"})
    address = unescape(text.split('data-preview="')[1].split('"')[0])
    preview = pages.get(address)
    assert "<html" not in preview
    assert "2 / 2" in preview
    assert "Lima" in preview
    assert BREAD[0] not in preview
    assert 'class="passage"' in preview
    assert f"/conversations/{conversation.pk}?turn=1" in preview
    Pages(make_user()).get(address, status=404)


def test_preview_shows_what_tools_did(owner: User, pages: Pages) -> None:
    call = MessageDraft("assistant", (ToolCallPart("t1", "Bash", {"command": "ls the-attic"}),))
    result = MessageDraft("tool", (ToolResultPart("t1", "a trunk and a lamp"),))
    said = [user_says("what is up there?"), call, result, assistant_says("A trunk.")]
    conversation = make_conversation(owner, said, title="Attic")
    preview = pages.get(f"/search/preview/conversations/{conversation.pk}", {"turn": 0})
    for piece in ("what is up there?", "ls the-attic", "a trunk and a lamp", "A trunk."):
        assert piece in preview


def test_palette_finds_titles_projects_commands_and_searches(owner: User, pages: Pages) -> None:
    make_conversation(owner, title="Deadlocks in billing", project="/src/payments")
    make_conversation(make_user(), title="Deadlocks of somebody else")
    remember_search(caller=Caller.of(owner), box=SearchBox(q="deadlock timeout"))
    text = pages.get("/palette", {"go": "deadlock"})
    assert "Deadlocks in billing" in text
    assert "somebody else" not in text
    assert "/search?q=deadlock+timeout" in text
    assert "/search?project=%2Fsrc%2Fpayments" in pages.get("/palette", {"go": "payments"})
    part = pages.get("/palette", {"go": "import"}, headers={"HX-Request": "true"})
    assert "<html" not in part
    assert 'href="/import"' in part
    assert 'href="/settings/password"' in pages.get("/palette", {"go": "password"})
    owner.set_unusable_password()
    owner.save()
    assert "/settings/password" not in Pages(owner).get("/palette", {"go": "password"})


@pytest.mark.parametrize("typed", ["API keys", "  api KEYS "])
def test_palette_begins_with_page_of_exactly_typed_name(owner: User, pages: Pages, typed: str) -> None:
    make_conversation(owner, title="API keys of the harbour")
    links = re.findall(r'class="palette-entry" href="([^"]+)"', pages.get("/palette", {"go": typed}))
    assert links[0] == "/settings/keys"
    assert "/search?" in links[1]
    assert "/search?" in re.findall(r'class="palette-entry" href="([^"]+)"', pages.get("/palette", {"go": "keys"}))[0]


def test_palette_lists_every_page_of_rail_and_settings(pages: Pages) -> None:
    palette = pages.get("/palette", headers={"HX-Request": "true"})
    rail = pages.get("/library").split('<nav class="rail"')[1].split("</nav>")[0]
    addresses = {*re.findall(r'href="(/[a-z/-]+)"', rail), "/trash"} - {"/palette", "/search"}
    assert {"/documents", "/spaces"} < addresses
    assert [address for address in addresses if f'href="{address}"' not in palette] == []


def test_palette_costs_same_for_few_and_many(owner: User, pages: Pages) -> None:
    counts = []
    for _ in range(2):
        for number in range(10):
            make_conversation(owner, title=f"deadlock {number}", project=f"/src/deadlock{number}")
        with CaptureQueriesContext(connection) as context:
            pages.get("/palette", {"go": "deadlock"}, headers={"HX-Request": "true"})
        counts.append(len(context))
    assert counts[0] == counts[1] <= 6


def test_dates_take_in_whole_last_day(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)  # of 2026-01-01, noon
    assert 'class="item hit"' in pages.get("/search", {"q": "Peru", "after": "2026-01-01", "before": "2026-01-01"})
    assert 'class="item hit"' not in pages.get("/search", {"q": "Peru", "before": "2025-12-31"})


def test_choices_are_loaded_alone_when_filters_are_opened(owner: User, pages: Pages) -> None:
    make_conversation(owner, agent="tutor", project="/src/geo")
    make_conversation(make_user(), agent="foreign-agent", project="/foreign")
    assert "/search/filters" in pages.get("/settings/keys")
    text = pages.get("/search/filters")
    assert "tutor" in text
    assert "/src/geo" in text
    assert "foreign" not in text
    assert "<html" not in text


def steps(text: str) -> dict[str, str]:
    """Return the addresses of the links by name."""
    return {link["name"]: unescape(link["to"]) for link in STEP.finditer(text)}


STEP = re.compile(r'href="(?P<to>[^"]+)" data-hit="(?P<name>\w+)"')


def test_hits_in_conversation_are_counted_and_linked_in_reading_order(owner: User, pages: Pages) -> None:
    other = ("and how do I bake rye?", "Slowly.")
    conversation = indexed(owner, PERU, other, PERU, other, PERU)
    indexed(owner, PERU)
    query = {"conversation": conversation.pk, "q": "Peru", "mode": "full_text", "scope": "user,tool"}
    path = f"/conversations/{conversation.pk}"
    middle = pages.get("/search/hits-in", {**query, "turn": 2})
    assert "<html" not in middle
    assert re.sub(r"\s+", " ", strip_tags(middle)).strip() == "result 2 of 3 in this conversation"
    links = steps(middle)
    assert links["previous"].startswith(f"{path}?turn=0&q=Peru&mode=full_text&scope=user%2Ctool&m=")
    assert links["next"].endswith("#turn-4")
    assert pages.get(links["next"]).count('class="passage"') == 1
    assert steps(pages.get("/search/hits-in", {**query, "turn": 0})).keys() == {"next"}
    assert steps(pages.get("/search/hits-in", {**query, "turn": 4})).keys() == {"previous"}
    between = pages.get("/search/hits-in", {**query, "turn": 3})
    assert re.sub(r"\s+", " ", strip_tags(between)).strip() == "3 results in this conversation"
    assert [link.partition("#")[2] for link in steps(between).values()] == ["turn-2", "turn-4"]


@pytest.mark.parametrize(
    "query", [{"q": "Peru"}, {"q": "x"}, {"q": ""}, {"q": "Peru", "mode": "magic"}, {"q": "Peru", "after": "yesterday"}]
)
def test_hits_in_without_hits_answers_204(owner: User, pages: Pages, query: dict[str, str]) -> None:
    mine = indexed(owner, BREAD)
    foreign = indexed(make_user(), PERU)
    for number in (mine.pk if "mode" in query else foreign.pk, 10**30, "x"):
        assert pages.get("/search/hits-in", {**query, "conversation": number, "turn": "x"}, status=204) == ""


def test_search_page_shows_no_foreign_conversations(owner: User, pages: Pages) -> None:
    indexed(owner, PERU, title="mine")
    stranger = make_user()
    indexed(
        stranger,
        PERU,
        ("and the secret?", "It is hidden."),
        title="secret",
        agent="secret-agent",
        project="/secret-project",
    )
    for mode in ("hybrid", "semantic", "full_text"):
        text = pages.get("/search", {"q": "capital of Peru", "mode": mode, "scope": "user,assistant,thinking,tool"})
        assert text.count('class="item hit"') == 1
        assert "secret" not in text
    for query in ({}, {"agent": "secret-agent"}, {"project": "/secret-project"}, {"archived": "1"}):
        assert ">secret<" not in pages.get("/", query)
    assert ">mine<" not in Pages(stranger).get("/search", {"q": "Peru"})


def test_pages_add_few_queries_to_search(owner: User, pages: Pages) -> None:
    indexed(owner, *[PERU] * 30)
    query = SearchQuery(text="capital of Peru")
    search(caller=Caller.of(owner).alone(), query=query)
    with CaptureQueriesContext(connection) as of_search:
        search(caller=Caller.of(owner).alone(), query=query)
    with CaptureQueriesContext(connection) as of_part:
        pages.get("/search", {"q": "capital of Peru"}, headers=TYPING)
    assert len(of_part) == len(of_search) + 4  # session, user, memberships, and one that remembers the search
    with CaptureQueriesContext(connection) as of_page:
        pages.get("/search", {"q": "capital of Peru"})
    assert len(of_page) == len(of_part)  # the rail reads spaces with invitations
    with CaptureQueriesContext(connection) as of_list:
        pages.get("/search", headers=TYPING)
    assert len(of_list) == 3  # session, user, list


def test_list_costs_same_for_few_and_many(owner: User, pages: Pages) -> None:
    pages.get("/")  # the first one makes the embedding space
    counts = []
    for _ in range(2):
        for _ in range(10):
            make_conversation(owner, exchange(PERU))
        with CaptureQueriesContext(connection) as context:
            pages.get("/")
        counts.append(len(context))
    assert counts[0] == counts[1] <= 15  # the list, invitations, and the rest of the home page


def test_progress_is_polled_while_turns_wait_and_then_silent(owner: User, pages: Pages) -> None:
    assert "/index/progress" in pages.get("/")
    conversation = make_conversation(owner, exchange(PERU, BREAD))
    waiting = pages.get("/index/progress")
    assert "0 of 2 turns" in waiting
    assert 'hx-trigger="every 2s"' in waiting
    index_conversation(conversation_id=conversation.pk)
    silent = pages.get("/index/progress")
    assert 'hx-trigger="convmemory:changed from:document"' in silent, "it asks again only once more has come in"
    assert 'id="progress" class="progress" hidden' in silent


def test_htmx_request_for_main_gets_only_welcome(owner: User, pages: Pages) -> None:
    indexed(owner, PERU)
    text = pages.get("/search", {"q": "Peru"}, headers={"HX-Request": "true", "HX-Target": "main"})
    assert "<title>convmemory</title>" in text
    assert 'class="item' not in text


def test_archived_conversations_are_found_only_when_asked_for(owner: User, pages: Pages) -> None:
    conversation = indexed(owner, PERU)
    ingest.change_conversation(
        caller=Caller.of(owner), conversation_id=conversation.pk, values={"archived_at": conversation.created_at}
    )
    assert 'class="item hit"' not in pages.get("/search", {"q": "Peru"})
    assert 'class="item hit"' in pages.get("/search", {"q": "Peru", "archived": "1"})


def test_search_page_shows_time_filter_and_can_remove_it(pages: Pages, owner: User) -> None:
    indexed(owner, ("which bread did I bake", "rye bread"))
    html = pages.get("/search", {"q": "bread in march 2024"})
    said = "“march 2024”: nothing of that time (March 2024) matches; nearest: 1 Jan 2026"
    assert said in strip_tags(html)
    link = re.search(r'href="([^"]+when=any)" data-set', html)
    assert link
    plain = pages.get(unescape(link[1]))
    assert "Take “march 2024” as plain words" in html
    assert "Take “march 2024” as plain words" not in plain
    assert 'name="when" value="any"' in plain
    assert "Take “march 2024” as a time : March 2024" in " ".join(strip_tags(plain).split())
    again = re.search(r'<p class="read-time"><a class="preset" href="([^"]+)"', plain)
    assert again
    assert "Take “march 2024” as plain words" in pages.get(unescape(again[1]))


def test_time_chip_replaces_note(pages: Pages, owner: User) -> None:
    indexed(owner, ("which bread did I bake", "rye bread"))
    html = pages.get("/search", {"q": "the latest bread"}, headers=TYPING)
    assert "“latest”: the latest first" in strip_tags(html)
    assert "Read “latest”" not in html


def test_query_without_time_expression_shows_no_time_notice(pages: Pages, owner: User) -> None:
    indexed(owner, ("which bread did I bake", "rye bread"))
    assert "read-time" not in pages.get("/search", {"q": "bread"})
    assert "read-time" not in pages.get("/search", {"q": "bread", "when": "any"})


def test_word_of_time_is_shown_as_text(pages: Pages, owner: User) -> None:
    indexed(owner, ("<b>launch</b>", "rye bread"))
    assert "<b>launch" not in pages.get("/search", {"q": "bread before the <b>launch</b> of it"})
