"""Chooses the passage of a turn that a hit shows: its place, its text, and the marks of the query's words."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from convmemory.core.folding import folded
from convmemory.core.text import Span
from convmemory.embeddings.spaces import read_active_space
from search.query import shown_kinds_in
from search.results.later_turns import Turn
from search.results.matching import QueryStems
from search.results.rows import near_places
from search.results.runs import PassagePlace, marked_runs, shown_chars_at
from search.results.telling import Judged, Telling, telling
from search.retrieval.prepared import PreparedQuery
from search.sources import Element, ElementPart, ItemKey, adapter_of
from search.vectors.blocks import ComparedVectors
from search.vectors.packing import entries_of_items
from search.vectors.splitting import split_parts

# The weight of the query's words against the cosine when a hit's passage is chosen; documents have their own, because a
# query of documents uses their words (ADR 49).
WORD_SHARE = 0.6
MAX_CHARS = 400
EXCERPT_CHARS = 400  # of an answer around its best sentence, for readers who open no page
AFTER_CHARS = 200  # what follows a passage, of which a sentence that tells shows less
DOCUMENT_WORD_SHARE = 1.0
LEAD_CHARS = 80
# At most this many hits are searched for a rare word that their nearest passages lack: each costs reading its messages
# (ADR 78).
LOOKED_INTO = 10
PLACES_PER_HIT = 4_000  # the passages of such a hit that are read: some 400,000 characters
# A word is rare from this share of the weight of the rarest word that any hit contains. From .75 on, marks in documents
# were a little worse (ADR 78).
RARE_SHARE = 0.95
PROMPT_SHARE = 0.5
_SEPARATORS = re.compile(r"[^\w\s]")

Home = tuple[str, int]
"""The kind of a source, and its number there."""


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage for display. `start` and `end` count characters of the part's text, `marks` those of `text`."""

    message_id: int
    part_index: int
    start: int
    end: int
    text: str
    marks: tuple[Span, ...] = ()
    similarity: float = 0.0
    is_call: bool = False


class _Judged(NamedTuple):
    """A passage, the number of the query's phrases and the stems that it contains, and its score.

    `rare` is the number of the query's rarest words that it contains: a passage with more of them beats a nearer one.
    """

    place: PassagePlace
    phrases: int
    stems: Collection[str]
    rare: int
    score: float

    @property
    def rank(self) -> tuple[int, int, float, float]:
        return self.phrases, self.rare, self.score, self.place[-1]


class ItemPassages(NamedTuple):
    """The passages that are shown of an item, best first, and the sentences that tell most of a turn."""

    shown: tuple[ShownPassage, ...] = ()
    telling: tuple[Telling, ...] = ()


