"""Importing transcripts into the database: once, again, grown, damaged, uploaded."""

import gzip
import io
import json
import os
import shutil
import zipfile
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DataError, connection

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.claude_code import MessageReader
from convmemory.conversations.importing import runner
from convmemory.conversations.importing.archives import UnpackLimits
from convmemory.conversations.importing.runner import ImportReport, import_paths, import_upload
from convmemory.conversations.messages import ingest, message_store
from convmemory.conversations.messages import message_store as message_merging
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.ingest import SyncResult
from convmemory.conversations.models import Conversation, Event, Message, MessageSource
from convmemory.core.errors import InvalidInput, TooLarge
from tests.factories import caller_for, make_conversation, make_user, user_says
from tests.unit.importers.helpers import FIXTURES, assistant_line, queue_line, user_line, write_lines

pytestmark = pytest.mark.django_db

CHATS = (
    *("amplifier", "chatgpt", "claude-ai", "claude-code", "claude-history", "codex", "gemini-takeout", "librechat"),
    *("open-webui", "plain"),
)
SESSION = "7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"
SHARDS = 40  # of an export; each takes 34 statements

AT = {name: datetime(2026, 3, 1, 9, minute, tzinfo=UTC) for minute, name in enumerate("abcdef")}
FILE_DATE = datetime(2025, 5, 4, 3, 2, 1, tzinfo=UTC)

AMPLIFIER = "4c2f9b1e-6a70-4d59-8f31-90ab12cd34ef"


def counts(report: ImportReport) -> dict[str, tuple[int, int, int, int, int]]:
    """(conversations, new, updated, unchanged, turns) by the last part of each path."""
    return {
        Path(file.path).name: (file.conversations, file.added, file.updated, file.unchanged, file.turns)
        for file in report.files
    }


def snapshot() -> list[Any]:
    rows = Message.objects.order_by("conversation__source_id", "position")
    return list(rows.values_list("conversation__source_id", "position", "role", "parts", "turn_number", "source_key"))


def test_importing_all_fixtures_twice_changes_nothing() -> None:
    owner = make_user()
    folders = [FIXTURES / name for name in CHATS]
    report = import_paths(caller=Caller.of(owner), paths=folders)
    assert (
        counts(report).items()
        >= {
            AMPLIFIER: (1, 7, 0, 0, 2),
            f"{AMPLIFIER}-1a2b3c4d5e6f7081_soil-expert": (1, 2, 0, 0, 1),
            "0c5e2b7a-9f64-4d0d-b6a3-1d2e3f4a5b6c.jsonl": (1, 10, 0, 0, 4),
            f"{SESSION}.jsonl": (1, 12, 0, 0, 4),
            "b2a9c7e0-51d4-4c0e-8f0a-64d2a1f3c988.jsonl": (1, 20, 0, 0, 4),
            "damaged.jsonl": (1, 4, 0, 0, 2),
            "sidechain.jsonl": (3, 8, 0, 0, 3),
            "snapshots-only.jsonl": (0, 0, 0, 0, 0),
            "agent-b1c2d3.jsonl": (1, 2, 0, 0, 1),
            "anthropic.jsonl": (1, 4, 0, 0, 1),
            "finetune.jsonl": (3, 9, 0, 0, 3),
            "openai.json": (1, 5, 0, 0, 1),
            "conversations-000.json": (2, 12, 0, 0, 3),
            "projects.json": (1, 3, 0, 0, 0),
            "legacy.jsonl": (1, 3, 0, 0, 1),
            "tree.json": (1, 4, 0, 0, 1),
            "chats.json": (1, 5, 0, 0, 2),
            "history.jsonl": (2, 8, 0, 0, 4),
        }.items()
    )
    assert [file.path for file in report.files if file.errors] == []
    assert Message.objects.count() == report.total("messages")
    assert Message.objects.filter(source=None).count() == 5  # answers next to prompts of Takeout and of a history
    assert Message.objects.filter(superseded=True).count() == report.total("superseded") == 10
    assert Event.objects.count() == 7
    before = snapshot()
    again = import_paths(caller=Caller.of(owner), paths=folders)
    assert (again.total("added"), again.total("updated"), again.total("events")) == (0, 0, 0)
    assert again.total("unchanged") == report.total("added")
    assert again.total("turns") == report.total("turns")
    assert snapshot() == before


