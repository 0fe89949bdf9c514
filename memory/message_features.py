"""Computes the features by which messages are ranked inside the best turns of a query.

Reads the passages and texts of the messages: the score of the message's turn, of the neighbouring turns, and everything
that distinguishes messages of one turn. Source: docs/adr/0011-rank-messages-within-found-turns.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Q

from convmemory.conversations.messages.parts import Part, spoken_text
from convmemory.conversations.models import Message
from convmemory.conversations.reading import stored_message, with_home_turns
from convmemory.core.folding import folded
from convmemory.core.numbers import MAX_INTEGER
from search.adapters.conversations import KIND, element_of
from search.models import Source
from search.query import shown_kinds_in
from search.ranking.exchanges import LEAST_SPREAD, named_share, names_in
from search.ranking.late_interaction import PassageMatches, max_sim_features, weighted_query_tokens
from search.ranking.rankers import scale
from search.results.matching import stem, stems_of
from search.results.runs import PassagePlace
from search.retrieval.candidates import ITEM_BITS, FeatureTable, ItemKeys, MessageFeature, Scores, item_keys, split_keys
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.sources import Kind, Utterance
from search.vectors.blocks import PendingTokens
from search.vectors.passages import KINDS
from search.vectors.splitting import split_parts

# On LoCoMo the best 60 turns contain .88 of the evidence messages (ADR 11); recall cannot find the others.
TURNS = 60
PASSAGES_PER_MESSAGE = 6
# A turn of a coding agent has dozens of passages (ADR 10); those nearest to the query are compared.
PASSAGES_PER_TURN = 24
NEAR_PER_TURN = 4 * PASSAGES_PER_TURN
# Words are counted in this many characters of one message.
TEXT_CHARS = 8_000
K1, B = 1.2, 0.6

Positions = tuple[int, int]
ANYWHERE: Positions = (0, MAX_INTEGER)
CodedTokens = tuple[bytes, bool]
"""A passage's token vectors, and whether it asks."""


@dataclass(frozen=True, slots=True)
class MessageCandidate:
    """A message of one of the best turns, and the places of its passages, nearest to the query first."""

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
    places: tuple[PassagePlace, ...]


def message_candidates(
    ranked: SearchState, positions: Positions = ANYWHERE, alive: frozenset[int] = frozenset()
) -> tuple[list[MessageCandidate], FeatureTable]:
    """Return the messages of the best turns at these positions, except alive ones, and the table of their features.

    Both are in the order of the keys (conversation, position). Three queries.
    """
    query = ranked.query
    # The turns that belong to conversations, and the source of each conversation. One query.
    turns = ranked.table.keys[ranked.order[:TURNS]]
    sources = set(split_keys(turns)[0])
    rows = Source.objects.filter(archive_id=query.archive_id, pk__in=sources, kind=KIND).values_list("object_id", "pk")
    conversations = dict(rows)
    best = turns[np.isin(turns >> ITEM_BITS, list(conversations.values()))]
    places_of, tokens_of = _passages(ranked, best, positions, alive) if query.space else (None, {})
    candidates = [
        candidate
        for candidate in _candidates(query, best, conversations, positions, places_of)
        if candidate.message_id not in alive
    ]
    if not candidates:
        return [], FeatureTable()
    columns = _word_features(candidates, ranked.word_weights)
    # The score of each message's turn, and the better score of the neighbouring turns.
    keys, scores = ranked.table.keys, scale(ranked.scores)
    at = item_keys([c.source_id for c in candidates], [c.turn_number for c in candidates])
    columns[MessageFeature.ITEM_SCORE] = _looked_up(keys, scores, at)
    columns[MessageFeature.NEIGHBOUR_ITEM_SCORE] = np.maximum(
        _looked_up(keys, scores, at - 1), _looked_up(keys, scores, at + 1)
    )
    if places_of is not None:
        columns |= _vector_features(candidates, tokens_of, query, ranked.word_weights)
    table = FeatureTable(message_keys(candidates)).with_columns(columns, of=frozenset(MessageFeature))
    return candidates, table


