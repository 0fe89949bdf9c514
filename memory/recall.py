"""Recalls messages: the one use case behind the tool, the API and the page Recall.

Messages are ranked inside the turns that search finds. The functions take the caller, never an owner from input;
without a caller the result is empty.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.marking import marks_of
from convmemory.conversations.messages.parts import Role, part_text, speaker_of
from convmemory.conversations.reading import get_conversation, sessions_of, with_home_turns
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, SwitchedOff
from convmemory.core.marks import Mark
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.postgres.replicas import may_use_replica
from convmemory.core.sql import load_sql
from memory.context import ChunkId, Opening, RecalledMessage, RecalledPassage, Side
from memory.message_features import ANYWHERE, Candidate, MessageCandidates, Positions, message_candidates
from search.models import Passage
from search.pipeline import RankedItems, rank_items
from search.query import DEFAULT_SCOPE, SearchQuery
from search.ranking.rankers import LinearRanker, best_first, weights_of
from search.reasons import NOT_SIMILAR, NOTHING_BROUGHT, Explanation, Pending, Reason, explain_empty, pending_of
from search.results.matching import QueryStems
from search.retrieval.candidates import item_keys
from search.searching import TURNS_ALONE

MAX_TOP_K = 50
# White space before a passage is kept up to this, to show the line breaks between passages.
LEADING_CHARS = 40
# At most this many passages of one message come back, those nearest to the query.
PASSAGES = 6
WRONG_LEFT_OUT = "Turns that the user marked wrong were left out: a search shows them."


@dataclass(frozen=True, slots=True)
class RankedMessages:
    """Candidate messages, best first, with their scores, their features and the ranking of their turns."""

    turns: RankedItems
    candidates: tuple[Candidate, ...] = ()
    scores: tuple[float, ...] = ()
    found: MessageCandidates = field(default_factory=MessageCandidates)


@dataclass(frozen=True, slots=True)
class Recall:
    """The messages that answer a query, best first.

    `answered` is false if nothing is likely to answer, so that the result is empty; None if that is unknown, or not yet
    known because items wait to be indexed: `pending` counts them. `total_found` counts the messages that pass the
    threshold in turns that may answer. `explanation` says why nothing came, or not all that could. `notes` say more.
    """

    query: str
    messages: tuple[RecalledMessage, ...] = ()
    notes: tuple[str, ...] = ()
    answered: bool | None = None
    total_found: int = 0
    explanation: Explanation | None = None
    pending: int = 0

    @property
    def reason(self) -> Reason | None:
        return self.explanation.reason if self.explanation else None

    @property
    def notes_for_tools(self) -> tuple[str, ...]:
        """Return all that is to be said to a model or a program."""
        return (*self.notes, *([self.explanation.for_tools] if self.explanation else []))


@may_use_replica
def recall(
    *,
    owner: AbstractBaseUser | AnonymousUser | None,
    query: str,
    top_k: int | None = None,
    threshold: float | None = None,
    min_relevance: float | None = None,
    scope: Collection[str] = (),
    conversation_id: int | None = None,
    before_position: int | None = None,
    after_position: int | None = None,
    filters: Filters = EVERYTHING,
    alive_message_ids: Collection[int] = (),
    alive_from_position: int | None = None,
    exclude_session: str = "",
) -> Recall:
    """Return the caller's messages that answer the query, best first, each with its passages and its turn's openings.

    If the probability of an answer is below `min_relevance`, the result is empty. `threshold` is the least cosine
    similarity of a message: by default none where the probability is known, elsewhere RECALL_THRESHOLD. If no vectors
    can be compared, it is not applied and a note says so. Positions bound the messages of one conversation, both ends
    excluded. Archived conversations are read only if one is named. The query is plain text. `alive_message_ids` are
    messages that the model already sees, and so are those of the conversation from `alive_from_position` on: other
    messages take their places. `exclude_session` is the id of the calling agent's own session, as its transcript names
    it: it is not recalled. Turns that the caller marked as wrong are left out.

    Raises: InvalidInput, NotFound for a conversation that is not the caller's, SwitchedOff.
    """
    if not config.conversation_memory_enabled:
        raise SwitchedOff("Conversation memory is switched off on this server (CONVERSATION_MEMORY_ENABLED=0).")
    limits = _limits(top_k, threshold, min_relevance)
    if owner is None or not owner.is_authenticated or owner.pk is None:
        return Recall(query, explanation=Explanation(Reason.NO_CALLER))
    befores = [position for position in (before_position, alive_from_position) if position is not None]
    positions = _positions(conversation_id, min(befores, default=None), after_position)
    alive = alive_among(alive_message_ids)
    # Turns that are alive as a whole leave the search, or they would fill the best turns and yield no message.
    seen = alive_turns(owner_id=owner.pk, message_ids=alive)
    own = sessions_of(owner=owner, session_id=exclude_session)
    marks = marks_of(owner_id=owner.pk, conversation_id=conversation_id)
    wrong = [turn for turn, mark in marks.items() if mark.kind == "wrong"]
    wanted = replace(
        _of_conversation(owner, filters, conversation_id, positions),
        except_turns=(*seen, *wrong),
        except_conversations=own,
    )
    checked = SearchQuery(text=query, scope=frozenset(scope) or DEFAULT_SCOPE, filters=wanted)
    turns = rank_items(owner_id=owner.pk, query=checked)
    answered = turns.is_answered(limits.min_relevance)
    pending = pending_of(owner.pk, turns.query.filters) if turns.is_behind else Pending()
    found, explanation = Recall(query, notes=turns.query.notes), NOTHING_BROUGHT
    if answered is not False:
        ranked = rank_messages(turns, positions, alive)
        found = choose_messages(
            query,
            ranked,
            top_k=limits.top_k,
            threshold=limits.threshold_of(turns),
            bar=limits.min_relevance,
            marks=marks,
        )
        explanation = NOT_SIMILAR if ranked.candidates else NOTHING_BROUGHT
    if found.messages:
        return replace(found, answered=answered, explanation=pending.explanation, pending=pending.items)
    if alive_message_ids or alive_from_position is not None:
        again = recall(
            owner=owner, query=query, threshold=threshold, min_relevance=min_relevance, scope=scope,
            conversation_id=conversation_id, before_position=before_position, after_position=after_position,
            filters=filters, exclude_session=exclude_session,
        )  # fmt: skip
        if again.messages:
            return replace(found, answered=answered, explanation=Explanation(Reason.IN_CONTEXT), pending=pending.items)
    if wrong:
        found = replace(found, notes=(*found.notes, WRONG_LEFT_OUT))
    # What waits may be likelier than the bar: that nothing answers is not known then.
    explained = explain_empty(owner_id=owner.pk, filters=wanted, pending=pending)
    if explained.reason is Reason.NO_MATCH:
        explained = explanation
    answered = None if answered is False and pending.items else answered
    return replace(found, answered=answered, explanation=explained, pending=pending.items)


def rank_messages(
    turns: RankedItems, positions: Positions = ANYWHERE, alive: frozenset[int] = frozenset()
) -> RankedMessages:
    """Rank the messages of the turns that search ranks best."""
    found = message_candidates(turns, positions, alive)
    if not found.candidates:
        return RankedMessages(turns)
    ranker = LinearRanker(weights_of("messages" if turns.query.space else "messages_full_text"))
    scores = ranker.score(found.table)
    order = best_first(scores, found.table.keys)
    return RankedMessages(
        turns, tuple(found.candidates[index] for index in order), tuple(scores[order].tolist()), found
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    top_k: int
    threshold: float | None
    min_relevance: float

    def threshold_of(self, ranked: RankedItems) -> float:
        """Return the caller's threshold; by default 0 where relevance is known, since it says more than a cosine."""
        if self.threshold is not None:
            return self.threshold
        return config.recall_threshold if ranked.relevance.answerable is None else 0.0


