"""The plans of the queries that every search runs, and the indexes that they must use.

The planner may rightly scan a small table as a whole, so the plans are asked for without sequential scans:
a query that then still reads a whole table has lost its index.
"""

from django.db import connection, transaction
from django.db.models import Max

from convmemory.conversations.reading import EVERYTHING, Filters
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.models import EmbeddingSpace
from search import vector_index
from search.models import Item
from search.query_text import QueryText
from search.retrieval.dense import dense_statement, passages_statement
from search.retrieval.lexical import lexical_statement
from search.retrieval.prepared import PreparedQuery

PASSAGES, ITEMS = "passage_owner", "item_embedding_owner"
DENSE_PLANS: dict[str, tuple[str, ...]] = {  # any of them
    "passages_exact": (PASSAGES,),
    "passages_named": ("search_passage_pkey",),
    "items_exact": (ITEMS, "item_embedding_newest"),  # either begins with the owner
    "items_by_code": (f"Index Only Scan using {ITEMS}",),
}
LEXICAL_INDEX = "item_owned_spoken"
CODES_INDEX = "code_block_owner"
TEXT = QueryText("some words")


def queries_without_index(space: EmbeddingSpace) -> dict[str, str]:
    """The queries that do not use the index they should, with that index. Raises: EmbedderUnavailable."""
    owner_id = Item.objects.aggregate(owner=Max("owner"))["owner"]
    if owner_id is None:
        return {}
    statements = _statements_in_use(space)
    bad = {
        name: expected_plans(name, space)[0]
        for name in statements
        if not is_as_expected(name, space, dense_plan(name, owner_id, space))
    }
    if LEXICAL_INDEX not in lexical_plan(owner_id):
        bad["lexical_matches"] = LEXICAL_INDEX
    if "passages_named" in statements and CODES_INDEX not in codes_plan(owner_id, space):
        bad["code_digest"] = CODES_INDEX
    return bad


def _statements_in_use(space: EmbeddingSpace) -> list[str]:
    """Binary codes are compared for large owners only; of small tables the planner may rightly read the rows."""
    names = ["passages_exact", "items_exact"]
    if vector_index.largest_owner(space) > vector_index.EXACT_PASSAGES:
        names += ["passages_named", "items_by_code"]
    if vector_index.has_passage_index(space):
        names.append("passages_indexed")
    return names


def expected_plans(name: str, space: EmbeddingSpace) -> tuple[str, ...]:
    """What the plan of this dense retriever has to hold, one of them."""
    return (vector_index.index_name(space),) if name == "passages_indexed" else DENSE_PLANS[name]


def is_as_expected(name: str, space: EmbeddingSpace, plan: str) -> bool:
    return any(part in plan for part in expected_plans(name, space))


def dense_plan(name: str, owner_id: int, space: EmbeddingSpace, filters: Filters = EVERYTHING) -> str:
    """The plan of a dense retriever. Raises: EmbedderUnavailable."""
    embedding = query_embedding(space, TEXT.text, owner_id=owner_id)
    query = PreparedQuery(owner_id, TEXT, filters=filters, space=space).with_embedding(embedding)
    statement, parameters = (passages_statement if name.startswith("passages") else dense_statement)(name, query)
    forbidden = ["enable_seqscan"]
    if name == "passages_indexed":  # with few rows a sort would win where many rows leave it no chance
        forbidden += ["enable_sort", "enable_bitmapscan"]
    if name.endswith("_by_code"):  # before the first vacuum a bitmap scan may seem as good
        forbidden.append("enable_bitmapscan")
    return _plan(statement, parameters, forbidden)


def lexical_plan(owner_id: int, filters: Filters = EVERYTHING) -> str:
    """The plan of the lexical retriever over what was spoken."""
    statement, parameters = lexical_statement("spoken", ["word"], PreparedQuery(owner_id, TEXT, filters=filters))
    return _plan(statement, parameters, ["enable_seqscan"])


def codes_plan(owner_id: int, space: EmbeddingSpace) -> str:
    """The plan of what asks for the digest of an owner's blocks of binary codes."""
    parameters: dict[str, object] = {"owner": owner_id, "space": space.pk}
    return _plan(load_sql("search", "code_digest"), parameters, ["enable_seqscan", "enable_bitmapscan"])


def _plan(statement: str, parameters: dict[str, object], forbidden: list[str]) -> str:
    with transaction.atomic(), connection.cursor() as cursor:
        for setting in forbidden:
            cursor.execute(f"SET LOCAL {setting} = off")
        cursor.execute(f"EXPLAIN {statement}", parameters)  # type: ignore[arg-type]
        return "\n".join(row[0] for row in cursor.fetchall())
