"""The design of the papers that convmemory is based on: turns in chunks, one vector per chunk, the best chunk counts.

Chunks have the length that the model reads and overlap by a twelfth (500 of 6,000 tokens in the paper). The index is
IVFFlat with its defaults, created with the table, before there are rows. The variant `exact` has no index: all rows are
compared.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from psycopg import sql
from tokenizers import Tokenizer

from benchmarks.peers.adapter import Turn, serve
from benchmarks.peers.minilm import MAX_TOKENS
from benchmarks.peers.postgres import PostgresAdapter

# The model adds two special tokens to each text.
CHUNK_TOKENS = MAX_TOKENS - 2
OVERLAP_TOKENS = CHUNK_TOKENS // 12
NEAREST = sql.SQL("SELECT turn FROM {table} ORDER BY embedding <=> %s LIMIT %s")


class Papers(PostgresAdapter):
    """Retrieves twice as many chunks as requested turns; each turn is shown once, by its best chunk."""

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.tokenizer = Tokenizer.from_file(str(options.tokenizer))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.exact = options.variant == "exact"

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        table = self.create_table(archive, "turn text, chunk int, body text, embedding vector(384)")
        if not self.exact:
            self.connection.execute(
                sql.SQL("CREATE INDEX ON {} USING ivfflat (embedding vector_cosine_ops)").format(table)
            )
        chunks = [
            (turn_id, number, chunk) for turn_id, text in turns for number, chunk in enumerate(self._chunks(text))
        ]
        vectors = self.model.encode([chunk for _, _, chunk in chunks])
        self.insert(table, [(*chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)])

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        statement = NEAREST.format(table=self.archives[archive])
        rows = self.connection.execute(statement, (self.model.encode([question])[0], limit * 2)).fetchall()
        return list(dict.fromkeys(row[0] for row in rows))[:limit]

    def _chunks(self, text: str) -> Iterator[str]:
        spans = self.tokenizer.encode(text, add_special_tokens=False).offsets
        last = max(len(spans) - OVERLAP_TOKENS, 1)
        for start in range(0, last, CHUNK_TOKENS - OVERLAP_TOKENS):
            chunk_spans = spans[start : start + CHUNK_TOKENS]
            yield text[chunk_spans[0][0] : chunk_spans[-1][1]] if chunk_spans else text


if __name__ == "__main__":
    serve(Papers)
