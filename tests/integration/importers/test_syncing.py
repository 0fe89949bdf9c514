"""Keeping current: what is new, grown or rewritten is imported, what is not is left alone, what is lost is said."""

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import watchfiles
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.models import SyncedFile
from convmemory.conversations.importing.runner import import_paths, import_upload
from convmemory.conversations.importing.syncing import SyncReport, soon_deleted, sync_places
from convmemory.conversations.importing.watching import watch_stores
from convmemory.conversations.models import Conversation, Message
from convmemory.push.ledger import Ledger
from convmemory.push.packing import pack, unsent
from convmemory.push.rules import Rules
from convmemory.push.stores import SessionStore, existing_stores, known_stores
from tests.factories import make_user
from tests.support.agent_databases import make
from tests.support.patience import wait_until
from tests.unit.importers.helpers import FIXTURES, assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db

SESSION = "0c5e2b7a-0000-4000-8000-00000000000b"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
        "GEMINI_CLI_HOME",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def session_file(home: Path, *questions: str) -> Path:
    path = home / ".claude" / "projects" / "-home-ada" / f"{SESSION}.jsonl"
    lines = [[user_line(f"u{n}", text), assistant_line(f"a{n}", f"About {text}")] for n, text in enumerate(questions)]
    return write_lines(path, [line for pair in lines for line in pair])


def sync(owner: User, home: Path) -> SyncReport:
    return sync_places(caller=Caller.of(owner), stores=existing_stores(home=home))


def test_sync_tells_new_grown_and_rewritten_files_apart(home: Path) -> None:
    owner = make_user()
    path = session_file(home, "bread")
    assert sync(owner, home).counts == {"new": 1}
    assert sync(owner, home).counts == {"unchanged": 1}
    with path.open("a") as file:
        file.write(
            "".join(f"{json.dumps(line)}\n" for line in (user_line("u9", "rolls"), assistant_line("a9", "Yes.")))
        )
    grown = sync(owner, home)
    assert (grown.counts, grown.imported.total("added"), grown.imported.total("unchanged")) == ({"grown": 1}, 2, 2)
    path.unlink()
    session_file(home, "cake", "pie", "tart")
    rewritten = sync(owner, home)
    assert rewritten.counts == {"rewritten": 1}
    assert Conversation.objects.count() == 1
    assert sync(owner, home).counts == {"unchanged": 1}