def _candidates(
    query: PreparedQuery,
    turns: ItemKeys,
    conversations: Mapping[int, int],
    positions: Positions,
    places_of: Mapping[int, list[PassagePlace]] | None,
) -> list[MessageCandidate]:
    """Return the messages of the passages; without vectors, all messages of the turns, split into passages here.

    `conversations` gives the source of each conversation.
    """
    stored = Message.objects.filter(archive_id=query.archive_id, position__range=positions)
    if places_of is not None:
        stored = stored.filter(pk__in=list(places_of))
    else:
        stored = stored.filter(conversation_id__in=list(conversations))
        numbers = set(split_keys(turns)[1])
        stored = with_home_turns(stored).filter(Q(turn_number__in=numbers) | Q(turn_number=None), home_turn__in=numbers)
    chosen, kinds = set(turns.tolist()), _recalled_kinds(query)
    candidates = []
    for row in with_home_turns(stored).select_related("conversation").order_by("conversation_id", "position"):
        message = stored_message(row)
        source_id = conversations.get(row.conversation_id, 0)
        key = int(item_keys([source_id], [message.turn_number])[0])
        if places_of is not None:
            places = places_of[row.pk]
        else:
            spans = split_parts(element_of(message).parts)
            places = [(message.message_id, s.part_index, s.start, s.end, 0.0) for s in spans if s.kind in kinds]
        if places and key in chosen:
            candidates.append(
                MessageCandidate(
                    row.pk, source_id, row.conversation_id, row.conversation.title, message.turn_number, row.position,
                    row.role, row.name, row.created_at, message.parts, tuple(places),
                )
            )  # fmt: skip
    return candidates


def _passages(
    ranked: SearchState, turns: ItemKeys, positions: Positions, alive: frozenset[int]
) -> tuple[dict[int, list[PassagePlace]], dict[int, list[CodedTokens]]]:
    """Return the places of each message's passages, and their token vectors. Two queries at most."""
    query = ranked.query
    # Some of the nearest may be of messages that are not recalled.
    limit = PASSAGES_PER_TURN if positions == ANYWHERE and not alive else NEAR_PER_TURN
    near = ranked.nearest_passages(turns, [KINDS[kind] for kind in _recalled_kinds(query)], limit)
    places_of: dict[int, list[PassagePlace]] = {}
    tokens_of: dict[int, list[CodedTokens]] = {}
    if near is None:
        return places_of, tokens_of
    in_question = set(near.entries["element"].tolist()) - alive
    messages = Message.objects.filter(archive_id=query.archive_id, pk__in=in_question, position__range=positions)
    recalled = set(messages.values_list("pk", flat=True))
    in_turn: Counter[int] = Counter()
    chosen = []
    for at in np.argsort(-near.cosines, kind="stable").tolist():
        message_id, of_item = int(near.entries["element"][at]), int(near.of_item[at])
        if message_id not in recalled or in_turn[of_item] == PASSAGES_PER_TURN:
            continue
        in_turn[of_item] += 1
        places = places_of.setdefault(message_id, [])
        if len(places) < PASSAGES_PER_MESSAGE:
            part, start, end = (int(near.entries[name][at]) for name in ("part", "start", "end"))
            places.append((message_id, part, start, end, float(near.cosines[at])))
            chosen.append(at)
    assert ranked.compared is not None
    pending = PendingTokens(query.archive_id, ranked.compared.blocks, near.places[chosen])
    for entry, tokens in zip(near.entries[chosen], pending.read(), strict=True):
        if tokens:
            tokens_of.setdefault(int(entry["element"]), []).append((tokens, bool(entry["asks"])))
    return places_of, tokens_of


def _recalled_kinds(query: PreparedQuery) -> list[Kind]:
    """Return the kinds of passages that are recalled: those that a search shows, without system prompts.

    Instructions to a model are no memory of the conversation: such messages have no status record either.
    """
    return [kind for kind in shown_kinds_in(query.scope) if kind != "system"]


def message_keys(candidates: Sequence[MessageCandidate]) -> ItemKeys:
    """Return keys made from (conversation, position), so that neighbours have consecutive keys."""
    return item_keys([c.conversation_id for c in candidates], [c.position for c in candidates])


