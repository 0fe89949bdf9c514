"""Planted keys are in their own table alone: not in what is stored, indexed, found, shown, recalled or exported."""

import json
import zipfile
import zlib
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import ImportReport, import_paths
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.by_source import create_or_continue
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft
from convmemory.conversations.messages.hidden_keys import keys_of, reveal_key
from convmemory.conversations.models import Conversation, HiddenKey, Message, MessageSource
from convmemory.core.errors import NotFound
from convmemory.ops.privacy.exporting import export_user
from convmemory.tools.registry import run_tool
from search.adapters.conversations import index_conversation
from search.indexing.active import index_source
from search.models import PassageBlock, Source
from tests.factories import assistant_says, make_user, source_id, user_says
from tests.support.api import signed_in
from tests.support.planted_keys import PLANTED, leaks, secret
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db


def transcript(folder: Path) -> Path:
    lines: list[dict[str, object] | str] = []
    for number, (kind, text) in enumerate(PLANTED.items()):
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"command": f"echo '{text}'"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"said {text}"}
        content = [{"type": "thinking", "thinking": f"Hm, {text}"}, {"type": "text", "text": f"Noted {text}"}, call]
        lines += [
            user_line(f"u{number}", f"Settings for {kind.replace('-', ' ')} of the bakery: {text}"),
            assistant_line(f"a{number}", "")
            | {"message": {"id": f"m{number}", "role": "assistant", "content": content}},
            user_line(f"r{number}", [result], toolUseResult={"stdout": text}),
        ]
    return write_lines(folder / "0c5e2b7a-0000-4000-8000-00000000000a.jsonl", lines)


def imported(owner: User, folder: Path) -> ImportReport:
    return import_paths(caller=Caller.of(owner), paths=[transcript(folder)])


