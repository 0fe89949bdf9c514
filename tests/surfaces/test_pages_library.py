"""The library page, what is done to many conversations, and stars, pins and tags on a conversation's page."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations import browsing, curating
from convmemory.conversations.models import Conversation, Tag
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def text(client: Client, path: str, **values: Any) -> str:
    response = client.get(path, **values)
    assert response.status_code == 200, response.content
    return str(response.content.decode())


def test_library_lists_by_time_and_offers_what_to_choose_by(owner: User, client: Client) -> None:
    one = make_conversation(owner, exchange(("q", "a")), title="Bread", agent="codex", project="/src/mill")
    curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name="a&b")
    curating.set_pin(caller=Caller.of(owner), conversation_id=one.pk, pinned=True)
    make_conversation(owner, title="Other", agent="claude-code")
    page = text(client, "/library")
    assert page.index(">Pinned<") < page.index("Bread") < page.index("Other")
    assert 'href="/library?tag=a%26b"' in page
    assert 'href="/library?project=/src/mill"' in page or "%2Fsrc%2Fmill" in page
    chosen = text(client, "/library", data={"tag": "a&b"})
    assert "Bread" in chosen
    assert "Other" not in chosen
    assert "Other" in text(client, "/library", data={"agent": "claude-code"})
    assert "Nothing is archived" in text(client, "/library", data={"archived": "1"})


def test_next_page_comes_alone_and_does_not_repeat_its_heading(owner: User, client: Client) -> None:
    for number in range(browsing.PAGE_ROWS + 2):
        make_conversation(owner, title=f"row {number}")
    page = text(client, "/library")
    address = page.split('hx-get="/library?')[1].split('"')[0].replace("&amp;", "&")
    more = text(client, f"/library?{address}", headers=HTMX)
    assert more.count('class="library-row"') == 2
    assert "shelf-title" not in more
    assert "<html" not in more
    assert client.get("/library?cursor=nonsense").status_code == 422


def test_library_is_sorted_narrowed_by_title_and_opened_again_as_long_as_it_was(owner: User, client: Client) -> None:
    for number in range(browsing.PAGE_ROWS + 2):
        make_conversation(owner, title=f"row {number:02}")
    make_conversation(owner, exchange(("q", "a"), ("r", "b")), title="Zebra")
    first = text(client, "/library", data={"sort": "title", "title": "ROW"})
    assert first.index("row 00") < first.index("row 01")
    assert "Zebra" not in first
    assert "all 62" in first
    address = first.split('hx-get="/library?')[1].split('"')[0].replace("&amp;", "&")
    answer = client.get(f"/library?{address}", headers=HTMX)
    assert answer.content.decode().count('class="library-row"') == 2
    again = answer.headers["HX-Replace-Url"]
    assert text(client, again).count('class="library-row"') == browsing.PAGE_ROWS + 2
    assert text(client, "/library", data={"sort": "turns"}).index("Zebra") < first.index("row 00")
    assert "No title contains “&lt;q&gt;”" in text(client, "/library", data={"title": "<q>"})


def test_all_that_match_are_changed_some_at_time(owner: User, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curating, "MAX_CHOSEN", 2)
    for number in range(3):
        make_conversation(owner, title=f"mill {number}")
    make_conversation(owner, title="oven")
    values = {"action": "archive", "matching": "1", "choice": "title=mill"}
    page = client.post("/library/change", values, follow=True).content.decode()
    assert "2 conversations archived" in page
    assert "first 2 of 3" in page
    client.post("/library/change", values)
    assert list(Conversation.objects.filter(archived_at=None).values_list("title", flat=True)) == ["oven"]


@pytest.mark.parametrize(("action", "field"), [("archive", "archived_at"), ("star", "starred_at")])
def test_many_are_changed_at_once_and_taken_back(owner: User, client: Client, action: str, field: str) -> None:
    numbers = [make_conversation(owner).pk for _ in range(3)]
    answer = client.post(
        "/library/change", {"chosen": numbers[:2], "action": action, "next": "/library?agent="}, follow=True
    )
    page = flat(answer.content.decode())
    assert "2 conversations " in page
    assert Conversation.objects.filter(**{f"{field}__isnull": False}).count() == 2
    form = page.split('class="notice undo-notice"')[1].split("</form>")[0]
    values = {name: form.split(f'name="{name}" value="')[1].split('"')[0] for name in ("chosen", "action", "undoes")}
    assert "Undone." in client.post("/library/change", values, follow=True).content.decode()
    assert Conversation.objects.filter(**{f"{field}__isnull": False}).count() == 0


def test_tags_are_put_on_many_and_taken_off_again(owner: User, client: Client) -> None:
    numbers = [make_conversation(owner).pk for _ in range(2)]
    page = client.post("/library/change", {"chosen": numbers, "action": "tag", "tag": "bake"}, follow=True)
    assert "2 conversations tagged #bake." in page.content.decode()
    client.post("/library/change", {"chosen": ",".join(map(str, numbers)), "action": "untag", "tag": "bake"})
    assert not Tag.objects.exists()
    assert client.post("/library/change", {"chosen": numbers, "action": "tag", "tag": " "}).status_code == 422


def test_deleting_many_can_be_undone(owner: User, client: Client) -> None:
    numbers = [make_conversation(owner).pk for _ in range(2)]
    page = client.post("/library/change", {"chosen": numbers, "action": "delete"}, follow=True).content.decode()
    assert "2 conversations in the trash." in page
    assert not Conversation.objects.exists()
    undo = {"chosen": ",".join(map(str, numbers)), "action": "restore", "undoes": "1"}
    assert "Undone." in client.post("/library/change", undo, follow=True).content.decode()
    assert Conversation.objects.count() == 2


def test_deleting_many_without_trash_asks_first(owner: User, client: Client, settings: Settings) -> None:
    settings.TRASH_DAYS = 0
    rows = [make_conversation(owner, title=f"gone {number}") for number in range(2)]
    numbers = [row.pk for row in rows]
    asked = client.post("/library/change", {"chosen": numbers, "action": "delete"}).content.decode()
    assert "Delete 2 conversations?" in asked
    assert "gone 0" in asked
    assert Conversation.objects.count() == 2
    done = client.post("/library/change", {"chosen": numbers, "action": "delete", "confirmed": "1"}, follow=True)
    assert "2 conversations are deleted." in done.content.decode()
    assert not Conversation.objects.exists()


@pytest.mark.parametrize("values", [{"action": "explode"}, {"action": "archive", "chosen": "1 OR 1"}])
def test_invalid_bulk_changes_are_refused(owner: User, client: Client, values: dict[str, str]) -> None:
    number = make_conversation(owner).pk
    assert client.post("/library/change", {"chosen": number} | values).status_code == 422


def test_many_are_exported_as_one_file(owner: User, client: Client) -> None:
    rows = [make_conversation(owner, exchange((f"question {n}", "a")), title=f"row {n}") for n in range(3)]
    foreign = make_conversation(make_user(), exchange(("secret", "a")))
    values = {"chosen": [rows[0].pk, rows[2].pk, foreign.pk], "action": "export", "format": "markdown"}
    answer = client.post("/library/change", values)
    said = answer.getvalue().decode()
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert "question 0" in said
    assert "question 2" in said
    assert "question 1" not in said
    assert "secret" not in said
    assert client.post("/library/change", values | {"format": "odd"}).status_code == 422
    assert client.post("/library/change", values | {"chosen": foreign.pk}).status_code == 404


def test_library_neither_lists_nor_changes_foreign_conversations(owner: User, client: Client) -> None:
    other = make_user()
    foreign = make_conversation(other, title="secret", agent="secret-agent", project="/secret")
    curating.add_tag(caller=Caller.of(other), conversation_ids=[foreign.pk], name="secret tag")
    assert "secret" not in text(client, "/library")
    for action in ("archive", "star", "tag", "delete"):
        values = {"chosen": foreign.pk, "action": action, "tag": "mine", "confirmed": "1"}
        answer = client.post("/library/change", values, follow=True)
        assert "secret" not in answer.content.decode()
    for name in ("star", "pin", "tags"):
        assert client.post(f"/conversations/{foreign.pk}/{name}", {"add": "x"}).status_code == 404
    foreign.refresh_from_db()
    assert (foreign.archived_at, foreign.starred_at, foreign.pinned_at) == (None, None, None)
    assert list(Tag.objects.values_list("name", flat=True)) == ["secret tag"]


def test_folder_of_project_is_kept_apart_and_joined_again(owner: User, client: Client) -> None:
    for title, folder, worktree in (("One", "/src/mill", ""), ("Two", "/b/mill", ""), ("Three", "/b/mill", "/b/wheel")):
        make_conversation(owner, title=title, project=folder, repository="github.com/ada/mill", worktree=worktree)
    make_conversation(make_user(), title="Theirs", project="/their/mill", repository="github.com/ada/mill")
    page = text(client, "/library", data={"project": "/src/mill"})
    assert all(shown in page for shown in ("One", "Two", "Three", "/b/wheel", "github.com/ada/mill"))
    assert "Their" not in page
    assert "/their" not in page
    change = {"project": "/src/mill", "folder": "/b/mill", "each_worktree": "1", "apart": "1"}
    for value, shown in (("1", False), ("0", True)):
        response = client.post("/library/folder", change | {"apart": value}, follow=True)
        assert ("Three" in response.content.decode()) == shown
        assert "/b/wheel" in response.content.decode(), "the list still says what is kept apart"
    client.post("/library/folder", {"folder": "/src/mill/", "apart": "1"})
    page = text(client, "/library", data={"project": "/src/mill"})
    assert "Two" not in page
    assert "Join again" in page
    assert "Name the folder" in client.post("/library/folder", {"apart": "1"}, follow=True).content.decode()


def test_starring_answers_partial_or_redirects_back(owner: User, client: Client) -> None:
    number = make_conversation(owner).pk
    part = client.post(f"/conversations/{number}/star", {"starred": "1"}, headers=HTMX).content.decode()
    assert 'aria-pressed="true"' in part
    assert "<html" not in part
    back = client.post(f"/conversations/{number}/pin", {"pinned": "1", "next": "/library"})
    assert back.headers["Location"] == "/library"
    away = client.post(f"/conversations/{number}/pin", {"pinned": "0", "next": "//evil.example/"})
    assert away.headers["Location"] == f"/conversations/{number}"


def test_tags_of_conversation_are_changed_on_its_page(owner: User, client: Client) -> None:
    number = make_conversation(owner).pk
    path = f"/conversations/{number}/tags"
    part = client.post(path, {"add": "<b>bread</b>"}, headers=HTMX).content.decode()
    assert "#&lt;b&gt;bread&lt;/b&gt;" in part
    assert "#&lt;b&gt;" in text(client, f"/conversations/{number}")
    client.post(path, {"remove": "<b>bread</b>"})
    assert not Tag.objects.exists()
