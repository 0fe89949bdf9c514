"""`python -m benchmarks scoreboard --data locomo=FILE`: compare search with other systems, in one run on one machine.

Each system gets the same turns, questions and model in a process of its own, one after the other. Its results are kept
under var/benchmarks, so that an interrupted run resumes; another commit or file starts over. Writes
`benchmarks/results/scoreboard-SET.json`.
"""

import hashlib
import json
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.archives import Archive, archive_of
from benchmarks.datasets import read_dataset
from benchmarks.metrics import DEPTH, differences, percentiles, quality, values_of
from benchmarks.runs import VAR, named_paths, run_facts, say, write_result
from benchmarks.systems import OURS, SYSTEMS, AdapterFailed, AdapterProcess, NotInstalled, PeakMemory, System, python_of
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.model_folder import DEFAULT_SHA256, ModelFiles
from convmemory.embeddings.onnx_graph import cached_graph

# The first searches fill caches of the systems and of the operating system; they are not timed.
WARM_UPS = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a run: a set by name, its path, and its archives."""

    dataset: str
    data: Path
    archives: tuple[Archive, ...]

    @classmethod
    def read(cls, dataset: str, data: Path) -> "Subject":
        """Read the set. Raises: InvalidInput."""
        return cls(dataset, data.resolve(), tuple(map(archive_of, read_dataset(dataset, data))))

    @property
    def digest(self) -> str:
        """Return the digest of turns and questions as the systems get them."""
        asked = [(one.text, sorted(one.right)) for archive in self.archives for one in archive.questions]
        turns = [(archive.name, archive.turns) for archive in self.archives]
        return hashlib.sha256(json.dumps([turns, asked]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of a system: the ids found and the time for each question in order, and its costs."""

    key: str
    found: list[list[str]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    index_s: float = 0.0
    bytes: int = 0
    peak_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    facts = run_facts()
    for dataset, path in named_paths(options.data):
        run(Subject.read(dataset, path), facts, only=options.systems, again=options.again)


def run(subject: Subject, facts: Mapping[str, Any], *, only: Sequence[str] = (), again: bool = False) -> None:
    """Measure the systems without results, and write all results with the facts about this run."""
    digest = subject.digest
    measured = {}
    for system in SYSTEMS:
        if not only or system.name in only:
            key = f"{facts['commit']} {digest} {system.key}"
            measured[system.name] = _measured_once(system, subject, key, again=again)
            say(f"{system.title}: {measured[system.name].trouble or 'measured'}")
    write_result(f"scoreboard-{subject.dataset}", {**facts, **report(subject, measured)})


def report(subject: Subject, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the figures of each system, and convmemory's lead over each of them."""
    right = [asked.right for archive in subject.archives for asked in archive.questions]
    values = {name: values_of(zip(right, one.found, strict=True)) for name, one in measured.items() if not one.trouble}
    rows = []
    for system in SYSTEMS:
        if (one := measured.get(system.name)) is None:
            continue
        row: dict[str, Any] = {"name": system.name, "title": system.title}
        if one.trouble:
            rows.append(row | {"not_measured": one.trouble})
            continue
        row |= {"versions": one.versions, "quality": quality(values[system.name])}
        if system.name != OURS and OURS in values:
            row["convmemory_above"] = differences(values[OURS], values[system.name])
        row |= {"search_ms": percentiles(one.milliseconds), "index_s": round(one.index_s, 2)}
        rows.append(row | {"bytes": one.bytes, "peak_bytes": one.peak_bytes})
    return {
        "dataset": subject.dataset,
        "archives": len(subject.archives),
        "turns": sum(len(archive.turns) for archive in subject.archives),
        "characters": sum(archive.characters for archive in subject.archives),
        "questions": len(right),
        "systems": rows,
    }


def _measured_once(system: System, subject: Subject, key: str, *, again: bool) -> Measured:
    """Return the results of an earlier run with this key, or new ones."""
    kept = VAR / "runs" / subject.dataset / f"{system.name}.json"
    if kept.exists() and not again:
        earlier = Measured(**json.loads(kept.read_text(encoding="utf-8")))
        if earlier.key == key and not earlier.trouble:
            return earlier
    try:
        measured = _measure(system, subject, key)
    except (NotInstalled, AdapterFailed) as error:
        measured = Measured(key, trouble=str(error))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(asdict(measured)), encoding="utf-8")
    return measured


def _measure(system: System, subject: Subject, key: str) -> Measured:
    """Measure one system. Raises: NotInstalled, AdapterFailed."""
    python = python_of(system, VAR / "environments")
    folder = VAR / "data" / subject.dataset / system.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [str(python), "-m", f"benchmarks.peers.{system.adapter}", *_arguments(system, subject, folder)]
    log = folder.parent / f"{system.name}.log"
    with AdapterProcess(command, log=log) as adapter, PeakMemory(adapter.process) as memory:
        started = adapter.ask("start")
        memory.watch(started["servers"])
        seconds = sum(_index(adapter, archive) for archive in subject.archives)
        finished = adapter.ask("finish")
        _warm_up(adapter, subject)
        answers = [
            adapter.ask("search", archive=archive.name, question=asked.text, limit=DEPTH)
            for archive in subject.archives
            for asked in archive.questions
        ]
    return Measured(
        key,
        found=[answer["found"] for answer in answers],
        milliseconds=[answer["milliseconds"] for answer in answers],
        index_s=seconds + finished["seconds"],
        bytes=finished["bytes"],
        peak_bytes=memory.peak_bytes,
        versions=started["versions"],
    )


def _arguments(system: System, subject: Subject, folder: Path) -> list[str]:
    model = default_folder()
    graph = cached_graph(ModelFiles.of_bert(model), VAR / "models", expected_sha256=DEFAULT_SHA256)
    values = {
        "folder": folder,
        "graph": graph,
        "tokenizer": model / "tokenizer.json",
        "dataset": subject.dataset,
        "data": subject.data,
        "variant": system.variant,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _index(adapter: AdapterProcess, archive: Archive) -> float:
    say(f"  {archive.name}: {len(archive.turns)} turns")
    return float(adapter.ask("index", archive=archive.name, turns=archive.turns)["seconds"])


def _warm_up(adapter: AdapterProcess, subject: Subject) -> None:
    """Search for uncounted questions, so that a process's slow first search does not count."""
    for archive in subject.archives:
        for number in range(WARM_UPS):
            adapter.ask("search", archive=archive.name, question=f"warm up number {number}", limit=DEPTH)


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks scoreboard")
    parser.add_argument("--data", nargs="+", default=[], metavar="SET=PATH", help="default: our own questions")
    parser.add_argument("--systems", nargs="+", default=[], choices=[system.name for system in SYSTEMS])
    parser.add_argument("--again", action="store_true", help="repeat what an earlier run has measured")
    return parser.parse_args(arguments)
