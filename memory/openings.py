"""Finds with what the question and the answer began that a recalled message belongs to, and those of the turn before.

A question's answer is the last one after it that says more than "Done."; what a tool put out is in the answer that
called it. What was said outside of a turn has neither.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from convmemory.conversations.messages.outcomes import SHORT_CHARS
from convmemory.conversations.messages.parts import speaker_of
from convmemory.conversations.models import Message
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import read_active_space
from memory.context import Opening, RecalledPassage, Side
from search.models import PassageBlock
from search.vectors.packing import entries_of_items

OpeningKey = tuple[int, Side]
"""The id of the recalled message, and the side whose opening it is."""
ItemKey = tuple[int, int]
"""The id of a source, and the number of an item."""
QUESTION, ANSWER, OUTSIDE = (int(kind) for kind in (
    PassageBlock.Kind.USER, PassageBlock.Kind.ASSISTANT, PassageBlock.Kind.OUTSIDE
))  # fmt: skip


class _Spoken(NamedTuple):
    """A message, and its passages in the order of the text: part, start, end and kind of each."""

    number: int
    turn_number: int | None
    is_real_user: bool
    role: str
    name: str
    position: int
    passages: tuple[tuple[int, int, int, int], ...]

    def of_kinds(self, *kinds: int) -> list[tuple[int, int, int, int]]:
        """Return the passages of these kinds."""
        return [passage for passage in self.passages if passage[3] in kinds]


_FirstPassage = tuple[Side, _Spoken, tuple[int, int, int, int]]


def load_openings(
    *, archive_id: int, homes: Mapping[int, ItemKey]
) -> tuple[Mapping[OpeningKey, Opening], Mapping[int, tuple[Opening, ...]]]:
    """Return the openings of each message's turn by side, and those of the turn before, question first.

    `homes` are the turns of the owner's messages, by the messages' ids. Three queries.
    """
    turns = {*homes.values(), *((source, item - 1) for source, item in homes.values() if item)}
    spoken, turn_numbers = _spoken(archive_id, entries_of_items(archive_id, read_active_space(), turns), homes)
    openings: list[tuple[OpeningKey, _FirstPassage]] = []
    earlier: list[tuple[int, _FirstPassage]] = []
    for message_id, (source, item) in homes.items():
        turn_number = turn_numbers.get(message_id)
        if turn_number is None:
            continue
        messages = spoken.get((source, item), [])
        if recalled := next((message for message in messages if message.number == message_id), None):
            openings += [((message_id, first[0]), first) for first in _of_turn(recalled, messages)]
        before = [one for one in spoken.get((source, item - 1), []) if one.turn_number == turn_number - 1]
        earlier += [(message_id, first) for first in _first_of_each_side(before)]
    texts = iter(_texts(archive_id, [first for _, first in (*openings, *earlier)]))
    of_turns = {key: next(texts) for key, _ in openings}
    of_turns_before: dict[int, tuple[Opening, ...]] = {}
    for message_id, _ in earlier:
        of_turns_before[message_id] = (*of_turns_before.get(message_id, ()), next(texts))
    return of_turns, of_turns_before


def _of_turn(recalled: _Spoken, messages: Iterable[_Spoken]) -> Iterator[_FirstPassage]:
    """Yield the opening of the question before the message, and of its answer."""
    questions = [
        (-one.position, passage[:2], one, passage)
        for one in messages
        if one.is_real_user and one.position <= recalled.position
        for passage in one.of_kinds(QUESTION, OUTSIDE)
    ]
    if questions:
        *_, question, passage = min(questions, key=lambda row: row[:2])
        yield "user", question, passage
    answers = []
    for one in messages:
        if one.role != "assistant" or (recalled.is_real_user and one.position <= recalled.position):
            continue
        passages = one.of_kinds(ANSWER, OUTSIDE)
        is_after = one.position > recalled.position
        is_short = recalled.is_real_user and max((end for _, _, end, _ in passages), default=0) < SHORT_CHARS
        distance = -one.position if recalled.is_real_user else abs(one.position - recalled.position)
        rank = (is_after != recalled.is_real_user, is_short, distance)
        answers += [(rank, passage[:2], one, passage) for passage in passages]
    if answers:
        *_, answer, passage = min(answers, key=lambda row: row[:2])
        yield "assistant", answer, passage


def _first_of_each_side(messages: Iterable[_Spoken]) -> Iterator[_FirstPassage]:
    """Yield the first passage of the question and of the answer of a turn."""
    in_order = sorted(messages, key=lambda one: one.position)
    for kind in (QUESTION, ANSWER):
        first = next(((one, passage) for one in in_order for passage in one.of_kinds(kind)), None)
        if first is not None:
            yield ("assistant" if first[0].role == "assistant" else "user"), *first


def _spoken(
    archive_id: int, entries: Mapping[ItemKey, Any], recalled: Iterable[int]
) -> tuple[dict[ItemKey, list[_Spoken]], dict[int, int | None]]:
    """Return the messages of some turns that have passages, and the turns of the recalled messages. One query."""
    elements = {int(number) for of_item in entries.values() for number in np.unique(of_item["element"])}
    stored = Message.objects.filter(archive_id=archive_id, pk__in=elements.union(recalled))
    rows = stored.values_list("pk", "turn_number", "is_real_user", "role", "name", "position")
    messages = {row[0]: row for row in rows}
    spoken: dict[ItemKey, list[_Spoken]] = {}
    for key, of_item in entries.items():
        columns = (of_item[name].tolist() for name in ("element", "part", "start", "end", "kind"))
        of_messages: dict[int, list[tuple[int, int, int, int]]] = {}
        for number, *passage in sorted(zip(*columns, strict=True)):
            of_messages.setdefault(number, []).append(tuple(passage))
        spoken[key] = [
            _Spoken._make((*messages[number], tuple(passages)))
            for number, passages in of_messages.items()
            if number in messages
        ]
    return spoken, {number: row[1] for number, row in messages.items()}


def _texts(archive_id: int, chosen: list[_FirstPassage]) -> Iterator[Opening]:
    """Yield the opening that each first passage is. One query."""
    if not chosen:
        return
    parameters: dict[str, Any] = {
        "owner": archive_id,
        "messages": [message.number for _, message, _ in chosen],
        "parts": [part for _, _, (part, *_) in chosen],
        "starts": [start for _, _, (_, start, *_) in chosen],
        "sizes": [end - start for _, _, (_, start, end, _) in chosen],
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "texts_of_places"), parameters)
        texts = [text or "" for (text,) in cursor.fetchall()]
    for (side, message, (part, start, end, _)), text in zip(chosen, texts, strict=True):
        passage = RecalledPassage(message.number, part, start, end, text)
        yield Opening(passage, speaker_of(side, message.name), message.position)
