"""Feeds importers what fixtures become when bytes and values of them are changed at random.

`python -m tests.trials.fuzz_importers [--minutes 10] [--seed 1]`. Each round damages one file of a folder of two and
reads both under a time limit. Reports every crash (anything but a refusal), every hang and every lost neighbour, with
the seed that repeats it, and ends with 1 where there was one.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import Walk
from convmemory.core.errors import InvalidInput, TooLarge

FIXTURES = Path(__file__).parents[1] / "fixtures" / "transcripts"
LIMIT_S = 20
NEIGHBOUR = '{"role": "user", "content": "still here?"}\n{"role": "assistant", "content": "yes"}\n'
VALUES: tuple[Any, ...] = (None, True, 0, -1, 10**400, 1.5, "", "x" * 5000, "\ud800", [], {}, [[]], {"type": "text"})
BYTES = (b"\0", b"\xff", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b",", b"null", b"1e999")


class _Hang(Exception):
    """A reading took longer than `LIMIT_S`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")  # names the folder of temporary files
    seeds = sorted(path for path in FIXTURES.rglob("*") if path.is_file())
    signal.signal(signal.SIGALRM, _hang)
    outcomes: Counter[str] = Counter()
    deadline, round_number = time.monotonic() + options.minutes * 60, options.seed
    while time.monotonic() < deadline:
        dice = random.Random(round_number)
        outcomes[_round(dice, dice.choice(seeds), round_number)] += 1
        round_number += 1
    sys.stdout.write(f"{dict(outcomes)}\n")
    sys.exit(any(outcomes[kind] for kind in ("crash", "hang", "lost neighbour")))


def _round(dice: random.Random, original: Path, number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / original.relative_to(FIXTURES)
        target.parent.mkdir(parents=True)
        target.write_bytes(_damaged(original.read_bytes(), dice))
        neighbour = Path(folder) / "neighbour.jsonl"
        neighbour.write_text(NEIGHBOUR)
        signal.alarm(LIMIT_S)
        try:
            outcome = _read(Path(folder))
        except _Hang:
            outcome = "hang"
        except Exception:  # what the trial looks for
            outcome = "crash"
            traceback.print_exc()
        finally:
            signal.alarm(0)
    if outcome in ("crash", "hang", "lost neighbour"):
        sys.stdout.write(f"{outcome}: --seed {number} {original.relative_to(FIXTURES)}\n")
    return outcome


def _read(folder: Path) -> str:
    outcome, neighbour = "read", 0
    for found in Walk().over([folder], root=folder):
        if found.importer is None:
            outcome = "refused"
            continue
        try:
            for draft in found.importer.parse(found.source, FileReport(path="")):
                messages = list(draft.messages)
                list(draft.events)
                neighbour += len(messages) if found.source.label == "neighbour.jsonl" else 0
        except (InvalidInput, TooLarge):
            outcome = "refused"
    return outcome if neighbour == 2 else "lost neighbour"


def _damaged(data: bytes, dice: random.Random) -> bytes:
    """Bytes flipped, inserted, cut out; or a value of the JSON replaced by another."""
    if dice.random() < 0.5:
        lines = data.splitlines()
        at = dice.randrange(len(lines) or 1)
        whole = dice.random() < 0.5
        try:
            value = json.loads(data if whole else lines[at])
        except (ValueError, IndexError):
            return _with_bytes(data, dice)
        _replace_value(value, dice)
        if whole:
            return json.dumps(value).encode()
        lines[at] = json.dumps(value).encode()
        return b"\n".join(lines)
    return _with_bytes(data, dice)


def _with_bytes(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(data) + 1)
        data = data[:at] + dice.choice(BYTES) + data[at + dice.randint(0, 30) :]
    return data


def _replace_value(value: Any, dice: random.Random) -> None:
    """Put another value somewhere into this one."""
    while isinstance(value, (dict, list)) and value:
        key: Any = dice.choice(list(value)) if isinstance(value, dict) else dice.randrange(len(value))
        if dice.random() < 0.4 or not isinstance(value[key], (dict, list)) or not value[key]:
            value[key] = dice.choice(VALUES)
            return
        value = value[key]


def _hang(signum: int, frame: object) -> None:
    raise _Hang


if __name__ == "__main__":
    main()
