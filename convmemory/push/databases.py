"""The sessions in the databases of agents, which all sessions of an agent share. Standard library only."""

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

DATABASES = (".db", ".sqlite3", ".vscdb")
MIN_ID_CHARS = 8  # shorter names are of other things


@dataclass(frozen=True, slots=True)
class Session:
    """A session: its id, or its path in the folders of its agent; and its project folder, if the agent writes it."""

    id: str
    project: str

    def has_id(self, id: str) -> bool:
        """Return whether this is the session with an id of its agent: by the name of its file, or of a folder."""
        *folders, file = self.id.split("/")
        stem = file.partition(".")[0]
        return self.id == id or (len(id) >= MIN_ID_CHARS and (id in folders or stem == id or stem.endswith(f"-{id}")))


@dataclass(frozen=True, slots=True)
class _Table:
    """The sessions of a database, and the tables that belong to them by a column."""

    name: str
    id: str
    project: str
    parts: tuple[tuple[str, str], ...] = ()


_OPENCODE = (("message", "session_id"), ("part", "session_id"), ("session_message", "session_id"))
_TABLES: dict[str, tuple[_Table, ...]] = {
    "goose": (_Table("sessions", "id", "working_dir", (("messages", "session_id"),)),),
    "hermes-database": (_Table("sessions", "id", "''", (("messages", "session_id"),)),),
    "kiro-cli": (_Table("conversations_v2", "conversation_id", "key"), _Table("conversations", "key", "key")),
    "opencode": (
        _Table("session", "id", "directory", _OPENCODE),
        _Table("session_v2", "id", "directory", _OPENCODE),
    ),
    "zed": (_Table("threads", "id", "folder_paths"),),
}
_TABLES["folder"] = tuple(table for tables in _TABLES.values() for table in tables)  # of a copied file, of any agent
_TABLES["kilo"] = _TABLES["opencode"]
_CURSOR = """
SELECT json_extract(CAST(value AS TEXT), '$.workspaceIdentifier.uri.fsPath'),
       json_extract(CAST(value AS TEXT), '$.workspaceIdentifier.uri.path')
FROM cursorDiskKV
WHERE key >= 'composerData:' AND key < 'composerData;' AND json_valid(CAST(value AS TEXT))
"""


def can_divide(agent: str) -> bool:
    """Return whether `write_sessions` can write a part of the agent's database."""
    return agent in _TABLES and agent != "folder"


def stored_sessions(agent: str, path: Path) -> Iterator[Session]:
    """Yield the sessions of a database. Raises: sqlite3.Error."""
    with closing(_opened(path)) as connection:
        if agent in ("cursor", "folder") and _columns(connection, "main", "cursorDiskKV"):
            for row in connection.execute(_CURSOR):
                yield Session("", str(row[0] or row[1] or ""))
        for table in _TABLES.get(agent, ()):
            columns = _columns(connection, "main", table.name)
            if table.id in columns:
                project = table.project if table.project in columns else "''"
                sql = f'SELECT "{table.id}", {project} FROM "{table.name}"'  # noqa: S608  names of a constant
                for row in connection.execute(sql):
                    yield Session(str(row[0]), folder_of(str(row[1] or "")))


def write_sessions(agent: str, path: Path, target: Path, ids: Collection[str]) -> None:
    """Write a database with these sessions alone: deleting the others would leave words in indexes and free pages.

    Raises: sqlite3.Error.
    """
    with closing(sqlite3.connect(target)) as copy:
        copy.execute("ATTACH ? AS source", (str(path),))
        copy.execute("CREATE TEMP TABLE kept (id)")
        copy.executemany("INSERT INTO kept VALUES (?)", [(id,) for id in ids])
        tables = {table.name: table.id for table in _TABLES[agent]}
        for table in _TABLES[agent]:
            tables |= dict(table.parts)
        for name, column in tables.items():
            if _columns(copy, "source", name):
                copy.execute(
                    f'CREATE TABLE main."{name}" AS SELECT * FROM source."{name}" '  # noqa: S608  names of a constant
                    f'WHERE "{column}" IN (SELECT id FROM kept)'
                )
        copy.commit()


def folder_of_thread(path: Path, id: str) -> str:
    """Return the folder that Codex lists for a thread, or an empty string. Raises: sqlite3.Error."""
    with closing(_opened(path)) as connection:
        if not {"id", "cwd"} <= _columns(connection, "main", "threads"):
            return ""
        row = connection.execute("SELECT cwd FROM threads WHERE id = ?", (id,)).fetchone()
        return folder_of(str(row[0])) if row else ""


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?, ?)", (table, schema))}


def folder_of(text: str) -> str:
    """Return the path of a folder that is written as a path or as an address."""
    text = text.strip().partition("\n")[0]
    return unquote(urlsplit(text).path) if text.startswith(("file://", "vscode-remote://")) else text