def _limits(top_k: int | None, threshold: float | None, min_relevance: float | None) -> _Limits:
    """The caller's limits, by default those of the settings. Raises: InvalidInput."""
    limits = _Limits(
        config.recall_top_k if top_k is None else top_k,
        threshold,
        config.recall_min_relevance if min_relevance is None else min_relevance,
    )
    if not 1 <= limits.top_k <= MAX_TOP_K:
        raise InvalidInput(f"top_k={limits.top_k} is out of range: use 1 to {MAX_TOP_K}.")
    if limits.threshold is not None and not 0 <= limits.threshold <= 1:
        raise InvalidInput(f"threshold={limits.threshold} is out of range: it is a cosine similarity from 0 to 1.")
    if not 0 <= limits.min_relevance <= 1:
        raise InvalidInput(f"min_relevance={limits.min_relevance} is out of range: it is a probability from 0 to 1.")
    return limits


def _positions(conversation_id: int | None, before: int | None, after: int | None) -> Positions:
    """Return the first and the last position, both included. Raises: InvalidInput."""
    if before is None and after is None:
        return ANYWHERE
    if conversation_id is None:
        raise InvalidInput("Positions count within one conversation: name it, or leave the positions out.")
    if min(value for value in (before, after) if value is not None) < 0:
        raise InvalidInput("Positions start at 0.")
    first = ANYWHERE[0] if after is None else min(after, ANYWHERE[1] - 1) + 1
    last = ANYWHERE[1] if before is None else min(before, ANYWHERE[1]) - 1
    return first, last


