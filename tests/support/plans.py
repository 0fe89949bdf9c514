"""The plans of statements as searches run them: under policies, and without sequential scans.

The planner may rightly scan a small table as a whole: a query that does so without sequential scans has lost its index.
"""

from collections.abc import Sequence

from django.db import connection, transaction

from convmemory.core.acting import acting_for
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace

POSTINGS_INDEX = "posting_block_owner"
PASSAGES_INDEX = "passage_block_owner"
# If fewer of a table's pages are vacuumed, an index-only scan saves nothing yet.
VACUUMED_SHARE = 0.9
BY_INDEX_ALONE = ("enable_seqscan", "enable_bitmapscan")


def is_vacuumed(table: str) -> bool:
    """Return whether most pages of the table are known to contain no dead rows, so that index-only scans are
    possible.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relallvisible >= relpages * %s FROM pg_class WHERE oid = to_regclass(%s)", [VACUUMED_SHARE, table]
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def corpus_plan(archive_id: int, space: EmbeddingSpace) -> str:
    """Return the plan of the query for an owner's sources and the digests of the owner's blocks."""
    parameters: dict[str, object] = {"owner": archive_id, "space": space.pk, "kinds": [], "homes": [0]}
    statement = load_sql("search.retrieval", "corpus").replace("{left_out}", "NULL")
    return plan_of(statement, parameters, BY_INDEX_ALONE, archive_id=archive_id)


def plan_of(statement: str, parameters: object, forbidden: Sequence[str], *, archive_id: int) -> str:
    """Return the plan of a statement as the application runs it for this owner, with these planner methods disabled."""
    with acting_for(archive_id), transaction.atomic(), connection.cursor() as cursor:
        for setting in forbidden:
            cursor.execute(f"SET LOCAL {setting} = off")
        cursor.execute(f"EXPLAIN {statement}", parameters)  # type: ignore[arg-type]
        return "\n".join(row[0] for row in cursor.fetchall())