def test_children_are_linked_also_when_they_come_first() -> None:
    owner = make_user()
    folder = FIXTURES / "claude-code"
    child = folder / SESSION / "subagents" / "agent-b1c2d3.jsonl"
    import_paths(caller=Caller.of(owner), paths=[child])
    assert Conversation.objects.get().parent is None
    import_paths(caller=Caller.of(owner), paths=[folder, FIXTURES / "amplifier"])
    parents = dict(Conversation.objects.exclude(parent=None).values_list("source_id", "parent__source_id"))
    sidechain = "5e5e5e5e-0000-4000-8000-000000000001"
    assert parents == {
        f"{SESSION}:agent-b1c2d3": SESSION,
        f"{AMPLIFIER}-1a2b3c4d5e6f7081_soil-expert": AMPLIFIER,
        f"{sidechain}:x-1": sidechain,
        f"{sidechain}:y-1": sidechain,
    }


def test_session_that_grows_line_by_line_ends_as_if_imported_at_once(tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [
        user_line("u1", "begin"),
        assistant_line("a1", "working"),
        queue_line("enqueue", "one"),
        queue_line("enqueue", "two"),
        assistant_line("a2", "still working"),
        queue_line("dequeue"),
        user_line("u2", "one\ntwo"),
        assistant_line("a3", "both done"),
        queue_line("enqueue", "three"),
        queue_line("remove"),
        assistant_line("a4", "three done"),
        user_line("u3", "bye"),
        assistant_line("a5", "bye"),
    ]
    path = tmp_path / f"{SESSION}.jsonl"
    growing, at_once = make_user(), make_user()
    for count in range(1, len(lines) + 1):
        write_lines(path, lines[:count])
        import_paths(caller=Caller.of(growing), paths=[path])
    import_paths(caller=Caller.of(at_once), paths=[path])
    stored = [
        list(
            Message.objects.filter(archive_id=owner.pk)
            .order_by("position")
            .values_list("source_key", "parts", "turn_number", "is_real_user")
        )
        for owner in (growing, at_once)
    ]
    assert stored[0] == stored[1]
    assert Conversation.objects.get(archive_id=growing.pk).turn_count == 4


def test_raw_lines_are_kept(tmp_path: Path) -> None:
    line = user_line("u1", "hi", extraField={"kept": True})
    import_paths(
        caller=Caller.of(make_user()), paths=[write_lines(tmp_path / "s.jsonl", [line, assistant_line("a1", "x")])]
    )
    source = MessageSource.objects.get(message__source_key="u1")
    assert json.loads(zlib.decompress(bytes(source.data))) == line


def test_two_owners_have_copy_each() -> None:
    owners = [make_user(), make_user()]
    for owner in owners:
        assert import_paths(caller=Caller.of(owner), paths=[FIXTURES / "plain"]).total("added") == 18
    assert Conversation.objects.filter(archive_id=owners[0].pk).count() == 5


@pytest.mark.parametrize("error", [InvalidInput("that is refused"), DataError("value out of range")])
def test_conversation_that_fails_is_reported_and_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    sync = ingest.sync_conversation

    def failing(*, caller: Caller, draft: ConversationDraft) -> SyncResult:
        if draft.source_id.endswith(":x-1"):
            raise error
        return sync(caller=caller, draft=draft)

    monkeypatch.setattr(ingest, "sync_conversation", failing)
    report = import_paths(caller=Caller.of(make_user()), paths=[FIXTURES / "claude-code" / "sidechain.jsonl"])
    (file,) = report.files
    assert file.conversations == 2
    assert file.errors == [f"Survey the beds.: {error}"]
    assert report.recognised == 1


def test_unstorable_values_are_made_storable(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "nul \0 and half \ud800", "name": "A\0na", "created_at": "0001-01-01"},
        {
            "role": "assistant",
            "model": "m" * 500,
            "content": [{"type": "tool_use", "id": "\0", "name": "x", "input": {"\0": [float("inf"), 10**4000]}}],
        },
    ]
    value = {"title": "t\0" * 400, "agent": "a" * 500, "id": "\0" * 400, "messages": messages}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    report = import_paths(caller=Caller.of(make_user()), paths=[path])
    assert report.files[0].errors == []
    assert report.total("added") == 2
    assert import_paths(caller=caller_for(Conversation.objects.get().archive), paths=[path]).total("unchanged") == 2


