"""`sync` and `watch` import nothing that the rules of the machine leave out."""

import io
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import watchfiles
from django.core.management import call_command

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.models import SyncedFile
from convmemory.conversations.importing.syncing import SyncReport, sync_places
from convmemory.conversations.importing.watching import watch_stores
from convmemory.conversations.models import Conversation
from convmemory.push.account import Account
from convmemory.push.rules import Rules
from convmemory.push.stores import existing_stores, known_stores
from tests.factories import make_user
from tests.support.agent_databases import make
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with one session in `open` and one in `secret`."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CONVMEMORY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("open", "secret"):
        (tmp_path / name).mkdir()
        lines = [user_line("u", f"Asked in {name}"), assistant_line("a", "Answered.")]
        path = tmp_path / f".claude/projects/-{name}/{name}.jsonl"
        write_lines(path, [{**line, "cwd": str(tmp_path / name)} for line in lines])
    Account(tmp_path).pause_file.parent.mkdir(parents=True)
    return tmp_path


def titles() -> set[str]:
    return set(Conversation.objects.values_list("title", flat=True))


def sync(home: Path, *options: str) -> str:
    out = io.StringIO()
    call_command("sync", "--user", "ada", "--home", str(home), "--yes", *options, stdout=out)
    return out.getvalue()


def test_sync_leaves_out_ignored_folder_until_rule_is_gone(home: Path) -> None:
    make_user("ada")
    (home / "secret" / ".convmemory-ignore").touch()
    assert "Files: 1 left out, 1 new." in sync(home)
    assert titles() == {"Asked in open"}
    assert SyncedFile.objects.count() == 1
    (home / "secret" / ".convmemory-ignore").unlink()
    sync(home)
    assert titles() == {"Asked in open", "Asked in secret"}


def test_sync_divides_database(home: Path) -> None:
    user = make_user("ada")
    path = home / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    with closing(make(path)) as connection:
        connection.execute("UPDATE session SET directory = ? WHERE id = 'ses_two'", [str(home / "secret")])
        (home / "secret" / ".convmemory-ignore").touch()
        rules = Rules.of(Account(home))
        report = sync_places(caller=Caller.of(user), stores=existing_stores(home=home), rules=rules)
    assert titles() == {"Asked in open", "Title of ses_one", "Title of ses_three"}
    (note,) = (note for file in report.imported.files for note in file.notes if "left out" in note)
    assert note == f"ses_two: left out: {home}/secret/.convmemory-ignore"


def test_sync_leaves_out_typed_prompts_of_ignored_folder(home: Path) -> None:
    """The history of Codex names no folder: its prompts belong to the folder of their session."""
    make_user("ada")
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(2)]
    meta = {"type": "session_meta", "payload": {"id": ids[0], "cwd": str(home / "secret")}}
    write_lines(home / f".codex/sessions/2026/rollout-2026-11-01T00-00-00-{ids[0]}.jsonl", [meta])
    typed = [{"session_id": id, "ts": 1_780_000_000, "text": f"Typed in {id}"} for id in ids]
    write_lines(home / ".codex/history.jsonl", typed)
    (home / "secret" / ".convmemory-ignore").touch()
    sync(home)
    assert titles() == {"Asked in open", f"Typed in {ids[1]}"}


@pytest.mark.parametrize("switch", ["paused", "CONVMEMORY=off"])
def test_sync_imports_nothing_while_paused_or_off(home: Path, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ada")
    if switch == "paused":
        Account(home).pause_file.touch()
    else:
        monkeypatch.setenv("CONVMEMORY", "off")
    assert f"Nothing is imported: {switch}." in sync(home)
    assert titles() == set()


@pytest.mark.django_db(transaction=True)
def test_sync_and_watch_import_listed_projects_alone(home: Path) -> None:
    user = make_user("ada")
    Account(home).projects_file.write_text("~/open\n")
    sync(home)
    assert titles() == {"Asked in open"}
    stop = threading.Event()
    stop.set()
    rules = Rules.of(Account(home))
    watch_stores(
        caller=Caller.of(user), stores=known_stores(home=home), stop=stop, on_synced=lambda _: None, rules=lambda: rules
    )
    assert titles() == {"Asked in open"}


@pytest.mark.django_db(transaction=True)
def test_watch_postpones_changes_until_pause_ends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change comes during the pause; nothing changes when it ends."""
    account, stop, reports = Account(home), threading.Event(), list[SyncReport]()
    (home / "secret" / ".convmemory-ignore").touch()

    def watch(*_: Path, **__: object) -> Iterator[set[tuple[int, str]]]:
        yield set()
        account.pause_file.touch()
        path = home / ".claude/projects/-open/later.jsonl"
        write_lines(path, [{**user_line("u2", "Asked later"), "cwd": str(home / "open")}, assistant_line("a2", "Yes.")])
        yield {(1, str(path))}
        assert titles() == {"Asked in open"}
        account.pause_file.unlink()
        yield set()
        stop.set()

    monkeypatch.setattr(watchfiles, "watch", watch)
    stores = [store for store in known_stores(home=home) if store.agent == "claude-code"]
    watch_stores(
        caller=Caller.of(make_user()),
        stores=stores,
        stop=stop,
        on_synced=reports.append,
        rules=lambda: Rules.of(account),
    )
    assert titles() == {"Asked in open", "Asked later"}
