"""The benchmarks of `make bench`: speeds as figures and as ratios within one run.

Each benchmark fills the current database with its data (a scratch one: `make bench` gives it its own folder) and
returns named figures.
"""

import gc
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction

from benchmarks.metrics import percentiles
from benchmarks.speeds.synthetic import AGENTS_TURN, TextMaker, TurnShape, VectorMaker, fill_turns, messages
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages import ingest, numbering
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.reading import messages_of_turns
from convmemory.core.acting import acting_for, schema_owner
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.spaces import active_space, embedder_for
from search.adapters.conversations import index_conversation, items_of
from search.searching import SearchQuery, search
from search.vectors.passages import draft_passages

QUERIES = 150


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, and its goal."""

    name: str
    value: float
    unit: str
    goal: str = ""

    def __str__(self) -> str:
        return f"{self.name:<62} {self.value:>10.2f} {self.unit:<12} {self.goal}"


def fresh_user(name: str) -> User:
    """Create a fresh user; one with the same name from an earlier run is deleted."""
    User.objects.filter(username=name).delete()
    return User.objects.create_user(name)


def bench_numbering() -> list[Figure]:
    """Measure one more turn on a conversation of 10,000 messages."""
    caller = Caller.of(fresh_user("bench-numbering"))
    draft = ConversationDraft(messages=messages(10_000, TextMaker()))
    conversation = ingest.create_conversation(caller=caller, draft=draft)
    append_ms, number_ms = [], []
    for _ in range(30):
        started = time.perf_counter()
        more = list(messages(4, TextMaker()))
        ingest.append_messages(caller=caller, conversation_id=conversation.pk, drafts=[without_key(m) for m in more])
        append_ms.append((time.perf_counter() - started) * 1000)
        with transaction.atomic():
            conversation.refresh_from_db()
            conversation.messages.filter(position__gte=conversation.message_count - 4).update(turn_number=None)
            started = time.perf_counter()
            numbering.renumber(conversation, from_position=conversation.message_count - 4)
            number_ms.append((time.perf_counter() - started) * 1000)
    with transaction.atomic():
        started = time.perf_counter()
        numbering.renumber(conversation, from_position=0)
        whole_ms = (time.perf_counter() - started) * 1000
    return [
        Figure("numbering one more turn, 10,000 messages, median", median(number_ms), "ms", "< 10"),
        Figure("append of a turn as a whole (lock to commit), median", median(append_ms), "ms", "< 100"),
        Figure("numbering all 10,000 messages again", whole_ms, "ms"),
    ]


def without_key(draft: MessageDraft) -> MessageDraft:
    """Return the draft without its source key, so that it can be appended repeatedly."""
    return replace(draft, source_key="")


def bench_import() -> list[Figure]:
    """Measure the import of 20,000 messages of JSON lines, then as many from a coding agent's session, without
    embedding.
    """
    maker = TextMaker()
    spoken = [(role, maker.text(40)) for _ in range(10_000) for role in ("user", "assistant")]
    plain = [json.dumps({"role": role, "content": text}) for role, text in spoken]
    session = [json.dumps(_session_line(number, role, text)) for number, (role, text) in enumerate(spoken)]
    files = {f"{number}.jsonl": plain[number * 2_000 : (number + 1) * 2_000] for number in range(10)}
    return [
        *_import_speed("JSON lines", files),
        *_import_speed("a session of Claude Code", {"0c5e2b7a-0000-4000-8000-00000000000a.jsonl": session}),
    ]


def _import_speed(what: str, files: Mapping[str, Sequence[str]]) -> list[Figure]:
    caller = Caller.of(fresh_user("bench-import"))
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in files.items():
            Path(folder, name).write_text("\n".join(lines), encoding="utf-8")
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        started = time.perf_counter()
        with redirect_stdout(StringIO()):
            report = import_paths(caller=caller, paths=[Path(folder)])
        seconds = time.perf_counter() - started
    return [
        Figure(f"import of {what} without embedding", report.total("added") / seconds, "messages/s", ">= 4,000"),
        Figure(f"import of {what} without embedding", size / seconds, "MB/s"),
    ]


def _session_line(number: int, role: str, text: str) -> dict[str, Any]:
    """Return a line in the format of Claude Code, with the fields that each line has."""
    return {
        "parentUuid": f"line-{number - 1}" if number else None,
        "isSidechain": False,
        "type": role,
        "uuid": f"line-{number}",
        "sessionId": "0c5e2b7a-0000-4000-8000-00000000000a",
        "timestamp": f"2026-02-03T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "cwd": "/home/ada/bakery",
        "version": "2.1.0",
        "gitBranch": "main",
        "message": {"id": f"m-{number}", "role": role, "content": [{"type": "text", "text": text}]},
    }


def bench_embedding() -> list[Figure]:
    """Measure the indexing of 400 turns, against a bare loop of the model over the same texts."""
    caller = Caller.of(fresh_user("bench-embedding"))
    space = active_space()
    embedder = embedder_for(space)
    embedder.embed_passages(["warm up"])
    draft = ConversationDraft(messages=messages(1_600, TextMaker(seed=time.time_ns() % 2**31)))
    conversation = ingest.create_conversation(caller=caller, draft=draft)
    stored = messages_of_turns(conversation, 0, conversation.turn_count - 1)
    items = items_of(stored)
    passages = [draft.text for draft in draft_passages(element for item in items for element in item.elements)]
    bare_s = timed_s(lambda: embedder.embed_passages(passages))
    indexed_s = timed_s(lambda: index_conversation(conversation_id=conversation.pk))
    return [
        Figure("bare model over the passages of 400 turns", len(passages) / bare_s, "texts/s"),
        Figure("indexing the same turns", len(passages) / indexed_s, "texts/s"),
        Figure("indexing against the bare model", bare_s / indexed_s, "ratio", ">= 0.9"),
    ]


def timed_s(run: Callable[[], object]) -> float:
    """Return the duration of the call in seconds."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def bench_search(turns: int = 20_000) -> list[Figure]:
    """Measure search of one owner with 20,000 turns of four passages; each query is embedded again."""
    caller = Caller.of(fresh_user("bench-search"))
    maker = TextMaker()
    space = active_space()
    vectors = VectorMaker(space.dimensions)
    fill_turns(caller=caller, space=space, turns=turns, maker=maker, vectors=vectors, shape=TurnShape(passages=4))
    refresh_statistics()
    questions = [maker.question() for _ in range(QUERIES)]
    query_ms = [
        timed_s(partial(query_embedding, space, question, archive_id=caller.archive_id)) * 1000
        for question in questions
    ]
    figures = [Figure("embedding a query, p50", median(query_ms), "ms")]
    for mode in ("hybrid", "semantic", "full_text"):
        goal = "< 50" if mode == "hybrid" else ""
        name = f"{mode} search, {turns:,} turns of one owner"
        figures += time_figures(name, search_ms(caller, maker, mode), goal)
    return figures


