"""Plain pgvector: a table of turns with a vector each and an HNSW index. One table per archive.

The variant `hybrid` adds PostgreSQL's full text search by reciprocal ranks, as the example of pgvector-python does.
"""

from argparse import Namespace
from collections.abc import Sequence

from psycopg import sql

from benchmarks.peers.adapter import Turn, serve
from benchmarks.peers.postgres import PostgresAdapter

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


class Pgvector(PostgresAdapter):
    """Turns as rows; the whole turn is one vector."""

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.statement = HYBRID if options.variant == "hybrid" else NEAREST

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        table = self.create_table(archive, "id text PRIMARY KEY, body text, embedding vector(384)")
        vectors = self.model.encode([text for _, text in turns])
        self.insert(table, [(*turn, vector) for turn, vector in zip(turns, vectors, strict=True)])
        run = self.connection.execute
        run(sql.SQL("CREATE INDEX ON {} USING hnsw (embedding vector_cosine_ops)").format(table))
        run(sql.SQL("CREATE INDEX ON {} USING gin (to_tsvector('english', body))").format(table))

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        values = {"vector": self.model.encode([question])[0], "question": question, "limit": limit}
        statement = self.statement.format(table=self.archives[archive])
        return [row[0] for row in self.connection.execute(statement, values).fetchall()]


if __name__ == "__main__":
    serve(Pgvector)
