"""Checks that the plans of all queries of a search use the indexes they need.

The planner may rightly scan a small table as a whole, so the plans are requested without sequential scans: a query that
then still reads a whole table has lost its index. They are requested as searches run, under policies.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet, Sum

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.core.acting import acting_for
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.models import EmbeddingSpace
from search.models import BinaryCodeBlock, ItemEmbedding, PostingBlock, Source, SourceIndex
from search.query_text import QueryText
from search.retrieval.corpus import PendingCorpus
from search.retrieval.dense import item_statement, items_statement
from search.retrieval.prepared import PreparedQuery

ITEMS, NEWEST_ITEMS = "item_embedding_owner", "item_embedding_newest"
EQUAL_ITEMS = "item_embedding_owner_content"
DENSE_PLANS: dict[str, tuple[str, ...]] = {  # any one of the named indexes
    "items_exact": (ITEMS, NEWEST_ITEMS, EQUAL_ITEMS),  # each begins with the owner
    "items_named": ("search_itemembedding_pkey", NEWEST_ITEMS, EQUAL_ITEMS, ITEMS),  # likewise
}
POSTINGS_INDEX = "posting_block_owner"
MOMENTS_INDEX = "item_moments"
CODES_INDEX = "code_block_owner"
# If fewer of a table's pages are vacuumed, an index-only scan saves nothing yet.
VACUUMED_SHARE = 0.9
TEXT = QueryText("some words")


def queries_without_index(space: EmbeddingSpace, *, at_least: int = 0) -> dict[str, str]:
    """Return the queries that do not use their index, with that index.

    Checks the plans for the owner of the most passages, if that owner has `at_least` this many, and those of items if
    there are as many vectors of items: the planner may rightly read a tiny archive by another index.

    Raises: EmbedderUnavailable.
    """
    statements = _statements_in_use(space, at_least)
    bad = {
        name: DENSE_PLANS[name][0]
        for name, archive_id in statements.items()
        if name in DENSE_PLANS and not _is_well_planned(name, archive_id, space)
    }
    # Before the first vacuum an index is not enough by itself, and plans with others cost the same.
    for archive_id in set(statements.values()) if is_vacuumed(PostingBlock._meta.db_table) else ():
        if POSTINGS_INDEX not in postings_plan(archive_id):
            bad["posting_digest"] = POSTINGS_INDEX
    for statement, query, model, index, plan in (
        ("code_digest", "code_digest", BinaryCodeBlock, CODES_INDEX, codes_plan),
        ("items_named", "item_codes", ItemEmbedding, ITEMS, item_codes_plan),
    ):
        owner = statements.get(statement)
        if owner is not None and is_vacuumed(model._meta.db_table) and index not in plan(owner, space):
            bad[query] = index
    return bad


def _is_well_planned(name: str, archive_id: int, space: EmbeddingSpace) -> bool:
    plan = dense_plan(name, archive_id, space)
    with acting_for(archive_id):
        return is_as_expected(name, plan)


def _statements_in_use(space: EmbeddingSpace, at_least: int) -> dict[str, int]:
    """Return the statements about vectors in use, each with the owner of the most rows that it searches.

    Binary codes are used for large owners only: for a small one the planner rightly chooses another way.
    """
    found: dict[str, int] = {}
    states = SourceIndex.objects.filter(space=space)
    for archive_id, passages in _by_size(states.annotate(size=F("passages"))):
        if passages < at_least:
            continue
        found["code_digest"] = archive_id
        if ItemEmbedding.objects.filter(space=space, archive_id=archive_id).count() >= at_least:
            found |= {"items_exact": archive_id, item_statement(passages): archive_id}
    return found


def _by_size(rows: QuerySet[Any]) -> list[tuple[int, int]]:
    """Return the owner with the largest sum of `size` and that sum, or nothing."""
    return list(rows.values("archive").annotate(sum=Sum("size")).order_by("-sum").values_list("archive", "sum")[:1])


def is_vacuumed(table: str) -> bool:
    """Return whether most pages of the table are known to contain no dead rows, so that an index-only scan is
    possible.
    """
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.retrieval", "is_vacuumed"), {"share": VACUUMED_SHARE, "table": table})
        row = cursor.fetchone()
    return bool(row and row[0])


def is_as_expected(name: str, plan: str) -> bool:
    return any(part in plan for part in DENSE_PLANS[name])


def dense_plan(name: str, archive_id: int, space: EmbeddingSpace, filters: Filters = EVERYTHING) -> str:
    """Return the plan of a dense retriever. Raises: EmbedderUnavailable."""
    with acting_for(archive_id):
        embedding = query_embedding(space, TEXT.text, archive_id=archive_id)
        query = PreparedQuery(archive_id, TEXT, filters=filters, space=space).looked_up().with_embedding(embedding)
        statement, parameters = items_statement(name, query, PendingCorpus(archive_id, space).corpus)
    return plan_of(statement, parameters, ["enable_seqscan"], archive_id=archive_id)


def postings_plan(archive_id: int) -> str:
    """Return the plan of the query for the digest of an owner's blocks of postings."""
    parameters: dict[str, object] = {"owner": archive_id, "home": PostingBlock.Home.SPOKEN}
    return plan_of(
        load_sql("search", "posting_digest"), parameters, ["enable_seqscan", "enable_bitmapscan"], archive_id=archive_id
    )


def moments_plan(archive_id: int) -> str:
    """Return the plan of the query for the times of all of an owner's items."""
    parameters: dict[str, object] = {"owner": archive_id}
    forbidden = ["enable_seqscan", "enable_bitmapscan"]
    return plan_of(load_sql("search.retrieval", "owner_moments"), parameters, forbidden, archive_id=archive_id)


def codes_plan(archive_id: int, space: EmbeddingSpace) -> str:
    """Return the plan of the query for the digest of an owner's blocks of binary codes."""
    parameters: dict[str, object] = {"owner": archive_id, "space": space.pk}
    return plan_of(
        load_sql("search", "code_digest"), parameters, ["enable_seqscan", "enable_bitmapscan"], archive_id=archive_id
    )


def item_codes_plan(archive_id: int, space: EmbeddingSpace) -> str:
    """Return the plan of the query for the binary codes of all of an owner's item vectors."""
    sources = list(Source.objects.filter(archive_id=archive_id).values_list("pk", flat=True))
    parameters: dict[str, object] = {"owner": archive_id, "space": space.pk, "sources": sources}
    return plan_of(
        load_sql("search", "item_codes"), parameters, ["enable_seqscan", "enable_bitmapscan"], archive_id=archive_id
    )


def plan_of(statement: str, parameters: object, forbidden: Sequence[str], *, archive_id: int) -> str:
    """Return the plan of a statement as the application runs it for this owner, with these planner methods disabled."""
    with acting_for(archive_id), transaction.atomic(), connection.cursor() as cursor:
        for setting in forbidden:
            cursor.execute(f"SET LOCAL {setting} = off")
        cursor.execute(f"EXPLAIN {statement}", parameters)  # type: ignore[arg-type]
        return "\n".join(row[0] for row in cursor.fetchall())
