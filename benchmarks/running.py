"""Runs the questions of a haystack through search or recall, and keeps all features.

Writes scratch users `evaluate-...` with the haystack's conversations, through the ordinary ingest and indexing; reads
the results of each question.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.contrib.auth.models import User
from django.db import connection

from benchmarks.datasets.haystacks import Haystack, MessageRef, Question
from convmemory.accounts.callers import Caller, acting_as
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Conversation, Message
from memory.context import build_memory_context
from memory.message_features import message_keys
from memory.recall import MAX_TOP_K, RecallQuery, choose_messages, rank_messages
from search.adapters.conversations import KIND, split_message
from search.indexing.together import index_together
from search.models import Source
from search.pipeline import PIPELINE, Pipeline, rank_items
from search.query import SEARCHED_CHARS, SearchQuery
from search.retrieval.candidates import ItemKeys, Scores, item_keys
from search.searching import TURNS_ALONE

PREFIX = "evaluate-"
RETRY_S = 0.5  # another worker holds the conversation

OnProgress = Callable[[str, int, int], None]
"""Called with a label of the work, the number done, and the total."""


def quiet(done: str, number: int, count: int) -> None:
    """Ignore progress within a haystack."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A question with its right turns, the candidates' features, and the candidates in the order of the search.

    `mean_turn_length` is that of the haystack, in words; `more` contains further figures of this question, by name.
    """

    question: Question
    gold: ItemKeys
    gold_conversations: frozenset[int]
    keys: ItemKeys
    features: Mapping[str, Scores]
    order: ItemKeys
    milliseconds: float
    mean_turn_length: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """The places of a haystack in the index: (source, turn) by message, sources by id."""

    turns: Mapping[MessageRef, tuple[int, int]]
    sources: Mapping[str, int]

    @classmethod
    def of(cls, caller: Caller) -> "Stored":
        sources = dict(Source.objects.filter(archive_id=caller.archive_id, kind=KIND).values_list("object_id", "pk"))
        conversations = Conversation.objects.filter(archive_id=caller.archive_id).values_list("source_id", "pk")
        numbered = Message.objects.filter(archive_id=caller.archive_id, turn_number__isnull=False)
        rows = numbered.values_list("conversation__source_id", "source_key", "conversation_id", "turn_number")
        return cls(
            {(source_id, key): (sources[conversation_id], turn or 0) for source_id, key, conversation_id, turn in rows},
            {source_id: sources[pk] for source_id, pk in conversations},
        )

    def gold(self, question: Question) -> ItemKeys:
        """Return the turns that answer the question, as keys."""
        turns = {self.turns[ref] for ref in question.messages if ref in self.turns}
        turns |= {(self.sources[source_id], turn) for source_id, turn in question.turns if source_id in self.sources}
        return np.unique(item_keys([turn[0] for turn in turns], [turn[1] for turn in turns]))

    def homes(self, question: Question) -> frozenset[int]:
        """Return the sources that contain its answer."""
        refs = [*question.messages, *question.turns]
        return frozenset(self.sources[ref[0]] for ref in refs if ref[0] in self.sources)


def each_loaded(
    dataset: str, haystacks: Iterable[Haystack], *, keep: bool = False, progress: OnProgress = quiet
) -> Iterator[tuple[Caller, Haystack]]:
    """Yield each haystack with its scratch caller once it is indexed; of a large set, only one is stored at a time.

    If they are kept, the next run does not embed them again.
    """
    try:
        for haystack in haystacks:
            owner = scratch_user(dataset, haystack)
            with acting_as(Caller.of(owner)) as caller:
                load_haystack(caller, haystack, progress)
                yield caller, haystack
            if not keep:
                owner.delete()
    finally:
        if not keep:
            delete_haystacks(dataset)


def scratch_user(dataset: str, haystack: Haystack) -> User:
    """Return the user that owns the haystack, created if it does not exist."""
    return User.objects.get_or_create(username=f"{PREFIX}{dataset}-{haystack.name}"[:150])[0]


def load_haystack(caller: Caller, haystack: Haystack, progress: OnProgress = quiet) -> None:
    """Store and index new and changed content; existing content is not embedded again."""
    index_haystack(caller, store_haystack(caller, haystack, progress), progress)


def store_haystack(caller: Caller, haystack: Haystack, progress: OnProgress = quiet) -> list[int]:
    """Store the haystack's conversations and delete the caller's others; return their ids."""
    current = []
    for number, draft in enumerate(haystack.drafts(), 1):
        current.append(ingest.sync_conversation(caller=caller, draft=draft).conversation_id)
        progress("stored", number, 0)
    Conversation.objects.filter(archive_id=caller.archive_id).exclude(pk__in=current).delete()
    return current


def index_haystack(caller: Caller, conversation_ids: Sequence[int], progress: OnProgress = quiet) -> None:
    """Index conversations together, as a worker does."""
    of_haystack = Source.objects.filter(archive_id=caller.archive_id, kind=KIND, object_id__in=conversation_ids)
    waiting = list(of_haystack.order_by("pk").values_list("pk", flat=True))
    while waiting:
        unfinished = []
        results = index_together(archive_id=caller.archive_id, source_ids=waiting, deadline=float("inf"))
        for source_id, result in results.items():
            if isinstance(result, Exception):
                raise result
            if not result.finished:
                unfinished.append(source_id)
        waiting = unfinished
        if waiting:
            time.sleep(RETRY_S)
        progress("indexed", len(conversation_ids) - len(waiting), len(conversation_ids))


def observe_haystack(
    caller: Caller,
    haystack: Haystack,
    *,
    mode: str,
    progress: OnProgress = quiet,
    pipeline: Pipeline = PIPELINE,
    is_timeless: bool = False,
) -> list[Observation]:
    """Search for each question that a stored turn answers, as it is worded; return the observations."""
    stored = Stored.of(caller)
    observations = []
    for number, question in enumerate(haystack.questions, 1):
        if len(stored.gold(question)):
            query = replace(query_of(question, mode), is_timeless=is_timeless)
            started = time.perf_counter()
            result = rank_items(archive_id=caller.archive_id, query=query, pipeline=pipeline)
            keys = result.table.keys
            order = keys[result.order]
            milliseconds = (time.perf_counter() - started) * 1000
            observations.append(
                Observation(
                    question=question,
                    gold=stored.gold(question),
                    gold_conversations=stored.homes(question),
                    keys=keys,
                    features=result.table.columns,
                    order=order,
                    milliseconds=milliseconds,
                    mean_turn_length=result.table.mean_item_length,
                )
            )
        progress("searched", number, len(haystack.questions))
    return observations


def observe_messages(
    caller: Caller, haystack: Haystack, *, mode: str, budget: int, progress: OnProgress = quiet
) -> list[Observation]:
    """Return an observation for each question whose evidence is stored messages, recalled as it is worded.

    Its keys are (conversation, position) of messages; `more` says which contexts of `budget` tokens contain
    the evidence.
    """
    rows = Message.objects.filter(archive_id=caller.archive_id).select_related("conversation")
    stored = {(row.conversation.source_id, row.source_key): row for row in rows}
    observations = []
    for number, question in enumerate(haystack.questions, 1):
        evidence = [stored[ref] for ref in question.messages if ref in stored]
        if evidence:
            query = SearchQuery(text=question.text[:SEARCHED_CHARS], mode=mode)
            started = time.perf_counter()
            ranked = rank_messages(rank_items(archive_id=caller.archive_id, query=query))
            milliseconds = (time.perf_counter() - started) * 1000
            # For each kind of context 1 if it contains all evidence messages completely, otherwise 0.
            every = RecallQuery(query.text, top_k=MAX_TOP_K, threshold=0.0, min_relevance=0.0)
            results = choose_messages(every, ranked).messages
            evidence_texts = [_folded(text) for message in evidence for text in _passages(message)]
            shares = {}
            for name, partners in (("with_partners", True), ("without_partners", False)):
                text = _folded(build_memory_context(results, budget, partners=partners).text)
                shares[f"in_context_{name}"] = float(all(passage in text for passage in evidence_texts))
            observations.append(
                Observation(
                    question=question,
                    gold=np.unique(item_keys([m.conversation_id for m in evidence], [m.position for m in evidence])),
                    gold_conversations=frozenset(message.conversation_id for message in evidence),
                    keys=ranked.table.keys,
                    features=ranked.table.columns,
                    order=message_keys(ranked.candidates),
                    milliseconds=milliseconds,
                    more=shares,
                )
            )
        progress("recalled", number, len(haystack.questions))
    return observations


def _passages(message: Message) -> Iterable[str]:
    parts = message.typed_parts
    for span in split_message(parts, is_real_user=message.is_real_user, is_assistant=message.role == "assistant"):
        yield part_text(parts[span.part_index])[span.start : span.end]


def _folded(text: str) -> str:
    return " ".join(text.split())


def query_of(question: Question, mode: str, limit: int = 20) -> SearchQuery:
    """Return the search query for a question: among turns, on the day on which it is asked."""
    text, filters = question.text[:SEARCHED_CHARS], Filters(kinds=TURNS_ALONE)
    return SearchQuery(text=text, limit=limit, mode=mode, filters=filters, today=question.asked_at)


def delete_haystacks(dataset: str) -> int:
    """Delete the scratch users of a set with all their data; return their number."""
    users = User.objects.filter(username__startswith=f"{PREFIX}{dataset}-")
    count = users.count()
    users.delete()
    return count


def database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
