"""Recalls messages: the one use case behind the tool, the API and the page Recall.

Messages are ranked inside the turns that search finds. The functions take the caller, never an owner from input;
without a caller the result is empty.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

import numpy as np
from django.db import connection
from django.utils.translation import gettext

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import archive_of_address
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.marking import marks_of
from convmemory.conversations.messages.parts import Role, part_text, speaker_of, spoken_text
from convmemory.conversations.reading import get_conversation, sessions_of, with_home_turns
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, SwitchedOff
from convmemory.core.marks import Mark
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.sql import PendingQuery, load_sql
from memory.context import ChunkId, RecalledMessage, RecalledPassage
from memory.message_features import ANYWHERE, MessageCandidate, Positions, message_candidates
from memory.openings import load_openings
from search.pipeline import rank_items
from search.query import DEFAULT_SCOPE, SearchQuery
from search.ranking.rankers import LinearRanker, best_first, weights_of
from search.reasons import (
    NOT_SIMILAR,
    NOTHING_BROUGHT,
    NOTHING_PENDING,
    Explanation,
    Pending,
    Reason,
    explain_empty,
    explanation_of_all,
    pending_of,
    pending_of_all,
)
from search.results.later_turns import later_turns_query, overturned_by, read_turns
from search.results.matching import QueryStems
from search.retrieval.candidates import FeatureTable, item_keys, split_keys
from search.retrieval.retriever import FEW_WORDS_RELEVANCE, SearchState
from search.searching import TURNS_ALONE, merge_ranked, notes_of_left_out, within_budget

MAX_TOP_K = 50
# White space before a passage is kept up to this, to show the line breaks between passages.
LEADING_CHARS = 40
# At most this many passages of one message come back, those nearest to the query.
PASSAGES = 6
# If no turn is likely to answer, one with this share of the best turn's probability may, too: of the 117 questions of
# tests/retrieval whose turn is among the first five, .05 loses one and no such rule nine; all of them have a best turn
# below .4.
LIKELY_SHARE = 0.03
WRONG_LEFT_OUT = "Turns that the user marked wrong were left out: a search shows them."


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A checked query: its plain text, which messages may come back, how many, and how well they must answer.

    If the probability of an answer is below `min_relevance`, nothing comes back; None stands for RECALL_MIN_RELEVANCE,
    and then a turn that contains all words of the query counts as an answer, too, and a few words of which no turn
    contains half need more. `threshold` is the least cosine similarity of a message: by default none where the
    probability is known, elsewhere RECALL_THRESHOLD. If no vectors can be compared, it is not applied and a note says
    so. Positions bound the messages of one conversation, both ends excluded. Archived conversations are read only if
    one is named. `alive_message_ids` are messages that the model already sees, and so are those of the conversation
    from `alive_from_position` on: other messages take their places. `exclude_session` is the id of the calling agent's
    own session, as its transcript names it: it is not recalled.

    Raises: InvalidInput.
    """

    text: str
    top_k: int = field(default_factory=lambda: config.recall_top_k)
    threshold: float | None = None
    min_relevance: float | None = None
    scope: Collection[str] = ()
    filters: Filters = EVERYTHING
    conversation_id: int | None = None
    before_position: int | None = None
    after_position: int | None = None
    alive_message_ids: Collection[int] = ()
    alive_from_position: int | None = None
    exclude_session: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOP_K:
            raise InvalidInput(f"top_k={self.top_k} is out of range: use 1 to {MAX_TOP_K}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InvalidInput(f"threshold={self.threshold} is out of range: it is a cosine similarity from 0 to 1.")
        if not 0 <= self.bar <= 1:
            raise InvalidInput(f"min_relevance={self.min_relevance} is out of range: it is a probability from 0 to 1.")
        positions = (self.before_position, self.after_position, self.alive_from_position)
        numbers = [position for position in positions if position is not None]
        if numbers and self.conversation_id is None:
            raise InvalidInput("Positions count within one conversation: name it, or leave the positions out.")
        if min(numbers, default=0) < 0:
            raise InvalidInput("Positions start at 0.")

    @property
    def bar(self) -> float:
        """Return the least probability of an answer."""
        return config.recall_min_relevance if self.min_relevance is None else self.min_relevance

    @property
    def positions(self) -> Positions:
        """Return the first and the last position of messages that may come back, both included."""
        first, last = ANYWHERE
        if self.after_position is not None:
            first = min(self.after_position, last - 1) + 1
        befores = [bound for bound in (self.before_position, self.alive_from_position) if bound is not None]
        return first, min([last, *(bound - 1 for bound in befores)])

    @property
    def alive(self) -> frozenset[int]:
        """Return the ids of messages that the model already sees, without numbers that are no ids."""
        return frozenset(number for number in self.alive_message_ids if 0 < number <= MAX_BIGINT)


@dataclass(frozen=True, slots=True)
class Recall:
    """The messages that answer a query, best first.

    `answered` is false if nothing is likely to answer, so that the result is empty; None if that is unknown, or not yet
    known because items wait to be indexed: `waiting` counts them. `total_found` counts the messages that pass the
    threshold in turns that may answer; only these come. `explanation` says why nothing came, or not all that could.
    `notes` say more.
    """

    query: str
    messages: tuple[RecalledMessage, ...] = ()
    notes: tuple[str, ...] = ()
    answered: bool | None = None
    total_found: int = 0
    explanation: Explanation | None = None
    waiting: Pending = NOTHING_PENDING

    @property
    def pending(self) -> int:
        return self.waiting.items

    @property
    def reason(self) -> Reason | None:
        return self.explanation.reason if self.explanation else None

    @property
    def notes_for_tools(self) -> tuple[str, ...]:
        """Return all that is to be said to a model or a program."""
        return (*self.notes, *([self.explanation.for_tools] if self.explanation else []))


def recall(*, caller: Caller | None, query: RecallQuery) -> Recall:
    """Return the caller's messages that answer the query, best first, each with its passages and its turn's openings.

    Turns that the caller marked as wrong are left out. Raises: InvalidInput, NotFound for a conversation that is not
    the caller's, SwitchedOff.
    """
    if not config.conversation_memory_enabled:
        raise SwitchedOff("Conversation memory is switched off on this server (CONVERSATION_MEMORY_ENABLED=0).")
    if caller is None:
        return Recall(query.text, explanation=Explanation(Reason.NO_CALLER))
    marks = marks_of(archive_id=caller.archive_id, conversation_id=query.conversation_id)
    wrong = [turn for turn, mark in marks.items() if mark.kind == "wrong"]
    filters = replace(
        _filters_of(query, caller),
        # Turns that are alive as a whole would fill the best turns and yield no message.
        except_turns=(*alive_turns(archive_id=caller.archive_id, message_ids=query.alive), *wrong),
        except_conversations=sessions_of(caller=caller, session_id=query.exclude_session),
    )
    searched = SearchQuery(text=query.text, scope=frozenset(query.scope) or DEFAULT_SCOPE, filters=filters)
    turns = rank_items(archive_id=caller.archive_id, query=searched)
    bar = query.bar
    if bar and query.min_relevance is None and turns.holds_little_of_few_words():
        bar = max(bar, FEW_WORDS_RELEVANCE)
    answered = turns.is_answered(bar, is_bar_named=query.min_relevance is not None)
    pending = (
        pending_of(caller.archive_id, turns.query.filters, space=turns.space)
        if turns.is_incomplete
        else NOTHING_PENDING
    )
    recalled, explanation = Recall(query.text, notes=turns.query.notes), NOTHING_BROUGHT
    if answered is not False:
        ranked = rank_messages(turns, query.positions, query.alive).likely(query.bar)
        recalled = choose_messages(query, ranked, marks)
        explanation = NOT_SIMILAR if ranked.candidates else NOTHING_BROUGHT
    recalled = replace(recalled, answered=answered, explanation=pending.explanation, waiting=pending)
    if recalled.messages:
        return recalled
    if query.alive_message_ids or query.alive_from_position is not None:
        with_alive = replace(query, alive_message_ids=(), alive_from_position=None)
        if recall(caller=caller, query=with_alive).messages:
            return replace(recalled, explanation=Explanation(Reason.IN_CONTEXT))
    explained = explain_empty(archive_id=caller.archive_id, filters=filters, pending=pending)
    return replace(
        recalled,
        notes=(*recalled.notes, WRONG_LEFT_OUT) if wrong else recalled.notes,
        # What waits may be likelier than the bar: that nothing answers is not known then.
        answered=None if answered is False and pending.items else answered,
        explanation=explanation if explained.reason is Reason.NO_MATCH else explained,
    )


def recall_archives(*, caller: Caller | None, query: RecallQuery, chosen: str = "") -> Recall:
    """Return what `recall` brings from the archives that the caller reads, best first.

    `chosen` restricts it to one archive (`Caller.chosen`); a conversation, to the archive that holds it. Messages of
    several archives are merged like the hits of a search.

    Raises: like `recall`, and NotFound for another space.
    """
    if caller is None:
        return recall(caller=None, query=query)
    archives = caller.chosen(chosen)
    if query.conversation_id is not None and len(archives) > 1:
        archive_id = archive_of_address({"conversation_id": query.conversation_id})
        archives = [access for access in archives if access.archive_id == archive_id] or archives[:1]
    pages: dict[int, Recall] = {}
    for access in within_budget(archives):
        with caller.in_(access) as there:
            page = recall(caller=there, query=query)
        messages = tuple(replace(message, space=access.space) for message in page.messages)
        pages[access.archive_id] = replace(page, messages=messages) if access.space and not caller.space else page
    if len(archives) == 1:
        return next(iter(pages.values()))
    left_out = notes_of_left_out(archives, searched=pages)
    ranked = merge_ranked({number: page.messages for number, page in pages.items()}, limit=query.top_k)
    # Something answers if it does in one archive; nothing does only if that is known of each.
    answers = {page.answered for page in pages.values()} | ({None} if left_out else set())
    explanations = [page.explanation for page in pages.values() if page.explanation and (page.pending or not ranked)]
    waiting = pending_of_all(page.waiting for page in pages.values())
    explanation = explanation_of_all(explanations)
    if explanation and explanation.reason is Reason.PENDING:
        explanation = waiting.explanation  # that of all archives
    return Recall(
        query.text,
        messages=tuple(message for _, message in ranked),
        notes=(
            *dict.fromkeys(note for page in pages.values() for note in page.notes),
            *left_out,
        ),
        answered=next((answer for answer in (True, None, False) if answer in answers), None),
        total_found=sum(page.total_found for page in pages.values()),
        explanation=explanation,
        waiting=waiting,
    )


def _filters_of(query: RecallQuery, caller: Caller) -> Filters:
    """Return the query's filters for turns, limited to its conversation and to turns at its positions, if any."""
    if query.conversation_id is None:
        return replace(query.filters, kinds=TURNS_ALONE)
    conversation = get_conversation(caller=caller, conversation_id=query.conversation_id)
    filters = replace(query.filters, archived=None, conversation_id=conversation.pk, kinds=TURNS_ALONE)
    if query.positions == ANYWHERE:
        return filters
    inside = with_home_turns(conversation.messages.filter(position__range=query.positions))
    turns_inside = inside.values_list("home_turn", flat=True)
    first, last = turns_inside.order_by("position").first(), turns_inside.order_by("-position").first()
    return replace(filters, turns=(first or 0, -1 if last is None else last))


@dataclass(frozen=True, slots=True)
class RankedMessages:
    """Candidate messages, best first, with their scores, and the ranking of their turns.

    `table` has their features, in the order of its keys.
    """

    turns: SearchState
    candidates: tuple[MessageCandidate, ...] = ()
    scores: tuple[float, ...] = ()
    table: FeatureTable = field(default_factory=FeatureTable)

    def likely(self, bar: float) -> "RankedMessages":
        """Return the messages of turns that may answer; all where that is unknown."""
        homes = item_keys([one.source_id for one in self.candidates], [one.turn_number for one in self.candidates])
        kept = np.flatnonzero(np.isin(homes, self.turns.likely(bar, of_best=LIKELY_SHARE))).tolist()
        return replace(
            self,
            candidates=tuple(self.candidates[index] for index in kept),
            scores=tuple(self.scores[index] for index in kept),
        )


def rank_messages(
    turns: SearchState, positions: Positions = ANYWHERE, alive: frozenset[int] = frozenset()
) -> RankedMessages:
    """Rank the messages of the turns that search ranks best."""
    candidates, table = message_candidates(turns, positions, alive)
    if not candidates:
        return RankedMessages(turns)
    ranker = LinearRanker(weights_of("messages" if turns.query.space else "messages_full_text"))
    scores = ranker.score(table)
    order = best_first(scores, table.keys)
    homes = item_keys([one.source_id for one in candidates], [one.turn_number for one in candidates])[order]
    is_repeated = np.isin(homes, list(turns.repeated))
    order = np.concatenate([order[~is_repeated], order[is_repeated]])
    return RankedMessages(turns, tuple(candidates[index] for index in order), tuple(scores[order].tolist()), table)


def choose_messages(
    query: RecallQuery, ranked: RankedMessages, marks: Mapping[tuple[int, int], Mark] = MappingProxyType({})
) -> Recall:
    """Return the best of the ranked messages that are similar enough, with their texts, openings and marks.

    `marks` are those of the owner's turns, by conversation and turn. Four queries.
    """
    prepared = ranked.turns.query
    compared = prepared.space is not None
    notes = (
        prepared.notes
        if compared
        else (*prepared.notes, gettext("Found by words only: similarity of meaning was not compared."))
    )
    threshold = query.threshold
    if threshold is None:  # the probability of an answer, where it is known, says more than a cosine
        threshold = config.recall_threshold if ranked.turns.relevance.answerable is None else 0.0
    chosen = [
        (candidate, score)
        for candidate, score in zip(ranked.candidates, ranked.scores, strict=True)
        if not compared or candidate.places[0][4] >= threshold
    ]
    # Forks, mirrors and hand-overs share messages: each comes once.
    distinct: dict[Hashable, tuple[MessageCandidate, float]] = {}
    for one, score in chosen:
        distinct.setdefault((one.role, one.name, spoken_text(one.parts) or one.message_id), (one, score))
    chosen = list(distinct.values())
    best, weights = chosen[: query.top_k], ranked.turns.word_weights
    messages = [_message(candidate, score, weights, is_compared=compared) for candidate, score in best]
    places = {key: position for position, key in enumerate(ranked.turns.table.keys.tolist())}
    homes = item_keys([one.source_id for one, _ in best], [one.turn_number for one, _ in best])
    # The messages with their openings and marks; a turn before that is wrong has no openings.
    message_ids = [message.message_id for message in messages]
    turns = np.array([places[home] for home in homes.tolist()], np.int64)
    keys = ranked.turns.table.keys
    in_order = keys[ranked.turns.order]
    later = PendingQuery(*later_turns_query(prepared.archive_id, homes, in_order), keeps_plan=True)
    overturned = overturned_by(read_turns(later.rows()), homes, in_order)
    keys_of = list(zip(*split_keys(homes), strict=True))
    openings, earlier = load_openings(
        archive_id=prepared.archive_id, homes=dict(zip(message_ids, keys_of, strict=True))
    )
    completed = []
    for message, home, relevance in zip(messages, keys_of, ranked.turns.relevance_of(turns), strict=True):
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
                overturned=overturned.get(home),
            )
        )
    return Recall(query.text, tuple(completed), notes, total_found=len(chosen))


