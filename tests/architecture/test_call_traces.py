"""The tables of `docs/architecture.md` that follow a search and a message show the calls that the code really makes."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations import tasks as import_tasks
from convmemory.conversations.importing import queue
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.importing.models import Import
from convmemory.core.processes.child_process import Ending
from search import tasks as index_tasks
from search.adapters.conversations import index_conversation
from search.models import PassageBlock, Source
from tests.factories import exchange, make_conversation
from tests.support.api import signed_in
from tests.support.call_trace import CallTrace, modules_named_below, steps_of, trace_of, trace_through
from tests.support.importing import run_here
from tests.support.rerank_server import running_reranker

pytestmark = pytest.mark.django_db

SEARCH = steps_of("A query, from route to answer")
MESSAGE = steps_of("A message, from importer to stored passage")
RERANKING = "search/ranking/reranking"
PREPARED, RETRIEVED, RANKED = "search/retrieval/prepared", "search/retrieval/lexical", "search/ranking/exchanges"


def in_order(steps: dict[str, str]) -> list[str]:
    return list(dict.fromkeys(steps.values()))


def search_way(*, twice_from: str = "", is_reranked: bool = False) -> list[str]:
    """The steps of the table; candidates are looked for in a second pass, if one begins with a step."""
    steps = [step for step in in_order(SEARCH) if is_reranked or step != RERANKING]
    end = steps.index(RANKED) + 1
    start = steps.index(twice_from) if twice_from else end
    return [*steps[:end], *steps[start:end], *steps[end:]]


def search_trace(owner: User, query: str) -> CallTrace:
    client = signed_in(owner)
    trace = trace_of(lambda: client.get("/api/v1/conversations/search", {"query": query}), SEARCH)
    assert client.get("/api/v1/conversations/search", {"query": query}).json()["results"]
    return trace


@pytest.fixture
def searcher(owner: User) -> User:
    """Return a user with conversations, after a first search that has filled the caches."""
    for place in ("garden", "kitchen", "attic"):
        pairs = ("Where does the cat sleep?", "On the mat."), ("And the dog?", f"In the {place}.")
        index_conversation(conversation_id=make_conversation(owner, exchange(*pairs)).pk)
    search_trace(owner, "the first search")
    return owner


@pytest.mark.parametrize("query", ["where does the cat sleep", "where did the cat sleep in January 2026"])
def test_search_takes_each_documented_step_once(searcher: User, query: str) -> None:
    assert search_trace(searcher, query).steps == search_way()


def test_search_with_reranker_takes_its_step_last(searcher: User, settings: Settings) -> None:
    way = search_way(is_reranked=True)
    with running_reranker() as server:
        settings.RERANK_URL, settings.RERANK_API_KEY = server.url, server.key
        steps = search_trace(searcher, "where does the cat sleep").steps
    # Blending scales both scores by a function of the rankers.
    assert steps == [*way, "search/pipeline", RERANKING]


def test_query_with_operators_is_searched_again_without_them(searcher: User) -> None:
    assert search_trace(searcher, '"the cat" sleep -horse').steps == search_way(twice_from=RETRIEVED)


def test_event_in_query_takes_extra_pass_to_date_it(searcher: User) -> None:
    steps = search_trace(searcher, "what was said before the cat slept in the attic").steps
    assert steps == search_way(twice_from=PREPARED)


def test_search_has_at_most_twelve_steps_and_page_names_all_that_it_touches(searcher: User) -> None:
    assert len(in_order(SEARCH)) <= 12
    others = [module for module in search_trace(searcher, "the cat").unnamed if module.startswith("search/")]
    named = modules_named_below("A query, from route to answer")
    assert [module for module in others if not module.startswith(named)] == []


def test_imported_message_takes_each_documented_step_once(
    owner: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    settings.IMPORT_FOLDER = tmp_path
    traces = []

    def child(row: Import, folder: str) -> Ending:
        with trace_through(MESSAGE) as trace:
            ending = run_here(row, folder)
        traces.append(trace)
        return ending

    monkeypatch.setattr(queue, "run_child", child)
    lines = b'{"role": "user", "content": "Where?"}\n{"role": "assistant", "content": "In the attic."}\n'
    row = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("chat.jsonl", lines))
    import_tasks.run(row.pk, archive_id=owner.pk)
    source = Source.objects.get(archive_id=owner.pk)
    traces.append(trace_of(lambda: index_tasks.index(source.pk, archive_id=owner.pk), MESSAGE))
    assert [step for trace in traces for step in trace.steps] == in_order(MESSAGE)
    assert PassageBlock.objects.filter(archive_id=owner.pk, passages__gt=0).exists()
