"""The passage of a turn that a hit shows: its place, its text, and which words of the query it contains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from convmemory.core.sql import PendingQuery, load_sql
from search.query import shown_kinds_in
from search.results.matching import QueryStems
from search.results.runs import PassagePlace, marked_runs, shown_chars_at
from search.retrieval.prepared import PreparedQuery
from search.sources import Element, ItemKey, adapter_of
from search.vectors.splitting import split_parts

PASSAGES_PER_HIT = 8
WORD_SHARE = 0.6  # how much the query's words weigh against meaning when a hit's passage is chosen
MAX_CHARS = 400
DOCUMENT_WORD_SHARE = 1.0  # the same in documents
LEAD_CHARS = 80
LOOKED_INTO = 10  # hits, at most, that are looked through for a rare word which their nearest passages do not hold
PLACES_PER_HIT = 400  # passages of such a hit
MISSED_WORD = 0.99  # what is missed weighs this share of the rarest word

Turn = tuple[int, int]  # source, item
Home = tuple[str, int]
"""The kind of a source, and its number there."""


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as a hit shows it. `start` and `end` count characters of the part's text, `marks` of `text`."""

    message_id: int
    part_index: int
    start: int
    end: int
    text: str
    marks: tuple[tuple[int, int], ...] = ()
    similarity: float = 0.0


def send_nearest_query(query: PreparedQuery, items: Mapping[str, Any]) -> PendingQuery:
    """Send the query for the passages of some items (`sources` and `items`) that are nearest to the query."""
    parameters = {
        **items,
        "owner": query.owner_id,
        "space": query.active_space.pk,
        "vector": query.vector_text,
        "kinds": query.shown_kinds,
        "passages": PASSAGES_PER_HIT,
    }
    return PendingQuery(load_sql("search", "hit_passages"), parameters, keeps_plan=True)


def places_of(pending: PendingQuery) -> dict[Turn, list[PassagePlace]]:
    """The places of the passages that were found, by turn, nearest first."""
    found: dict[Turn, list[PassagePlace]] = {}
    for conversation, turn, *place in pending.rows():
        found.setdefault((conversation, turn), []).append(tuple(place))
    return found


def best_passages(
    query: PreparedQuery,
    *,
    candidates: Mapping[Turn, Sequence[PassagePlace]],
    turns: Mapping[Turn, Home],
    weights: Mapping[str, float],
    coverage: Mapping[Turn, float],
) -> dict[Turn, tuple[ShownPassage, ...]]:
    """For each (source, item) of the owner, the passage that answers best; one with a quoted phrase comes first.

    It is one of the item's candidates, or, if none of them contains what the item contains (`coverage` is the share of
    the query's weight), one of all its passages. It is followed by further passages if the item belongs to a document.
    One query for each kind of source, and two more if candidates lack something.
    """
    known = {turn: candidates[turn] for turn in turns if turn in candidates}
    bare = {turn: home for turn, home in turns.items() if turn not in known}
    elements = _elements(query.owner_id, known, turns) | _whole_items(query.owner_id, bare)
    places_by_turn = known | {turn: _split(elements.get(turn, {}).values(), query) for turn in bare}
    words = QueryStems(weights, query.text.phrases)
    found = {turn: _judged(places, elements.get(turn, {}), words) for turn, places in places_by_turn.items()}
    lacking = [turn for turn in known if _lacks(found[turn], words, coverage.get(turn, 0.0))]
    more = _all_places(query, lacking if query.text.phrases else lacking[:LOOKED_INTO])
    for turn, more_elements in _elements(query.owner_id, more, turns, known=elements).items():
        elements[turn] = elements.get(turn, {}) | more_elements
        found[turn] = [judged.by_words() for judged in [*found[turn], *_judged(more[turn], more_elements, words)]]
    rooms = {turn: shown_chars_at(number) for number, turn in enumerate(turns)}
    return {
        turn: tuple(
            _shown(_text_at(place, elements[turn]), place, words)
            for place in _chosen(judged, elements[turn], rooms[turn])
        )
        for turn, judged in found.items()
        if judged
    }


@dataclass(frozen=True, slots=True)
class _Judged:
    """A passage, how many of the query's phrases and what share of its words it contains, and its score."""

    place: PassagePlace
    text: str
    phrases: int
    share: float
    score: float

    @property
    def rank(self) -> tuple[int, float, float]:
        return self.phrases, self.score, self.place[-1]

    def by_words(self) -> "_Judged":
        """The same with its words as its score, regardless of meaning."""
        return replace(self, score=self.share)


def _judged(places: Iterable[PassagePlace], texts: Mapping[int, Element], words: QueryStems) -> list[_Judged]:
    judged = []
    for place in places:
        if place[0] in texts:
            text = _text_at(place, texts)
            share = words.share_in(text)
            weight = DOCUMENT_WORD_SHARE if _is_of_document(texts[place[0]]) else WORD_SHARE
            judged.append(_Judged(place, text, words.phrases_in(text), share, place[-1] + weight * share))
    return judged


