"""The signals by which messages are ranked inside the best turns of a query.

Reads the passages and texts of the messages; the turn's own fused score, its neighbours' and everything
that tells one message of a turn from another become one score. Source: docs/adr/0011-recall-of-messages.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from convmemory.conversations.models import Message
from convmemory.conversations.parts import Part, spoken_text
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import query_tokens
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import KIND
from search.adapters.messages import split_message
from search.candidates import TURN_BITS, TurnKeys, split_keys, turn_keys
from search.dense import kinds_of, vector_parameter
from search.late_interaction import max_sim, weighted_question
from search.models import Source
from search.passages import Place, stem, stems_of
from search.query import SearchQuery, kinds_in
from search.ranking import Scores, best_first, scale
from search.signals import RankedTurns

TURNS = 60
PASSAGES_PER_MESSAGE = 6
PASSAGES_PER_TURN = 24
TEXT_CHARS = 8_000  # of one message, for counting words
K1, B = 1.2, 0.6

Positions = tuple[int, int]
ANYWHERE: Positions = (0, 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message of one of the best turns, with its passages nearest to the query, the nearest first."""

    message_id: int
    source_id: int
    conversation_id: int
    title: str
    turn_number: int
    position: int
    role: str
    name: str
    created_at: datetime | None
    parts: tuple[Part, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class MessageSignals:
    """Candidates in the order of their keys (conversation, position), and an array a signal over them."""

    candidates: tuple[Candidate, ...] = ()
    signals: Mapping[str, Scores] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """The places of one message and the coded token vectors of its passages."""

    places: list[Place]
    tokens: list[bytes]


def message_signals(
    *, owner_id: int, query: SearchQuery, ranked: RankedTurns, positions: Positions = ANYWHERE
) -> MessageSignals:
    """The messages of the best turns at these positions, with their signals. Two queries."""
    best, conversations = _of_conversations(owner_id, ranked.keys[ranked.order()[:TURNS]])
    found = _passages(owner_id, query, ranked.space, best, positions) if ranked.space else None
    candidates = _candidates(owner_id, query, best, conversations, positions, found)
    if not candidates:
        return MessageSignals()
    signals = _words(candidates, ranked.word_weights) | _of_turns(candidates, ranked)
    if found is not None and ranked.space is not None:
        signals |= _meaning(candidates, found, query, ranked.space, ranked.word_weights)
    return MessageSignals(tuple(candidates), signals)


def _passages(
    owner_id: int, query: SearchQuery, space: EmbeddingSpace, turns: TurnKeys, positions: Positions
) -> dict[int, _Found]:
    conversations, numbers = split_keys(turns)
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "space": space.pk,
        "vector": vector_parameter(space, query.parsed.text),
        "kinds": kinds_of(query.scope),
        "conversations": conversations,
        "turns": numbers,
        "first_position": positions[0],
        "last_position": positions[1],
        "passages_per_message": PASSAGES_PER_MESSAGE,
        "passages_per_turn": PASSAGES_PER_TURN,
    }
    found: dict[int, _Found] = {}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "recall_passages"), parameters)
        for message_id, _, _, part, start, end, similarity, tokens in cursor.fetchall():
            of_message = found.setdefault(message_id, _Found([], []))
            of_message.places.append((message_id, part, start, end, similarity))
            if tokens:
                of_message.tokens.append(bytes(tokens))
    return found


def _of_conversations(owner_id: int, turns: TurnKeys) -> tuple[TurnKeys, dict[int, int]]:
    """The turns of conversations among these, and the conversations' sources. One query."""
    sources = set(split_keys(turns)[0])
    rows = Source.objects.filter(owner_id=owner_id, pk__in=sources, kind=KIND).values_list("object_id", "pk")
    conversations = dict(rows)
    return turns[np.isin(turns >> TURN_BITS, list(conversations.values()))], conversations


def _candidates(
    owner_id: int,
    query: SearchQuery,
    turns: TurnKeys,
    conversations: Mapping[int, int],
    positions: Positions,
    found: dict[int, _Found] | None,
) -> list[Candidate]:
    """The messages that hold the passages; without vectors all messages of the turns, cut on the spot."""
    rows = Message.objects.filter(owner_id=owner_id, position__range=positions)
    if found is not None:
        rows = rows.filter(pk__in=list(found))
    else:
        rows = rows.filter(conversation_id__in=list(conversations), turn_number__in=set(split_keys(turns)[1]))
    wanted = set(turns.tolist())
    candidates = []
    for row in rows.select_related("conversation").order_by("conversation_id", "position"):
        source_id = conversations.get(row.conversation_id, 0)
        key = int(turn_keys([source_id], [row.turn_number or 0])[0])
        parts = row.typed_parts
        places = found[row.pk].places if found is not None else _cut(row, parts, query)
        if places and key in wanted and row.turn_number is not None:
            title = row.conversation.title
            candidates.append(
                Candidate(
                    row.pk, source_id, row.conversation_id, title, row.turn_number, row.position, row.role, row.name,
                    row.created_at, parts, tuple(places),
                )
            )  # fmt: skip
    return candidates


