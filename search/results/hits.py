"""Completes a page of hits: title, question, the best passage with the words marked, why it matched; finds titles."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convmemory.accounts.callers import SpaceName
from convmemory.conversations.messages.outcomes import NO_OUTCOME, Outcome
from convmemory.core.marks import Mark
from convmemory.core.text import Span
from convmemory.documents.models import Section
from search.adapters.conversations import KIND as TURNS
from search.adapters.documents import KIND as SECTIONS
from search.adapters.documents import element_of, sections_of
from search.results.later_turns import ReadTurn, Turn, overturned_by, read_turns
from search.results.overturned import Overturning
from search.results.passages import ItemPassages, best_passages
from search.results.rows import HitRow, read_contents
from search.results.telling import Telling
from search.retrieval.candidates import Feature, item_keys, split_keys
from search.retrieval.retriever import SearchState
from search.sources import adapter_of

# The features of a hit that are shown to the reader, under these names.
FEATURE_NAMES = {
    "words": Feature.BM25,
    "words nearby": Feature.NEIGHBOUR_COVERAGE,
    "passage": Feature.PASSAGE_COSINE,
    "turn": Feature.ITEM_COSINE,
    "late interaction": Feature.MAX_SIM,
}
# A feature is shown if the hit has at least this share of the query's best value.
NAMED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where a hit is in a conversation, or in a source of a kind that has no place of its own.

    The passage is in part `passage_part` of message `passage_message_id`, a tool's call if `is_call`. `mark` is what
    the owner says of the turn, `outcome` what it came to, `overturned` which later turn decides otherwise. `excerpt` is
    the answer around the sentence that answers best, which begins at `excerpt_from`, `telling` are the sentences that
    tell most, best first, and `next_question` is that of the next turn: all of a query that `tells`. `digest` is that
    of the message that opens it, and `copies` the number of other sessions whose copy was folded into this hit.
    """

    message_id: int
    passage_message_id: int | None
    passage_part: int
    mark: Mark | None = None
    is_call: bool = False
    outcome: Outcome = NO_OUTCOME
    excerpt: str = ""
    excerpt_from: int = 0
    telling: tuple[Telling, ...] = ()
    next_question: str = ""
    digest: bytes = b""
    copies: int = 0
    overturned: Overturning | None = None


