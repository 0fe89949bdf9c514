"""Reads an installation's rows and files from outside, past the product's own code, and compares them.

Connects to the embedded PostgreSQL as its superuser and never starts it.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

NAMED_FILES = """
SELECT 'media/' || file, size FROM documents_document
UNION ALL SELECT 'media/' || next_file, NULL FROM documents_document WHERE next_file != ''
UNION ALL SELECT 'media/' || file, NULLIF(stored_size, 0) FROM conversations_keptupload WHERE file != ''
UNION ALL SELECT 'imports/' || file, NULL FROM conversations_import WHERE file != ''
"""
UNFINISHED = """
SELECT 'import ' || id || ' is ' || state FROM conversations_import WHERE state IN ('queued', 'running', 'undoing')
UNION ALL SELECT 'document ' || id || ' is ' || status FROM documents_document
    WHERE status IN ('uploaded', 'processing')
UNION ALL SELECT 'conversation ' || id || ' is processing' FROM conversations_conversation WHERE status = 'processing'
UNION ALL SELECT 'reply ' || id || ' is running' FROM chat_reply WHERE status = 'running'
UNION ALL SELECT 'kept upload ' || id || ' was never completed' FROM conversations_keptupload WHERE stored_size = 0
"""
TABLES_WITHOUT_POLICY = """
SELECT format('table %s has no row-level security', relname) FROM pg_class AS t
JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attname = 'owner_id'
WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace AND NOT t.relrowsecurity
"""
STORED_PASSAGES = """
SELECT
    b.owner_id, b.source_id, b.space_id, substring(b.entries FROM 28 * n + 1 FOR 8) AS element,
    substring(b.entries FROM 28 * n + 21 FOR 2) AS part, substring(b.entries FROM 28 * n + 13 FOR 4) AS start,
    get_byte(b.entries, 28 * n + 22) AS kind, substring(b.digests FROM 16 * n + 1 FOR 16) AS content_hash
FROM search_passageblock AS b, generate_series(0, b.passages - 1) AS n
"""
"""The passages, unpacked from the entries of their blocks; numbers are bytes, as `int8send` returns them."""
VECTOR_DEFECTS = f"""
SELECT 'an item has two vectors' FROM search_itemembedding WHERE space_id = %(space)s AND owner_id = %(owner)s
    GROUP BY source_id, item_number, chunk_number HAVING count(*) > 1
UNION ALL SELECT 'a passage is stored twice' FROM ({STORED_PASSAGES}) AS p
    WHERE space_id = %(space)s AND owner_id = %(owner)s
    GROUP BY source_id, element, part, start, kind HAVING count(*) > 1
UNION ALL SELECT 'a vector is of no item' FROM search_itemembedding AS v
    LEFT JOIN search_item AS i ON i.source_id = v.source_id AND i.number = v.item_number
    WHERE v.space_id = %(space)s AND v.owner_id = %(owner)s AND i.id IS NULL
UNION ALL SELECT 'a conversation is not indexed' FROM conversations_conversation AS c
    LEFT JOIN search_source AS s ON s.kind = 'conversation' AND s.object_id = c.id
    WHERE c.owner_id = %(owner)s AND c.turn_count != (SELECT count(*) FROM search_item WHERE source_id = s.id)
UNION ALL SELECT 'a document is not indexed' FROM documents_document AS d
    LEFT JOIN search_source AS s ON s.kind = 'document' AND s.object_id = d.id
    WHERE d.owner_id = %(owner)s AND d.section_count != (SELECT count(*) FROM search_item WHERE source_id = s.id)
UNION ALL SELECT 'an item has no vector' FROM search_item AS i
    LEFT JOIN search_itemembedding AS v
        ON v.source_id = i.source_id AND v.item_number = i.number AND v.space_id = %(space)s
    WHERE i.owner_id = %(owner)s AND v.id IS NULL
"""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The data folder of an installation and its folder of temporary files."""

    var: Path
    temporary: Path

    def rows(self, query: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, also of statements that return none. Raises: psycopg.Error."""
        with self.connect() as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, parameters: Any = ()) -> Any:
        """The first value of the first row; None if there is no row, or if the server does not answer."""
        with suppress(psycopg.OperationalError, FileNotFoundError, IndexError):
            found = self.rows(query, parameters)
            return found[0][0] if found else None
        return None

    def connect(self) -> psycopg.Connection:
        """A connection as the superuser. Raises: psycopg.OperationalError."""
        lines = (self.var / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        socket = lines[4] if len(lines) > 4 else str(self.var / "postgres")
        return psycopg.connect(host=socket, user="postgres", dbname="convmemory", autocommit=True, connect_timeout=5)

    def unfinished(self) -> list[str]:
        return [text for (text,) in self.rows(UNFINISHED)]

    def tables_without_policy(self) -> list[str]:
        return [text for (text,) in self.rows(TABLES_WITHOUT_POLICY)]

    def vector_defects(self, *, archive_id: int, space_id: int) -> list[str]:
        """Items without a vector, vectors without an item, and what is stored twice; each kind with its number."""
        found = [text for (text,) in self.rows(VECTOR_DEFECTS, {"owner": archive_id, "space": space_id})]
        return [f"{text} ({found.count(text)} times)" for text in sorted(set(found))]

    def file_defects(self) -> Iterator[str]:
        """Files without a row, rows without a file, files of another size or digest than they should have."""
        named = {Path(name): size for name, size in self.rows(NAMED_FILES)}
        stored = {path.relative_to(self.var): path for part in ("media", "imports") for path in files(self.var / part)}
        yield from (f"no file is there for a row: {name}" for name in named.keys() - stored.keys())
        for name, path in stored.items():
            if name not in named:
                yield f"no row names the file {name} of {path.stat().st_size:,} bytes"
            elif named[name] not in (None, path.stat().st_size):
                yield f"{name} has {path.stat().st_size:,} bytes, its row says {named[name]:,}"
            if len(name.name) == 64 and name.name != _digest(path):
                yield f"{name} does not hold what it is named after"

    def plain_text(self, marker: str) -> list[str]:
        """Files outside the database that contain `marker` and that no row names."""
        named = {self.var / name for name, _ in self.rows(NAMED_FILES)}
        places = [path for path in self.var.iterdir() if path.name != "postgres"] if self.var.is_dir() else []
        seen = [path for place in (self.temporary, *places) for path in files(place)]
        return [f"plain text is left in {path}" for path in seen if path not in named and _contains(path, marker)]

    def age_files(self, seconds: float) -> None:
        """Make every file and folder outside the database look as if it was last changed so long ago."""
        places = (self.temporary, *(self.var / name for name in ("media", "imports", "temporary")))
        for path in [path for place in places if place.is_dir() for path in place.rglob("*")]:
            with suppress(FileNotFoundError):
                changed = path.stat().st_mtime - seconds
                os.utime(path, (changed, changed))


def files(place: Path) -> Sequence[Path]:
    """All files below a folder, or the file itself."""
    return [path for path in (place, *place.rglob("*")) if path.is_file() and not path.is_symlink()]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _contains(path: Path, marker: str) -> bool:
    with suppress(FileNotFoundError):
        return marker.encode() in path.read_bytes()
    return False
