"""`python -m benchmarks ablation --data locomo=FILE`: search without one of its parts at a time.

Runs in process, with the functions of `manage.py evaluate`: a set is loaded and indexed once, then queried again for
each part that is left out. It also computes figures with newly fitted weights, each conversation's without its own
questions. Writes `benchmarks/results/ablation-SET.json`.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test.utils import override_settings

from benchmarks.archives import Asked
from benchmarks.figures import Figures, differences, quality, values_of
from benchmarks.machine import run_facts
from benchmarks.parts import COMPLETE, PARTS, Part, single_features
from benchmarks.places import OWN_SETS, is_measured, named_paths, say, write_result
from convmemory.evaluation.datasets import read_dataset
from convmemory.evaluation.haystacks import Haystack
from convmemory.evaluation.reporting import fit_tables
from convmemory.evaluation.running import Observation, load_haystack, observe_haystack, scratch_user
from search.ranking.rankers import TABLES

FITTED = {"locomo": "hybrid_people", "coding": "hybrid_long_items", "samples": "hybrid"}
"""The deciding table of weights of each set that is large enough for a fit."""

Loaded = list[tuple[User, Haystack]]


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    call_command("migrate", verbosity=0)
    parts = (*PARTS, *(single_features() if options.each_feature else ()))
    facts = run_facts()
    for dataset, path in named_paths(options.data) if options.data else OWN_SETS.items():
        if options.again or not is_measured(f"ablation-{dataset}", facts["commit"]):
            loaded = load(dataset, list(read_dataset("samples" if dataset in OWN_SETS else dataset, path)))
            write_result(f"ablation-{dataset}", facts | {"dataset": dataset} | report(loaded, parts, dataset))


def load(dataset: str, haystacks: Sequence[Haystack]) -> Loaded:
    """Store and index each haystack; content from an earlier run is not embedded again."""
    loaded = [(scratch_user(f"ablation-{dataset}", haystack), haystack) for haystack in haystacks]
    for owner, haystack in loaded:
        load_haystack(owner, haystack, _quiet)
        say(f"{haystack.name} is indexed")
    return loaded


def report(loaded: Loaded, parts: Sequence[Part], dataset: str) -> dict[str, Any]:
    """Return figures of the complete search, without each part, and with weights that have not seen the questions."""
    complete = observe(loaded, COMPLETE)
    values = _values(complete)
    rows = []
    for part in parts:
        own = _values(observe(loaded, part))
        rows.append({"without": part.title, "quality": quality(own), "change": differences(own, values)})
        say(f"without {part.title}")
    weights = _newly_fitted(complete, dataset)
    return {"questions": len(complete), "complete": quality(values), "without": rows, "weights": weights}


def _newly_fitted(complete: Sequence[Observation], dataset: str) -> dict[str, Figures]:
    """Return figures with weights fitted on all questions, and with each fold left out; nothing for a small set."""
    table = FITTED.get(dataset)
    fitted = fit_tables({dataset: list(complete)}, {table: TABLES[table]}) if table else {}
    return {how: fitted[table][how][dataset] for how in ("fitted", "left out")} if table and fitted else {}


def observe(loaded: Loaded, part: Part) -> list[Observation]:
    """Search for each question without the part; return the observations."""
    with override_settings(**part.settings):
        return [
            observation
            for owner, haystack in loaded
            for observation in observe_haystack(
                owner,
                haystack,
                mode=part.mode,
                progress=_quiet,
                pipeline=part.pipeline(),
                is_timeless=part.is_timeless,
            )
        ]


def _values(observations: Sequence[Observation]) -> dict[str, Any]:
    asked = [Asked(o.question.text, frozenset(map(str, o.gold.tolist()))) for o in observations]
    return values_of(asked, [list(map(str, o.order.tolist())) for o in observations])


def _quiet(done: str, number: int, count: int) -> None:
    """Ignore progress within a haystack."""


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks ablation")
    parser.add_argument("--data", nargs="+", default=[], metavar="SET=PATH", help="default: our own three sets")
    parser.add_argument("--each-feature", action="store_true", help="leave each single feature out, too")
    parser.add_argument("--again", action="store_true", help="repeat what was already measured at this commit")
    return parser.parse_args(arguments)
