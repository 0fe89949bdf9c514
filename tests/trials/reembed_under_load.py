"""A trial, not a test: re-embed an archive under constant searches and arrivals, killed twice on the way.

`python -m tests.trials.reembed_under_load --turns 20000` makes a data folder of its own with two tiny
models of 32 and 64 dimensions, and fails unless every search was answered in full from exactly one space,
everything that arrived is in the new space, and the last run computed nothing. It takes minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from convmemory.accounts.callers import Caller

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = Path(__file__).resolve().parents[2]
TURNS_PER_CONVERSATION = 20
LIMIT = 10
KILL_AT = (0.25, 0.6)  # shares of the turns
QUERIES = ("the cat sat on a mat", "why, mat?", "a cat, a mat, the cats", "x y z mat", "sat b c d e")

Answer = tuple[tuple[int, int, float | None], ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reembed-trial-") as folder:
        Path(folder).chmod(0o755)
        prepare(Path(folder))
        Trial(Path(folder), options.turns, options.workers).run()


def prepare(folder: Path) -> None:
    """Two models and an empty installation."""
    from tests.support.tiny_bert import write_tiny_bert

    write_tiny_bert(folder / "old", seed=1)
    write_tiny_bert(folder / "new", seed=2, dimensions=64)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "convmemory.settings",
        "CONVMEMORY_VAR": str(folder / "var"),
        "EMBEDDING_MODEL_PATH": str(folder / "old"),
        "LOG_LEVEL": "ERROR",
    }
    os.environ.pop("DATABASE_URL", None)
    import django

    from convmemory.core import acting

    django.setup()
    acting.process_acts_as(acting.SCHEMA)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def say(text: str) -> None:
    print(text, flush=True)


class Trial:
    """The archive, the load, and the command under it."""

    def __init__(self, folder: Path, turns: int, workers: int) -> None:
        self.folder, self.turns, self.workers = folder, turns, workers
        self.enough = threading.Event()
        self.answers: dict[str, set[Answer]] = {query: set() for query in QUERIES}
        self.counts: Counter[str] = Counter()
        self.slowest_s = 0.0
        self.arrived: list[int] = []

    def run(self) -> None:
        from django.contrib.auth.models import User

        from convmemory.embeddings.spaces import active_space

        self.owner = User.objects.create_user("owner")
        self.newcomer = User.objects.create_user("newcomer")
        self.fill()
        say(f"first embedding: {self.reembed('--workers', str(self.workers))}")
        before = {query: self.answer(query) for query in QUERIES}
        with self.load():
            self.kill_on_the_way()
            say(f"third run: {self.reembed('--model', str(self.folder / 'new'), '--workers', str(self.workers))}")
            assert active_space().dimensions == 64
            after = {query: self.answer(query) for query in QUERIES}
            asked = self.counts["searches"]
            wait_until(lambda: self.counts["searches"] >= asked + 4 * len(QUERIES))
        self.judge(before, after)
        last = self.reembed("--model", str(self.folder / "new"))
        say(f"run after that: {last}")
        assert ", 0 embeddings computed" in last

    def fill(self) -> None:
        """`turns` turns of one owner, two passages each, no two alike."""
        started = time.monotonic()
        for first in range(0, self.turns, TURNS_PER_CONVERSATION):
            count = min(TURNS_PER_CONVERSATION, self.turns - first)
            make(self.owner, [(f"why {spell(n)}, cat?", f"the mat {spell(n)}.") for n in range(first, first + count)])
        say(f"{self.turns:,} turns stored in {time.monotonic() - started:.0f} s")

    def reembed(self, *arguments: str) -> str:
        """Run the command to its end; its report."""
        ended = subprocess.run(self.command(*arguments), cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-2000:]
        return next(line for line in ended.stdout.splitlines() if "embeddings computed" in line)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "manage.py", "reembed", *arguments]

    def kill_on_the_way(self) -> None:
        from search.models import ItemEmbedding

        built = ItemEmbedding.objects.filter(space__is_building=True)
        for share in KILL_AT:
            with (self.folder / "log").open("ab") as log:
                arguments = ("--model", str(self.folder / "new"), "--workers", str(self.workers))
                process = subprocess.Popen(self.command(*arguments), cwd=ROOT, stdout=log, stderr=log)
            while built.count() < share * self.turns:
                assert process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.2)
            process.kill()
            process.wait()
            say(f"killed with {built.count():,} turns in the new space")

    @contextmanager
    def load(self) -> Iterator[None]:
        """Searches all the time in two threads, and a conversation that arrives every second."""
        threads = [threading.Thread(target=self.guarded, args=(work,)) for work in (self.search, self.search, self.add)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.enough.set()
            for thread in threads:
                thread.join()

    def guarded(self, work: Callable[[], None]) -> None:
        from django.db import connections

        try:
            while not self.enough.is_set():
                work()
        except Exception as error:
            self.counts[f"failed: {error!r}"] += 1
        finally:
            connections.close_all()

    def search(self) -> None:
        query = QUERIES[self.counts["searches"] % len(QUERIES)]
        started = time.monotonic()
        self.answers[query].add(self.answer(query))
        took_s = time.monotonic() - started
        self.slowest_s = max(self.slowest_s, took_s)
        self.counts["searches over 1 s"] += took_s > 1
        self.counts["searches"] += 1

    def answer(self, query: str) -> Answer:
        from search.searching import SearchQuery, search

        results = search(caller=Caller.of(self.owner), query=SearchQuery(text=query, limit=LIMIT))
        assert not results.notes, results.notes
        assert len(results.hits) == LIMIT
        return tuple((hit.object_id, hit.number, hit.similarity) for hit in results.hits)

    def add(self) -> None:
        from search.adapters.conversations import index_conversation

        conversation_id = make(self.newcomer, [(f"new {spell(len(self.arrived))}?", "a mat.")])
        index_conversation(conversation_id=conversation_id)
        self.arrived.append(conversation_id)
        self.enough.wait(1)

    def judge(self, before: dict[str, Answer], after: dict[str, Answer]) -> None:
        from convmemory.embeddings.spaces import active_space
        from search.models import ItemEmbedding

        say(f"{dict(self.counts)}, the slowest {self.slowest_s:.2f} s; {len(self.arrived)} conversations arrived")
        assert set(self.counts) <= {"searches", "searches over 1 s"}
        for query in QUERIES:
            mixed = self.answers[query] - {before[query], after[query]}
            assert not mixed, f"{query}: {len(mixed)} answers are of neither space alone"
            assert before[query] != after[query]
        embedded = ItemEmbedding.objects.filter(space=active_space(), source__object_id__in=self.arrived)
        assert embedded.count() == len(self.arrived)
        total = ItemEmbedding.objects.filter(space=active_space()).count()
        assert total == self.turns + len(self.arrived), total
        say(f"every answer from exactly one space; {total:,} turns in the new one")


def make(owner: "User", pairs: list[tuple[str, str]]) -> int:
    from convmemory.conversations.messages import ingest
    from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
    from convmemory.conversations.messages.parts import TextPart

    messages = [
        message
        for question, answer in pairs
        for message in (MessageDraft("user", (TextPart(question),)), MessageDraft("assistant", (TextPart(answer),)))
    ]
    return ingest.create_conversation(caller=Caller.of(owner), draft=ConversationDraft(messages=messages)).pk


def spell(number: int) -> str:
    """A number as letters that the tiny models know, one word each."""
    return re.sub(r"(.)", r"\1 ", str(number).translate(str.maketrans("0123456789", "abcdefghij"))).strip()


def wait_until(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.05)


if __name__ == "__main__":
    main()