def best_passages(
    query: PreparedQuery,
    *,
    compared: ComparedVectors | None,
    turns: Mapping[Turn, Home],
    weights: Mapping[str, float],
    words_of_turn: Mapping[Turn, Collection[str]],
    conclusions: Mapping[Turn, str],
    at_hand: Mapping[Turn, Mapping[int, Element]],
    near: Mapping[Turn, Sequence[PassagePlace]],
) -> dict[Turn, ItemPassages]:
    """Return the best passage for each (source, item) of the owner; one with a quoted phrase comes first.

    It is one of the item's nearest ones. If none of them contains a rare word that the item contains (`words_of_turn`
    are the query's words in each item), it is one of all passages in elements with such a word. Further passages follow
    if the item belongs to a document; of a turn, for a query that `tells`, the `_excerpt` and what tells most, also of
    its conclusion. If no vectors are `compared`, all passages of an item are judged. Elements `at_hand`, and the places
    of the nearest passages, as far as they are known (`near`), are not looked up again. One query for each kind of
    source with others, and up to two more for items without nearest passages, or whose nearest ones lack a rare word.
    """
    stop_words = [word.written for word in query.words if word.is_stop_word]
    unmarked = [query.time.words_of_time] if query.time else []
    if len(stop_words) < len(query.words):
        unmarked += stop_words
    words = QueryStems(weights, query.text.phrases, unmarked=" ".join(unmarked))
    weighed = {word: weights.get(word, 0.0) for of_turn in words_of_turn.values() for word in of_turn}
    least = RARE_SHARE * max(weighed.values(), default=0.0)
    rare = {word for word, weight in weighed.items() if weight >= least}
    rare_stems = {turn: words.counted(rare.intersection(words_of_turn.get(turn, ()))) for turn in turns}
    phrases = words.longest_of_phrases
    if compared and (unread := [turn for turn in turns if turn not in near]):
        near = {**near, **near_places(compared, unread, query.said_kinds)}
    bare = {turn: home for turn, home in turns.items() if turn not in near}
    stems = {turn: words.counted(words_of_turn.get(turn, ())) for turn in bare}
    # Judge all passages of items in elements with one of these stems. Text without stored
    # passages is split here.
    places = {} if query.space else _stored_places(query, list(bare))
    with_stems = frozenset(phrases).union(*stems.values())
    elements = _elements(query.archive_id, places, bare, at_hand, with_stems)
    judged_turns = {
        turn: (_judged(places[turn], elements[turn], words, rare_stems[turn]), elements[turn]) for turn in places
    }
    is_whole = {
        turn for turn, (judged, _) in judged_turns.items() if judged and not _missing(judged, rare_stems[turn], phrases)
    }
    incomplete = {turn: home for turn, home in bare.items() if turn not in is_whole}
    for turn, whole in _whole_items(query.archive_id, incomplete).items():
        judged_turns[turn] = _judged(_split(whole.values(), query), whole, words, rare_stems[turn]), whole
    if compared:
        judged_turns |= _found_near(query, compared, near, turns, words, rare_stems, at_hand)
    rooms = {turn: shown_chars_at(number) for number, turn in enumerate(turns)}
    return {
        turn: ItemPassages(
            (
                *(_shown(position, elements, words) for position in _chosen(judged, elements, rooms[turn])),
                *(_excerpt(judged, elements) if query.tells else ()),
            ),
            _telling(judged, elements, conclusions.get(turn, ""), words, query.text.text) if query.tells else (),
        )
        for turn, (judged, elements) in judged_turns.items()
        if judged
    }


def _found_near(
    query: PreparedQuery,
    compared: ComparedVectors,
    by_distance: Mapping[Turn, Sequence[PassagePlace]],
    turns: Mapping[Turn, Home],
    words: QueryStems,
    rare_stems: Mapping[Turn, Collection[str]],
    at_hand: Mapping[Turn, Mapping[int, Element]],
) -> dict[Turn, tuple[list[_Judged], dict[int, Element]]]:
    """Judge the known passages of items, after those with a rare word that they lack; return the elements too.

    Of a document only the latter count.
    """
    elements = _elements(query.archive_id, by_distance, turns, at_hand)
    by_turn = {turn: _judged(places, elements[turn], words, rare_stems[turn]) for turn, places in by_distance.items()}
    phrases = words.longest_of_phrases
    missing = {turn: _missing(by_turn[turn], rare_stems[turn], phrases) for turn in by_distance}
    lacking = [turn for turn, stems in missing.items() if stems]
    looked_into = lacking if query.text.phrases else lacking[:LOOKED_INTO]
    more = near_places(compared, looked_into, query.shown_kinds, PLACES_PER_HIT)
    stems = frozenset().union(*(missing[turn] for turn in more))
    for turn, more_elements in _elements(
        query.archive_id, more, turns, already_read=elements, with_stems=stems
    ).items():
        elements[turn] |= more_elements
        again = _judged_again(more[turn], elements[turn], words, missing[turn])
        if again and not any(map(_is_of_document, elements[turn].values())):
            again += [passage._replace(phrases=0, rare=0) for passage in by_turn[turn]]
        by_turn[turn] = again or by_turn[turn]
    return {turn: (by_turn[turn], elements[turn]) for turn in by_distance}


def _judged(
    places: Iterable[PassagePlace],
    elements: Mapping[int, Element],
    words: QueryStems,
    rare: Collection[str] = (),
    *,
    missing: frozenset[str] = frozenset(),
) -> list[_Judged]:
    """Judge the passages of these elements.

    If stems were `missing`, passages with most of them come first, and words alone count, not the cosine.
    """
    parts, rarest, judged = _parts(elements), frozenset(rare), []
    for span in places:
        if part := parts.get(span[:2]):
            text = part.text[span[2] : span[3]]
            stems = words.held_in(text)
            share = words.share_of(stems)
            weight = DOCUMENT_WORD_SHARE if part.kind == "document" else WORD_SHARE
            score = len(missing.intersection(stems)) + share if missing else span[-1] + weight * share
            judged.append(
                _Judged(span, words.phrases_in(text), stems, len((missing or rarest).intersection(stems)), score)
            )
    return judged