def whole_database() -> str:
    """Every row of every table as text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
        tables = [name for (name,) in cursor.fetchall()]
        rows = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')
            rows += [row for (row,) in cursor.fetchall()]
    return "\n".join(rows)


def test_no_table_holds_key_as_it_was(tmp_path: Path) -> None:
    owner = make_user()
    report = imported(owner, tmp_path)
    assert report.total("hidden_keys") >= 3 * len(PLANTED)
    index_source(archive_id=owner.pk, source_id=source_id(Conversation.objects.get()))
    assert leaks(whole_database()) == []
    raw = [zlib.decompress(bytes(row.data)).decode() for row in MessageSource.objects.all()]
    assert leaks("\n".join(raw)) == []
    assert {row.kind for row in HiddenKey.objects.all()} == set(PLANTED)


def test_no_surface_shows_key(tmp_path: Path) -> None:
    owner = make_user()
    imported(owner, tmp_path)
    conversation = Conversation.objects.get()
    index_source(archive_id=owner.pk, source_id=source_id(conversation))
    client = signed_in(owner)
    pages = [
        client.get(f"/conversations/{conversation.pk}").content.decode(),
        client.get(f"/conversations/{conversation.pk}/keys").content.decode(),
        client.get("/search", {"q": "settings of the bakery"}).content.decode(),
    ]
    answers = [
        run_tool("ConversationSearch", {"query": "settings of the bakery"}, Caller.of(owner)),
        run_tool("read_conversation", {"conversation_id": conversation.pk}, Caller.of(owner)),
        run_tool("conversation_recall", {"query": "settings of the bakery"}, Caller.of(owner)),
    ]
    assert "[hidden " in pages[0]
    assert leaks("\n".join([*pages, *map(json.dumps, answers)])) == []


def test_export_holds_no_key(tmp_path: Path) -> None:
    owner = make_user()
    imported(owner, tmp_path)
    export_user(user=owner, path=tmp_path / "export.zip")
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        tables = {name: archive.read(name).decode() for name in archive.namelist()}
    assert leaks("\n".join(tables.values())) == []
    sources = next(text for name, text in tables.items() if "messagesource" in name)
    packed = [bytes.fromhex(json.loads(line)["data"].removeprefix("\\x")) for line in sources.splitlines()]
    assert leaks("\n".join(zlib.decompress(data).decode() for data in packed)) == []


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    owner = make_user()
    first = imported(owner, tmp_path)
    rows = HiddenKey.objects.count()
    again = imported(owner, tmp_path)
    assert (again.total("added"), again.total("updated")) == (0, 0)
    assert again.total("unchanged") == first.total("added")
    assert HiddenKey.objects.count() == rows


def test_hidden_key_is_revealed_to_its_owner_only(tmp_path: Path) -> None:
    owner, stranger = make_user(), make_user()
    imported(owner, tmp_path)
    conversation = Conversation.objects.get()
    rows = keys_of(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert {reveal_key(caller=Caller.of(owner), key_id=row.pk) for row in rows} >= {secret(kind) for kind in PLANTED}
    assert keys_of(caller=Caller.of(stranger), conversation_id=conversation.pk) == []
    with pytest.raises(NotFound):
        reveal_key(caller=Caller.of(stranger), key_id=rows[0].pk)
    client = signed_in(owner)
    page = client.post(f"/conversations/{conversation.pk}/keys", {"key": rows[0].pk})
    assert reveal_key(caller=Caller.of(owner), key_id=rows[0].pk)[:20] in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    client.force_login(stranger)
    assert client.post(f"/conversations/{conversation.pk}/keys", {"key": rows[0].pk}).status_code == 404


def test_hide_keys_off_stores_keys_as_they_are(tmp_path: Path, settings: object) -> None:
    settings.HIDE_KEYS = False  # type: ignore[attr-defined]
    report = imported(make_user(), tmp_path)
    assert report.total("hidden_keys") == 0
    assert not HiddenKey.objects.exists()
    texts = "\n".join(json.dumps(parts) for parts in Message.objects.values_list("parts", flat=True))
    assert set(leaks(texts)) == set(PLANTED)


def test_keys_in_messages_of_program_are_hidden() -> None:
    owner = make_user()
    key = PLANTED["github-token"]
    draft = ConversationDraft(messages=[user_says(f"my token is {key}")], title=f"About {key}")
    conversation = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    assert leaks(whole_database()) == []
    assert conversation.title == "About [hidden github-token 1]"
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says(f"again {key}")])
    assert leaks(whole_database()) == []


@pytest.mark.parametrize("hidden_at_first", [True, False])
def test_resent_conversation_is_recognised_despite_hidden_keys(settings: object, hidden_at_first: bool) -> None:
    owner = make_user()
    first, second = user_says(PLANTED["github-token"]), user_says("And the oven?")
    draft = ConversationDraft(messages=(first,), source="bakery", source_id="1")
    settings.HIDE_KEYS = hidden_at_first  # type: ignore[attr-defined]
    stored, _ = create_or_continue(caller=Caller.of(owner), draft=draft)
    settings.HIDE_KEYS = True  # type: ignore[attr-defined]
    again, is_new = create_or_continue(caller=Caller.of(owner), draft=replace(draft, messages=(first, second)))
    assert (again.pk, is_new, again.message_count) == (stored.pk, False, 2)


@pytest.mark.slow
def test_hide_keys_command_hides_keys_stored_earlier(tmp_path: Path, settings: Any) -> None:
    owner, other = make_user(), make_user("bob")
    settings.HIDE_KEYS = False
    imported(owner, tmp_path)
    event = EventDraft(1, "tool:pre", payload={"command": PLANTED["github-token"]})
    noted = ConversationDraft(messages=(), source="amplifier", source_id="noted-1", events=[event],
                              title=PLANTED["npm-token"])  # fmt: skip
    ingest.sync_conversation(caller=Caller.of(owner), draft=noted)
    assert set(leaks(whole_database())) >= set(PLANTED) - {"private-key"}  # a row shows its line breaks twice escaped
    settings.HIDE_KEYS = True
    stored = Conversation.objects.get(source="claude-code")
    index_source(archive_id=owner.pk, source_id=source_id(stored))
    call_command("hide_keys", "--user", other.username, stdout=StringIO())
    assert len(leaks(whole_database())) >= len(PLANTED) - 1
    call_command("hide_keys", stdout=StringIO())
    index_source(archive_id=owner.pk, source_id=source_id(stored))
    assert leaks(whole_database()) == []
    assert {
        reveal_key(caller=Caller.of(owner), key_id=row.pk)
        for row in keys_of(caller=Caller.of(owner), conversation_id=stored.pk)
    } >= {secret(kind) for kind in PLANTED}
    assert imported(owner, tmp_path).total("updated") == 0
    moved = Conversation.objects.get(pk=stored.pk)
    assert (moved.updated_at, moved.turn_count) == (stored.updated_at, stored.turn_count)
    before = list(Message.objects.order_by("pk").values_list("parts", "source_key"))
    call_command("hide_keys", stdout=StringIO())
    assert list(Message.objects.order_by("pk").values_list("parts", "source_key")) == before


def test_hide_keys_command_hides_keys_in_the_trash(settings: Any) -> None:
    owner, key = make_user(), PLANTED["github-token"]
    settings.HIDE_KEYS = False
    draft = ConversationDraft(messages=(user_says(f"Is {key} right?"), assistant_says("Yes.")), title=key)
    stored = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    index_conversation(conversation_id=stored.pk)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=stored.pk)
    settings.HIDE_KEYS = True
    assert leaks(whole_database()) == ["github-token"]

    call_command("hide_keys", stdout=StringIO())
    assert leaks(whole_database()) == []
    assert (Source.objects.count(), PassageBlock.objects.count()) == (0, 0)  # they were of the text with the key
    ingest.restore_conversation(caller=Caller.of(owner), conversation_id=stored.pk)
    assert index_conversation(conversation_id=stored.pk).computed == 2


def test_keys_of_chat_are_hidden_once_it_is_answered() -> None:
    owner, key = make_user(), PLANTED["github-token"]
    chat = ingest.create_conversation(caller=Caller.of(owner), draft=ConversationDraft(messages=()))
    responses.begin_response(caller=Caller.of(owner), conversation_id=chat.pk, question=user_says(f"Is {key} right?"))
    assert key in chat.messages.get().parts[0]["text"]
    responses.finish_response(
        caller=Caller.of(owner), conversation_id=chat.pk, drafts=[assistant_says(f"Yes, {key} is.")]
    )
    texts = [row.parts[0]["text"] for row in chat.messages.order_by("position")]
    assert texts == ["Is [hidden github-token 1] right?", "Yes, [hidden github-token 1] is."]
    assert {
        reveal_key(caller=Caller.of(owner), key_id=row.pk)
        for row in keys_of(caller=Caller.of(owner), conversation_id=chat.pk)
    } == {key}
    stored = Conversation.objects.get(pk=chat.pk)
    assert (stored.title, stored.turn_count) == ("Is [hidden github-token 1] right?", 1)


def test_secret_in_parameters_of_tool_is_recognised_by_its_name(tmp_path: Path) -> None:
    value = secret("assigned-secret")
    call = {"type": "tool_use", "id": "c", "name": "set", "input": {"linnetApiKey": value, "sortKey": "name2"}}
    content = {"id": "m", "role": "assistant", "content": [call]}
    lines = [user_line("u", "Set it"), assistant_line("a", "") | {"message": content}]
    import_paths(caller=Caller.of(make_user()), paths=[write_lines(tmp_path / "a.jsonl", lines)])
    [part] = Message.objects.get(role="assistant").parts
    assert part["input"] == {"linnetApiKey": "[hidden assigned-secret 1]", "sortKey": "name2"}
    assert value not in whole_database()
