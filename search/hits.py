"""Filling in a page of hits: title, question, the best passage with the matching words marked, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import Asked, load_sql, pipelined
from search.candidates import split_keys
from search.passages import ShownPassage, ask_nearest, best_passages, places_of
from search.query import SearchQuery
from search.signals import RankedTurns
from search.sources import adapter_of

# Which of a hit's signals are named to the reader, and under which name.
SIGNAL_NAMES = {
    "words": "lexical",
    "words nearby": "neighbours",
    "passage": "passage",
    "turn": "turn",
    "late interaction": "late",
}
TELLING_SHARE = 0.5  # a signal is named where the hit has at least this share of the query's best score


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked turn. `similarity` is a cosine from 0 to 1, `score` the fused score within this query.

    `marks` are the places in `passage` where words of the query stand; the passage itself stands in
    part `passage_part` of message `passage_message_id`, from `passage_start` to `passage_end`.
    """

    conversation_id: int
    conversation_title: str
    turn_number: int
    message_id: int
    similarity: float
    score: float
    user_question: str
    passage: str
    marks: tuple[tuple[int, int], ...]
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

    @property
    def url(self) -> str:
        return adapter_of(self.kind).url(self.conversation_id, self.turn_number)


def show_hits(owner_id: int, query: SearchQuery, ranked: RankedTurns, page: NDArray[np.int64]) -> list[Hit]:
    """The hits of one page, in the order of `page`. Three queries."""
    conversations, turns = split_keys(ranked.keys[page])
    parameters = {"owner": owner_id, "conversations": conversations, "turns": turns}
    with pipelined():
        asked = Asked(load_sql("search", "hits"), parameters)
        nearest = ask_nearest(owner_id, query, ranked.space, parameters) if ranked.space else None
        rows = {(row[0], row[1]): row[2:] for row in asked.rows()}
        candidates = places_of(nearest) if nearest else {}
    passages = best_passages(
        owner_id=owner_id,
        query=query,
        candidates=candidates,
        turns={turn: (row[-2], row[-1]) for turn, row in rows.items()},
        weights=ranked.word_weights,
    )
    telling = _telling_scores(ranked)
    return [
        _hit(turn, rows[turn], passages.get(turn), ranked, int(index), telling)
        for turn, index in zip(zip(conversations, turns, strict=True), page, strict=True)
        if turn in rows  # else deleted since the legs ran
    ]


def _hit(
    turn: tuple[int, int],
    row: tuple[Any, ...],
    passage: ShownPassage | None,
    ranked: RankedTurns,
    index: int,
    telling: Mapping[str, float],
) -> Hit:
    message_id, question, created_at, title, agent, project, kind, object_id = row
    return Hit(
        source_id=turn[0],
        kind=kind,
        conversation_id=object_id,
        conversation_title=title,
        turn_number=turn[1],
        message_id=message_id,
        similarity=_similarity(ranked, index),
        score=round(float(ranked.scores[index]), 4),
        user_question=question,
        passage=passage.text if passage else "",
        marks=passage.marks if passage else (),
        passage_message_id=passage.message_id if passage else None,
        passage_part=passage.part_index if passage else 0,
        passage_start=passage.start if passage else 0,
        passage_end=passage.end if passage else 0,
        matched=_matched(ranked, index, telling),
        created_at=created_at,
        agent=agent,
        project=project,
    )


def _similarity(ranked: RankedTurns, index: int) -> float:
    """The better cosine of the turn and its best passage, 0 where no vector was compared."""
    cosines = [float(ranked.signals[name][index]) for name in ("passage", "turn") if name in ranked.signals]
    return round(max((min(1.0, cosine) for cosine in cosines if cosine > 0), default=0.0), 4)


def _telling_scores(ranked: RankedTurns) -> dict[str, float]:
    """By signal that found anything, the score from which it is named to the reader."""
    found = {name: ranked.signals[name] for name in SIGNAL_NAMES.values() if name in ranked.signals}
    best = {name: float(np.nanmax(scores)) for name, scores in found.items() if len(scores)}
    return {name: score * TELLING_SHARE for name, score in best.items() if score > 0}


def _matched(ranked: RankedTurns, index: int, telling: Mapping[str, float]) -> tuple[str, ...]:
    """Names of the signals by which this turn stands out."""
    return tuple(
        name
        for name, signal in SIGNAL_NAMES.items()
        if signal in telling and ranked.signals[signal][index] >= telling[signal]
    )