@dataclass(frozen=True, slots=True)
class SectionPlace:
    """Where a hit is in a document. `start` and `end` locate the section in the document's text.

    `heading_path` are the headings above most of the words marked in the passage.
    """

    heading_path: tuple[str, ...]
    page: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked item: the turn or section `number` of the conversation or document `object_id`.

    `similarity` is the cosine of the passage shown, from 0 to 1, None if no vectors were compared. `score` is the fused
    score within this query. `relevance` is the probability that it answers, None if there is no calibration for this
    search.
    `heading` is the question of a turn.

    `marks` are the places of the query's words in `passage`, which goes from `passage_start` to `passage_end` in the
    message's part or in the document's text. `further` is the same section with each of its other passages that answer.
    `space` is None in the archive of the caller.
    """

    kind: str
    source_id: int
    object_id: int
    number: int
    title: str
    heading: str
    similarity: float | None
    score: float
    relevance: float | None
    passage: str
    marks: tuple[Span, ...]
    passage_start: int
    passage_end: int
    matched: tuple[str, ...]
    created_at: datetime
    agent: str
    project: str
    where: TurnPlace | SectionPlace
    further: tuple["Hit", ...] = ()
    space: SpaceName | None = None

    @property
    def key(self) -> int:
        """Return the key of the item, see `search.retrieval.candidates`."""
        return int(item_keys([self.source_id], [self.number])[0])

    @property
    def url(self) -> str:
        return adapter_of(self.kind).url(self.object_id, self.number)

    @property
    def turn(self) -> TurnPlace:
        """Return the place of a hit that is known to be no section."""
        assert isinstance(self.where, TurnPlace)
        return self.where

    @property
    def section(self) -> SectionPlace:
        """Return the place of a hit that is known to be a section."""
        assert isinstance(self.where, SectionPlace)
        return self.where


TitleKind = Literal["conversation", "document"]


@dataclass(frozen=True, slots=True)
class TitleHit:
    """A conversation or a document whose title contains the query; `items` counts its turns or sections.

    `space` is None in the archive of the caller.
    """

    kind: TitleKind
    id: int
    title: str
    agent: str
    project: str
    created_at: datetime
    updated_at: datetime
    items: int
    space: SpaceName | None = None

    @property
    def url(self) -> str:
        return f"/{'documents' if self.kind == SECTIONS else 'conversations'}/{self.id}"


def show_hits(
    ranked: SearchState, page: NDArray[np.int64], *, with_titles: bool
) -> tuple[list[Hit], tuple[TitleHit, ...]]:
    """Return the hits of one page, in the order of `page`, indices into the candidates; and the titles that match.

    At most four queries.
    """
    query, keys = ranked.query, ranked.table.keys[page]
    sources, items = split_keys(keys)
    contents = ranked.contents
    if contents is None or not contents.rows.keys() >= set(keys.tolist()):
        contents = read_contents(ranked, keys, page, with_titles=with_titles)
    titles = tuple(TitleHit(*row) for row in contents.titles)
    later = read_turns(contents.later)
    overturned = overturned_by(later, keys, ranked.table.keys[ranked.order])
    turns_of = zip(zip(sources, items, strict=True), keys.tolist(), strict=True)
    rows = {turn: contents.rows[key] for turn, key in turns_of if key in contents.rows}
    compared = ranked.compared if query.space else None
    sections = _sections_of(query.archive_id, rows)
    elements = {turn: contents.elements for turn, row in rows.items() if row.kind == TURNS}
    elements |= {turn: {section.pk: element_of(section)} for turn, section in sections.items()}
    passages = best_passages(
        query,
        compared=compared,
        turns={turn: (row.kind, row.object_id) for turn, row in rows.items()},
        weights=ranked.word_weights,
        at_hand=elements,
        near={turn: places for turn, places in contents.near.items() if turn in rows} if compared else {},
        words_of_turn=dict(zip(zip(sources, items, strict=True), ranked.matched.of_items(keys), strict=True)),
        conclusions={turn: Outcome.from_json(row.outcome).conclusion for turn, row in rows.items() if query.tells},
    )
    # A feature is shown from this value on: a share of its best value in these results.
    columns = {name: ranked.table.columns[name] for name in FEATURE_NAMES.values() if name in ranked.table.columns}
    best = {name: float(np.nanmax(values)) for name, values in columns.items() if not np.isnan(values).all()}
    named_from = {str(name): value * NAMED_SHARE for name, value in best.items() if value > 0}
    hits = [
        _hit(turn, rows[turn], passages.get(turn, ItemPassages()), overturned.get(turn),
             later.get((turn[0], turn[1] + 1)), sections.get(turn), relevance, ranked, int(index), named_from)
        for turn, index, relevance in zip(
            zip(sources, items, strict=True), page, ranked.relevance_of(page), strict=True
        )
        if turn in rows and (turn in sections or rows[turn].kind != SECTIONS)  # else deleted since they were found
    ]  # fmt: skip
    return hits, titles


def _sections_of(archive_id: int, rows: Mapping[Turn, HitRow]) -> dict[Turn, Section]:
    """Return the sections among the items. At most one query."""
    items = {(row.object_id, turn[1]): turn for turn, row in rows.items() if row.kind == SECTIONS}
    if not items:
        return {}
    rows_of_sections = sections_of(archive_id).filter(
        document_id__in={document for document, _ in items},
        number__in={number for _, number in items},
    )
    return {items[key]: row for row in rows_of_sections if (key := (row.document_id, row.number)) in items}


def _hit(
    turn: Turn,
    row: HitRow,
    of_item: ItemPassages,
    overturned: Overturning | None,
    following: ReadTurn | None,
    section: Section | None,
    relevance: float | None,
    ranked: SearchState,
    index: int,
    named_from: Mapping[str, float],
) -> Hit:
    passages = of_item.shown
    passage = passages[0] if passages else None
    # Ranked by distance, a hit has the cosine that it was ranked by.
    is_of_passage = passage is not None and not ranked.query.by_distance
    similarity = passage.similarity if passage and is_of_passage else float(ranked.table.similarities[index])
    is_compared = ranked.query.space is not None and (ranked.query.by_distance or bool(similarity))
    hit = Hit(
        kind=row.kind,
        source_id=turn[0],
        object_id=row.object_id,
        number=turn[1],
        title=row.title,
        heading=row.heading,
        similarity=round(min(max(similarity, 0.0), 1.0), 4) if is_compared else None,
        score=round(float(ranked.scores[index]), 4),
        relevance=relevance,
        passage=passage.text if passage else "",
        marks=passage.marks if passage else (),
        passage_start=passage.start if passage else 0,
        passage_end=passage.end if passage else 0,
        matched=tuple(
            name
            for name, feature in FEATURE_NAMES.items()
            if feature in named_from and ranked.table.columns[feature][index] >= named_from[feature]
        ),
        created_at=row.created_at,
        agent=row.agent,
        project=row.project,
        where=TurnPlace(
            message_id=row.message_id,
            passage_message_id=passage.message_id if passage else None,
            passage_part=passage.part_index if passage else 0,
            mark=Mark(row.mark, row.note or "") if row.mark else None,
            is_call=passage is not None and passage.is_call,
            outcome=Outcome.from_json(row.outcome),
            excerpt=passages[1].text if len(passages) > 1 else "",
            excerpt_from=passages[1].marks[0][0] if len(passages) > 1 and passages[1].marks else 0,
            telling=of_item.telling,
            next_question=following.statement.question if following and ranked.query.tells else "",
            digest=bytes(row.digest or b""),
            overturned=overturned,
        ),
    )
    if section is None:
        return hit
    further = tuple(
        _in_document(
            replace(hit, passage=other.text, marks=other.marks, passage_start=other.start, passage_end=other.end),
            section,
        )
        for other in passages[1:]
    )
    return replace(_in_document(hit, section), further=further)


def _in_document(hit: Hit, section: Section) -> Hit:
    """Return the hit of a section with its place in the document, where its passage begins and ends, too."""
    # The headings above most of the different words marked in the passage, or those above a passage without marks.
    start = hit.passage_start
    marked = dict.fromkeys((section.path_at(start + at), hit.passage[at:end].lower()) for at, end in hit.marks)
    paths = Counter(path for path, _ in marked)
    path = paths.most_common(1)[0][0] if paths else section.path_at(start)
    return replace(
        hit,
        passage_start=section.start + start,
        passage_end=section.start + hit.passage_end,
        where=SectionPlace(path, section.page, section.start, section.end),
    )
