"""Reads the rows of the best items: what a hit shows of them, and what tells whether they only repeat the question."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from convmemory.core.marks import MarkKind
from convmemory.core.sql import Query, load_sql
from search.retrieval.candidates import ItemKeys, item_keys, split_keys

# The messages of a turn that are looked through for links.
MESSAGES = 50


class HitRow(NamedTuple):
    """A row of the statement `hits`, after the key of its item."""

    message_id: int
    heading: str
    created_at: datetime
    title: str
    agent: str
    project: str
    kind: str
    object_id: int
    origin: str
    outcome: dict[str, Any] | None
    digest: bytes | None
    mark: MarkKind | None
    note: str | None
    links: str | None


def rows_query(
    archive_id: int, keys: ItemKeys, *, asked: Collection[int] = (), beginnings: Sequence[str] = ()
) -> Query:
    """Return the query for the rows of some items.

    Of the items that are `asked` links are read, too, if their question contains all `beginnings`, patterns of words.
    """
    parameters: dict[str, Any] = {"owner": archive_id, "beginnings": list(beginnings), "messages": MESSAGES}
    parameters["sources"], parameters["items"] = split_keys(keys)
    parameters["asked"] = [key in asked for key in keys.tolist()]
    return load_sql("search.results", "hits"), parameters


def rows_by_key(rows: Iterable[tuple[Any, ...]]) -> dict[int, HitRow]:
    """Return the rows by the keys of the items; those that are gone are left out."""
    return {int(item_keys([source], [number])[0]): HitRow(*row) for source, number, *row in rows}