def _cut(row: Message, parts: Sequence[Part], query: SearchQuery) -> list[Place]:
    spans = split_message(parts, is_real_user=row.is_real_user, is_assistant=row.role == "assistant")
    kinds = kinds_in(query.scope)
    return [(row.pk, s.part_index, s.start, s.end, 0.0) for s in spans if s.kind in kinds]


# --- signals --------------------------------------------------------------------------------------


def message_keys(candidates: Sequence[Candidate]) -> TurnKeys:
    """Keys by (conversation, position): neighbours follow each other."""
    return turn_keys([c.conversation_id for c in candidates], [c.position for c in candidates])


def _meaning(
    candidates: Sequence[Candidate],
    found: Mapping[int, _Found],
    query: SearchQuery,
    space: EmbeddingSpace,
    word_weights: Mapping[str, float],
) -> dict[str, Scores]:
    keys = message_keys(candidates)
    cosine = np.array([candidate.places[0][4] for candidate in candidates], np.float32)
    signals = {"cosine": cosine, "cosine_neighbours": _best_beside(keys, cosine)}
    question = query_tokens(space, query.parsed.text)
    coded = {index: found[c.message_id].tokens for index, c in enumerate(candidates) if found[c.message_id].tokens}
    if question is None or not coded:
        return signals
    vectors, weights = weighted_question(space, query.parsed.text, question, word_weights)
    late = max_sim(keys, coded, vectors, weights, space.dimensions)
    return signals | {
        "late": late.turn,
        "late_neighbours": late.neighbours,
        "late_passage": late.passage,
    }


def _words(candidates: Sequence[Candidate], word_weights: Mapping[str, float]) -> dict[str, Scores]:
    """How much of the query's words, weighed by idf, the message holds, and whether its speaker is named."""
    idf: dict[str, float] = {}
    for word, weight in word_weights.items():
        idf[stem(word)] = max(weight, idf.get(stem(word), 0.0))
    total = max(sum(idf.values()), 1e-6)
    names = np.zeros(len(candidates), np.float32)
    held = np.zeros((len(idf), len(candidates)), np.float32)
    lengths = np.zeros(len(candidates), np.float32)
    for index, candidate in enumerate(candidates):
        counts = stems_of(spoken_text(candidate.parts)[:TEXT_CHARS])
        lengths[index] = sum(counts.values())
        held[:, index] = [counts.get(word, 0) for word in idf]
        names[index] = sum(idf.get(name, 0.0) for name in stems_of(candidate.name))
    weights = np.fromiter(idf.values(), np.float32, len(idf))
    norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
    return {
        "words": weights @ (held > 0).astype(np.float32) / np.float32(total),
        "words_density": weights @ (held * (K1 + 1) / (held + norm)),
        "speaker": names,
    }


def _of_turns(candidates: Sequence[Candidate], ranked: RankedTurns) -> dict[str, Scores]:
    """The fused score of the message's turn, and the better one of the turns beside it."""
    keys, scores = ranked.keys, scale(ranked.scores)
    own = turn_keys([c.source_id for c in candidates], [c.turn_number for c in candidates])
    before, after = _looked_up(keys, scores, own - 1), _looked_up(keys, scores, own + 1)
    return {"turn": _looked_up(keys, scores, own), "turn_neighbours": np.maximum(before, after)}


def _looked_up(keys: TurnKeys, scores: Scores, wanted: TurnKeys) -> Scores:
    places = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[places] == wanted, scores[places], 0.0).astype(np.float32)


def _best_beside(keys: TurnKeys, scores: Scores) -> Scores:
    """The better score of the messages just before and after, 0 where neither is a candidate."""
    return np.maximum(_looked_up(keys, scores, keys - 1), _looked_up(keys, scores, keys + 1))


def order_of(signals: MessageSignals, scores: Scores) -> NDArray[np.int64]:
    """Indices of the candidates, best first."""
    return best_first(scores, message_keys(signals.candidates))
