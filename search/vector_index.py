"""The HNSW index of an embedding space over the binary codes of its passages' vectors.

Small owners are scanned, so the index is built only when an owner outgrows scans. It is partial per space, built
concurrently, and takes a third of the space of an index over the vectors.
"""

import logging

from django.db import connection

from convmemory.core.acting import schema_owner
from convmemory.core.sql import load_sql, send_settings
from convmemory.embeddings.models import EmbeddingSpace

logger = logging.getLogger(__name__)

# The limits between the plans; ADR 10 has the measurements of each.
EXACT_PASSAGES = 3_000  # above this, only the nearest by Hamming distance are compared exactly
EXACT_ITEMS_UP_TO = 20_000  # in passages; the same for item vectors, which are far fewer
# Above this, an owner is searched through the HNSW index: a Hamming scan of a million passages takes 1.09 times as long
# as the index.
SCANNED_PASSAGES = 500_000
# The index returns the 1,000 candidates that are compared exactly (ADR 10).
EF_SEARCH = 1_000
# For an owner with a small share of the rows the index has to read many more than it returns (ADR 10).
MAX_SCAN_TUPLES = 200_000


def index_name(space: EmbeddingSpace) -> str:
    return f"passage_codes_{space.pk}"


def has_passage_index(space: EmbeddingSpace) -> bool:
    """Return whether the space's index exists and is valid."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "index_is_valid"), [index_name(space)])
        row = cursor.fetchone()
    return bool(row and row[0])


def largest_owner(space: EmbeddingSpace) -> int:
    """Return the largest number of passages that any one owner has."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "largest_owner"), [space.pk])
        (count,) = cursor.fetchone()
    return int(count)


def passage_statement(space: EmbeddingSpace, passages: int) -> str:
    """Return the name of the statement that finds the nearest passages of an owner with this many.

    The planner would use a vector index even for an owner with few rows, which is slower and inexact; so the choice of
    statement decides.
    """
    if passages <= EXACT_PASSAGES:
        return "passages_exact"
    if passages <= SCANNED_PASSAGES or not has_passage_index(space):
        return "passages_named"
    return "passages_indexed"


def item_statement(passages: int) -> str:
    """Return the name of the statement that finds the nearest items of an owner with this many passages."""
    return "items_exact" if passages <= EXACT_ITEMS_UP_TO else "items_named"


def scan_widely() -> None:
    """Set this connection to search vector indexes widely enough for an owner's share of the rows.

    Not limited to a transaction: only search uses these indexes, and it always calls this first.
    """
    wanted = {
        "hnsw.ef_search": EF_SEARCH,
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": MAX_SCAN_TUPLES,
    }
    with connection.cursor() as cursor:
        values = [str(value) for value in wanted.values()]
        cursor.execute(load_sql("search", "set_settings"), [list(wanted), values])
    send_settings(wanted)


def ensure_passage_index(space: EmbeddingSpace, *, even_if_small: bool = False) -> bool:
    """Build the space's index if it is needed and missing; return whether it was built now.

    Runs outside a transaction; an invalid remainder of an interrupted build is dropped first.
    """
    needed = even_if_small or largest_owner(space) > SCANNED_PASSAGES
    if not needed or has_passage_index(space):
        return False
    name = index_name(space)
    logger.info("Building the index %s", name)
    _drop_index(name)
    with schema_owner(), connection.cursor() as cursor:
        create = load_sql("search", "create_vector_index")
        cursor.execute(create.format(name=name, dimensions=space.dimensions, space=space.pk))
    return True


def lacks_passage_index(space: EmbeddingSpace) -> bool:
    """Return whether an owner has outgrown scans and there is no index."""
    return largest_owner(space) > SCANNED_PASSAGES and not has_passage_index(space)


def drop_passage_index(space: EmbeddingSpace) -> None:
    """Drop the space's index, valid or not. Runs outside a transaction."""
    _drop_index(index_name(space))


def _drop_index(name: str) -> None:
    with schema_owner(), connection.cursor() as cursor:
        cursor.execute(load_sql("search", "drop_vector_index").format(name=name))
