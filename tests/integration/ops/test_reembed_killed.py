"""`manage.py reembed` as real processes: killed without a word and run again, while searches never stop."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.core.config import config
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.program import ROOT
from convmemory.embeddings import spaces
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import index_conversation
from search.models import ItemEmbedding
from search.searching import SearchQuery, search
from search.vectors.locking import derivation_lock
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support.patience import wait_until
from tests.support.tiny_bert import write_tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

CONVERSATIONS, HELD = 8, 3
QUERIES = ("the cat sat on the mat", "why the mat", "a b c d e f")
TIMEOUT_S = 300
PAUSE_S = 0.05  # between searches, or they take the processor from the commands

Answer = tuple[tuple[int, int, float | None], ...]


@pytest.fixture
def model(tmp_path: Path, settings: Settings) -> Iterator[str]:
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "old", seed=1))
    yield str(write_tiny_bert(tmp_path / "new", seed=2, dimensions=64))
    spaces._opened.reset()


class Searcher(threading.Thread):
    """Asks some fifteen times a second and keeps every answer."""

    def __init__(self, owner: User) -> None:
        super().__init__(daemon=True)
        self.owner = owner
        self.answers: dict[str, set[Answer]] = {query: set() for query in QUERIES}
        self.failures: list[str] = []
        self.asked = 0
        self.enough = threading.Event()

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                query = QUERIES[self.asked % len(QUERIES)]
                self.answers[query].add(answer(self.owner, query))
                self.asked += 1
                self.enough.wait(PAUSE_S)
        except Exception as error:
            self.failures.append(repr(error))
        finally:
            connections.close_all()


def answer(owner: User, query: str) -> Answer:
    results = search(caller=Caller.of(owner), query=SearchQuery(text=query))
    assert not results.notes
    return tuple((hit.object_id, hit.number, hit.similarity) for hit in results.hits)


def start(model: str, tmp_path: Path) -> "subprocess.Popen[bytes]":
    """The command on the test's own database."""
    parameters = connection.get_connection_params()
    url = f"postgresql://{parameters.get('user', '')}@/{parameters['dbname']}?host={parameters['host']}"
    environment = os.environ | {
        "DATABASE_URL": os.environ.get("DATABASE_URL") or f"{url}&port={parameters['port']}",
        "EMBEDDING_MODEL_PATH": config.embedding_model_path,
    }
    with (tmp_path / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "manage.py", "reembed", "--model", model, "--workers", "2"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )


def built_rows() -> set[int]:
    return set(ItemEmbedding.objects.filter(space__is_building=True).values_list("pk", flat=True))


def kill(process: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    """Kills the command alone; its workers must find out by themselves."""
    parent = psutil.Process(process.pid)
    wait_until(lambda: len(parent.children()) >= 2, log=tmp_path / "log")
    children = parent.children(recursive=True)
    process.kill()
    process.wait()
    wait_until(lambda: not any(child.is_running() for child in children), log=tmp_path / "log")


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the commands need the embedded test server's socket")
def test_reembed_killed_twice_resumes_and_each_search_uses_one_space(model: str, tmp_path: Path) -> None:
    owner = make_user()
    conversations = []
    for number in range(CONVERSATIONS):
        pairs = [("the cat sat?", f"on the mat {number}."), (f"why {number}, cat?", "the mat."), ("a b c", "d e f.")]
        conversations.append(make_conversation(owner, exchange(*pairs)))
        index_conversation(conversation_id=conversations[-1].pk)
    before = {query: answer(owner, query) for query in QUERIES}
    searcher = Searcher(owner)
    searcher.start()
    kept: set[int] = set()
    with ExitStack() as others:  # as if they were at these sources: it cannot be finished, and needs two workers
        for conversation in conversations[-HELD:]:
            assert others.enter_context(derivation_lock(source_id(conversation), AdvisoryLock.BUILDING))
        for _ in range(2):
            process = start(model, tmp_path)
            wait_until(lambda: bool(built_rows()), log=tmp_path / "log")
            kill(process, tmp_path)
            assert kept <= built_rows()
            kept = built_rows()
            assert spaces.active_space().dimensions == 32

    assert start(model, tmp_path).wait(TIMEOUT_S) == 0, (tmp_path / "log").read_text()
    new = spaces.active_space()
    assert new.dimensions == 64
    assert kept <= set(ItemEmbedding.objects.filter(space=new).values_list("pk", flat=True))
    after = {query: answer(owner, query) for query in QUERIES}
    asked = searcher.asked
    wait_until(lambda: searcher.asked > asked + len(QUERIES) or bool(searcher.failures), log=tmp_path / "log")
    searcher.enough.set()
    searcher.join()
    assert not searcher.failures
    for query in QUERIES:
        assert before[query] != after[query]
        assert len(before[query]) == len(after[query]) == 20
        assert searcher.answers[query] == {before[query], after[query]}
    assert start(model, tmp_path).wait(TIMEOUT_S) == 0
    assert ", 0 embeddings computed, 0 items refused, " in (tmp_path / "log").read_text().splitlines()[-1]
    assert EmbeddingSpace.objects.count() == 2
