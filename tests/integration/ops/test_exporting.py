"""A person's archive: complete, without secrets, and read back as it was."""

import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import ApiKey
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.models import Conversation, Event, Message, MessageSource
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.exporting import SECRETS, export_user
from convmemory.ops.privacy.ownership import owned_tables
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user
from tests.support.importing import run_at_once
from tests.support.persons import fill_person, rows_of

pytestmark = pytest.mark.django_db

ADA, BOB = "zebrafinch", "quaggamussel"
QUERIES = ("where is the map?", f"{ADA} recipe", "the same text of everybody", f'"the {ADA} recipe"')


def contents(owner: User) -> dict[str, list[Any]]:
    """Return the rows that an archive must restore, without numbers that the database assigns."""
    mine = Conversation.objects.filter(archive_id=owner.pk).order_by("created_at", "title")
    conversation = ("title", "agent", "project", "source", "parent_source_id", "parent__title", "created_at",
                    "updated_at", "archived_at", "message_count", "turn_count", "status")  # fmt: skip
    message = ("conversation__title", "position", "role", "is_real_user", "name", "model", "parts", "turn_number",
               "content_hash", "created_at")  # fmt: skip
    event = ("conversation__title", "line_number", "type", "level", "tool", "turn_number", "created_at", "payload")
    messages = Message.objects.filter(archive_id=owner.pk).order_by("conversation__title", "position")
    sources = MessageSource.objects.filter(archive_id=owner.pk)
    return {
        "conversations": list(mine.values_list(*conversation)),
        "messages": [_plain(row) for row in messages.values_list(*message)],
        "sources": sorted((s.message.position, bytes(s.data)) for s in sources.select_related("message")),
        "events": list(Event.objects.filter(archive_id=owner.pk).order_by("line_number").values_list(*event)),
    }


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [bytes(value) if isinstance(value, memoryview) else value for value in row]


def hits(owner: User) -> list[list[tuple[Any, ...]]]:
    return [
        [(h.title, h.number, h.heading, h.passage, h.marks, h.similarity, h.score) for h in found]
        for found in (search(caller=Caller.of(owner), query=SearchQuery(text=query)).hits for query in QUERIES)
    ]


def index_all(owner: User) -> None:
    for pk in Conversation.objects.filter(archive_id=owner.pk).order_by("pk").values_list("pk", flat=True):
        index_conversation(conversation_id=pk)


@pytest.mark.slow
def test_export_erase_and_import_give_back_same_turns_and_hits(tmp_path: Path) -> None:
    ada, bob = make_user(ADA), make_user(BOB)
    fill_person(bob, BOB)
    fill_person(ada, ADA)
    index_all(ada)
    before, found_before = contents(ada), hits(ada)
    assert all(found_before)
    archive = tmp_path / "ada.zip"
    report = export_user(user=ada, path=archive)
    assert {name for name, count in report.rows.items() if count} == {table.name for table in owned_tables()}
    erase_user(user=ada)

    again = make_user(ADA)
    first = import_paths(caller=Caller.of(again), paths=[archive])
    assert (first.total("skipped"), first.recognised) == (0, 1)
    index_all(again)
    assert contents(again) == before
    assert hits(again) == found_before

    second = import_paths(caller=Caller.of(again), paths=[archive])
    assert (second.total("added"), second.total("updated")) == (0, 0)
    assert second.total("unchanged") == len(before["messages"])
    assert contents(again) == before


