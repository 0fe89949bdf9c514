"""Databases of coding agents are read whole and left as they are: at rest, in use, locked, with a log left behind."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmemory.conversations.importers.base import FileReport, Importer, Source
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.core.errors import InvalidInput
from tests.support.agent_databases import MAKERS, make
from tests.unit.importers.helpers import Read, read

IMPORTER_OF = {
    "opencode.db": "opencode",
    "sessions.db": "goose",
    "threads.db": "zed",
    "state.vscdb": "cursor",
}
PROMPTS = {
    "opencode.db": ["Asked in ses_one", "Asked in ses_three", "Asked in ses_two"],
    "sessions.db": ["Asked of goose"],
    "threads.db": ["Asked long ago", "Asked of zed"],
    "state.vscdb": ["Asked early", "Asked of cursor"],
}
LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("CREATE TABLE IF NOT EXISTS unfinished (a)")
print("locked", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.parametrize("name", MAKERS)


def importer_of(name: str) -> Importer:
    return IMPORTERS[IMPORTER_OF[name]]


def prompts(path: Path) -> list[str]:
    return sorted(prompt for conversation in conversations_in(path) for prompt in conversation.prompts)


def conversations_in(path: Path, report: FileReport | None = None) -> list[Read]:
    return read(importer_of(path.name), path, report)


def outcome(path: Path) -> list[str]:
    """The prompts, or the one reason why there are none."""
    try:
        return prompts(path)
    except InvalidInput as error:
        return [str(error)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@pytest.fixture
def at_rest(tmp_path: Path, name: str) -> Path:
    """The database, closed by its program."""
    make(tmp_path / name).close()
    return tmp_path / name


@pytest.fixture
def in_use(tmp_path: Path, name: str) -> Iterator[Path]:
    """The database while a program has it open: all that it holds is in its log."""
    connection = make(tmp_path / name)
    yield tmp_path / name
    connection.close()


def test_database_is_recognised_by_its_tables(at_rest: Path, name: str) -> None:
    [item] = Walk().over([at_rest.parent])
    assert item.importer is importer_of(name)


def test_database_at_rest_is_read_unchanged(at_rest: Path, name: str) -> None:
    before = files(at_rest.parent)
    assert prompts(at_rest) == PROMPTS[name]
    assert files(at_rest.parent) == before
    assert [path.name for path in at_rest.parent.iterdir()] == [name]


def test_database_in_use_is_read_with_its_wal(in_use: Path, name: str) -> None:
    assert (in_use.parent / f"{name}-wal").stat().st_size > 0
    before = files(in_use.parent)
    assert prompts(in_use) == PROMPTS[name]
    assert files(in_use.parent) == before


def test_database_with_leftover_wal_is_read_unchanged(in_use: Path, tmp_path: Path, name: str) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    for ending in ("", "-wal"):
        shutil.copyfile(f"{in_use}{ending}", backup / f"{name}{ending}")
    before = files(backup)
    assert prompts(backup / name) == PROMPTS[name]
    assert files(backup) == before


def test_database_without_its_wal_yields_rest_or_issue(in_use: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy" / name
    copy.parent.mkdir()
    shutil.copyfile(in_use, copy)
    assert all(name in text for text in outcome(copy))


def test_database_locked_by_another_process_is_read(at_rest: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.conversations.importers.sqlite.LOCK_WAIT_S", 0.1)
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(at_rest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline() == b"locked\n"
        assert prompts(at_rest) == PROMPTS[name]
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_truncated_database_yields_prompts_or_named_issue(at_rest: Path, name: str) -> None:
    data = at_rest.read_bytes()
    for share in (0.1, 0.5, 0.9):
        at_rest.write_bytes(data[: int(len(data) * share)])
        assert all(text in PROMPTS[name] or name in text for text in outcome(at_rest))


def test_database_with_undecodable_schema_is_reported_damaged(at_rest: Path, name: str) -> None:
    at_rest.write_bytes(at_rest.read_bytes().replace(b"CREATE TABLE ", b"CREATE TABL\xff "))
    assert outcome(at_rest) == [f"{name} is a damaged SQLite database: its schema cannot be read."]


def test_keys_are_unique_and_stay_same(at_rest: Path, name: str) -> None:
    first, again = ([(c.draft.source_id, c.keys) for c in conversations_in(at_rest)] for _ in range(2))
    assert first == again
    assert all(len(set(keys)) == len(keys) for _, keys in first)
    assert not importer_of(name).sniff(Source(Path(__file__)))