def test_conversations_without_message_are_not_stored(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"messages": []}, {"messages": [{"role": "user"}]}])
    report = import_paths(caller=Caller.of(make_user()), paths=[tmp_path])
    assert not Conversation.objects.exists()
    assert len(report.files[0].notes) == 2
    assert report.files[0].skipped == 1
    assert report.files[0].is_refused


def test_damaged_document_does_not_stop_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"role": "user", "content": "x"}, {"role"')
    write_lines(tmp_path / "b.jsonl", [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])
    report = import_paths(caller=Caller.of(make_user()), paths=[tmp_path, tmp_path / "gone"], root=tmp_path)
    assert [(file.path, file.conversations, bool(file.errors)) for file in report.files] == [
        ("a.json", 0, True),
        ("b.jsonl", 1, False),
        ("gone", 0, True),
    ]
    assert report.recognised == 1
    assert json.loads(json.dumps(report.to_json()))["total"]["messages"] == 2


def test_progress_is_reported_per_messages_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PROGRESS_EVERY", 5)
    told: list[tuple[int, int]] = []
    import_paths(
        caller=Caller.of(make_user()),
        paths=[FIXTURES / "plain"],
        progress=lambda report: told.append((len(report.files), report.messages_read)),
    )
    assert told == [(1, 4), (2, 5), (2, 10), (2, 13), (3, 15), (3, 18)]


def zip_of(folder: Path) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder.parent))
    buffer.seek(0)
    return buffer


@pytest.mark.slow
def test_uploaded_archive_gives_same_as_folder(tmp_path: Path) -> None:
    owner = make_user()
    folder = import_paths(caller=Caller.of(owner), paths=[FIXTURES])
    upload = import_upload(caller=Caller.of(owner), file=zip_of(FIXTURES), name="transcripts.zip", folder=tmp_path)
    read = folder.total("added") + folder.total("unchanged")  # one fixture is another's conversation once more
    assert (upload.total("added"), upload.total("unchanged")) == (0, read)
    assert f"transcripts/amplifier/sessions/{AMPLIFIER}" in {file.path for file in upload.files}
    assert all("/tmp" not in issue.place for file in upload.files for issue in file.issues)


def test_uploaded_single_files_are_named_as_in_their_folder(tmp_path: Path) -> None:
    owner = make_user()
    paths = [FIXTURES / "claude-code" / f"{SESSION}.jsonl", FIXTURES / "plain" / "anthropic.jsonl"]
    import_paths(caller=Caller.of(owner), paths=paths)
    for path in paths:
        folder = tmp_path / path.stem
        report = import_upload(
            caller=Caller.of(owner), file=io.BytesIO(path.read_bytes()), name=path.name, folder=folder
        )
        assert report.total("added") == 0
        assert [file.path for file in report.files] == [path.name]


def test_oversized_and_unknown_uploads_are_refused(tmp_path: Path) -> None:
    owner = make_user()
    with pytest.raises(TooLarge):
        import_upload(
            caller=Caller.of(owner),
            file=zip_of(FIXTURES),
            name="a.zip",
            folder=tmp_path / "1",
            limits=UnpackLimits(max_bytes=1000),
        )
    image = io.BytesIO(b"\x89PNG\r\n")
    report = import_upload(caller=Caller.of(owner), file=image, name="image.png", folder=tmp_path / "2")
    assert report.files[0].errors[0].startswith("it looks like none of the formats that can be read. ")
    assert not Conversation.objects.exists()
    shutil.copytree(FIXTURES / "plain", tmp_path / "plain")
    (tmp_path / "plain" / "notes.txt").write_text("x")
    report = import_upload(
        caller=Caller.of(owner), file=zip_of(tmp_path / "plain"), name="a.zip", folder=tmp_path / "3", format="plain"
    )
    assert (report.ignored_files, report.recognised) == (1, 3)


