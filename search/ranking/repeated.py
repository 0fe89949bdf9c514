"""Puts turns that asked the query's question again behind the turn that answered it.

A chat here, and an agent that searches this archive for the question, leave a turn whose question is the query itself:
it would come before the turn that it found. Reads headings, and the links to turns in the results of such a turn.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from convmemory.core.sql import PendingQuery
from search.results.matching import QueryStems
from search.results.rows import HitRow, rows_by_key, rows_query
from search.retrieval.candidates import split_keys
from search.retrieval.retriever import LITERAL_RELEVANCE, SearchState

# The best items that are compared.
BEST = 10
# PostgreSQL reads the messages only of turns whose question has words that begin like the query's: endings differ.
BEGINNING_CHARS = 4
# A question with all words of the query and this cosine is the same question, perhaps in other words around.
SAME_QUESTION = 0.95
HERE = ("chat", "proxy")
"""The sources of conversations that were held here."""
_WILD = re.compile(r"[%_\\]")
_LINK = re.compile(r"/conversations/(\d{1,18})\?turn=(\d{1,9})")


def answers_first(state: SearchState, shown: slice) -> None:
    """Put each of the best turns that only repeats the question right behind the best earlier turn that it links to.

    One that was asked here comes also behind an earlier turn from elsewhere with all words of the query. At most one
    query, and none if no item has all words; it reads the rows of the items that will be `shown`, too. A question that
    was asked before is answered, however often: in an archive of a few turns its copies would speak against that.
    """
    top, query = state.order[:BEST], state.query
    asked = {word.written for word in query.words if not word.is_stop_word}
    if not asked or len(top) < 2 or query.time is not None or query.by_distance:
        return
    keys = state.table.keys[top]
    has_all = [asked <= words for words in state.matched.of_items(keys)]
    if not any(has_all):
        return
    beginnings = [f"%{_WILD.sub('_', word[:BEGINNING_CHARS])}%" for word in asked]
    having_all = {key for key, is_whole in zip(keys.tolist(), has_all, strict=True) if is_whole}
    needed = np.unique(np.concatenate([keys, state.table.keys[state.order[shown]]]))
    of_needed = rows_query(query.archive_id, needed, asked=having_all, beginnings=beginnings)
    state.rows = rows = rows_by_key(PendingQuery(*of_needed, keeps_plan=True).rows())
    whole = having_all & rows.keys()
    words = QueryStems(dict.fromkeys(asked, 1.0))
    stems = words.counted(asked)
    repeating = [key for key in keys.tolist() if key in whole and stems <= set(words.held_in(rows[key].heading))]
    order = keys.tolist()
    for key in reversed(repeating):
        answer = next((at for at, other in enumerate(order) if _answers(other, key, rows, whole)), -1)
        if answer > order.index(key):
            order.insert(answer, order.pop(order.index(key)))
            state.repeated.add(key)
    places = {key: answer for answer, key in enumerate(keys.tolist())}
    asked_before = [position for key, position in places.items() if key in repeating and key not in state.repeated]
    if state.relevance.answerable is not None and (state.table.similarities[top[asked_before]] >= SAME_QUESTION).any():
        state.relevance = replace(state.relevance, answerable=max(state.relevance.answerable, LITERAL_RELEVANCE))
    state.order = np.concatenate([top[[places[key] for key in order]], state.order[BEST:]])


def _answers(key: int, repeated: int, rows: Mapping[int, HitRow], whole: Collection[int]) -> bool:
    """Return whether an item is an earlier turn that the repeated question links to, or was asked elsewhere."""
    row, again = rows.get(key), rows[repeated]
    if row is None or row.created_at >= again.created_at:
        return False
    (number,) = split_keys(np.array([key]))[1]
    links = {(int(link[1]), int(link[2])) for link in _LINK.finditer(again.links or "")}
    return (row.object_id, number) in links or (again.origin in HERE and row.origin not in HERE and key in whole)
