"""The plans of the queries that every search runs, and the indexes that they must use.

The planner may rightly scan a small table as a whole, so the plans are asked for without sequential scans:
a query that then still reads a whole table has lost its index.
"""

from django.db import connection, transaction
from django.db.models import Max

from convmemory.conversations.reading import EVERYTHING
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search import vector_index
from search.dense import dense_statement
from search.models import TurnDocument
from search.query_text import QueryText

OWNER_INDEXES = {"passages_exact": "passage_owner", "turns_exact": "turn_embedding_owner"}
LEXICAL_INDEX = "turn_document_spoken"
TEXT = QueryText("some words")


def queries_without_index(space: EmbeddingSpace) -> dict[str, str]:
    """The queries that do not use the index they should, with that index. Raises: EmbedderUnavailable."""
    owner_id = TurnDocument.objects.aggregate(owner=Max("owner"))["owner"]
    if owner_id is None:
        return {}
    expected = dict(OWNER_INDEXES)
    if vector_index.has_passage_index(space):
        expected["passages_indexed"] = vector_index.index_name(space)
    bad = {name: index for name, index in expected.items() if index not in _dense_plan(name, owner_id, space)}
    if LEXICAL_INDEX not in _lexical_plan():
        bad["lexical_matches"] = LEXICAL_INDEX
    return bad


def _dense_plan(name: str, owner_id: int, space: EmbeddingSpace) -> str:
    statement, parameters = dense_statement(name, owner_id, space, TEXT, EVERYTHING)
    forbidden = ["enable_seqscan"]
    if name == "passages_indexed":  # with few rows a sort would win where many rows leave it no chance
        forbidden += ["enable_sort", "enable_bitmapscan"]
    return _plan(statement, parameters | {"kinds": [0, 1]}, forbidden)


def _lexical_plan() -> str:
    return _plan(load_sql("search", "lexical_probe"), {"word": "word"}, ["enable_seqscan"])


def _plan(statement: str, parameters: dict[str, object], forbidden: list[str]) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        for setting in forbidden:
            cursor.execute(f"SET LOCAL {setting} = off")
        cursor.execute(f"EXPLAIN {statement}", parameters)  # type: ignore[arg-type]
        return "\n".join(row[0] for row in cursor.fetchall())
