"""Signals to a real worker in the middle of embedding: `kill -9` of it, SIGTERM to all of its processes."""

from collections import deque
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.utils import timezone

from convmemory.conversations.models import Message
from convmemory.embeddings.models import EmbeddingSpace
from memory.embedding import request_embeddings
from memory.models import MessageEmbedding
from memory.tasks import enqueue_embed, sweep
from search.models import PassageBlock
from tests.factories import caller_for, exchange, make_conversation, make_user
from tests.support.openai_server import FakeEndpoint, Fault, running_endpoint
from tests.support.passages import stored_passages
from tests.support.patience import wait_until
from tests.support.queue import drop_all
from tests.support.worker import running_worker

pytestmark = pytest.mark.slow

PAIRS = [(f"What is the colour of planet number {n}?", f"Planet number {n} is of a dusty red.") for n in range(3)]
TIMEOUT_S = 60


def embedding_worker(
    endpoint: FakeEndpoint, log: Path, *, longest_task_s: int = 600
) -> AbstractContextManager[psutil.Process]:
    """A `qcluster` of one process that embeds at `endpoint`."""
    variables = {
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "planets",
        "EMBEDDING_DIMENSIONS": "8",
        "EMBEDDING_BASE_URL": endpoint.url,
        "EMBEDDING_API_KEY": endpoint.key,
        "WORKERS": "1",
    }
    return running_worker(variables, log, longest_task_s=longest_task_s)


def statuses() -> set[str]:
    return set(MessageEmbedding.objects.values_list("status", flat=True))


@pytest.fixture
def ids() -> list[int]:
    """The messages of a conversation that wait to be embedded, and nothing in the queue."""
    EmbeddingSpace.objects.create(provider="openai", model="planets", dimensions=8, recipe_version=1, is_active=True)
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    drop_all()  # the index would embed the messages, too
    ids = list(conversation.messages.values_list("pk", flat=True))
    request_embeddings(caller=caller_for(conversation.archive), conversation_id=conversation.pk, message_ids=ids)
    assert statuses() == {"pending"}
    return ids


def enqueue(ids: list[int]) -> None:
    conversation = Message.objects.get(pk=ids[0]).conversation
    enqueue_embed(archive_id=conversation.archive_id, conversation_id=conversation.pk, message_ids=ids)


@pytest.mark.essential
@pytest.mark.django_db(transaction=True)
def test_messages_of_killed_worker_are_completed_after_sweep(ids: list[int], tmp_path: Path) -> None:
    log = tmp_path / "worker.log"

    with running_endpoint(faults=deque([Fault(delay_s=TIMEOUT_S)])) as endpoint:
        enqueue(ids)
        with embedding_worker(endpoint, log):
            wait_until(lambda: statuses() == {"processing"}, log=log)
        assert statuses() == {"processing"}
        assert not PassageBlock.objects.exists()
        drop_all()  # the lost task does not come back: the sweep alone must find the work
        assert sweep() == {"enqueued": 0, "given_up": 0}  # a living worker could still be at it
        MessageEmbedding.objects.update(updated_at=timezone.now() - timedelta(minutes=2))
        assert sweep() == {"enqueued": 6, "given_up": 0}

    with running_endpoint() as endpoint, embedding_worker(endpoint, log):
        wait_until(lambda: not statuses() & {"pending", "processing"}, log=log)
    assert statuses() == {"completed"}
    assert set(MessageEmbedding.objects.values_list("error", flat=True)) == {""}
    passages = stored_passages(is_kept=None)
    assert len({(p.element_id, p.part_index, p.start) for p in passages}) == len(passages) > 0


@pytest.mark.django_db(transaction=True)
def test_worker_whose_processes_all_get_sigterm_completes_its_task_and_ends(ids: list[int], tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with running_endpoint(faults=deque([Fault(delay_s=2)])) as endpoint, embedding_worker(endpoint, log) as worker:
        enqueue(ids)
        wait_until(lambda: statuses() == {"processing"}, log=log)
        for process in [*worker.children(recursive=True), worker]:
            process.terminate()
        worker.wait(timeout=TIMEOUT_S)
    assert statuses() == {"completed"}


@pytest.mark.django_db(transaction=True)
def test_process_that_does_not_react_is_replaced_after_its_time(ids: list[int], tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with running_endpoint(faults=deque([Fault(delay_s=TIMEOUT_S)])) as endpoint:
        enqueue(ids)
        # Three seconds are longer than a busy machine needs until it is connected.
        with embedding_worker(endpoint, log, longest_task_s=3) as worker:
            wait_until(lambda: bool(connected(worker, endpoint)), log=log)
            [stuck] = connected(worker, endpoint)
            stuck.suspend()
            wait_until(lambda: not stuck.is_running() or stuck.status() == psutil.STATUS_ZOMBIE, log=log)
            wait_until(lambda: "after timeout" in log.read_text(), log=log)  # written after the process has ended


def connected(worker: psutil.Process, endpoint: FakeEndpoint) -> list[psutil.Process]:
    """Return the worker's processes that are connected to the endpoint."""
    port = urlsplit(endpoint.url).port
    found = []
    for process in worker.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed
            if any(link.raddr and link.raddr.port == port for link in process.net_connections("tcp")):
                found.append(process)
    return found
