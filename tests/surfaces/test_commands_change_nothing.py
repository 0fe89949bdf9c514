"""Dry runs of every command, and deletions that are not agreed to, leave every row and file as it was."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from convmemory.accounts.scim.tokens import create_token
from convmemory.accounts.spaces import create_space
from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.embeddings import spaces
from convmemory.sign_in.second_factor import renew_recovery_codes
from tests.factories import make_user
from tests.support.commands import OF_DJANGO, own_commands
from tests.support.persons import fill_person
from tests.support.terminal import Terminal
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db(transaction=True)

DRY = {"--dry-run", "--list", "--preview", "--check"}
TABLES = """
SELECT c.oid::regclass::text FROM pg_class AS c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1
"""
DRY_RUNS: dict[tuple[str, str], list[str]] = {
    ("reembed", "--dry-run"): [
        "--dry-run",
        "--model {third} --dry-run",
        "--user ada --only missing --dry-run",
        "--prune --dry-run",
        "--cancel --dry-run",
    ],
    ("connect", "--dry-run"): ["claude-code --user ada --home {home} --dry-run"],
    ("connect", "--check"): ["--user ada --home {home} --server http://127.0.0.1:1 --check"],
    ("sync", "--list"): ["--user bob --home {home} --list"],
    ("import_conversations", "--preview"): ["{unknown} --user ada --preview"],
    ("worker", "--check"): ["--check"],
}
DRY_RUNS_ELSEWHERE = {("restore", "--check"): "tests/surfaces/test_backup.py"}
DELETIONS = {
    "reembed": ["--prune", "--cancel"],
    "erase_user": ["ada", "space {space}"],
    "erasures": ["--apply {ledger}"],
    "reset_second_factor": ["ada"],
    "scim_token": ["revoke {token}"],
    "sync": ["--user bob --home {home}"],
    "flush": [""],
}
DELETIONS_ELSEWHERE = {
    "restore": "tests/surfaces/test_backup.py",
    "samples": "tests/surfaces/test_commands.py",
    "backup": "tests/surfaces/test_backup.py",
    "models": "tests/surfaces/test_models_command.py",
    "connect": "tests/unit/push/test_choice.py: asks before it sends sessions",
    "watch": "asks nothing: before a first sync it refuses without --yes",
}


@dataclass
class Filled:
    """A database with rows in each table of a person, three embedding spaces, and a home folder with an agent."""

    folder: Path
    names: dict[str, str]

    def arguments(self, call: str) -> list[str]:
        words = call.replace("space {space}", "space_{space}").split()
        return [word.replace("space_", "space ").format(**self.names) for word in words]

    def state(self) -> dict[str, object]:
        """Return a digest of each table's rows, and the content of each file."""
        with connection.cursor() as cursor:
            cursor.execute(TABLES)
            state: dict[str, object] = {}
            for (table,) in cursor.fetchall():
                cursor.execute(f"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table} AS t")
                state[table] = cursor.fetchone()
        for folder in (self.folder, Path(config.media_root), Path(config.import_folder)):
            state |= {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return state


@pytest.fixture
def filled(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "first", seed=1))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    third = write_tiny_bert(tmp_path / "third", seed=3, dimensions=16)
    ada, bob = make_user("ada"), make_user("bob")
    fill_person(ada, "zebra")
    renew_recovery_codes(ada)
    with acting_for(ada.pk):
        space = create_space(person=ada, name="Boat house")
    quiet = {"stdout": StringIO(), "stderr": StringIO()}
    second = write_tiny_bert(tmp_path / "second", seed=2, dimensions=64)
    call_command("reembed", "--model", str(second), "--workers", "1", **quiet)
    call_command("reembed", "--model", str(third), "--user", "ada", "--workers", "1", **quiet)
    home = tmp_path / "home"
    session = home / ".claude" / "projects" / "bread" / "0b0b1c1c-0000-4000-8000-000000000001.jsonl"
    session.parent.mkdir(parents=True)
    line = {"type": "user", "uuid": "1", "sessionId": session.stem, "timestamp": "2026-01-02T10:00:00Z"}
    session.write_text(json.dumps(line | {"message": {"role": "user", "content": "how long does the dough rest?"}}))
    call_command("connect", "claude-code", "--user", "ada", "--home", str(home), **quiet)
    unknown = tmp_path / "unknown.json"
    unknown.write_text(json.dumps([{"speaker": "ada", "text": "hello there"}, {"speaker": "bot", "text": "good day"}]))
    ledger = tmp_path / "ledger"
    ledger.write_text(json.dumps({"account": bob.pk, "joined_at": bob.date_joined.isoformat()}))
    create_token(name="okta")
    names = {"third": third, "home": home, "unknown": unknown, "ledger": ledger, "space": space.pk, "token": 1}
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM accounts_scimtoken ORDER BY id DESC LIMIT 1")
        (names["token"],) = cursor.fetchone()
    yield Filled(tmp_path, {name: str(value) for name, value in names.items()})
    spaces._opened.reset()


def options() -> set[tuple[str, str]]:
    """Return the options of all commands, each with the command's name."""
    return {
        (name, option)
        for name, command in own_commands().items()
        for action in command._actions
        for option in action.option_strings
    }


def test_every_dry_run_is_tried() -> None:
    tried = DRY_RUNS.keys() | DRY_RUNS_ELSEWHERE.keys()
    assert {(name, option) for name, option in options() if option in DRY} == tried


def test_every_command_that_asks_is_tried() -> None:
    asking = {name for name, option in options() if option == "--yes"} | (OF_DJANGO.keys() & {"flush"})
    assert asking == DELETIONS.keys() | DELETIONS_ELSEWHERE.keys()


def test_dry_runs_change_neither_rows_nor_files(filled: Filled) -> None:
    before = filled.state()
    assert sum(bool(value) for value in before.values()) > 50
    for (name, _), calls in DRY_RUNS.items():
        for call in calls:
            with suppress(CommandError, SystemExit):  # the server and the worker do not run
                call_command(name, *filled.arguments(call), stdout=StringIO(), stderr=StringIO())
            assert changed(before, filled.state()) == [], f"{name} {call}"


def test_deletions_without_agreement_change_nothing_and_name_what_would_go(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled.state()
    for name, calls in DELETIONS.items():
        for call in calls:
            streams = (Terminal("no\n"), Terminal()), (StringIO("yes\n"), StringIO())
            for stdin, stderr in streams:
                monkeypatch.setattr("sys.stdin", stdin)
                out = StringIO()
                with pytest.raises((CommandError, SystemExit)) if name != "flush" else suppress(CommandError):
                    call_command(name, *filled.arguments(call), stdout=out, stderr=stderr)
                assert changed(before, filled.state()) == [], f"{name} {call}"
                assert any(character.isdigit() for character in out.getvalue() + stderr.getvalue()), f"{name} {call}"


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