def test_report_that_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_STORED_FILES", 2)
    monkeypatch.setattr(runner, "MAX_STORED_DETAILS", 3)
    files = [FileReport(path=str(number), errors=["broken"] * 2, added=1) for number in range(5)]
    kept = ImportReport(files=files).to_stored_json()
    assert [file["errors"] for file in kept["files"]] == [["broken"] * 2, ["broken"]]
    assert (kept["files_left_out"], kept["total"]["added"]) == (3, 5)


def test_messages_are_read_before_transaction_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    depth = len(connection.savepoint_ids)
    inside: list[bool] = []
    reading = MessageReader.read

    def watched(reader: MessageReader, lines: Any) -> Any:
        for message in reading(reader, lines):
            inside.append(len(connection.savepoint_ids) > depth)
            yield message

    monkeypatch.setattr(MessageReader, "read", watched)
    write_lines(
        tmp_path / "a.jsonl",
        [line for n in range(9) for line in (user_line(f"u{n}", "q"), assistant_line(f"a{n}", "a"))],
    )
    assert import_paths(caller=Caller.of(make_user()), paths=[tmp_path]).total("added") == 18
    assert inside == [False] * 18


def test_large_messages_are_stored_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_merging, "BATCH_BYTES", 1_000)
    sizes: list[int] = []
    insert = message_store.insert_messages

    def counted(archive_id: int, conversation_id: int, drafts: Any, *rest: Any) -> Any:
        sizes.append(len(drafts))
        return insert(archive_id, conversation_id, drafts, *rest)

    monkeypatch.setattr(message_merging, "insert_messages", counted)
    make_conversation(make_user(), [user_says("x" * 600, source_key=str(number)) for number in range(5)])
    assert sizes == [2, 2, 1]


def test_zip_of_many_shards_is_imported_whole(tmp_path: Path) -> None:
    owner, path = make_user(), tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(SHARDS):
            nodes = {
                f"q{number}": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["why?"]}}},
                f"a{number}": {
                    "parent": f"q{number}",
                    "message": {"author": {"role": "assistant"}, "content": {"parts": [f"because {number}"]}},
                },
            }
            chat = {"conversation_id": f"chat-{number:08}", "mapping": nodes, "current_node": f"a{number}"}
            archive.writestr(f"conversations-{number:03}.json", json.dumps([chat]))
        archive.writestr("chat.html", "<html></html>")
        archive.writestr("export_manifest.json", "{}")
    report = runner.import_paths(caller=Caller.of(owner), paths=[path])
    assert report.total("conversations") == SHARDS
    assert report.total("turns") == SHARDS
    assert not [error for file in report.files for error in file.errors]
    assert (report.refused, report.ignored) == (0, {".html": 1, ".json": 1})