def _of_conversation(
    owner: AbstractBaseUser, filters: Filters, conversation_id: int | None, positions: Positions
) -> Filters:
    """Return the filters, limited to one conversation and its turns at these positions if a conversation is named."""
    if conversation_id is None:
        return replace(filters, kinds=TURNS_ALONE)
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    if positions == ANYWHERE:
        return replace(filters, archived=None, conversation_id=conversation.pk, kinds=TURNS_ALONE)
    inside = with_home_turns(conversation.messages.filter(position__range=positions))
    turns_inside = inside.values_list("home_turn", flat=True)
    first, last = turns_inside.order_by("position").first(), turns_inside.order_by("-position").first()
    turns = (first or 0, -1 if last is None else last)
    return replace(filters, archived=None, conversation_id=conversation.pk, turns=turns, kinds=TURNS_ALONE)


def choose_messages(
    text: str,
    ranked: RankedMessages,
    *,
    top_k: int,
    threshold: float,
    bar: float = 0.0,
    marks: Mapping[tuple[int, int], Mark] = MappingProxyType({}),
) -> Recall:
    """Return the best of the ranked messages that are similar enough, with their texts, openings and marks.

    `text` is the query; `bar` is the probability below which nothing is recalled; `marks` are those of the owner's
    turns, by conversation and turn. Two queries.
    """
    query = ranked.turns.query
    compared = query.space is not None
    notes = query.notes if compared else (*query.notes, "The threshold was not applied.")
    chosen = [
        (candidate, score)
        for candidate, score in zip(ranked.candidates, ranked.scores, strict=True)
        if not compared or candidate.places[0][4] >= threshold
    ]
    messages = [_message(candidate, score, ranked.turns.word_weights) for candidate, score in chosen[:top_k]]
    places = {key: place for place, key in enumerate(ranked.turns.table.keys.tolist())}
    likely = set(ranked.turns.likely(bar).tolist())
    homes = item_keys([one.source_id for one, _ in chosen], [one.turn_number for one, _ in chosen])
    # The messages with their openings and marks; a turn before that is wrong has no openings.
    message_ids = [message.message_id for message in messages]
    turns = np.array([places[key] for key in homes[: len(messages)].tolist()], np.int64)
    openings = load_openings(owner_id=query.owner_id, message_ids=message_ids)
    earlier = load_earlier_openings(owner_id=query.owner_id, message_ids=message_ids)
    completed = []
    for message, relevance in zip(messages, ranked.turns.relevance.of(turns), strict=True):
        mark, before = (marks.get((message.conversation_id, message.turn_number - back)) for back in (0, 1))
        is_wrong = before is not None and before.kind == "wrong"
        completed.append(
            replace(
                message,
                relevance=relevance,
                question_opening=openings.get((message.message_id, "user")),
                answer_opening=openings.get((message.message_id, "assistant")),
                earlier=() if is_wrong else earlier.get(message.message_id, ()),
                mark=mark,
                earlier_mark=before,
            )
        )
    return Recall(
        text,
        tuple(completed),
        notes,
        total_found=sum(key in likely for key in homes.tolist()),
    )