def bench_long() -> list[Figure]:
    """Measure questions of fifty words over turns of 750 words in 24 messages, like those of coding agents."""
    figures = []
    for turns, goal in ((1_900, "< 40"), (20_000, "< 60")):
        caller, maker, space = Caller.of(fresh_user(f"bench-long-{turns}")), TextMaker(), active_space()
        vectors = VectorMaker(space.dimensions)
        fill_turns(caller=caller, space=space, turns=turns, maker=maker, vectors=vectors, shape=AGENTS_TURN)
        refresh_statistics()
        started = time.perf_counter()
        search(caller=caller, query=SearchQuery(text=maker.question(50)))
        first_ms = (time.perf_counter() - started) * 1000
        figures.append(Figure(f"first search of a process, {turns:,} long turns", first_ms, "ms"))
        for words in (8, 50):
            name = f"questions of {words} words, {turns:,} long turns"
            figures += time_figures(name, search_ms(caller, maker, words=words), goal)
    return figures


def refresh_statistics() -> None:
    """Do the work of autovacuum, which has not run yet on a scratch database."""
    with schema_owner(), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def search_ms(
    caller: Caller, maker: TextMaker, mode: str = "hybrid", filters: Filters = EVERYTHING, *, words: int = 8
) -> list[float]:
    """Return the milliseconds of some searches, all different, after one to warm up."""
    queries = [SearchQuery(text=maker.question(words), mode=mode, filters=filters) for _ in range(QUERIES)]
    with acting_for(caller.archive_id):
        search(caller=caller, query=queries[0])
        gc.collect()
        gc.freeze()  # as a web process does once it is loaded
        return [timed_s(partial(search, caller=caller, query=query)) * 1000 for query in queries[1:]]


def time_figures(name: str, milliseconds: Sequence[float], goal: str = "") -> list[Figure]:
    """Return the median, and the 95th percentile with its goal."""
    values = percentiles(milliseconds)
    return [Figure(f"{name}, p50", values["p50"], "ms"), Figure(f"{name}, p95", values["p95"], "ms", goal)]


BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "numbering": bench_numbering,
    "import": bench_import,
    "embedding": bench_embedding,
    "search": bench_search,
    "long": bench_long,
}
