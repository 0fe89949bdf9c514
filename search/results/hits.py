"""Completes a page of hits: title, question, the best passage with the matching words marked, and why it matched."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.accounts.spaces import SpaceName
from convmemory.core.marks import Mark
from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.core.text import Span
from search.pipeline import RankedItems
from search.results.passages import (
    ShownPassage,
    best_passages,
    compared_places,
    places_of,
    send_nearest_query,
    with_similarities,
)
from search.retrieval.candidates import Feature, item_keys, split_keys
from search.sources import adapter_of, registered

# The features of a hit that are shown to the reader, under these names.
FEATURE_NAMES = {
    "words": Feature.BM25,
    "words nearby": Feature.NEIGHBOUR_BM25,
    "passage": Feature.PASSAGE_COSINE,
    "turn": Feature.ITEM_COSINE,
    "late interaction": Feature.MAX_SIM,
}
# A feature is shown if the hit has at least this share of the query's best value.
NAMED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked turn. `similarity` is the cosine of the passage shown, from 0 to 1, and 0 if it has no vector.

    `score` is the fused score within this query. `relevance` is the probability that it answers, None if there is no
    calibration for this search.

    `marks` are the places of the query's words in `passage`; the passage is in part `passage_part` of message
    `passage_message_id`, from `passage_start` to `passage_end`. `further` are other passages of a document's item that
    answer. `mark` is what the owner says of the turn. `space` is None in the archive of the caller.
    """

    object_id: int
    title: str
    turn_number: int
    message_id: int
    similarity: float
    score: float
    relevance: float | None
    user_question: str
    passage: str
    marks: tuple[Span, ...]
    passage_message_id: int | None
    passage_part: int
    passage_start: int
    passage_end: int
    matched: tuple[str, ...]
    created_at: datetime
    agent: str
    project: str
    source_id: int
    kind: str
    mark: Mark | None = None
    further: tuple[ShownPassage, ...] = ()
    space: SpaceName | None = None

    @property
    def key(self) -> int:
        """Return the key of the item, see `search.retrieval.candidates`."""
        return int(item_keys([self.source_id], [self.turn_number])[0])

    @property
    def url(self) -> str:
        return adapter_of(self.kind).url(self.object_id, self.turn_number)


class _Row(NamedTuple):
    """A row of the statement `hits`, after the turn that it is about."""

    message_id: int
    question: str
    created_at: datetime
    title: str
    agent: str
    project: str
    kind: str
    object_id: int


def show_hits(ranked: RankedItems, page: NDArray[np.int64]) -> list[Hit]:
    """Return the hits of one page, in the order of `page`, indices into the candidates. Four queries."""
    query = ranked.query
    sources, items = split_keys(ranked.table.keys[page])
    parameters = {"owner": query.owner_id, "sources": sources, "items": items}
    with pipelined():
        pending = PendingQuery(load_sql("search.results", "hits"), parameters, keeps_plan=True)
        nearest = send_nearest_query(query, parameters) if query.space and not ranked.compared else None
        marking = [adapter.send_marks_query(query.owner_id, set(sources)) for adapter in registered().values()]
        rows = {(source, item): _Row(*row) for source, item, *row in pending.rows()}
        candidates = places_of(nearest) if nearest else {}
        marks = {turn: mark for marks_of in marking for turn, mark in marks_of().items()}
    if query.space and ranked.compared:
        candidates = compared_places(query, ranked.table.keys[page], ranked.compared)
    passages = best_passages(
        query,
        candidates=candidates,
        turns={
            turn: (rows[turn].kind, rows[turn].object_id) for turn in zip(sources, items, strict=True) if turn in rows
        },
        weights=ranked.word_weights,
        held=dict(zip(zip(sources, items, strict=True), ranked.held.of_items(ranked.table.keys[page]), strict=True)),
    )
    if query.space is not None:
        passages = with_similarities(query, passages)
    # A feature is shown from this value on: a share of its best value in these results.
    found = {name: ranked.table.columns[name] for name in FEATURE_NAMES.values() if name in ranked.table.columns}
    best = {name: float(np.nanmax(values)) for name, values in found.items() if not np.isnan(values).all()}
    named_from = {str(name): value * NAMED_SHARE for name, value in best.items() if value > 0}
    return [
        _hit(turn, rows[turn], passages.get(turn, ()), marks.get(turn), relevance, ranked, int(index), named_from)
        for turn, index, relevance in zip(
            zip(sources, items, strict=True), page, ranked.relevance.of(page), strict=True
        )
        if turn in rows  # otherwise deleted since they were found
    ]


def _hit(
    turn: tuple[int, int],
    row: _Row,
    passages: tuple[ShownPassage, ...],
    mark: Mark | None,
    relevance: float | None,
    ranked: RankedItems,
    index: int,
    named_from: Mapping[str, float],
) -> Hit:
    passage = passages[0] if passages else None
    # Ranked by distance, a hit has the cosine that it was ranked by.
    is_of_passage = passage is not None and not ranked.query.by_distance
    similarity = passage.similarity if passage and is_of_passage else float(ranked.table.similarities[index])
    return Hit(
        source_id=turn[0],
        kind=row.kind,
        object_id=row.object_id,
        title=row.title,
        turn_number=turn[1],
        message_id=row.message_id,
        similarity=round(min(max(similarity, 0.0), 1.0), 4),
        score=round(float(ranked.scores[index]), 4),
        relevance=relevance,
        user_question=row.question,
        passage=passage.text if passage else "",
        marks=passage.marks if passage else (),
        passage_message_id=passage.message_id if passage else None,
        passage_part=passage.part_index if passage else 0,
        passage_start=passage.start if passage else 0,
        passage_end=passage.end if passage else 0,
        further=passages[1:],
        matched=tuple(
            name
            for name, feature in FEATURE_NAMES.items()
            if feature in named_from and ranked.table.columns[feature][index] >= named_from[feature]
        ),
        created_at=row.created_at,
        agent=row.agent,
        project=row.project,
        mark=mark,
    )