def _message(
    candidate: MessageCandidate, score: float, weights: Mapping[str, float], *, is_compared: bool
) -> RecalledMessage:
    passages: list[RecalledPassage] = []
    for span in candidate.places:
        message_id, part_index, start, end, similarity = span
        whole = part_text(candidate.parts[part_index]) if part_index < len(candidate.parts) else ""
        before = whole[max(0, start - LEADING_CHARS) : start]
        passages.append(
            RecalledPassage(
                message_id,
                part_index,
                start,
                end,
                whole[start:end],
                similarity=round(min(1.0, max(0.0, similarity)), 4) if is_compared else None,
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
        similarity=max(passage.similarity or 0.0 for passage in passages) if is_compared else None,
        score=round(score, 4),
    )


def alive_turns(*, archive_id: int, message_ids: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Return the owner's turns (conversation, number) whose messages are all alive. At most one query."""
    if not message_ids:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "alive_turns"), {"owner": archive_id, "messages": list(message_ids)})
        return tuple((conversation, number) for conversation, number in cursor.fetchall())


def alive_passages(messages: Sequence[RecalledMessage], query: RecallQuery) -> frozenset[ChunkId]:
    """Return the keys of passages and openings of recalled messages that the model already sees."""
    openings = [
        (message.conversation_id, opening.position, opening.passage)
        for message in messages
        for opening in (message.question_opening, message.answer_opening, *message.earlier)
        if opening
    ]
    passages = [(m.conversation_id, m.position, passage) for m in messages for passage in m.passages]
    alive, conversation, first = query.alive, query.conversation_id, query.alive_from_position
    return frozenset(
        passage.key
        for conversation_id, position, passage in (*openings, *passages)
        if passage.message_id in alive or (first is not None and conversation_id == conversation and position >= first)
    )
