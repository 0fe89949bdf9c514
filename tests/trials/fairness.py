"""Measure the waits of one user during the load of another: searches during a flood of searches, and a large import.

`python -m tests.trials.fairness` starts a web server and workers on a scratch database and takes some ten minutes.
Quiet and busy rounds alternate, because a shared machine is faster at one time than at another; what counts is the
ratio of their p95, and the longest time until a new conversation of two messages was indexed. `--tree` measures
another checkout of the product.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 180
FLOOD = 20  # searches at once
IMPORTED = 24_000  # messages
ROUNDS = 3
SEARCHES = 40  # of a round
INDEX_ALL = """
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
for pk in Conversation.objects.values_list("pk", flat=True):
    index_conversation(conversation_id=pk)
"""
PAUSE_S = 0.05  # between two searches of a user who is not in a hurry
WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "juniper", "kelp", "lagoon",
    "meadow", "nectar", "orchard", "prairie", "quarry", "river", "summit", "tundra", "valley", "willow", "yarrow",
    "zephyr", "bridge", "candle", "dinner", "engine", "forest", "garden", "hammer", "insect",
)  # fmt: skip


def say(text: str) -> None:
    print(text, flush=True)


def made_up(seed: int, count: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def messages(seed: int, turns: int) -> list[dict[str, str]]:
    """Turns of some 400 characters, none like another."""
    found = []
    for number in range(turns):
        text = [made_up(seed * 10_000 + number * 10 + sentence, 12) for sentence in range(5)]
        found.append({"role": "user", "content": f"Note {seed}-{number}: what of {text[0]}? And {text[1]}?"})
        found.append({"role": "assistant", "content": f"It is {text[2]}. Then {text[3]}. At last {text[4]}."})
    return found


@dataclass(frozen=True, slots=True)
class Client:
    """A user of the server."""

    port: int
    key: str

    def call(self, http: HTTPConnection, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        http.request(method, f"/api/v1{path}", json.dumps(body) if body is not None else None, headers)
        response = http.getresponse()
        content = response.read()
        assert response.status < 300, (response.status, content[:300])
        return json.loads(content)

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=120)

    def search(self, http: HTTPConnection, seed: int) -> float:
        """Return the seconds of a search whose query is new to all caches."""
        began = time.perf_counter()
        self.call(http, "GET", f"/conversations/search?query={quote(made_up(seed, 5))}")
        return time.perf_counter() - began

    def add(self, seed: int, turns: int) -> int:
        body = {"title": f"Notes {seed}", "messages": messages(seed, turns)}
        return int(self.call(self.connect(), "POST", "/conversations", body)["id"])

    def pending(self) -> int:
        return int(self.call(self.connect(), "GET", "/index/status")["pending"])


def flood(client: Client, seed: int, end: Any, counts: Any) -> None:
    """One of the searches at once of a user who never stops; refused ones are sent again after a moment."""
    http, number = client.connect(), seed * 1_000_000
    while not end.is_set():
        number += 1
        try:
            client.search(http, number)
            counts[0] += 1
        except (AssertionError, HTTPException, OSError):
            counts[1] += 1
            http.close()
            time.sleep(0.2)


@contextmanager
def flooding(client: Client) -> Iterator[Any]:
    end, counts = multiprocessing.Event(), multiprocessing.Array("q", 2)
    workers = [multiprocessing.Process(target=_flood_threads, args=(client, n, end, counts)) for n in range(2)]
    for worker in workers:
        worker.start()
    time.sleep(1)
    try:
        yield counts
    finally:
        end.set()
        for worker in workers:
            worker.join()


def _flood_threads(client: Client, part: int, end: Any, counts: Any) -> None:
    from threading import Thread

    threads = [Thread(target=flood, args=(client, part * 100 + n + 1, end, counts)) for n in range(FLOOD // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def searches(client: Client, seed: int, count: int = SEARCHES) -> list[float]:
    http = client.connect()
    found = []
    for number in range(count):
        found.append(client.search(http, seed * 10_000 + number))
        time.sleep(PAUSE_S)
    return found


def p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1] * 1000


class Server:
    """The product on a scratch folder: `manage.py up`, as people start it."""

    def __init__(self, tree: Path, folder: Path, variables: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self._tree, self._folder = tree, folder
        self._environment = {**os.environ, "CONVMEMORY_VAR": str(folder / "var"), **variables}
        self._environment.pop("DATABASE_URL", None)

    @contextmanager
    def running(self) -> Iterator[None]:
        with (self._folder / "log").open("wb") as log:
            command = [sys.executable, "manage.py", "up", "--port", str(self.port)]
            up = subprocess.Popen(command, cwd=self._tree, env=self._environment, stdout=log, stderr=log)
            try:
                wait_until(self._answers, START_TIMEOUT_S)
                yield
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait(60)

    def client(self, name: str) -> Client:
        command = [sys.executable, "manage.py", "create_api_key", name, "--create"]
        made = subprocess.run(
            command, cwd=self._tree, env=self._environment, capture_output=True, text=True, check=True
        )
        return Client(self.port, made.stdout.split()[-1])

    def index_everything(self) -> None:
        """Index all stored conversations without the workers, which yield to any other load of the machine."""
        subprocess.check_call(
            [sys.executable, "manage.py", "shell", "-v", "0", "-c", INDEX_ALL], cwd=self._tree, env=self._environment
        )

    def _answers(self) -> bool:
        http = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            http.request("GET", "/ready")
            return http.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def wait_until(done: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until it was so."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < timeout_s, f"not within {timeout_s:g} s"
        time.sleep(0.1)
    return time.monotonic() - began


def fill(client: Client, seed: int, conversations: int, turns: int) -> None:
    for number in range(conversations):
        client.add(seed + number, turns)


def measure_flood(ada: Client, bob: Client) -> None:
    """Ada's searches, with Bob quiet and with Bob searching twenty times at once."""
    searches(ada, 7)  # the model is loaded
    ratios = []
    for number in range(ROUNDS):
        quiet = p95(searches(ada, 100 + number))
        with flooding(bob) as counts:
            busy = p95(searches(ada, 200 + number))
        ratios.append(busy / quiet)
        say(f"flood {number}: p95 {quiet:.0f} ms quiet, {busy:.0f} ms busy, ratio {ratios[-1]:.2f}; "
            f"Bob: {counts[0]} answered, {counts[1]} refused")  # fmt: skip
    say(f"flood: the median ratio of p95 is {statistics.median(ratios):.2f}")


