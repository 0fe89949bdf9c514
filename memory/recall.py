"""Recalls messages: the one use case behind the tool, the API and the page "What would an agent recall?".

Messages are ranked inside the turns that search finds. The functions take the caller, never an owner from input;
without a caller the result is empty.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.parts import Role, part_text, speaker_of
from convmemory.conversations.reading import get_conversation, with_home_turns
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, SwitchedOff
from convmemory.core.replicas import may_use_replica
from memory.alive import alive_among, alive_turns
from memory.message_features import ANYWHERE, Candidate, MessageCandidates, Positions, message_candidates
from memory.openings import load_openings
from memory.recalled import NOTHING_ANSWERS, Recall, RecalledMessage, RecalledPassage
from search.document_search import TURNS_ALONE
from search.pipeline import rank_items
from search.query import DEFAULT_SCOPE, SearchQuery
from search.ranking.fusion import best_first
from search.ranking.rankers import LinearRanker
from search.ranking.stages import RankedItems
from search.ranking.weights import weights_of
from search.results.matching import QueryStems
from search.results.runs import PassagePlace

MAX_TOP_K = 50
# White space before a passage is kept up to this, to show the line breaks between passages.
LEADING_CHARS = 40
# At most this many passages of one message come back, those nearest to the query.
PASSAGES = 6


@dataclass(frozen=True, slots=True)
class RankedMessages:
    """Candidate messages, best first, with their scores, their features and the ranking of their turns."""

    turns: RankedItems
    candidates: tuple[Candidate, ...] = ()
    scores: tuple[float, ...] = ()
    found: MessageCandidates = field(default_factory=MessageCandidates)


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
) -> Recall:
    """Return the caller's messages that answer the query, best first, each with its passages and its turn's openings.

    `threshold` is the least cosine similarity; if no vectors can be compared, it is not applied and a note says so. If
    the probability of an answer is below `min_relevance`, the result is empty, and a note says so. Positions bound the
    messages of one conversation, both ends excluded. Archived conversations are read only if one is named. The query is
    plain text. `alive_message_ids` are messages that the model already sees: other messages take their places.

    Raises: InvalidInput, NotFound for a conversation that is not the caller's, SwitchedOff.
    """
    if not config.conversation_memory_enabled:
        raise SwitchedOff("Conversation memory is switched off on this server (CONVERSATION_MEMORY_ENABLED=0).")
    limits = _limits(top_k, threshold, min_relevance)
    if owner is None or not owner.is_authenticated or owner.pk is None:
        return Recall(query, notes=("Nobody is signed in: there is nothing to recall.",))
    positions = _positions(conversation_id, before_position, after_position)
    alive = alive_among(alive_message_ids)
    # Turns that are alive as a whole leave the search, or they would fill the best turns and yield no message.
    seen = alive_turns(owner_id=owner.pk, message_ids=alive)
    turns = replace(_of_conversation(owner, filters, conversation_id, positions), except_turns=seen)
    checked = SearchQuery(text=query, scope=frozenset(scope) or DEFAULT_SCOPE, filters=turns)
    ranked = rank_messages(owner.pk, checked, positions, alive)
    answered = ranked.turns.is_answered(limits.min_relevance)
    if answered is False and ranked.candidates:
        return Recall(query, notes=(*ranked.turns.query.notes, NOTHING_ANSWERS), answered=False)
    return replace(choose_messages(query, ranked, top_k=limits.top_k, threshold=limits.threshold), answered=answered)


def rank_messages(
    owner_id: int, query: SearchQuery, positions: Positions = ANYWHERE, alive: frozenset[int] = frozenset()
) -> RankedMessages:
    """Rank the messages of the turns that search ranks best."""
    turns = rank_items(owner_id=owner_id, query=query)
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
    threshold: float
    min_relevance: float


def _limits(top_k: int | None, threshold: float | None, min_relevance: float | None) -> _Limits:
    """The caller's limits, by default those of the settings. Raises: InvalidInput."""
    limits = _Limits(
        config.recall_top_k if top_k is None else top_k,
        config.recall_threshold if threshold is None else threshold,
        config.recall_min_relevance if min_relevance is None else min_relevance,
    )
    if not 1 <= limits.top_k <= MAX_TOP_K:
        raise InvalidInput(f"top_k={limits.top_k} is out of range: use 1 to {MAX_TOP_K}.")
    if not 0 <= limits.threshold <= 1:
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


def choose_messages(text: str, ranked: RankedMessages, *, top_k: int, threshold: float) -> Recall:
    """Return the best of the ranked messages that are similar enough, with their texts and openings.

    `text` is the query. One query.
    """
    query = ranked.turns.query
    compared = query.space is not None
    notes = query.notes if compared else (*query.notes, "The threshold was not applied.")
    chosen = [
        (candidate, score)
        for candidate, score in zip(ranked.candidates, ranked.scores, strict=True)
        if not compared or candidate.places[0][4] >= threshold
    ][:top_k]
    messages = [_message(candidate, score, ranked.turns.word_weights) for candidate, score in chosen]
    return Recall(text, tuple(_with_openings(query.owner_id, messages)), notes)


def _message(candidate: Candidate, score: float, weights: Mapping[str, float]) -> RecalledMessage:
    passages = [_passage(candidate, place) for place in candidate.places]
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


def _passage(candidate: Candidate, place: PassagePlace) -> RecalledPassage:
    message_id, part_index, start, end, similarity = place
    whole = part_text(candidate.parts[part_index]) if part_index < len(candidate.parts) else ""
    before = whole[max(0, start - LEADING_CHARS) : start]
    return RecalledPassage(
        message_id, part_index, start, end, whole[start:end],
        similarity=round(min(1.0, max(0.0, similarity)), 4),
        leading=before[len(before.rstrip()) :],
    )  # fmt: skip


def _with_openings(owner_id: int, messages: list[RecalledMessage]) -> list[RecalledMessage]:
    openings = load_openings(owner_id=owner_id, message_ids=[message.message_id for message in messages])
    return [
        replace(
            message,
            question_opening=openings.get((message.message_id, "user")),
            answer_opening=openings.get((message.message_id, "assistant")),
        )
        for message in messages
    ]