def _vector_features(
    candidates: Sequence[MessageCandidate],
    tokens_of: Mapping[int, Sequence[CodedTokens]],
    query: PreparedQuery,
    word_weights: Mapping[str, float],
) -> dict[str, Scores]:
    keys = message_keys(candidates)
    cosine = np.array([candidate.places[0][4] for candidate in candidates], np.float32)
    columns: dict[str, Scores] = {
        MessageFeature.COSINE: cosine,
        MessageFeature.NEIGHBOUR_COSINE: np.maximum(
            _looked_up(keys, cosine, keys - 1), _looked_up(keys, cosine, keys + 1)
        ),
    }
    coded = [(index, tokens) for index, c in enumerate(candidates) for tokens in tokens_of.get(c.message_id, ())]
    if query.embedding is None or not len(query.embedding.token_ids) or not coded:
        return columns
    matches = PassageMatches.of_tokens(
        b"".join(tokens for _, (tokens, _) in coded),
        [len(tokens) for _, (tokens, _) in coded],
        *weighted_query_tokens(query, word_weights),
        items=[index for index, _ in coded],
        elements=[candidates[index].message_id for index, _ in coded],
        asks=[asks for _, (_, asks) in coded],
    )
    late = max_sim_features(keys, matches, matches.items)
    answers = _answers(candidates, late[MessageFeature.MAX_SIM], matches, query.text.text)
    return columns | late | {MessageFeature.ANSWERS: answers}


def _answers(candidates: Sequence[MessageCandidate], scores: Scores, matches: PassageMatches, text: str) -> Scores:
    """Return by how much the question in the preceding message stands out; 0 if the query names another speaker.

    The value is 0 if the speakers have no names: an assistant's question says little about a user's answer.
    """
    speakers = [Utterance(candidate.position, candidate.name) for candidate in candidates]
    named = names_in(text, {candidate.name for candidate in candidates if candidate.name})
    keys = message_keys(candidates)
    asked = _looked_up(keys, matches.max_sim(matches.items, len(keys), matches.asks), keys - 1)
    answering = np.array([len(named) != 1 or candidate.name in named for candidate in candidates])
    spread = max(float(scores.max() - scores.min()), LEAST_SPREAD)
    answers: Scores = np.maximum(0, asked - np.median(scores)) * answering * named_share(speakers) / spread
    return answers.astype(np.float32)


def _word_features(candidates: Sequence[MessageCandidate], word_weights: Mapping[str, float]) -> dict[str, Scores]:
    """Return the idf-weighted share of the query's words in each message, its BM25, and whether its speaker is
    named.
    """
    idf: dict[str, float] = {}
    for word, weight in word_weights.items():
        name = stem(folded(word))
        idf[name] = max(weight, idf.get(name, 0.0))
    total = max(sum(idf.values()), 1e-6)
    names = np.zeros(len(candidates), np.float32)
    word_counts = np.zeros((len(idf), len(candidates)), np.float32)
    lengths = np.zeros(len(candidates), np.float32)
    for index, candidate in enumerate(candidates):
        counts = stems_of(spoken_text(candidate.parts)[:TEXT_CHARS])
        lengths[index] = sum(counts.values())
        word_counts[:, index] = [counts.get(word, 0) for word in idf]
        names[index] = sum(idf.get(name, 0.0) for name in stems_of(candidate.name))
    weights = np.fromiter(idf.values(), np.float32, len(idf))
    norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
    return {
        MessageFeature.WORD_COVERAGE: weights @ (word_counts > 0).astype(np.float32) / np.float32(total),
        MessageFeature.BM25: (weights @ (word_counts * (K1 + 1) / (word_counts + norm))).astype(np.float32),
        MessageFeature.SPEAKER: names,
    }


def _looked_up(keys: ItemKeys, scores: Scores, looked_up: ItemKeys) -> Scores:
    places = np.searchsorted(keys, looked_up).clip(max=len(keys) - 1)
    return np.where(keys[places] == looked_up, scores[places], 0.0).astype(np.float32)