def _lacks(judged: Sequence[_Judged], words: QueryStems, coverage: float) -> bool:
    """Whether the item contains a phrase, or a word as rare as the rarest, that none of these passages contains."""
    if not judged:
        return False
    if words.lacks_phrase(max(judged, key=lambda passage: passage.phrases).text):
        return True
    return words.gain_over(" ".join(passage.text for passage in judged), coverage) >= MISSED_WORD


def _all_places(query: PreparedQuery, turns: Sequence[Turn]) -> dict[Turn, list[PassagePlace]]:
    """The places of all passages of some items, a limited number per item. One query, or none for no items."""
    if not turns or query.space is None:
        return {}
    parameters = {
        "owner": query.owner_id,
        "space": query.active_space.pk,
        "kinds": query.shown_kinds,
        "sources": [turn[0] for turn in turns],
        "items": [turn[1] for turn in turns],
        "passages": PLACES_PER_HIT,
    }
    pending = PendingQuery(load_sql("search", "item_places"), parameters, keeps_plan=True)
    found: dict[Turn, list[PassagePlace]] = {}
    for source, item, element, part, start, end in pending.rows():
        found.setdefault((source, item), []).append((element, part, start, end, 0.0))
    return found


def _chosen(judged: Sequence[_Judged], texts: Mapping[int, Element], room: int) -> list[PassagePlace]:
    """The places to show, best first: one, or in a document runs of neighbours."""
    if _is_of_document(texts[judged[0].place[0]]):
        return marked_runs([(passage.phrases + passage.score, passage.place) for passage in judged], room=room)
    return [max(judged, key=lambda passage: passage.rank).place]


def _is_of_document(element: Element) -> bool:
    return any(part.kind == "document" for part in element.parts)


def _elements(
    owner_id: int,
    places: Mapping[Turn, Sequence[PassagePlace]],
    homes: Mapping[Turn, Home],
    known: Mapping[Turn, Mapping[int, Element]] = MappingProxyType({}),
) -> dict[Turn, dict[int, Element]]:
    """The elements of the passages of each item, by id; `known` ones are not read again."""
    ids = {turn: {place[0] for place in of_turn} for turn, of_turn in places.items()}
    wanted: dict[str, set[int]] = {}
    for turn, of_turn in ids.items():
        wanted.setdefault(homes[turn][0], set()).update(of_turn - known.get(turn, {}).keys())
    read = {kind: adapter_of(kind).read_elements(owner_id, missing) for kind, missing in wanted.items() if missing}
    found: dict[Turn, dict[int, Element]] = {}
    for turn, of_turn in ids.items():
        at_hand = {**known.get(turn, {}), **read.get(homes[turn][0], {})}
        found[turn] = {number: at_hand[number] for number in of_turn if number in at_hand}
    return found


def _whole_items(owner_id: int, homes: Mapping[Turn, Home]) -> dict[Turn, dict[int, Element]]:
    """All elements of items that have no passages, by id."""
    turns_of: dict[str, dict[ItemKey, Turn]] = {}
    for turn, (kind, object_id) in homes.items():
        turns_of.setdefault(kind, {})[object_id, turn[1]] = turn
    return {
        turns[key]: {element.element_id: element for element in item.elements}
        for kind, turns in turns_of.items()
        for key, item in adapter_of(kind).read_items(owner_id, list(turns)).items()
    }


def _split(elements: Iterable[Element], query: PreparedQuery) -> list[PassagePlace]:
    """Passages split on the spot, if none are stored or no vector is available."""
    kinds = shown_kinds_in(query.scope)
    return [
        (element.element_id, span.part_index, span.start, span.end, 0.0)
        for element in elements
        for span in split_parts(element.parts)
        if span.kind in kinds
    ]


def _text_at(place: PassagePlace, elements: Mapping[int, Element]) -> str:
    element_id, part_index, start, end, _ = place
    return next((part.text[start:end] for part in elements[element_id].parts if part.index == part_index), "")


def _shown(text: str, place: PassagePlace, words: QueryStems) -> ShownPassage:
    message_id, part_index, start, end, similarity = place
    marks = tuple(words.places_in(text))
    passage = ShownPassage(message_id, part_index, start, end, text, marks, round(similarity, 4))
    return shortened(passage, anchor=words.anchor_in(text)) if len(text) > MAX_CHARS else passage


def shortened(passage: ShownPassage, *, anchor: int) -> ShownPassage:
    """A long passage cut to what a hit shows, starting shortly before the character `anchor`."""
    if len(passage.text) <= MAX_CHARS:
        return passage
    cut_at = min(max(0, anchor - LEAD_CHARS), len(passage.text) - MAX_CHARS)
    marks = tuple(
        (start - cut_at, end - cut_at) for start, end in passage.marks if start >= cut_at and end <= cut_at + MAX_CHARS
    )
    return replace(passage, text=passage.text[cut_at : cut_at + MAX_CHARS], marks=marks)