@pytest.mark.parametrize(
    ("name", "encoding"), [("chat.md", "cp1251"), ("chat.json", "koi8-r"), ("chat.jsonl", "cp1251")]
)
def test_transcript_in_legacy_encoding_is_read_with_note(tmp_path: Path, name: str, encoding: str) -> None:
    owner = make_user()
    messages = [
        {"role": "user", "content": "Где лежит протокол совещания по проекту?"},
        {"role": "assistant", "content": "Протокол лежит в общей папке, около расписания."},
    ]
    text = {
        "chat.md": "".join(f"**{message['role'].title()}:** {message['content']}\n\n" for message in messages),
        "chat.json": json.dumps(messages, ensure_ascii=False),
        "chat.jsonl": "".join(f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages),
    }[name]
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    for _ in range(2):
        report = runner.import_paths(caller=Caller.of(owner), paths=[path])
        [note] = [note for file in report.files for note in file.notes if "encoding" in note]
        assert name in note
        assert not [error for file in report.files for error in file.errors]
        (conversation,) = Conversation.objects.filter(archive_id=owner.pk)
        assert [message.parts[0]["text"] for message in conversation.messages.order_by("position")] == [
            message["content"] for message in messages
        ]
    with path.open("rb") as file:
        report = runner.import_upload(caller=Caller.of(make_user()), file=file, name=name, folder=tmp_path / "up")
    assert (report.total("turns"), [error for each in report.files for error in each.errors]) == (1, [])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_text_in_any_unicode_encoding_and_compressed_is_read_like_utf_8(tmp_path: Path, encoding: str) -> None:
    owner = make_user()
    lines = [
        {"role": "user", "content": "\u70b9\u5fc3\u51e0\u70b9\uff1f"},
        {"role": "assistant", "content": "\u5341\u70b9"},
    ]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\r\n" for line in lines)
    for name, data in (
        ("chat.jsonl", text.encode(encoding)),
        ("packed.jsonl.gz", gzip.compress(text.encode(encoding))),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        os.utime(path, (FILE_DATE.timestamp(), FILE_DATE.timestamp()))
    (tmp_path / "again.zip").write_bytes(zip_of_one("chat.jsonl", text.encode(encoding)))
    report = import_paths(caller=Caller.of(owner), paths=[tmp_path], root=tmp_path)
    assert [file.path for file in report.files] == ["again.zip/chat.jsonl", "chat.jsonl", "packed.jsonl.gz"]
    assert [(file.messages, file.skipped, file.repaired) for file in report.files] == [(2, 0, 0)] * 3
    (conversation,) = Conversation.objects.filter(archive_id=owner.pk)
    assert [message.parts[0]["text"] for message in conversation.messages.order_by("position")] == [
        line["content"] for line in lines
    ]
    alone = make_user()
    import_paths(caller=Caller.of(alone), paths=[tmp_path / "chat.jsonl"], format="plain")
    assert Conversation.objects.get(archive_id=alone.pk).created_at == FILE_DATE
    upload = import_upload(
        caller=Caller.of(alone), file=io.BytesIO(text.encode(encoding)), name="a.jsonl", folder=tmp_path / "up"
    )
    assert (upload.total("unchanged"), upload.total("added")) == (2, 0)


def zip_of_one(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize("is_archived", [True, False])
def test_automated_sessions_are_tagged_and_archived_once(tmp_path: Path, settings: Any, is_archived: bool) -> None:
    settings.ARCHIVE_AUTOMATED = is_archived
    owner = make_user()
    path = write_lines(tmp_path / f"{SESSION}.jsonl", [user_line("u", "Observe.", entrypoint="sdk-py")])
    import_paths(caller=Caller.of(owner), paths=[path])
    conversation = Conversation.objects.get(archive_id=owner.pk)
    assert [tag.name for tag in conversation.tags.all()] == ["automated"]
    assert (conversation.archived_at is not None) is is_archived
    Conversation.objects.filter(pk=conversation.pk).update(archived_at=None)
    write_lines(path, [user_line("u", "Observe.", entrypoint="sdk-py"), assistant_line("a", "Seen.")])
    import_paths(caller=Caller.of(owner), paths=[path])
    assert Conversation.objects.get(archive_id=owner.pk).archived_at is None  # the owner took it out of the archive


def message(role: str, text: str, at: str = "") -> dict[str, Any]:
    return {"role": role, "content": text, "timestamp": AT[at].isoformat() if at else None}


def event(kind: str, at: str = "") -> dict[str, Any]:
    return {"event": kind, "ts": AT[at].isoformat() if at else None, "data": {}}


def import_session(owner: User, folder: Path, lines: list[Any], events: list[Any] | None = None) -> Conversation:
    write_lines(folder / "transcript.jsonl", lines)
    if events is not None:
        write_lines(folder / "events.jsonl", events)
    for file in folder.iterdir():
        os.utime(file, (FILE_DATE.timestamp(), FILE_DATE.timestamp()))
    report = import_paths(caller=Caller.of(owner), paths=[folder])
    assert not report.files[0].errors
    return Conversation.objects.get(archive_id=owner.pk)


def test_event_belongs_to_turn_of_its_prompt_once_turns_are_numbered(tmp_path: Path) -> None:
    folder, owner = tmp_path / AMPLIFIER, make_user()
    lines = [message("user", "Stop, wrong one"), message("user", "Which soil?"), message("assistant", "Loam.")]
    events = [event("session:start"), event("prompt:submit"), event("prompt:submit"), event("llm:response")]
    conversation = import_session(owner, folder, lines, events)
    assert turns_of_events(conversation) == [None, 0, 0, 0]
    lines += [message("user", "And lime?")]
    events += [event("prompt:submit"), event("llm:request")]
    import_session(owner, folder, lines, events)
    assert turns_of_events(conversation) == [None, 0, 0, 0, None, None]
    import_session(owner, folder, [*lines, message("assistant", "A little.")], events)
    assert turns_of_events(conversation) == [None, 0, 0, 0, 1, 1]


def turns_of_events(conversation: Conversation) -> list[int | None]:
    return list(conversation.events.order_by("line_number").values_list("turn_number", flat=True))


def dates(conversation: Conversation) -> list[datetime | None]:
    return list(conversation.messages.order_by("position").values_list("created_at", flat=True))


def test_conversation_without_dates_begins_with_its_first_event(tmp_path: Path) -> None:
    lines = [message("user", "One?"), message("assistant", "1"), message("user", "Two?"), message("assistant", "2")]
    events = [event("session:start", "a"), event("prompt:submit", "b"), event("prompt:submit", "d")]
    conversation = import_session(make_user(), tmp_path / AMPLIFIER, lines, events)
    assert (conversation.created_at, conversation.updated_at) == (AT["a"], AT["d"])
    assert dates(conversation) == [AT["b"], AT["b"], AT["d"], AT["d"]]


def test_without_events_undated_messages_have_date_of_nearest(tmp_path: Path) -> None:
    owner, folder = make_user(), tmp_path / AMPLIFIER
    lines = [
        message("user", "One?"),
        message("assistant", "1", "b"),
        message("user", "Two?"),
        message("assistant", "2"),
    ]
    lines += [message("assistant", "3", "e")]
    conversation = import_session(owner, folder, lines)
    assert (conversation.created_at, conversation.updated_at) == (AT["b"], AT["e"])
    assert dates(conversation) == [AT["b"], AT["b"], AT["b"], AT["e"], AT["e"]]
    conversation = import_session(owner, folder, [*lines, message("user", "Four?")])
    assert (conversation.updated_at, dates(conversation)[-1]) == (AT["e"], AT["e"])


def test_undated_session_gets_date_of_its_file(tmp_path: Path) -> None:
    owner, folder = make_user(), tmp_path / AMPLIFIER
    lines = [message("user", "One?"), message("assistant", "1")]
    conversation = import_session(owner, folder, lines)
    assert (conversation.created_at, conversation.updated_at) == (FILE_DATE, FILE_DATE)
    assert dates(conversation) == [FILE_DATE, FILE_DATE]
    conversation = import_session(owner, folder, [*lines, message("user", "Two?")])
    assert (conversation.created_at, conversation.updated_at) == (FILE_DATE, FILE_DATE)


def test_files_of_archive_keep_their_dates(tmp_path: Path) -> None:
    owner, packed = make_user(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        entry = zipfile.ZipInfo("chat.json", FILE_DATE.timetuple()[:6])
        archive.writestr(entry, json.dumps([{"role": "user", "content": "One?"}]))
    packed.seek(0)
    import_upload(caller=Caller.of(owner), file=packed, name="chats.zip", folder=tmp_path)
    begun = Conversation.objects.get(archive_id=owner.pk).created_at
    assert abs(begun - FILE_DATE) < timedelta(seconds=2)  # what a ZIP archive can tell apart