def measure_import(ada: Client, bob: Client) -> None:
    """Measure Ada's waits while Bob's import is being indexed: for a small archive and for each search."""
    quiet = searches(ada, 300) + searches(ada, 301)
    for number, turns in enumerate([3_000, 1_000] + [50] * 160):
        bob.add(50_000 + number, turns)
    say(f"import: {IMPORTED} messages are stored, {bob.pending()} turns wait")
    waits, busy = [], []
    for number in range(ROUNDS):
        ada.add(90_000 + number, 1)
        waits.append(wait_until(lambda: ada.pending() == 0, 1_800))
        busy += searches(ada, 400 + number, 40)
        say(f"import: two messages were indexed after {waits[-1]:.1f} s; {bob.pending()} turns of Bob's wait")
    quiet_again = p95(quiet)
    say(f"import: p95 {quiet_again:.0f} ms quiet, {p95(busy):.0f} ms busy, ratio {p95(busy) / quiet_again:.2f}; "
        f"the longest wait was {max(waits):.1f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--only", choices=("flood", "import"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="convmemory-fairness-"))
    folder.chmod(0o755)
    server = Server(options.tree, folder, {"LOG_LEVEL": "WARNING"})
    try:
        with server.running():
            ada, bob = server.client("ada"), server.client("bob")
            fill(ada, 1_000, 20, 10)
            fill(bob, 2_000, 20, 20)
            server.index_everything()
            say("both archives are indexed")
            if options.only != "import":
                measure_flood(ada, bob)
            if options.only != "flood":
                measure_import(ada, bob)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