def _message(candidate: Candidate, score: float, weights: Mapping[str, float]) -> RecalledMessage:
    passages: list[RecalledPassage] = []
    for place in candidate.places:
        message_id, part_index, start, end, similarity = place
        whole = part_text(candidate.parts[part_index]) if part_index < len(candidate.parts) else ""
        before = whole[max(0, start - LEADING_CHARS) : start]
        passages.append(
            RecalledPassage(
                message_id,
                part_index,
                start,
                end,
                whole[start:end],
                similarity=round(min(1.0, max(0.0, similarity)), 4),
                leading=before[len(before.rstrip()) :],
            )
        )
    # Passages that were split here have no cosine to choose by, so their words decide.
    if len(passages) > PASSAGES:
        words = QueryStems(weights)
        passages = sorted(passages, key=lambda passage: -len(words.places_in(passage.text)))[:PASSAGES]
    return RecalledMessage(
        message_id=candidate.message_id,
        conversation_id=candidate.conversation_id,
        title=candidate.title,
        turn_number=candidate.turn_number,
        position=candidate.position,
        role=candidate.role,
        speaker=speaker_of(cast("Role", candidate.role), candidate.name),
        created_at=candidate.created_at,
        passages=tuple(sorted(passages, key=lambda passage: passage.key)),
        similarity=max(passage.similarity for passage in passages),
        score=round(score, 4),
    )


# --- openings -------------------------------------------------------------------------------------
# Loads the openings that accompany recalled passages: the first sentences of the question and of the answer.


OpeningKey = tuple[int, Side]
"""The id of the recalled message, and the side whose opening it is."""


def load_openings(*, owner_id: int, message_ids: Sequence[int]) -> Mapping[OpeningKey, Opening]:
    """Return the first passages of each message's question and answer. One query; only the owner's messages."""
    if not message_ids:
        return {}
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "messages": list(message_ids),
        "question": Passage.Kind.USER,
        "answer": Passage.Kind.ASSISTANT,
        "outside": Passage.Kind.OUTSIDE,
    }
    found: dict[OpeningKey, Opening] = {}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "openings"), parameters)
        for recalled_id, said_by, *place, text, name, position in cursor.fetchall():
            role = cast("Side", said_by)
            message_id, part_index, start, end = cast("list[int]", place)
            passage = RecalledPassage(message_id, part_index, start, end, text or "")
            found[recalled_id, role] = Opening(passage, speaker_of(role, name), position)
    return found


def load_earlier_openings(*, owner_id: int, message_ids: Sequence[int]) -> Mapping[int, tuple[Opening, ...]]:
    """Return the openings of the turn before each message's turn, question first. One query; the owner's alone."""
    if not message_ids:
        return {}
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "messages": list(message_ids),
        "question": Passage.Kind.USER,
        "answer": Passage.Kind.ASSISTANT,
    }
    found: dict[int, tuple[Opening, ...]] = {}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "earlier_openings"), parameters)
        for recalled_id, message_id, part_index, start, end, text, role, name, position in cursor.fetchall():
            passage = RecalledPassage(message_id, part_index, start, end, text or "")
            opening = Opening(passage, speaker_of(cast("Role", role), name), position)
            found[recalled_id] = (*found.get(recalled_id, ()), opening)
    return found


# --- alive ----------------------------------------------------------------------------------------
# The messages that a model already sees. Recall neither returns them nor spends tokens on them.


@dataclass(frozen=True, slots=True)
class InContext:
    """Messages named by id, and all messages of one conversation from a position on."""

    message_ids: frozenset[int] = frozenset()
    conversation_id: int | None = None
    from_position: int | None = None

    def contains(self, *, message_id: int, conversation_id: int, position: int) -> bool:
        """Return whether the model sees this message."""
        if message_id in self.message_ids:
            return True
        return (
            self.from_position is not None
            and conversation_id == self.conversation_id
            and position >= self.from_position
        )


def alive_among(message_ids: Collection[int]) -> frozenset[int]:
    """Those that can be message ids at all."""
    return frozenset(number for number in message_ids if 0 < number <= MAX_BIGINT)


def alive_turns(*, owner_id: int, message_ids: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Return the owner's turns (conversation, number) whose messages are all alive. At most one query."""
    if not message_ids:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "alive_turns"), {"owner": owner_id, "messages": list(message_ids)})
        return tuple((conversation, number) for conversation, number in cursor.fetchall())


def alive_passages(messages: Sequence[RecalledMessage], alive: InContext) -> frozenset[ChunkId]:
    """Return the keys of passages and openings of recalled messages that the model already sees."""
    openings = [
        (message.conversation_id, opening.position, opening.passage)
        for message in messages
        for opening in (message.question_opening, message.answer_opening, *message.earlier)
        if opening
    ]
    passages = [(m.conversation_id, m.position, passage) for m in messages for passage in m.passages]
    return frozenset(
        passage.key
        for conversation_id, position, passage in (*openings, *passages)
        if alive.contains(message_id=passage.message_id, conversation_id=conversation_id, position=position)
    )
