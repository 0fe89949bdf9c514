"""What all benchmarks share: paths, results as small JSON files, and the facts about a run.

The facts are the measured commit, and the machine without its name.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
VAR = ROOT / "var" / "benchmarks"
RESULTS = ROOT / "benchmarks" / "results"
OWN_QUESTIONS = ROOT / "tests" / "retrieval"
OWN_SETS: Mapping[str, Path] = {
    "samples": OWN_QUESTIONS,
    "asked-back": OWN_QUESTIONS / "asked_back",
    "asked-in-time": OWN_QUESTIONS / "asked_in_time",
}
"""Our own questions over the sample conversations, by the names of their results."""
CHANGED = ", changed"
"""The mark after a commit's hash if files were changed since."""
GIB = 2**30
QUIET_LOAD = 0.5  # the load average of the last minute before a run
PATIENCE_S = 240.0


def start_django(folder: Path) -> None:
    """Set up Django on a database in this folder: a benchmark must touch neither one in use nor another's."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "convmemory.settings"
    os.environ["CONVMEMORY_VAR"] = str(folder)
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)
    import django

    django.setup()
    from convmemory.core import acting

    acting.process_acts_as(acting.SCHEMA)


def write_result(name: str, result: Mapping[str, Any]) -> None:
    """Write a result into the folder of results, in a fixed order."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def read_results(kind: str) -> dict[str, Any]:
    """Return the results of a kind, by the rest of their names: `scoreboard-locomo` is `locomo`."""
    paths = {path.stem.removeprefix(kind).removeprefix("-"): path for path in sorted(RESULTS.glob(f"{kind}*.json"))}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def is_measured(name: str, commit: str) -> bool:
    """Return whether a result was measured at exactly this commit."""
    path = RESULTS / f"{name}.json"
    if not path.exists() or commit.endswith(CHANGED):
        return False
    return bool(json.loads(path.read_text(encoding="utf-8"))["commit"] == commit)


def named_paths(arguments: list[str]) -> list[tuple[str, Path]]:
    """Return the `SET=PATH` arguments; without any, our own questions in the repository."""
    pairs = [one.partition("=") for one in arguments]
    return [(name, Path(path)) for name, _, path in pairs] or [("samples", OWN_QUESTIONS)]


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def run_facts() -> dict[str, Any]:
    """Return date, commit, cores, memory, and the load before the run, which is near 0 on a quiet machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def wait_until_quiet() -> None:
    """Wait until the load of earlier work has faded.

    A machine that stays busy is measured all the same; its figures say so.
    """
    given_up_at = time.monotonic() + PATIENCE_S
    if os.getloadavg()[0] > QUIET_LOAD:
        say(f"Waiting until the machine is quiet, {PATIENCE_S:g} seconds at most")
    while os.getloadavg()[0] > QUIET_LOAD and time.monotonic() < given_up_at:
        time.sleep(2)


def commit() -> str:
    """Return the short hash of the checked-out commit, marked if a tracked file differs from it."""
    shown = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return f"{shown}{CHANGED}" if changed else shown


def _git(*arguments: str) -> str:
    completed = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return completed.stdout.strip() or "" if completed.returncode == 0 else "unknown"
