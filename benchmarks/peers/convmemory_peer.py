"""convmemory itself: the conversations of the set go through its own ingest and index, questions through its search.

All archives are in one database, each with a user of its own, and each search finds its owner's turns only. It stores
the conversations with their sources, not only an index.
"""

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.adapter import Turn, serve


class Convmemory:
    """Runs from the repository, in its environment."""

    def __init__(self, options: Namespace) -> None:
        os.environ["CONVMEMORY_VAR"] = str(options.folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "convmemory.settings"
        for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
            os.environ.pop(name, None)
        import django

        django.setup()
        from convmemory.core import acting

        acting.process_acts_as(acting.SCHEMA)
        self.options = options
        self.owners: dict[str, Any] = {}
        self.names: dict[int, str] = {}

    def start(self) -> None:
        from django.core.management import call_command

        from convmemory.embeddings.spaces import active_space, embedder_for
        from convmemory.evaluation.datasets import read_dataset

        call_command("migrate", verbosity=0)
        embedder_for(active_space()).embed_passages(["warm up"])
        self.haystacks = {one.name: one for one in read_dataset(self.options.dataset, self.options.data)}
        self.before = _database_bytes()

    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        from convmemory.conversations.models import Conversation
        from convmemory.evaluation.running import load_haystack, scratch_user

        haystack = self.haystacks[archive]
        owner = self.owners[archive] = scratch_user("scoreboard", haystack)
        load_haystack(owner, haystack, lambda *_: None)
        self.names |= dict(Conversation.objects.filter(owner=owner).values_list("pk", "source_id"))

    def finish(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")

    def search(self, archive: str, question: str, limit: int) -> list[str]:
        from convmemory.core.acting import acting_for
        from convmemory.evaluation.haystacks import Question
        from convmemory.evaluation.running import query_of
        from search.searching import search

        query = query_of(Question(question, category="", fold=archive), "hybrid", limit)
        owner = self.owners[archive]
        with acting_for(owner.pk):  # as the application searches, under row-level security
            hits = search(caller=owner, query=query).hits
        return [f"{self.names[hit.object_id]}#{hit.turn_number}" for hit in hits]

    def bytes_on_disk(self) -> int:
        return _database_bytes() - self.before

    def servers(self) -> list[int]:
        return [int((self.options.folder / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])]


def _database_bytes() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    serve(Convmemory)
