"""convmemory itself: the conversations of the set go through its own ingest and index, questions through its search.

All archives are in one database, each with a user of its own, and each search finds its owner's turns only. It stores
the conversations with their sources, not only an index. While one archive is stored, others are indexed in two threads:
the product does both in processes of their own.
"""

from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.peers.adapter import Adapter, Turn, serve
from benchmarks.runs import start_django

if TYPE_CHECKING:
    from convmemory.accounts.callers import Caller

INDEXING = 2


class Convmemory(Adapter):
    """Runs from the repository, in its environment."""

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        start_django(options.folder)
        self.options = options
        self.names: dict[int, str] = {}
        self.pool = ThreadPoolExecutor(INDEXING)
        self.indexing: list[Future[None]] = []

    def start(self) -> None:
        from django.core.management import call_command

        from benchmarks.datasets import read_dataset
        from benchmarks.running import database_bytes
        from convmemory.embeddings.spaces import active_space, embedder_for

        call_command("migrate", verbosity=0)
        embedder_for(active_space()).embed_passages(["warm up"])
        self.haystacks = {one.name: one for one in read_dataset(self.options.dataset, self.options.data)}
        self.before = database_bytes()

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        from benchmarks.running import scratch_user, store_haystack
        from convmemory.accounts.callers import Caller
        from convmemory.conversations.models import Conversation

        haystack = self.haystacks[archive]
        owner = self.archives[archive] = scratch_user("scoreboard", haystack)
        caller = Caller.of(owner)
        self.indexing.append(self.pool.submit(_index, caller, store_haystack(caller, haystack)))
        self.names |= dict(Conversation.objects.filter(archive_id=owner.pk).values_list("pk", "source_id"))

    def finish(self) -> None:
        from benchmarks.speeds.bench import refresh_statistics

        for indexing in self.indexing:
            indexing.result()
        refresh_statistics()

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        from benchmarks.datasets.haystacks import Question
        from benchmarks.running import query_of
        from convmemory.accounts.callers import Caller
        from convmemory.core.acting import acting_for
        from search.searching import search

        query = query_of(Question(question, category="", fold=archive), "hybrid", limit)
        owner = self.archives[archive]
        with acting_for(owner.pk):  # as the application searches, under row-level security
            hits = search(caller=Caller.of(owner), query=query).hits
        return [f"{self.names[hit.object_id]}#{hit.number}" for hit in hits]

    def bytes_on_disk(self) -> int:
        from benchmarks.running import database_bytes

        return database_bytes() - self.before

    def servers(self) -> list[int]:
        return [int((self.folder / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])]


def _index(caller: "Caller", conversation_ids: Sequence[int]) -> None:
    from django.db import connection

    from benchmarks.running import index_haystack

    try:
        index_haystack(caller, conversation_ids)
    finally:
        connection.close()


if __name__ == "__main__":
    serve(Convmemory)
