"""Several web and worker processes on one PostgreSQL, as on several machines.

`python -m tests.support.fleet --turns 5000` is the large run: turns are sent to both web processes through the
API, one worker is killed with everything it holds, and every turn must be embedded exactly once. The
integration test runs the same with few turns.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import psycopg

from convmemory.core.postgres import embedded
from convmemory.core.postgres.layout import OVER_ALL
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.postgres.logins import ROLES
from tests.support.patience import wait_until
from tests.support.prepared_folder import copy_prepared_folder
from tests.support.stored_state import STORED_PASSAGES

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120
TURNS_PER_CONVERSATION = 10
COUNTING_S = 3.0  # counts are stored every second
WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "juniper", "kelp", "lagoon")

STATE = """
SELECT
    (SELECT coalesce(sum(turn_count), 0) FROM conversations_conversation),
    (SELECT count(*) FROM conversations_conversation AS c
     JOIN search_source AS s ON s.kind = 'conversation' AND s.object_id = c.id
     JOIN search_sourceindex AS i ON i.source_id = s.id
     WHERE i.indexed_version = c.turns_version AND i.error = ''),
    (SELECT count(DISTINCT (source_id, item_number)) FROM search_itemembedding)
"""
TWICE = f"""
WITH passages AS ({STORED_PASSAGES})
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM search_itemembedding
        GROUP BY source_id, item_number, chunk_number HAVING count(*) > 1) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM passages GROUP BY element, part, start, kind HAVING count(*) > 1) AS p),
    (SELECT count(*) FROM (SELECT 1 FROM passages AS p
        FULL JOIN (SELECT int8send(id) AS element FROM conversations_message WHERE turn_number IS NOT NULL) AS m
            ON m.element = p.element
        WHERE p.element IS NULL OR m.element IS NULL) AS lost)
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `computed` counts texts that the model was asked for, `known` those it is asked once for."""

    turns: int
    embedded_turns: int
    doubled: int
    missing_passages: int
    computed: int
    known: int
    ingest_s: float
    total_s: float


@dataclass(slots=True)
class Fleet:
    """The processes of a run; all end with `stop`."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    webs: list[str] = field(default_factory=list)
    database_url: str = ""
    keys: list[str] = field(default_factory=list)
    """One for each person."""
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables of all processes, on top of those of every fleet."""

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": self.database_url,
            **{f"DATABASE_{part.name}_URL": self._url_of(role) for part, role in ROLES.items()},
            "SECRET_KEY": "the same on every machine of a fleet",
            "CONVMEMORY_VAR": str(self.folder / "var"),
            "WORKERS": "1",
            "EMBEDDING_THREADS": "1",
            "DATABASE_POOL_SIZE": "4",
            "MEASURES_FLUSH_S": "1",
            "LOG_FORMAT": "json",
            **self.settings,
        }

    def start_servers(self, *, people: int = 1) -> None:
        """PostgreSQL on a TCP address of its own, and accounts that may use the API."""
        address = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"
        folder = self.folder / "postgres"
        copy_prepared_folder(folder)
        embedded.join(folder, {"listen_addresses": address, "max_connections": "100", "fsync": "off"})
        with (folder / "pg_hba.conf").open("a", encoding="utf-8") as access:
            access.write("host all all 127.0.0.1/32 trust\n")
        os.kill(int((folder / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)  # it reads the file again
        self.database_url = f"postgres://postgres@{address}:5432/{embedded.DATABASE}"
        wait_until(self._accepts_connections, "PostgreSQL on its address")
        for number in range(people):
            self.keys.append(self.manage("create_api_key", f"person-{number}", "--create").split()[-1])

    def _url_of(self, role: str) -> str:
        return self.database_url.replace("postgres@", f"{role}@")

    def _accepts_connections(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.database_url):
            return True
        return False

    def start_web(self) -> None:
        self.webs.append(self._spawn_web(free_port()))

    def restart_web(self, number: int) -> None:
        """Kill a web process and start another on its port."""
        port = urlsplit(self.webs[number]).port
        assert port
        self.kill(f"web-{port}")
        self._spawn_web(port)

    def replace_web(self, number: int, *, timeout_s: float) -> float:
        """Stop a web process by SIGTERM and start another on its port; return the seconds that the stop took."""
        port = urlsplit(self.webs[number]).port
        assert port
        started, process = time.monotonic(), self.processes.pop(f"web-{port}")
        process.terminate()
        process.wait(timeout_s)
        stopped_s = time.monotonic() - started
        self._spawn_web(port)
        return stopped_s

    def _spawn_web(self, port: int) -> str:
        """Its address, once it answers."""
        self._spawn(f"web-{port}", [sys.executable, "manage.py", "web", "--port", str(port)])
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: self.get(f"{address}/ready"), f"web process on {port}")
        return address

    def start_worker(self, name: str) -> None:
        self._spawn(name, [sys.executable, "manage.py", "worker"])

    def kill(self, name: str) -> None:
        """Ends a process and all its children as a power cut would."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        embedded.leave()

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        result = subprocess.run(command, cwd=ROOT, env=self.environment(), capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def get(self, address: str) -> dict[str, object] | None:
        """Return the answer of an address, or None if there is none."""
        with suppress(OSError):
            return self.ask(address)
        return None

    def ask(self, address: str, *, person: int = 0) -> dict[str, object]:
        """Raises: OSError (of which HTTPError is one)."""
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.keys[person]}"})
        with urllib.request.urlopen(request, timeout=60) as response:
            found: dict[str, object] = json.load(response)
            return found

    def post(self, address: str, body: Mapping[str, object], *, person: int = 0) -> int:
        headers = {"Authorization": f"Bearer {self.keys[person]}", "Content-Type": "application/json"}
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)

    def rows(self, statement: str) -> tuple[int, ...]:
        """One row of numbers, counted over all groups of owners where there are several."""
        with psycopg.connect(self.database_url, options=f"-c search_path={OVER_ALL},public") as connection:
            row = connection.execute(statement.encode()).fetchone()
        assert row
        return tuple(int(value) for value in row)

    @contextmanager
    def holding_first_source(self) -> Iterator[None]:
        """In the block no worker can index it: each finds it locked, as by another worker, and tries again later."""
        with psycopg.connect(
            self.database_url, options=f"-c search_path={OVER_ALL},public", autocommit=True
        ) as connection:
            connection.execute("SELECT pg_advisory_lock(%s, min(id)::int) FROM search_source", [AdvisoryLock.INDEXING])
            yield

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def print_errors(self) -> None:
        """Print the errors in the logs of all processes, with their stacks: the folder does not outlive the run."""
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                with suppress(ValueError, AttributeError, TypeError):
                    entry = json.loads(line)
                    if entry.get("level") in ("ERROR", "CRITICAL"):
                        print(f"{path.name}: {entry.get('request_id', '')} {entry['message']}", file=sys.stderr)
                        print(entry.get("exception", ""), file=sys.stderr)

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip


@contextmanager
def fleet(folder: Path, *, people: int = 1, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Fleet]:
    """Two web processes on a PostgreSQL; workers are started by the caller."""
    made = Fleet(folder, settings=dict(settings))
    try:
        made.start_servers(people=people)
        made.start_web()
        made.start_web()
        yield made
    except BaseException:
        made.print_errors()
        raise
    finally:
        made.stop()


def run(made: Fleet, *, turns: int, timeout_s: float, counting_s: float = 0.0) -> Outcome:
    """Send the turns to both webs, kill one of two workers on the way, wait until everything is embedded.

    `counting_s` is how long workers get to store what they have counted, without which `computed` is too small.
    """
    conversations = turns // TURNS_PER_CONVERSATION
    started = time.monotonic()
    sent = [_send(made, 0)]
    with made.holding_first_source():  # so that something is left to do whenever the worker is killed
        made.start_worker("worker-1")
        made.start_worker("worker-2")
        with ThreadPoolExecutor(4) as pool:
            sent += pool.map(lambda number: _send(made, number), range(1, conversations))
        ingest_s = time.monotonic() - started
        assert sent == [201] * conversations
        wait_until(lambda: made.rows(STATE)[2] > turns // 10, "the first turns", timeout_s)
        made.kill("worker-1")
        assert made.rows(STATE)[1] < conversations, "the worker was killed too late to prove anything"
    made.start_worker("worker-3")  # its machine comes back
    wait_until(lambda: made.rows(STATE)[1] == conversations, "the index", timeout_s)
    total_s = time.monotonic() - started
    time.sleep(counting_s)
    doubled_turns, doubled_passages, lost = made.rows(TWICE)
    (computed,) = made.rows("SELECT coalesce(sum(items), 0) FROM ops_measure WHERE hour IS NULL AND name = 'embedding'")
    (chunks,) = made.rows("SELECT count(DISTINCT content_hash) FROM search_itemembedding")
    (passages,) = made.rows(f"SELECT count(DISTINCT content_hash) FROM ({STORED_PASSAGES}) AS p")
    all_turns, _, embedded_turns = made.rows(STATE)
    return Outcome(
        turns=all_turns,
        embedded_turns=embedded_turns,
        doubled=doubled_turns + doubled_passages,
        missing_passages=lost,
        computed=computed,
        known=chunks + passages,
        ingest_s=ingest_s,
        total_s=total_s,
    )


def _send(made: Fleet, number: int) -> int:
    return made.post(f"{made.webs[number % len(made.webs)]}/api/v1/conversations", conversation(number))


def conversation(number: int) -> dict[str, object]:
    """The body of a request that stores a conversation of `TURNS_PER_CONVERSATION` turns, the same for one number."""
    made_up = random.Random(number)
    messages = []
    for turn in range(TURNS_PER_CONVERSATION):
        words = [" ".join(made_up.choices(WORDS, k=8)) for _ in range(3)]
        name = f"note {number}-{turn}"
        messages.append({"role": "user", "content": f"What does {name} say of {words[0]}?"})
        messages.append({"role": "assistant", "content": f"In {name} stands {words[1]}. It ends with {words[2]}."})
    return {"title": f"Notes {number}", "source_id": f"notes-{number}", "messages": messages}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5_000)
    parser.add_argument("--timeout", type=float, default=3_600)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="convmemory-fleet-"))
    folder.chmod(0o755)
    try:
        with fleet(folder) as made:
            print(run(made, turns=options.turns, timeout_s=options.timeout, counting_s=COUNTING_S))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
