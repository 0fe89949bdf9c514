"""Checks that the queries of a search that read all of an owner's blocks do it by their indexes.

The planner may rightly scan a small table as a whole, so the plans are requested without sequential scans: a query that
then still reads a whole table has lost its index. They are requested as searches run, under policies.
"""

from collections.abc import Sequence

from django.db import connection, transaction
from django.db.models import Sum

from convmemory.core.acting import acting_for
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.models import PassageBlock, PostingBlock, SourceIndex

POSTINGS_INDEX = "posting_block_owner"
PASSAGES_INDEX = "passage_block_owner"
# If fewer of a table's pages are vacuumed, an index-only scan saves nothing yet.
VACUUMED_SHARE = 0.9
BY_INDEX_ALONE = ("enable_seqscan", "enable_bitmapscan")


def queries_without_index(space: EmbeddingSpace, *, at_least: int = 0) -> dict[str, str]:
    """Return the queries that do not use their index, with that index.

    Checks the plans for the owner of the most passages, if that owner has `at_least` this many: the planner may rightly
    read a tiny archive by another index.
    """
    owners = SourceIndex.objects.filter(space=space).values("archive").annotate(sum=Sum("passages")).order_by("-sum")
    bad: dict[str, str] = {}
    for archive_id, passages in owners.values_list("archive", "sum")[:1]:
        if passages < at_least:
            continue
        plan = corpus_plan(archive_id, space)
        # Before the first vacuum an index is not enough by itself, and plans with others cost the same.
        for model, index in ((PostingBlock, POSTINGS_INDEX), (PassageBlock, PASSAGES_INDEX)):
            if is_vacuumed(model._meta.db_table) and index not in plan:
                bad[f"corpus, {model._meta.verbose_name_plural}"] = index
    return bad


def is_vacuumed(table: str) -> bool:
    """Return whether most pages of the table are known to contain no dead rows, so that an index-only scan is
    possible.
    """
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.retrieval", "is_vacuumed"), {"share": VACUUMED_SHARE, "table": table})
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
