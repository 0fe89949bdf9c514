"""A trial, not a test: an installation of several machines loses one of each kind while people write and search.

`python -m tests.trials.machines` starts PostgreSQL, which is reached over TCP, two web processes and two workers
on scratch folders. The turns of several people are sent to both webs while others search without a pause; on the way a
worker and a web process are killed and started again. As behind a proxy, a request that a web process does not take is
sent to the other. It ends with 1 if a search failed, or if a turn is missing, embedded twice or not found by its owner
alone.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from tests.support.fleet import STATE, TURNS_PER_CONVERSATION, TWICE, WORDS, Fleet, conversation
from tests.support.patience import wait_until
from tests.trials.hostile import p95

PEOPLE = 8
SEARCHERS, SEARCH_PAUSE_S = 2, 0.2
TRIES, TRY_PAUSE_S = 40, 0.25  # a proxy looks for a web process that answers for ten seconds


@dataclass(slots=True)
class People:
    """Users who write and search through whichever web process answers."""

    made: Fleet
    turn: int = 0
    retries: int = 0
    searches: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def through_any_web(self, ask: Callable[[str], object]) -> object:
        """Return the answer of the first web process that takes the request. Raises: OSError, HTTPException."""
        for _ in range(TRIES):
            self.turn += 1
            try:
                return ask(self.made.webs[self.turn % len(self.made.webs)])
            except urllib.error.HTTPError:
                raise
            except (OSError, HTTPException):
                self.retries += 1
                time.sleep(TRY_PAUSE_S)
        raise ConnectionError("no web process answers")

    def writer_of(self, number: int) -> int:
        """The person who writes the conversation of that number."""
        return number % len(self.made.keys)

    def write(self, number: int) -> None:
        body, person = conversation(number), self.writer_of(number)
        self.through_any_web(lambda web: self.made.post(f"{web}/api/v1/conversations", body, person=person))

    def finders(self, number: int) -> list[int]:
        """The people who find the conversation of that number."""
        query = f"/api/v1/conversations/search?query=note%20{number}-0"
        return [person for person in range(len(self.made.keys)) if f'"Notes {number}"' in self._answer(query, person)]

    def _answer(self, query: str, person: int) -> str:
        return json.dumps(self.through_any_web(lambda web: self.made.ask(web + query, person=person)))

    def search_once(self) -> None:
        query = f"/api/v1/conversations/search?query=what%20of%20{random.choice(WORDS)}%20{random.choice(WORDS)}"
        person = random.randrange(len(self.made.keys))
        started = time.monotonic()
        try:
            self.through_any_web(lambda web: self.made.ask(web + query, person=person))
        except (OSError, HTTPException) as error:
            self.failures.append(repr(error))
        self.searches.append(time.monotonic() - started)

    @contextmanager
    def searching(self) -> Iterator[None]:
        over = threading.Event()

        def search() -> None:
            while not over.wait(SEARCH_PAUSE_S):
                self.search_once()

        with ThreadPoolExecutor(SEARCHERS) as pool:
            threads = [pool.submit(search) for _ in range(SEARCHERS)]
            try:
                yield
            finally:
                over.set()
            for thread in threads:
                thread.result()


@contextmanager
def started_fleet(folder: Path) -> Iterator[Fleet]:
    """Two webs on a database with some people; `Fleet.stop` ends what they started."""
    made = Fleet(folder)
    try:
        made.start_servers(people=PEOPLE)
        made.start_web()
        made.start_web()
        yield made
    finally:
        made.stop()


def run(made: Fleet, *, turns: int, timeout_s: float) -> tuple[People, list[str]]:
    """Run the trial, and return the users' figures and the errors in stored rows and logs."""
    people, conversations = People(made), turns // TURNS_PER_CONVERSATION
    for name in ("worker-1", "worker-2"):
        made.start_worker(name)
    started = time.monotonic()
    say = _Story(started, made)
    with people.searching(), ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(people.write, number) for number in range(conversations)]
        try:
            say.wait_for_turns(turns // 10, timeout_s)
            made.kill("worker-1")
            made.start_worker("worker-3")
            say("a worker was killed, another started")
            say.wait_for_turns(turns // 4, timeout_s)
            made.restart_web(0)
            say("a web process was killed and started again")
            say.wait_for_turns(turns // 2, timeout_s)
            for one in sent:
                one.result()
            wait_until(lambda: made.rows(STATE)[1] == conversations, "the index", timeout_s)
            say("everything is indexed")
        finally:
            for one in sent:
                one.cancel()  # of a run that was cut short
    return people, [*_wrong(made, turns), *_misfound(people, conversations)]


@dataclass(slots=True)
class _Story:
    """Says when what happened."""

    started: float
    made: Fleet

    def __call__(self, what: str) -> None:
        print(f"{time.monotonic() - self.started:6.0f} s  {self.made.rows(STATE)[2]:6} turns  {what}", flush=True)

    def wait_for_turns(self, count: int, timeout_s: float) -> None:
        wait_until(lambda: self.made.rows(STATE)[2] >= count, f"{count} turns", timeout_s)


def _wrong(made: Fleet, turns: int) -> list[str]:
    """Return differences between stored and written rows, and the errors that the processes logged."""
    stored, _, embedded_turns = made.rows(STATE)
    doubled_turns, doubled_passages, missing = made.rows(TWICE)
    found = {"stored turns": (stored, turns), "embedded turns": (embedded_turns, turns)}
    found |= {"turns embedded twice": (doubled_turns, 0), "passages made twice": (doubled_passages, 0)}
    found |= {"messages without a passage, or the reverse": (missing, 0)}
    wrong = [f"{what}: {seen}, not {meant}" for what, (seen, meant) in found.items() if seen != meant]
    logged = ((name, line) for name in made.processes for line in made.log(name).splitlines() if '"ERROR"' in line)
    return wrong + [f"{name} logged {line[:300]} … {line[-600:]}" for name, line in logged]


def _misfound(people: People, conversations: int) -> list[str]:
    """Of the last conversation of each person those that others find, or that their writers do not."""
    last = range(max(0, conversations - len(people.made.keys)), conversations)
    found = {number: people.finders(number) for number in last}
    return [
        f"conversation {number} of person {people.writer_of(number)} is found by {finders}"
        for number, finders in found.items()
        if finders != [people.writer_of(number)]
    ]


def report(people: People, wrong: list[str]) -> int:
    complaints = wrong + [f"a search failed: {failure}" for failure in people.failures[:20]]
    print(
        f"{len(people.searches)} searches, {len(people.failures)} failed, p95 {p95(people.searches) * 1000:,.0f} ms, "
        f"most {max(people.searches) * 1000:,.0f} ms; {people.retries} requests were sent again"
    )
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    return 1 if complaints or not people.searches else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5_000)
    parser.add_argument("--timeout", type=float, default=3_600)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that what it started ends, too
    folder = Path(tempfile.mkdtemp(prefix="convmemory-machines-"))
    folder.chmod(0o755)
    try:
        with started_fleet(folder) as made:
            return report(*run(made, turns=options.turns, timeout_s=options.timeout))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