def _judged_again(
    places: Sequence[PassagePlace], elements: Mapping[int, Element], words: QueryStems, missing: frozenset[str]
) -> list[_Judged]:
    """Judge the passages that can matter by words alone; return none if none of them has a missing stem.

    Of a system prompt only those matter that contain half of the query by weight, of a document all, because neighbours
    are shown together.
    """
    if not any(map(_is_of_document, elements.values())):
        stems = missing.union(words.longest_of_phrases)
        texts = {key: part.text for key, part in _parts(elements).items()}
        plain = {position: folded(texts.get(position[:2], "")[position[2] : position[3]]) for position in places}
        places = [
            position
            for position, text in plain.items()
            if any(stem in form for form in (text, _SEPARATORS.sub("", text)) for stem in stems)
        ]
    parts = _parts(elements)
    judged = [
        passage
        for passage in _judged(places, elements, words, missing=missing)
        if parts[passage.place[:2]].kind != "system" or passage.phrases or words.share_of(passage.stems) >= PROMPT_SHARE
    ]
    return judged if any(passage.phrases or missing.intersection(passage.stems) for passage in judged) else []


def _parts(elements: Mapping[int, Element]) -> dict[tuple[int, int], ElementPart]:
    """Return the parts of these elements by element and index."""
    return {(number, part.index): part for number, element in elements.items() for part in element.parts}


def _missing(judged: Sequence[_Judged], stems: Collection[str], phrases: Sequence[str]) -> frozenset[str]:
    """Return those of the stems, and of those of the phrases, that the item contains and these passages lack."""
    if not judged:
        return frozenset()
    missing = frozenset(stems).difference(*[passage.stems for passage in judged])
    lacks_phrase = max([passage.phrases for passage in judged]) < len(phrases)
    return missing.union(phrases) if lacks_phrase else missing


def _stored_places(query: PreparedQuery, turns: Sequence[Turn]) -> dict[Turn, list[PassagePlace]]:
    """Return the places of the passages of some items in the active space. One query, or none for no items."""
    if not turns:
        return {}
    by_turn: dict[Turn, list[PassagePlace]] = {}
    for turn, entries in entries_of_items(query.archive_id, read_active_space(), turns).items():
        shown = entries[np.isin(entries["kind"], query.shown_kinds)]
        shown = shown[np.argsort(shown["kind"], kind="stable")[:PLACES_PER_HIT]]
        columns = (shown[name].tolist() for name in ("element", "part", "start", "end"))
        if len(shown):
            by_turn[turn] = [(*place, 0.0) for place in zip(*columns, strict=True)]
    return by_turn


def _chosen(judged: Sequence[_Judged], texts: Mapping[int, Element], room: int) -> list[PassagePlace]:
    """Return the places to show, best first: one, or runs of neighbours in a document."""
    if _is_of_document(texts[judged[0].place[0]]):
        return marked_runs([(passage.phrases + passage.score, passage.place) for passage in judged], room=room)
    return [max(judged, key=lambda passage: passage.rank).place]


def _excerpt(judged: Sequence[_Judged], elements: Mapping[int, Element]) -> Iterator[ShownPassage]:
    """Yield what an answer says around its best sentence, if the query's words do not point at another speaker's text.

    It begins with the paragraph if that is near, and has the length of an excerpt. The sentence is marked.
    """
    parts = _parts(elements)
    best = max(judged, key=lambda passage: passage.rank)
    answering = [passage for passage in judged if parts[passage.place[:2]].kind == "assistant"]
    answer = max(answering, key=lambda passage: passage.rank, default=None)
    asked = parts[best.place[:2]].kind == "user"
    if answer is None or not (asked or (answer.phrases, answer.rare) >= (best.phrases, best.rare)):
        return
    element, part, at, end, similarity = answer.place
    text = parts[element, part].text
    paragraph = text.rfind("\n\n", 0, at) + 2 if "\n\n" in text[:at] else 0
    start = 0 if len(text) <= EXCERPT_CHARS else paragraph if end - paragraph <= EXCERPT_CHARS // 2 else at
    end = max(end, min(start + EXCERPT_CHARS, len(text)))
    marks = ((at - start, answer.place[3] - start),)
    yield ShownPassage(element, part, start, end, text[start:end], marks, round(similarity, 4))


