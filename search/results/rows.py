"""Reads what a page shows of its hits by one statement, and what tells whether items only repeat the question."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.filters import Filters
from convmemory.core.marks import MarkKind
from convmemory.core.sql import PendingQueries, Query, in_columns, load_sql, rows_of_columns
from convmemory.core.text import quoted_lexeme
from search.results.later_turns import Turn, later_turns_query
from search.results.runs import PassagePlace
from search.retrieval.candidates import ItemKeys, item_keys, split_keys
from search.retrieval.corpus import QueryWord
from search.retrieval.source_filters import source_conditions
from search.sources import Element, adapter_of
from search.steering import is_steering

if TYPE_CHECKING:
    from search.retrieval.retriever import SearchState
    from search.vectors.blocks import ComparedVectors

# The messages of a turn that are looked through for links.
MESSAGES = 50
PASSAGES_PER_HIT = 8
CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True)
class PageContents:
    """Rows by the keys of items, rows of later turns and of titles, and messages by id, for the hits of a page.

    `near` are the positions of each item's nearest passages, which are parts of these messages.
    """

    rows: Mapping[int, "HitRow"]
    later: Sequence[tuple[Any, ...]] = ()
    titles: Sequence[tuple[Any, ...]] = ()
    elements: Mapping[int, Element] = field(default_factory=dict)
    near: Mapping[Turn, Sequence[PassagePlace]] = field(default_factory=dict)


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
    parameters: dict[str, Any] = {"owner": archive_id, "beginnings": list(beginnings), "first_messages": MESSAGES}
    parameters["sources"], parameters["items"] = split_keys(keys)
    parameters["asked"] = [key in asked for key in keys.tolist()]
    return in_columns((load_sql("search.results", "hits"), parameters), 2 + len(HitRow._fields))


def rows_by_key(rows: Iterable[tuple[Any, ...]]) -> dict[int, HitRow]:
    """Return the rows by the keys of the items; those that are gone are left out."""
    read = rows_of_columns(rows)
    keys = item_keys([row[0] for row in read], [row[1] for row in read]).tolist()
    return {key: HitRow(*row[2:]) for key, row in zip(keys, read, strict=True)}


def read_contents(
    state: "SearchState",
    keys: ItemKeys,
    page: NDArray[np.int64],
    *,
    with_titles: bool,
    asked: Collection[int] = (),
    beginnings: Sequence[str] = (),
) -> PageContents:
    """Return the rows of some items, and what a page shows of those on it, indices into the candidates. One query.

    For `asked` and `beginnings` see `rows_query`.
    """
    archive_id, of_page = state.query.archive_id, state.table.keys[page]
    turns = adapter_of(CONVERSATION)
    near: Mapping[Turn, Sequence[PassagePlace]] = {}
    if state.compared and state.query.space:
        near = near_places(state.compared, list(zip(*split_keys(of_page), strict=True)), state.query.said_kinds)
    kinds = state.compared.blocks.source_kinds if state.compared else {}
    messages = {passage[0] for turn, passages in near.items() if kinds[turn[0]] == CONVERSATION for passage in passages}
    queries = {
        "rows": rows_query(archive_id, keys, asked=asked, beginnings=beginnings) if len(keys) else None,
        "later": later_turns_query(archive_id, of_page, state.table.keys[state.order])
        if len(of_page) and state.query.compares_later
        else None,
        "titles": titles_query(archive_id, state.query.words, state.query.filters) if with_titles else None,
        "elements": turns.elements_query(archive_id, messages) if messages else None,
    }
    sent = {name: of_name for name, of_name in queries.items() if of_name}
    read = dict(zip(sent, PendingQueries(*sent.values()).of_each, strict=True)) if sent else {}
    elements = turns.elements_in(read.get("elements", ()))
    rows = rows_by_key(read.get("rows", ()))
    return PageContents(rows, read.get("later", ()), read.get("titles", ()), elements, near)


def near_places(
    vectors: "ComparedVectors", turns: Collection[Turn], kinds: Sequence[int], limit: int = PASSAGES_PER_HIT
) -> dict[Turn, list[PassagePlace]]:
    """Return the positions of the nearest passages of some items, by item, nearest first."""
    if not turns:
        return {}
    keys = item_keys(*zip(*turns, strict=True))
    near = vectors.nearest_of_items(keys, kinds, limit)
    turns_of = zip(*split_keys(keys[near.of_item]), strict=True)
    columns = [near.entries[name].tolist() for name in ("element", "part", "start", "end")]
    places: dict[Turn, list[PassagePlace]] = {}
    for turn, *column_values in zip(turns_of, *columns, near.cosines.tolist(), strict=True):
        places.setdefault(turn, []).append(tuple(column_values))
    return places


MAX_TITLES = 3
# Stemmed words of a query beyond which no title is looked for: a pasted text is no title.
MAX_WORDS = 20


# A title counts if it contains every word of the query but stop words; for documents also the name of the file. Source:
# docs/adr/0084-search-titles.md.
def titles_query(archive_id: int, words: Sequence[QueryWord], filters: Filters) -> Query | None:
    """Return the query for the owner's sources with matching titles, those that match most closely first.

    A sentence that only directs an assistant names nothing ("now do the same for the other file").
    """
    named = {word.written: word.title_lexeme or word.lexeme for word in words if not word.is_stop_word}
    lexemes = list(dict.fromkeys(named.values()))
    is_within_one = filters.conversation_id is not None or filters.turns is not None
    is_direction = all(map(is_steering, named)) and 2 * len(named) < len({word.written for word in words})
    if not lexemes or len(lexemes) > MAX_WORDS or is_within_one or is_direction:
        return None
    conditions, parameters = source_conditions(filters, "e")
    for name, how, value in filters.chosen(">=", "<="):
        # It counts if any of its time lies within the limits.
        column = "updated_at" if how.operator == ">=" else "created_at"
        conditions.append(f"e.{column} {how.operator} %(filter_{name})s")
        parameters[f"filter_{name}"] = value
    statement = load_sql("search", "title_matches").replace("{filters}", " AND ".join(["TRUE", *conditions]))
    parameters |= {"owner": archive_id, "words": " & ".join(map(quoted_lexeme, lexemes)), "limit": MAX_TITLES}
    return statement, parameters
