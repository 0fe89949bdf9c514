"""`python -m benchmarks ablation --data locomo=FILE`: search without one of its parts at a time.

The parts are retrievers, features and whole stages. The remaining ones keep their weights: nothing is refitted, so a
row shows the product without the part, not how good a product built without it could be. A set is loaded and indexed
once, then queried again for each part that is left out. It also computes figures with newly fitted weights, each
conversation's without its own questions. Writes `benchmarks/results/ablation-SET.json`.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.core.management import call_command
from django.test.utils import override_settings

from benchmarks.datasets import read_dataset
from benchmarks.datasets.haystacks import Haystack
from benchmarks.metrics import Figures, differences, quality, values_of
from benchmarks.reporting import fit_tables
from benchmarks.running import Observation, each_loaded, observe_haystack
from benchmarks.runs import OWN_SETS, is_measured, named_paths, run_facts, say, write_result
from convmemory.accounts.callers import Caller
from search.pipeline import PIPELINE, Pipeline, Rankers
from search.ranking.rankers import BlendedRanker, LinearRanker, Weights, weights_of
from search.retrieval.candidates import EXCHANGES, Feature

FITTED = {"locomo": "hybrid_people", "coding": "hybrid_long_items", "samples": "hybrid"}
"""The deciding table of weights of each set that is large enough for a fit."""

Loaded = list[tuple[Caller, Haystack]]


def whole() -> Pipeline:
    """Return the complete search."""
    return PIPELINE


def without_features(features: Collection[str]) -> Pipeline:
    """Return search without weights for these features."""
    return replace(PIPELINE, rankers=_rankers(partial(_weights, features)))


def without_late_interaction() -> Pipeline:
    """Return search in which the order of the first stage is final."""
    rankers = PIPELINE.rankers
    return replace(PIPELINE, rankers=replace(rankers, hybrid=rankers.first_stage))


def without_weights_for_people() -> Pipeline:
    """Return search that ranks conversations of named people with the weights of other conversations."""
    short, long = weights_of("hybrid"), weights_of("hybrid_long_items")
    return replace(PIPELINE, rankers=replace(PIPELINE.rankers, hybrid=BlendedRanker(short, long, short)))


def _weights(features: Collection[str], table: str) -> Weights:
    return {name: weight for name, weight in weights_of(table).items() if name not in features}


def _rankers(weights: Callable[[str], Weights]) -> Rankers:
    return Rankers(
        first_stage=LinearRanker(weights("first_stage")),
        hybrid=BlendedRanker(weights("hybrid"), weights("hybrid_long_items"), weights("hybrid_people")),
        semantic=LinearRanker(weights("semantic")),
        full_text=LinearRanker(weights("full_text")),
        sections=LinearRanker(weights("sections")),
    )


@dataclass(frozen=True, slots=True)
class Part:
    """The name of a part that is left out, and the search without it: a pipeline, a mode and settings.

    A search that `is_timeless` ignores the time that a question names.
    """

    title: str
    pipeline: Callable[[], Pipeline] = whole
    mode: str = "hybrid"
    settings: Mapping[str, float] = field(default_factory=dict)
    is_timeless: bool = False


OF_PASSAGES = frozenset({Feature.PASSAGE_COSINE, Feature.SOURCE_PASSAGE_COSINE})
OF_ITEMS = frozenset({Feature.ITEM_COSINE})
OF_NEIGHBOURS = frozenset({Feature.NEIGHBOUR_COVERAGE, Feature.NEIGHBOUR_MAX_SIM})
OF_CONVERSATIONS = frozenset({Feature.SOURCE_BM25, Feature.SOURCE_BEST_BM25, Feature.SOURCE_PASSAGE_COSINE})

COMPLETE = Part("nothing")
PARTS = (
    Part("words (search by meaning alone)", mode="semantic"),
    Part("vectors and late interaction (search by words alone)", mode="full_text"),
    Part("late interaction and all that is built on it", without_late_interaction),
    Part("vectors of sentence passages", partial(without_features, OF_PASSAGES)),
    Part("vectors of whole turns", partial(without_features, OF_ITEMS)),
    Part("the question before a turn, and who speaks", partial(without_features, EXCHANGES)),
    Part("the weights for people with names", without_weights_for_people),
    Part("the neighbouring turns", partial(without_features, OF_NEIGHBOURS)),
    Part("the conversation around a turn", partial(without_features, OF_CONVERSATIONS)),
    Part("nearness to the days that the question names", partial(without_features, {Feature.DATE})),
    Part("all that the question says about when", is_timeless=True),
    Part("diversity", settings={"MMR_LAMBDA": 1.0}),
)


def single_features() -> tuple[Part, ...]:
    """Return a part for each feature that has a weight in any table for turns."""
    tables = ("hybrid", "hybrid_long_items", "hybrid_people", "first_stage")
    weighed = {name for table in tables for name, weight in weights_of(table).items() if weight}
    return tuple(Part(f"`{name}`", partial(without_features, {name})) for name in sorted(weighed))


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
    loaded = []
    for caller, haystack in each_loaded(f"ablation-{dataset}", haystacks, keep=True):
        loaded.append((caller, haystack))
        say(f"{haystack.name} is indexed")
    return loaded


def report(loaded: Loaded, parts: Sequence[Part], dataset: str) -> dict[str, Any]:
    """Return figures of the complete search, without each part, and with weights that have not seen the questions."""
    complete = observe(loaded, COMPLETE)
    values = _values(complete)
    rows = []
    for part in parts:
        reduced = _values(observe(loaded, part))
        rows.append({"without": part.title, "quality": quality(reduced), "change": differences(reduced, values)})
        say(f"without {part.title}")
    weights = _newly_fitted(complete, dataset)
    return {"questions": len(complete), "complete": quality(values), "without": rows, "weights": weights}


def _newly_fitted(complete: Sequence[Observation], dataset: str) -> dict[str, Figures]:
    """Return figures with weights fitted on all questions, and with each fold left out; nothing for a small set."""
    table = FITTED.get(dataset)
    fitted = fit_tables({dataset: list(complete)}, {table: frozenset(weights_of(table))}) if table else {}
    return {how: fitted[table][how][dataset] for how in ("fitted", "left out")} if table and fitted else {}


def observe(loaded: Loaded, part: Part) -> list[Observation]:
    """Search for each question without the part; return the observations."""
    with override_settings(**part.settings):
        return [
            observation
            for caller, haystack in loaded
            for observation in observe_haystack(
                caller,
                haystack,
                mode=part.mode,
                pipeline=part.pipeline(),
                is_timeless=part.is_timeless,
            )
        ]


def _values(observations: Sequence[Observation]) -> dict[str, Any]:
    return values_of((frozenset(o.gold.tolist()), o.order.tolist()) for o in observations)


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks ablation")
    parser.add_argument("--data", nargs="+", default=[], metavar="SET=PATH", help="default: our own three sets")
    parser.add_argument("--each-feature", action="store_true", help="leave each single feature out, too")
    parser.add_argument("--again", action="store_true", help="repeat what was already measured at this commit")
    return parser.parse_args(arguments)
