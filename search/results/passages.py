"""The passage of a turn that a hit shows: where it stands, what it says, which words of the query it holds."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from convmemory.core.sql import PendingQuery, load_sql
from search.query import shown_kinds_in
from search.results.runs import PassagePlace, Scored, marked_runs, room_at
from search.retrieval.prepared import PreparedQuery
from search.sources import Element, ItemKey, adapter_of
from search.vectors.splitting import split_parts

PASSAGES_PER_HIT = 8
WORD_SHARE = 0.6  # how much the query's words weigh against meaning when a hit's passage is chosen
MAX_CHARS = 400
DOCUMENT_WORD_SHARE = 1.0  # the same in documents
LEAD_CHARS = 80
STOP_SHARE = 0.15  # a word that weighs less than this share of the rarest is not marked
MAX_WORD_CHARS = 256
_WORD = re.compile(r"\w+")

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


def ask_nearest(query: PreparedQuery, items: Mapping[str, Any]) -> PendingQuery:
    """Send what finds the passages of some items (`sources` and `items`) that are nearest to the query."""
    parameters = {
        **items,
        "owner": query.owner_id,
        "space": query.active_space.pk,
        "vector": query.vector_text,
        "kinds": query.shown_kinds,
        "passages": PASSAGES_PER_HIT,
    }
    return PendingQuery(load_sql("search", "hit_passages"), parameters)


def places_of(pending: PendingQuery) -> dict[Turn, list[PassagePlace]]:
    """By turn, the places of the passages that were found, nearest first."""
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
) -> dict[Turn, tuple[ShownPassage, ...]]:
    """For each (source, item) of the owner, the passage that answers best: one of its candidates, or of all.

    Behind it stand further passages of the item, where it is a document's. One query for each kind of source, and one
    more where items have no candidates.
    """
    known = {turn: candidates[turn] for turn in turns if turn in candidates}
    bare = {turn: home for turn, home in turns.items() if turn not in known}
    elements = _elements(query.owner_id, known, turns) | _whole_items(query.owner_id, bare)
    words = QueryStems(weights)
    best: dict[Turn, tuple[ShownPassage, ...]] = {}
    for number, turn in enumerate(turns):
        texts = elements.get(turn, {})
        places = known.get(turn) or _split(texts.values(), query)
        found = [place for place in places if place[0] in texts]
        if found:
            chosen = _chosen(found, texts, words, room_at(number))
            best[turn] = tuple(_shown(_text_at(place, texts), place, words) for place in chosen)
    return best


def _chosen(
    places: Sequence[PassagePlace], texts: Mapping[int, Element], words: "QueryStems", room: int
) -> list[PassagePlace]:
    """The places that are shown, best first: one, or of a document runs of neighbours."""
    of_document = _is_of_document(texts[places[0][0]])
    share = DOCUMENT_WORD_SHARE if of_document else WORD_SHARE
    scored: list[Scored] = [(place[-1] + share * words.share_in(_text_at(place, texts)), place) for place in places]
    if of_document:
        return marked_runs(scored, room=room)
    return [max(scored, key=lambda passage: passage[0])[1]]


def _is_of_document(element: Element) -> bool:
    return any(part.kind == "document" for part in element.parts)


def _elements(
    owner_id: int, places: Mapping[Turn, Sequence[PassagePlace]], homes: Mapping[Turn, Home]
) -> dict[Turn, dict[int, Element]]:
    """The elements that hold the passages of each item, by id."""
    wanted: dict[str, set[int]] = {}
    for turn, of_turn in places.items():
        wanted.setdefault(homes[turn][0], set()).update(place[0] for place in of_turn)
    read = {kind: adapter_of(kind).read_elements(owner_id, ids) for kind, ids in wanted.items()}
    return {
        turn: {place[0]: read[homes[turn][0]][place[0]] for place in of_turn if place[0] in read[homes[turn][0]]}
        for turn, of_turn in places.items()
    }


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
    """Passages cut on the spot, where none are stored or no vector is at hand."""
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


def _shown(text: str, place: PassagePlace, words: "QueryStems") -> ShownPassage:
    message_id, part_index, start, end, similarity = place
    marks = tuple(words.places_in(text))
    return shortened(ShownPassage(message_id, part_index, start, end, text, marks, round(similarity, 4)))


def shortened(passage: ShownPassage) -> ShownPassage:
    """A long passage cut to what a hit shows, beginning shortly before its first marked word."""
    if len(passage.text) <= MAX_CHARS:
        return passage
    first = passage.marks[0][0] if passage.marks else 0
    cut_at = min(max(0, first - LEAD_CHARS), len(passage.text) - MAX_CHARS)
    marks = tuple(
        (start - cut_at, end - cut_at) for start, end in passage.marks if start >= cut_at and end <= cut_at + MAX_CHARS
    )
    return replace(passage, text=passage.text[cut_at : cut_at + MAX_CHARS], marks=marks)


class QueryStems:
    """The words of a query by their rough stems, for finding them in texts; endings may differ."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        rarest = max(weights.values(), default=0.0)
        stems = {stem(word): weight for word, weight in weights.items()}
        self._telling = {word: weight for word, weight in stems.items() if weight >= rarest * STOP_SHARE}
        self._total = sum(weights.values()) or 1.0

    def places_in(self, text: str) -> list[tuple[int, int]]:
        """Where words of the query stand; those that weigh little beside the rarest are left out."""
        return [match.span() for match in _WORD.finditer(text) if stem(match.group().lower()) in self._telling]

    def share_in(self, text: str) -> float:
        """The share of the query's weight that the text's words have."""
        held = {stem(word) for word in _WORD.findall(text.lower())}
        return sum(weight for word, weight in self._telling.items() if word in held) / self._total


def stems_of(text: str) -> Counter[str]:
    """How often each rough stem stands in `text`."""
    return Counter(stem(match.group()) for match in _WORD.finditer(text.lower()))


def stem(word: str) -> str:
    """A rough stem of a lower-case word, of a long one's beginning: for marking, and for comparing messages."""
    return _stem(word[:MAX_WORD_CHARS])


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    for ending in ("ingly", "edly", "ings", "ing", "ied", "ies", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)].rstrip("ie")
    return word.rstrip("ie") if len(word) > 3 else word
