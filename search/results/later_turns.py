"""Reads the later turns with which hits are compared, and says which of them decide otherwise (`overturned.py`)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from convmemory.core.sql import Query, load_sql, rows_of_columns
from search.results.overturned import Overturning, Said, overturning, reversing_sentences
from search.retrieval.candidates import ItemKeys, distinct, split_keys

# Of the hits, of the turns that follow each in its conversation, and of the best hits of its project that are compared.
COMPARED_HITS, FOLLOWING, BEST = 10, 8, 30

Turn = tuple[int, int]
"""The source and the number of an item."""


class ReadTurn(NamedTuple):
    conversation_id: int
    project: str
    created_at: datetime
    statement: Said


def later_turns_query(archive_id: int, items: ItemKeys, best: ItemKeys) -> Query:
    """Return the query for some items and the later turns with which they are compared: those after them in their
    conversations, and those of their projects among the `best` items of a search.
    """
    parameters: dict[str, Any] = {"owner": archive_id}
    following = items[:COMPARED_HITS, None] + np.arange(FOLLOWING + 1)  # numbers are the low bits of keys
    keys = distinct(np.concatenate([following.ravel(), best[:BEST]]))
    parameters["turn_sources"], parameters["turn_items"] = split_keys(keys)
    return load_sql("search.results", "later_turns"), parameters


def read_turns(rows: Iterable[tuple[Any, ...]]) -> dict[Turn, ReadTurn]:
    """Return the turns in the rows of the query."""
    return {
        (source, number): ReadTurn(conversation, project, at, Said(question, conclusion))
        for source, number, conversation, project, at, question, conclusion in rows_of_columns(rows)
    }


def overturned_by(turns: Mapping[Turn, ReadTurn], items: ItemKeys, best: ItemKeys) -> dict[Turn, Overturning]:
    """Return the last turn that decides otherwise for each of the items that has one."""
    hits = [turn for turn in zip(*split_keys(items[:COMPARED_HITS]), strict=True) if turn in turns]
    of_best = set(zip(*split_keys(best[:BEST]), strict=True))
    overturned: dict[Turn, Overturning] = {}
    for later, read in sorted(turns.items(), key=lambda turn: (turn[1].created_at, turn[0][1])):
        compared = [hit for hit in hits if _is_compared(hit, later, turns, is_of_best=later in of_best)]
        if not compared or not reversing_sentences(read.statement):
            continue
        for hit in compared:
            is_next = later == (hit[0], hit[1] + 1)
            if quote := overturning(turns[hit].statement, read.statement, is_next=is_next):
                overturned[hit] = Overturning(read.conversation_id, later[1], quote)
    return overturned


def _is_compared(hit: Turn, later: Turn, turns: Mapping[Turn, ReadTurn], *, is_of_best: bool) -> bool:
    """Return whether a turn follows a hit in its conversation, or is later in its project and one of the best."""
    if later[0] == hit[0]:
        return 0 < later[1] - hit[1] <= FOLLOWING
    earlier, read = turns[hit], turns[later]
    return is_of_best and read.project == earlier.project != "" and read.created_at > earlier.created_at
