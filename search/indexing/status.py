"""Counts the indexed part of an archive: for the page's progress bar, the dashboard and the metrics."""

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from convmemory.core.queue.queueing import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Counts over one owner; `turns` are items, messages elements, and `pending` and `failed` are items."""

    turns: int
    embedded_turns: int
    messages: int
    passages: int
    pending: int
    failed: int


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Counts over one owner or over all owners.

    Of the items, `pending` wait for a worker, `given_up` belong to sources without attempts left, and `failed` were
    refused individually.
    """

    sources: int
    items: int
    elements: int
    passages: int
    pending: int
    given_up: int
    failed: int


def index_status(*, owner: AbstractBaseUser) -> IndexStatus:
    """Return the caller's counts. One query over the caller's sources and their index states."""
    counts = count_index(owner_id=owner.pk)
    failed = counts.failed + counts.given_up
    return IndexStatus(
        turns=counts.items,
        embedded_turns=max(0, counts.items - counts.pending - failed),
        messages=counts.elements,
        passages=counts.passages,
        pending=counts.pending,
        failed=failed,
    )


def count_index(*, owner_id: int | None) -> IndexCounts:
    """Return the counts of one owner, or of the whole installation if it is None. One query."""
    parameters = {"owner": owner_id, "space": active_space().pk, "max_attempts": EMBEDDING.max_attempts}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "index_status"), parameters)
        return IndexCounts(*cursor.fetchone())