def test_archive_contains_all_rows_of_person_without_secrets(tmp_path: Path) -> None:
    ada, bob = make_user(ADA), make_user(BOB)
    fill_person(bob, BOB)
    fill_person(ada, ADA)
    secret = create_key(person=ada)
    key_hash = bytes(ApiKey.objects.filter(person_id=ada.pk).order_by("-pk")[0].key_hash).hex()
    export_user(user=ada, path=tmp_path / "ada.zip")
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
        for table in owned_tables():
            lines = archive.read(f"tables/{table.name}.jsonl").splitlines()
            assert len(lines) == rows_of(table, ada) == manifest["tables"][table.name]["rows"]
    assert ADA in text
    for private in (BOB, secret, key_hash, ada.password):
        assert private not in text
    assert set(manifest["tables"]["accounts_apikey"]["columns"]) >= {"prefix", "created_at"}
    assert "key_hash" not in manifest["tables"]["accounts_apikey"]["columns"]


@pytest.mark.parametrize(
    ("column", "is_secret"),
    [
        ("password", True),
        ("api_key_encrypted", True),
        ("key_hash", True),
        ("refresh_token", True),
        ("access_token_hash", True),
        ("token_count", False),
        ("content_hash", False),
        ("source_key", False),
    ],
)
def test_secrets_are_known_by_their_columns_names(column: str, is_secret: bool) -> None:
    assert bool(SECRETS.search(column)) == is_secret


def test_upload_and_unpacked_folder_are_read_like_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_at_once(monkeypatch)
    ada = make_user(ADA)
    fill_person(ada, ADA)
    before = contents(ada)
    export_user(user=ada, path=tmp_path / "ada.zip")
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    folder, upload = make_user(), make_user()
    assert import_paths(caller=Caller.of(folder), paths=[tmp_path / "unpacked"]).total("conversations") == 4
    client = Client(headers={"Authorization": f"Bearer {create_key(person=upload)}"})
    file = SimpleUploadedFile("ada.zip", (tmp_path / "ada.zip").read_bytes())
    answer = client.post("/api/v1/imports", {"file": file}).json()
    assert (answer["recognised_files"], answer["total"]["conversations"]) == (1, 4)
    assert contents(folder) == contents(upload) == before


def test_damaged_archive_is_refused_and_damaged_row_skipped(tmp_path: Path) -> None:
    ada = make_user(ADA)
    make_conversation(ada, exchange(("one", "1"), ("two", "2")), title="Numbers")
    export_user(user=ada, path=tmp_path / "ada.zip")
    whole = (tmp_path / "ada.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        archive.extractall(tmp_path / "folder")
    rows = tmp_path / "folder" / "tables" / "conversations_message.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    lines[1]["parts"] = [{"type": "hologram"}]
    rows.write_text("\n".join(json.dumps(line) for line in lines))
    report = import_paths(caller=Caller.of(make_user()), paths=[tmp_path / "cut.zip", tmp_path / "folder"])
    cut, folder = report.files
    assert cut.errors
    assert (folder.conversations, folder.added, folder.skipped) == (1, 3, 1)
    (tmp_path / "folder" / "manifest.json").write_text('{"format": "convmemory-export", "version": 99}')
    (refused,) = import_paths(caller=Caller.of(make_user()), paths=[tmp_path / "folder"]).files
    assert "version 99" in refused.errors[0]


@pytest.mark.slow
def test_memory_stays_flat_while_archive_grows(tmp_path: Path) -> None:
    peaks = []
    for number, turns in enumerate((200, 2_000)):
        owner = make_user()
        make_conversation(owner, exchange(*((f"question {n} {'x' * 2_000}", "answer") for n in range(turns))))
        tracemalloc.start()
        export_user(user=owner, path=tmp_path / f"{number}.zip")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_command_writes_one_whole_file_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_conversation(make_user(ADA), exchange(("one", "1")))
    call_command("export_user", ADA, str(tmp_path / "ada.zip"))
    assert "conversations_message                             2 rows" in capsys.readouterr().out
    with pytest.raises(CommandError, match="exists already"):
        call_command("export_user", ADA, str(tmp_path / "ada.zip"))
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("export_user", ADA, str(tmp_path / "missing" / "ada.zip"))
    assert [path.name for path in tmp_path.iterdir()] == ["ada.zip"]
