"""Conversations as files: the same turns when they come back, keys masked, nothing of other users, streamed."""

import json
import re
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
from tests.support.api import signed_in
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


def work(steps: int) -> Iterator[MessageDraft]:
    yield MessageDraft("user", (TextPart("Mend the <lock>."),))
    for number in range(steps):
        call = ToolCallPart(
            f"c{number}", "Edit", {"file_path": "/p/a.py", "old_string": "x", "new_string": f"{number}"}
        )
        run = ToolCallPart(f"r{number}", "Bash", {"command": "pytest <b>"})
        yield MessageDraft("assistant", (TextPart("Now this."), call, run))
        yield MessageDraft("tool", (ToolResultPart(f"c{number}", "ok"), ToolResultPart(f"r{number}", "3 passed")))
    yield MessageDraft("assistant", (TextPart("Mended."),))


@pytest.mark.django_db
def test_files_fold_work_and_end_turn_with_outcome_like_page(owner: User) -> None:
    made = make_conversation(owner, [*work(2), *exchange(("And <b>now</b>?", "Nothing."), ("So?", "So."))])
    markdown = fetched(owner, f"{made.pk}/export")
    assert markdown.count("<details><summary>4 steps, 1 file · 2 Edit, 2 Bash</summary>\n\n**Calls Edit**") == 1
    assert "</details>\n\nMended.\n\n*a.py · pytest \\<b\\> passed*\n\n## You" in markdown
    html = fetched(owner, f"{made.pk}/export", format="html")
    browser = signed_in(owner)
    page = browser.get(made.get_absolute_url()).content.decode()
    for piece in ('<span class="fold-label">4 steps, 1 file</span>', '<span class="is-passed">pytest &lt;b&gt; passed'):
        assert html.count(piece) == page.count(piece) == 1
    contents = html[html.index('<nav class="contents"') :]
    assert '<a href="#turn-1"><span class="outline-number">2</span>' in contents
    assert "And &lt;b&gt;now&lt;/b&gt;?" in contents
    assert html.count('id="turn-1"') == 1


@pytest.mark.django_db
def test_conversation_opens_as_one_page_that_others_do_not_find(owner: User) -> None:
    made = make_conversation(owner, exchange(*((f"question {n}", f"answer {n}") for n in range(90))), title="Long")
    browser, eve = Client(), Client()
    browser.force_login(owner)
    eve.force_login(make_user("eve"))
    answer = browser.get(f"{made.get_absolute_url()}/article")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert text.count("answer ") == 90
    assert "Shared by" not in text
    assert f'href="{made.get_absolute_url()}/article"' in browser.get(made.get_absolute_url()).content.decode()
    assert eve.get(f"{made.get_absolute_url()}/article").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("format", ["markdown", "html"])
def test_long_turn_is_written_in_parts_with_all_steps_and_one_outcome(owner: User, format: str) -> None:
    made = make_conversation(owner, [*work(70), *work(1)])
    text = fetched(owner, f"{made.pk}/export", format=format)
    assert len(re.findall(r"[0-9]+ steps, 1 file", text)) > 4
    assert text.count("3 passed") == 71
    assert text.count("Mended.") == 2
    assert len(re.findall(r"turn-outcome|^\*a.py", text, re.MULTILINE)) >= 2
    assert text.count("Output") == (2 * 71 if format == "markdown" else 0)


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
    browser = signed_in(owner)
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
