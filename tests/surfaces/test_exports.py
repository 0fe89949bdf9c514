"""Conversations as files: the same turns when they come back, keys masked, nothing of other users, streamed."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.conversations.exports import json_file
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from tests.factories import NEW_YEAR, exchange, make_conversation, make_user
from tests.support.planted_keys import PLANTED, leaks
from tests.support.site import running_site

FORMATS = ("markdown", "json", "html")
HOSTILE = '<script>alert(1)</script> [x](javascript:alert(1)) ``` "]}'


def everything() -> Iterator[MessageDraft]:
    yield MessageDraft("system", (TextPart("You are terse."),), source_key="s")
    yield MessageDraft("user", (TextPart("an older wording"),), source_key="old", superseded=True)
    yield MessageDraft("user", (TextPart(f"Where is it? {HOSTILE}"), AttachmentPart("map.png", "image/png", 12)),
                       name="Ada", created_at=NEW_YEAR, source_key="one")  # fmt: skip
    call = ToolCallPart("t1", "Bash", {"command": "find . # ```", "deep": [1, None], "<script>": 1})
    yield MessageDraft("assistant", (ThinkingPart("hm"), call), model="m", source_key="two")
    yield MessageDraft("tool", (ToolResultPart("t1", "````\nfound", "Bash", True),), source_key="three")
    yield MessageDraft("user", (TextPart("<reminder>"),), source_key="four", injected=True)
    yield MessageDraft("assistant", (TextPart("In **Lima**."),), source_key="five")
    yield MessageDraft("user", (TextPart("And who was there?"),), source_key="six")


@pytest.fixture
def stored(owner: User) -> Conversation:
    draft = ConversationDraft(
        messages=everything(), source="claude-code", source_id="session-1", title="A trip", agent="claude-code",
        project="/p", created_at=NEW_YEAR, updated_at=NEW_YEAR,
    )  # fmt: skip
    return Conversation.objects.get(pk=ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id)


def client_of(user: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=user)}"})


def fetched(user: User, path: str, **query: Any) -> str:
    answer = client_of(user).get(f"/api/v1/conversations/{path}", query)
    assert answer.status_code == 200, answer.content
    content: Any = answer.streaming_content  # type: ignore[attr-defined]
    return b"".join(content).decode()


def rows_of(user: User) -> list[tuple[Any, ...]]:
    fields = ("conversation__source", "conversation__title", "conversation__created_at", "conversation__updated_at",
              "conversation__turn_count", "position", "role", "is_real_user", "superseded", "name", "model", "parts",
              "turn_number", "source_key", "created_at")  # fmt: skip
    rows = (
        Message.objects.filter(archive_id=user.pk).order_by("conversation__created_at", "position").values_list(*fields)
    )
    return [tuple(row) for row in rows]


@pytest.mark.django_db
def test_exported_json_imports_same_turns(stored: Conversation, owner: User, tmp_path: Path) -> None:
    path = tmp_path / "trip.json"
    path.write_text(fetched(owner, f"{stored.pk}/export", format="json"), encoding="utf-8")
    other = make_user("bob")
    import_paths(caller=Caller.of(other), paths=[path])
    assert rows_of(other) == rows_of(owner)
    assert len(rows_of(other)) == 8
    assert import_paths(caller=Caller.of(other), paths=[path]).total("unchanged") == 8
    assert import_paths(caller=Caller.of(owner), paths=[path]).total("unchanged") == 8


@pytest.mark.slow
@pytest.mark.django_db
def test_long_conversation_comes_back_from_several_entries(
    owner: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "ENTRY_CHARS", 1_000)
    make_conversation(owner, exchange(*((f"question {n}", f"answer {n}") for n in range(120))), source_id="long-one")
    text = fetched(owner, "export", format="json")
    assert len(json.loads(text)["conversations"]) > 10
    path = tmp_path / "long.json"
    path.write_text(text, encoding="utf-8")
    other = make_user("bob")
    for _ in range(2):
        import_paths(caller=Caller.of(other), paths=[path])
        found = Conversation.objects.get(archive_id=other.pk)
        assert (found.message_count, found.turn_count) == (240, 120)
        said = [row.parts[0]["text"] for row in found.messages.order_by("position")]
        assert said == [text for n in range(120) for text in (f"question {n}", f"answer {n}")]


@pytest.mark.django_db
def test_markdown_holds_what_was_said_and_no_text_closes_fence(stored: Conversation, owner: User) -> None:
    text = fetched(owner, f"{stored.pk}/export")
    assert text.startswith("# A trip\n\n2")
    for piece in (
        "## Ada, ",
        "> hm",
        "**Calls Bash**",
        "**Error**\n\n`````\n````\nfound\n`````",
        "In **Lima**.",
        "superseded",
    ):
        assert piece in text


@pytest.mark.django_db
def test_exported_html_has_no_active_or_external_content(stored: Conversation, owner: User) -> None:
    text = fetched(owner, f"{stored.pk}/export", format="html")
    assert "<strong>Lima</strong>" in text
    assert "turn 1" in text
    assert "&lt;script&gt;alert(1)" in text
    for active in ("<script", 'href="javascript', " src=", "<link", "@import", "url("):
        assert active not in text
    assert "default-src 'none'" in text


@pytest.mark.django_db
@pytest.mark.parametrize("format", FORMATS)
def test_export_masks_keys_that_are_stored_unmasked(format: str, owner: User, settings: Any) -> None:
    settings.HIDE_KEYS = False
    said = "\n\n".join(f"the {kind} is {text}" for kind, text in PLANTED.items())
    make_conversation(owner, exchange((said, "Noted.")), title=f"About {next(iter(PLANTED.values()))}")
    settings.HIDE_KEYS = True
    text = fetched(owner, "export", format=format)
    assert "Noted." in text
    assert leaks(text) == []


@pytest.mark.django_db
def test_export_selects_by_ids_and_filters(owner: User) -> None:
    first, second, third = (
        make_conversation(owner, exchange((f"question {n}", f"answer {n}")), project=f"/p{n}") for n in range(3)
    )
    by_ids = json.loads(fetched(owner, "export", format="json", id=[first.pk, third.pk]))["conversations"]
    assert [entry["id"] for entry in by_ids] == [first.pk, third.pk]
    by_project = json.loads(fetched(owner, "export", format="json", project="/p1"))["conversations"]
    assert [entry["id"] for entry in by_project] == [second.pk]
    assert json.loads(fetched(owner, "export", format="json", project="/none"))["conversations"] == []


@pytest.mark.django_db
def test_export_of_foreign_conversations_gets_404(stored: Conversation) -> None:
    eve = client_of(make_user("eve"))
    for path in (f"{stored.pk}/export", f"export?id={stored.pk}"):
        assert eve.get(f"/api/v1/conversations/{path}").status_code == 404
    answer = eve.get("/api/v1/conversations/export")
    assert b"".join(answer.streaming_content) == b""  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_unknown_format_is_refused_by_name(stored: Conversation, owner: User) -> None:
    answer = client_of(owner).get(f"/api/v1/conversations/{stored.pk}/export", {"format": "pdf"})
    assert (answer.status_code, "give one of markdown, json, html" in answer.json()["detail"]) == (422, True)


@pytest.mark.django_db
def test_menu_of_conversation_offers_three_files(stored: Conversation, owner: User) -> None:
    browser = Client()
    browser.force_login(owner)
    page = browser.get(f"/conversations/{stored.pk}").content.decode()
    for format in FORMATS:
        address = f"/api/v1/conversations/{stored.pk}/export?format={format}"
        assert f'href="{address}"' in page
        answer = browser.get(address)
        assert answer.headers["Content-Disposition"].startswith('attachment; filename="a-trip.')


@pytest.mark.django_db
def test_command_writes_private_file_and_overwrites_none(stored: Conversation, owner: User, tmp_path: Path) -> None:
    path = tmp_path / "all.md"
    output = StringIO()
    call_command("export_conversations", path, "--user", owner.username, "--project", "/p", stdout=output)
    assert path.read_text().startswith("# A trip")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="exists already"):
        call_command("export_conversations", path, "--user", owner.username)
    with pytest.raises(CommandError, match="no conversation 999999"):
        call_command("export_conversations", tmp_path / "x", "--user", owner.username, "--conversation", "999999")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.django_db(transaction=True)
def test_export_is_streamed(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*((f"q {n}", "x" * 5_000) for n in range(60))))
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
    with (
        running_site() as address,
        httpx2.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as http,
    ):
        answer = http.get(f"/api/v1/conversations/{conversation.pk}/export")
    assert answer.headers.get("Transfer-Encoding") == "chunked" or "Content-Length" not in answer.headers
    assert answer.text.count("x" * 5_000) == 60
