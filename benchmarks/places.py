"""Paths, and results as small JSON files from which the page is generated."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def write_result(name: str, result: Mapping[str, Any]) -> None:
    """Write a result into the folder of results, in a fixed order."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def read_results(kind: str) -> dict[str, Any]:
    """Return the results of a kind, by the rest of their names: `scoreboard-locomo` is `locomo`."""
    found = {path.stem.removeprefix(kind).removeprefix("-"): path for path in sorted(RESULTS.glob(f"{kind}*.json"))}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items()}


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