def test_sync_imports_sessions_of_all_agents(home: Path) -> None:
    owner = make_user()
    session_file(home, "bread")
    (home / ".local/share/opencode").mkdir(parents=True)
    held_open = make(home / ".local/share/opencode/opencode.db")
    shutil.copytree(FIXTURES / "gemini-cli/oven", home / ".gemini/tmp/oven")
    shutil.copytree(FIXTURES / "copilot-cli/7a1c-session", home / ".copilot/session-state/7a1c-session")
    shutil.copytree(FIXTURES / "cline/tasks", home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks")
    shutil.copytree(FIXTURES / "vscode-copilot", home / ".config/Code/User/workspaceStorage/ab12")
    report = sync(owner, home)
    sources = set(Conversation.objects.values_list("source", flat=True))
    assert sources == {"claude-code", "opencode", "gemini-cli", "copilot-cli", "cline", "vscode-copilot"}
    assert report.problems == []
    assert [file.path for file in report.imported.files if file.errors] == []
    held_open.execute("UPDATE session SET title = 'Another' WHERE id = 'ses_two'")
    assert sync(owner, home).counts["grown"] == 1
    held_open.close()


def test_unreadable_file_is_retried_and_does_not_stop_others(home: Path) -> None:
    owner = make_user()
    session_file(home, "bread")
    broken = home / ".local/share/opencode/opencode.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"SQLite format 3\0 and then nothing")
    report = sync(owner, home)
    assert len([file for file in report.imported.files if file.errors]) == 1
    assert report.imported.total("conversations") == 1
    broken.unlink()
    make(broken).close()
    assert sync(owner, home).imported.total("conversations") == 3


def test_prompts_of_deleted_sessions_are_imported_from_history(home: Path) -> None:
    owner = make_user()
    session_file(home, "bread")
    history = home / ".claude" / "history.jsonl"
    typed = [("Where is the yeast?", "gone"), ("And the salt?", "gone"), ("bread", SESSION)]
    at = {"timestamp": 1767312000000, "project": "/home/ada/bakery", "pastedContents": {}}
    write_lines(history, [{"display": text, "sessionId": name, **at} for text, name in typed])
    sync(owner, home)
    back = Conversation.objects.get(source="claude-history")
    assert (back.source_id, back.project, back.turn_count) == ("gone", "/home/ada/bakery", 2)


def test_prompts_of_session_that_was_imported_before_stay_with_it(home: Path, tmp_path: Path) -> None:
    owner = make_user()
    import_paths(caller=Caller.of(owner), paths=[session_file(tmp_path, "bread")])
    line = {"display": "bread", "timestamp": 1767312000000, "project": "/p", "sessionId": SESSION}
    write_lines(home / ".claude" / "history.jsonl", [line])
    sync(owner, home)
    assert Conversation.objects.get().source == "claude-code"


def test_soon_deleted_follows_cleanup_period(home: Path) -> None:
    path = session_file(home, "bread")
    now = time.time()
    os.utime(path, (now - 26 * 86_400, now - 26 * 86_400))
    claude = home / ".claude"
    assert soon_deleted(claude=claude) == [path]
    (claude / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    assert soon_deleted(claude=claude) == []


def test_command_asks_before_first_import(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_user("ada")
    session_file(home, "bread")
    with pytest.raises(CommandError, match=r"Nothing was imported\..*--yes"):
        call_command("sync", "--user", "ada", "--home", str(home))
    assert not Conversation.objects.exists()
    assert "claude-code" in capsys.readouterr().out
    call_command("sync", "--user", "ada", "--home", str(home), "--yes")
    call_command("sync", "--user", "ada", "--home", str(home))
    assert "1 unchanged" in capsys.readouterr().out


def test_sync_states_are_kept_per_owner(home: Path) -> None:
    session_file(home, "bread")
    for _ in range(2):
        assert sync(make_user(), home).counts == {"new": 1}
    assert SyncedFile.objects.count() == 2


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_watch_imports_appended_lines_and_survives_deleted_folder(home: Path) -> None:
    owner = make_user()
    path = session_file(home, "bread")
    stop, reports = threading.Event(), list[SyncReport]()
    stores = [store for store in known_stores(home=home) if store.agent == "claude-code"]

    def run() -> None:
        try:
            watch_stores(caller=Caller.of(owner), stores=stores, stop=stop, on_synced=reports.append)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: Message.objects.count() == 2)
        with path.open("a") as file:
            file.write(json.dumps(user_line("u9", "rolls")) + "\n")
        wait_until(lambda: Message.objects.count() == 3)
        shutil.rmtree(home / ".claude")
        session_file(home, "bread", "cake")
        wait_until(lambda: Message.objects.count() == 5)
    finally:
        stop.set()
        thread.join()
    assert sum(report.counts.get("new", 0) for report in reports) == 1  # the rest continues it


@pytest.mark.django_db(transaction=True)
def test_lines_written_before_watch_begins_are_imported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, stop, counts = session_file(home, "bread"), threading.Event(), list[int]()

    def watch(*_: Path, **__: object) -> Iterator[set[tuple[int, str]]]:
        with path.open("a") as file:
            file.write(json.dumps(user_line("u9", "rolls")) + "\n")
        yield set()
        counts.append(Message.objects.count())
        stop.set()

    monkeypatch.setattr(watchfiles, "watch", watch)
    stores = [store for store in known_stores(home=home) if store.agent == "claude-code"]
    watch_stores(caller=Caller.of(make_user()), stores=stores, stop=stop, on_synced=lambda _: None)
    assert counts == [3]


def test_missing_place_has_no_files() -> None:
    assert list(SessionStore("pi", Path("/nowhere/at/all"), (".jsonl",)).files()) == []


@pytest.mark.parametrize("killed_after", [None, 1])
def test_packed_upload_imports_same_as_local_sync(home: Path, tmp_path: Path, killed_after: int | None) -> None:
    """Also where an archive comes in twice, because the client was killed before it could note it."""
    session_file(home, "bread")
    shutil.copytree(FIXTURES / "gemini-cli/oven", home / ".gemini/tmp/oven")
    storage = home / ".config/Code/User/globalStorage"
    shutil.copytree(FIXTURES / "cline/roo-cline/tasks", storage / "rooveterinaryinc.roo-cline/tasks")
    shutil.copytree(FIXTURES / "vscode-copilot", home / ".config/Code/User/workspaceStorage/ab12")
    for fixture, folder in (("mistral-vibe/session", ".vibe/logs/session/one"), ("droid", ".factory/sessions/one"),
                            ("qwen-code/chats", ".qwen/projects/one/chats"), ("kiro-cli", ".local/share/kiro-cli"),
                            ("grok-build/session", ".grok/sessions/one")):  # fmt: skip
        shutil.copytree(FIXTURES / fixture, home / folder)
    here, there = make_user(), make_user()
    sync(here, home)
    with Ledger(tmp_path / "ledger.db") as ledger:
        items = list(unsent(existing_stores(home=home), server="s", ledger=ledger, rules=Rules(), left_out=Counter()))
    pack(items, tmp_path / "transcripts.zip", home=tmp_path)
    for attempt in range(2 if killed_after else 1):
        with (tmp_path / "transcripts.zip").open("rb") as file:
            import_upload(
                caller=Caller.of(there), file=file, name="transcripts.zip", folder=tmp_path / f"unpacked-{attempt}"
            )

    def told(owner: User) -> set[tuple[str, str, str, int, int]]:
        rows = Conversation.objects.filter(archive_id=owner.pk)
        return set(rows.values_list("source", "source_id", "project", "message_count", "turn_count"))

    assert told(there) == told(here)
    assert {source for source, *_ in told(there)} == {
        *("claude-code", "gemini-cli", "roo", "vscode-copilot", "mistral-vibe", "droid", "qwen-code", "kiro-cli"),
        "grok-build",
    }
    assert Conversation.objects.get(archive_id=there.pk, source="grok-build").title
