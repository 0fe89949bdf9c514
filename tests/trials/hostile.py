"""A trial, not a test: one user works while another, and clients without an account, attack with everything at once.

`python -m tests.trials.hostile` starts the product on a scratch folder, on 127.0.0.1, with a chat endpoint that repeats
what it is told. Quiet and attacked phases take turns. It prints a table and ends with 1 if an attack more than
doubled the other's p95 of searching, if the median time until the other's small document or import was done came to
more than three times that of the quiet phases, if anything of the other's failed, if a conversation of two messages
took more than 15 s to be indexed, if the processes took more than 2 GB, or if an attack was answered with 500. It takes
minutes.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import httpx2

from tests.support.chat_server import running_chat_server
from tests.support.installation import ROOT, Installation, Memory, running_installation
from tests.support.patience import wait_until
from tests.trials.bystander import Bystander, Sample
from tests.trials.hostile_attacks import share_page, sign_in

GB, MB = 1024**3, 1024**2
MOST_TIMES_SLOWER = 2.0
MOST_TIMES_LATER = {"document": 3.0, "import": 3.0}
LONGEST_UNINDEXED_S = 15.0
MOST_MEMORY = 2 * GB
CLEANING_S = 300.0
PASSWORDS = {"ada": "a harbour full of cedar", "mallory": "an island full of kelp"}
KINDS = ("search", "chat", "document", "import", "indexed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400, help="of the user who is not to notice anything")
    parser.add_argument("--rounds", type=int, default=3, help="of a quiet and an attacked phase each")
    parser.add_argument("--seconds", type=float, default=25, help="of each phase")
    parser.add_argument("--only", nargs="*", default=[], help="the attacks to run, to find which one costs what")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without stopping the server
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, running_chat_server() as endpoint:
        Path(folder).chmod(0o755)
        chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "test-model"}
        with running_installation(Path(folder), chat | {"SHARING": "anybody"}) as installation:
            trial = Trial(installation, options.only)
            trial.prepare(options.turns)
            for number in range(1, options.rounds + 1):
                say(f"round {number} of {options.rounds}")
                trial.round(options.seconds)
                if number < options.rounds:
                    trial.clean()
            return trial.report()


def say(text: str) -> None:
    print(text, flush=True)


@dataclass(slots=True)
class Peak:
    """The most that was seen in a kind of phase."""

    memory: Memory = field(default_factory=lambda: Memory(0, 0))
    temporary: int = 0

    def take(self, memory: Memory, temporary: int) -> None:
        self.memory = max(self.memory, memory, key=lambda one: one.total)
        self.temporary = max(self.temporary, temporary)


@dataclass(slots=True)
class Trial:
    """Two users on one installation, and what was seen of them."""

    installation: Installation
    only: list[str]
    ada: Bystander = field(init=False)
    mallory_key: str = ""
    page: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    peaks: dict[bool, Peak] = field(default_factory=lambda: {False: Peak(), True: Peak()})

    def prepare(self, turns: int) -> None:
        keys = {name: self.installation.make_user(name, password) for name, password in PASSWORDS.items()}
        self.ada, self.mallory_key = Bystander(self.installation.address, keys["ada"]), keys["mallory"]
        self.ada.settle(turns)
        with self.ada.working(is_attacked=False):  # what is loaded once is loaded
            time.sleep(5)
        self.ada.samples.clear()
        self.installation.wait_until_idle()  # the samples are indexed, too: a quiet phase is quiet
        say(f"{turns} turns are indexed")

    def round(self, seconds: float) -> None:
        self.page = share_page(self.installation.address, self.mallory_key)
        self.installation.wait_until_idle()
        with self.watching(is_attacked=False), self.ada.working(is_attacked=False):
            time.sleep(seconds)
        with self.attackers(seconds) as begin, self.watching(is_attacked=True), self.ada.working(is_attacked=True):
            begin()

    @contextmanager
    def watching(self, *, is_attacked: bool) -> Iterator[None]:
        """Looks at memory and temporary files twice a second."""
        over, peak = threading.Event(), self.peaks[is_attacked]

        def watch() -> None:
            while not over.wait(0.5):
                peak.take(self.installation.memory(), self.installation.temporary_bytes())

        with ThreadPoolExecutor(1) as watcher:
            watched = watcher.submit(watch)
            try:
                yield
            finally:
                over.set()
            watched.result()

    @contextmanager
    def attackers(self, seconds: float) -> Iterator["Begin"]:
        """A process that has everything ready; calling what this gives lets it loose and waits for its end."""
        address = self.installation.address
        cookies = json.dumps(sign_in(address, "mallory", PASSWORDS["mallory"]))
        command = [sys.executable, "-m", "tests.trials.hostile_attacks", address, "--key", self.mallory_key]
        command += ["--cookies", cookies, "--victim", "ada", "--page", self.page, "--seconds", str(seconds)]
        command += ["--only", *self.only]
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        begin = Begin(process)
        try:
            begin.wait_until_ready()
            yield begin
        finally:
            process.kill()
            process.wait()
        self.outcomes.update(begin.outcomes)

    def clean(self) -> None:
        """Remove what the attacker stored, so that the next quiet phase is quiet; nothing that is measured."""
        headers = {"Authorization": f"Bearer {self.mallory_key}"}
        with httpx2.Client(base_url=self.installation.address, headers=headers, timeout=60) as client:
            wait_until(lambda: not _remove_documents(client), "the end of the attacker's documents", CLEANING_S, 0)
            wait_until(lambda: not _unfinished_imports(client), "the end of the attacker's imports", CLEANING_S, 1)
            wait_until(lambda: not _remove_some(client), "the end of the attacker's conversations", CLEANING_S, 0)
        self.installation.wait_until_idle()

    def report(self) -> int:
        samples = self.ada.samples
        say(_table(samples))
        for is_attacked, peak in self.peaks.items():
            memory = f"web {peak.memory.web / MB:,.0f} MB, workers {peak.memory.workers / MB:,.0f} MB"
            say(f"{'attacked' if is_attacked else 'quiet'}: {memory}, temporary files {peak.temporary / MB:,.0f} MB")
        say("what became of the attacks:")
        for outcome, count in sorted(self.outcomes.items()):
            say(f"  {outcome}: {count}")
        complaints = self.complaints(samples)
        for complaint in complaints:
            say(f"FAILED: {complaint}")
        return 1 if complaints else 0

    def complaints(self, samples: list[Sample]) -> list[str]:
        found = [f"{sample.kind}: {sample.error}" for sample in samples if sample.error]
        found += [f"the trial has no sample of {what}" for what in _unmeasured(samples)]
        if any(text.startswith("the trial has no sample") for text in found):
            return found
        slower = p95(_times(samples, "search", is_attacked=True)) / p95(_times(samples, "search", is_attacked=False))
        if slower > MOST_TIMES_SLOWER:
            found.append(f"the other's p95 of searching is {slower:.1f} times its quiet value")
        for kind, most in MOST_TIMES_LATER.items():
            later = median(_times(samples, kind, is_attacked=True)) / median(_times(samples, kind, is_attacked=False))
            if later > most:
                found.append(f"the other's {kind} was done after {later:.1f} times its quiet time, in the median")
        longest = max((s.seconds for s in samples if s.kind == "indexed"), default=0.0)
        if longest > LONGEST_UNINDEXED_S:
            found.append(f"a conversation of two messages was indexed after {longest:.1f} s")
        most = max(peak.memory.total for peak in self.peaks.values())
        if most > MOST_MEMORY:
            found.append(f"the processes took {most / MB:,.0f} MB")
        return found + [f"the server failed: {name}" for name in self.outcomes if name.endswith(": 500")]


@dataclass(slots=True)
class Begin:
    """The process of the attackers, which waits for its word."""

    process: "subprocess.Popen[str]"
    outcomes: Counter[str] = field(default_factory=Counter)

    def wait_until_ready(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def __call__(self) -> None:
        said, _ = self.process.communicate("go\n", timeout=600)
        assert self.process.returncode == 0, "the attackers failed"
        self.outcomes.update(json.loads(said))


def _unfinished_imports(client: httpx2.Client) -> bool:
    response = client.get("/api/v1/imports")
    rows = response.raise_for_status().json()["results"]
    return any(row["state"] in ("queued", "running") for row in rows)


def _remove_some(client: httpx2.Client) -> int:
    """Delete a page of conversations; how many they were."""
    rows = client.get("/api/v1/conversations", params={"limit": 100}).raise_for_status().json()["results"]
    for row in rows:
        client.delete(f"/api/v1/conversations/{row['id']}")
    return len(rows)


def _remove_documents(client: httpx2.Client) -> int:
    """Delete a page of documents; how many they were."""
    rows = client.get("/api/v1/documents", params={"limit": 100}).raise_for_status().json()["results"]
    for row in rows:
        client.delete(f"/api/v1/documents/{row['id']}")
    return len(rows)


def _times(samples: list[Sample], kind: str, *, is_attacked: bool) -> list[float]:
    return [s.seconds for s in samples if s.kind == kind and s.is_attacked == is_attacked]


def _unmeasured(samples: list[Sample]) -> list[str]:
    phases = ((False, "in quiet"), (True, "under attack"))
    missing = [(kind, name) for kind in KINDS for phase, name in phases if not _times(samples, kind, is_attacked=phase)]
    return [f"{kind} {name}" for kind, name in missing]


def p95(seconds: list[float]) -> float:
    return quantiles(seconds, n=20)[-1] if len(seconds) > 1 else (seconds or [float("nan")])[0]


def _table(samples: list[Sample]) -> str:
    head = f"{'':10}{'phase':10}{'count':>7}{'p50 ms':>9}{'p95 ms':>9}{'most ms':>9}{'failed':>8}"
    return "\n".join([head, *(_line(samples, kind, phase) for kind in KINDS for phase in (False, True))])


def _line(samples: list[Sample], kind: str, is_attacked: bool) -> str:
    times = _times(samples, kind, is_attacked=is_attacked) or [float("nan")]
    failed = sum(bool(s.error) for s in samples if s.kind == kind and s.is_attacked == is_attacked)
    figures = "".join(f"{value * 1000:9,.0f}" for value in (median(times), p95(times), max(times)))
    return f"{kind:10}{'attacked' if is_attacked else 'quiet':10}{len(times):7}{figures}{failed:8}"


if __name__ == "__main__":
    sys.exit(main())
