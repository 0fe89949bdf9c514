"""Pages in the language that the browser asks for, or that was chosen; programs and the administration in English."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation
from pytest_django import Settings

from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de-AT,de;q=0.9,en;q=0.5"}


@pytest.fixture(autouse=True)
def in_english_again() -> Iterator[None]:
    yield
    translation.activate("en")


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def text_of(client: Client, address: str, **headers: str) -> str:
    return flat(client.get(address, **headers).content.decode())  # type: ignore[arg-type]


def test_browser_names_language(client: Client) -> None:
    assert '<html lang="en" dir="ltr"' in text_of(client, "/library")
    german = text_of(client, "/library", **GERMAN)
    assert '<html lang="de" dir="ltr"' in german
    assert "<h1>Bibliothek</h1>" in german
    assert "<h1>ライブラリ</h1>" in text_of(client, "/library", HTTP_ACCEPT_LANGUAGE="ja")
    assert '<html lang="he" dir="rtl"' in text_of(client, "/library", HTTP_ACCEPT_LANGUAGE="he-IL")


def test_unknown_language_falls_back_to_english(client: Client) -> None:
    assert "<h1>Library</h1>" in text_of(client, "/library", HTTP_ACCEPT_LANGUAGE="tlh, xx;q=0.5")
    client.cookies["language"] = "../../etc"
    assert "<h1>Library</h1>" in text_of(client, "/library")


def test_chosen_language_stays_until_it_is_given_up(client: Client) -> None:
    values = {"theme": "", "density": "", "language": "ja"}
    saved = client.post("/settings/appearance", values, follow=True, **GERMAN)  # type: ignore[arg-type]
    page = flat(saved.content.decode())
    assert "保存しました。" in page
    assert 'value="ja" checked' in page
    client.post("/settings/appearance", values | {"language": ""}, **GERMAN)  # type: ignore[arg-type]
    assert '<html lang="de"' in text_of(client, "/library", **GERMAN)
    assert client.post("/settings/appearance", values | {"language": "tlh"}).status_code == 422


def test_dates_and_counts_follow_language(client: Client, owner: User) -> None:
    conversation = make_conversation(owner, exchange(("does zebrawood warp?", "It does.")), title="Wood")
    day = conversation.created_at
    german = text_of(client, f"/conversations/{conversation.pk}", **GERMAN)
    assert "2 Nachrichten, 1 Runde" in german
    assert f"{day.day}. " in german
    assert f"{day.year}年{day.month}月{day.day}日" in text_of(
        client, f"/conversations/{conversation.pk}", HTTP_ACCEPT_LANGUAGE="ja"
    )


def test_pages_contain_translated_words_for_scripts(client: Client) -> None:
    assert "Link kopiert" in text_of(client, "/library", **GERMAN)
    assert 'id="words"' not in text_of(client, "/library")


def test_search_notes_follow_language_of_page(client: Client, owner: User) -> None:
    bread = make_conversation(owner, exchange(("does zebrawood warp?", "It does.")), title="Wood")
    index_conversation(conversation_id=bread.pk)
    address = '/search?q="warp zebrawood"'
    assert "Keine Runde enthält" in text_of(client, address, **GERMAN)
    assert "No turn contains" in text_of(client, address)
    found = client.get("/api/v1/conversations/search", {"query": '"warp zebrawood"'}, **GERMAN)  # type: ignore[arg-type]
    assert found.json()["notes"][0].startswith("No turn contains")


def test_shares_of_bars_are_numbers_in_every_language(client: Client, owner: User) -> None:
    make_conversation(owner, exchange(("does zebrawood warp?", "It does.")), title="Wood", agent="codex")
    assert "--share: 100%" in text_of(client, "/statistics", **GERMAN)


def test_programs_and_administration_get_english(client: Client, owner: User) -> None:
    owner.is_staff = owner.is_superuser = True
    owner.save()
    assert "Site administration" in text_of(client, "/admin/", **GERMAN)
    refused = client.get("/api/v1/conversations/search?query=a", **GERMAN)  # type: ignore[arg-type]
    assert refused.status_code == 422
    assert "Content-Language" not in refused.headers
    assert "A query has 2 to 10,000 characters" in refused.content.decode()


@pytest.mark.parametrize("language", ["de", "ja", "he"])
def test_every_room_opens_in_every_language(client: Client, language: str) -> None:
    for address in (
        "/", "/search?q=zebrawood", "/library", "/chat", "/documents", "/recall", "/import", "/statistics", "/agents",
        "/settings/account", "/settings/appearance", "/settings/keys", "/settings/connect", "/settings/data",
        "/settings/password", "/settings/account/delete", "/palette",
    ):  # fmt: skip
        answer = client.get(address, headers={"accept-language": language})
        assert answer.status_code == 200, address
        assert f'lang="{language}"' in answer.content.decode(), address


def test_form_of_agent_is_in_language_of_page(client: Client, settings: Settings) -> None:
    form = text_of(client, "/agents/new", **GERMAN)
    assert "Deine Gespräche durchsuchen" in form
    assert "Leer: der des Servers." not in form  # the server has no model
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"
    assert "Leer: der des Servers." in text_of(client, "/agents/new", **GERMAN)