def _telling(
    judged: Sequence[_Judged], elements: Mapping[int, Element], conclusion: str, words: QueryStems, query: str
) -> tuple[Telling, ...]:
    """Return the sentences that tell most of a turn; none of a document."""
    parts = _parts(elements)
    if any(map(_is_of_document, elements.values())):
        return ()
    passages = [
        Judged(parts[element, part].text[start:end], parts[element, part].kind,
               cosine + WORD_SHARE * words.share_of(passage.stems), parts[element, part].text[end : end + AFTER_CHARS])
        for passage in judged
        for element, part, start, end, cosine in [passage.place]
    ]  # fmt: skip
    return tuple(telling(passages, conclusion, words, query, WORD_SHARE))


def _is_of_document(element: Element) -> bool:
    return any(part.kind == "document" for part in element.parts)


def _elements(
    archive_id: int,
    places: Mapping[Turn, Sequence[PassagePlace]],
    homes: Mapping[Turn, Home],
    already_read: Mapping[Turn, Mapping[int, Element]] = MappingProxyType({}),
    with_stems: Collection[str] = (),
) -> dict[Turn, dict[int, Element]]:
    """Return the elements of the passages of each item, by id; those `already_read` are not read again.

    With stems, at least the elements that contain one of them.
    """
    ids = {turn: {position[0] for position in of_turn} for turn, of_turn in places.items()}
    by_kind: dict[str, set[int]] = {}
    for turn, of_turn in ids.items():
        by_kind.setdefault(homes[turn][0], set()).update(of_turn - already_read.get(turn, {}).keys())
    read = {
        kind: adapter_of(kind).read_elements_with(archive_id, missing, with_stems)
        for kind, missing in by_kind.items()
        if missing
    }
    elements: dict[Turn, dict[int, Element]] = {}
    for turn, of_turn in ids.items():
        at_hand = {**already_read.get(turn, {}), **read.get(homes[turn][0], {})}
        elements[turn] = {number: at_hand[number] for number in of_turn if number in at_hand}
    return elements


def _whole_items(archive_id: int, homes: Mapping[Turn, Home]) -> dict[Turn, dict[int, Element]]:
    """Return all elements of items that have no passages, by id."""
    turns_of: dict[str, dict[ItemKey, Turn]] = {}
    for turn, (kind, object_id) in homes.items():
        turns_of.setdefault(kind, {})[object_id, turn[1]] = turn
    return {
        turns[key]: {element.element_id: element for element in item.elements}
        for kind, turns in turns_of.items()
        for key, item in adapter_of(kind).read_items(archive_id, list(turns)).items()
    }


def _split(elements: Iterable[Element], query: PreparedQuery) -> list[PassagePlace]:
    """Return the places of passages split here, if none are stored or no vector is available."""
    kinds = shown_kinds_in(query.scope, shows_calls=query.shows_calls)
    return [
        (element.element_id, span.part_index, span.start, span.end, 0.0)
        for element in elements
        for span in split_parts(element.parts)
        if span.kind in kinds
    ]


def _shown(span: PassagePlace, elements: Mapping[int, Element], words: QueryStems) -> ShownPassage:
    message_id, part_index, start, end, similarity = span
    parts = elements[message_id].parts
    part = next((part for part in parts if part.index == part_index), None)
    text, is_call = (part.text[start:end], part.kind == "call") if part else ("", False)
    marks = tuple(words.places_in(text))
    passage = ShownPassage(message_id, part_index, start, end, text, marks, round(similarity, 4), is_call)
    return shortened(passage, anchor=words.anchor_in(text)) if len(text) > MAX_CHARS else passage


def shortened(passage: ShownPassage, *, anchor: int) -> ShownPassage:
    """Cut a long passage to the length that a hit shows, starting shortly before the character `anchor`."""
    if len(passage.text) <= MAX_CHARS:
        return passage
    cut_at = min(max(0, anchor - LEAD_CHARS), len(passage.text) - MAX_CHARS)
    marks = tuple(
        (start - cut_at, end - cut_at) for start, end in passage.marks if start >= cut_at and end <= cut_at + MAX_CHARS
    )
    return replace(passage, text=passage.text[cut_at : cut_at + MAX_CHARS], marks=marks)
