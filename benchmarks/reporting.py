"""Computes figures from observations: for the search itself, each feature alone, and newly fitted weights.

`build_report` returns them as JSON values, `lines_of` formats these as tables of text.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.fitting import Example, Weights, fit_weights, leave_one_out
from benchmarks.metrics import DEPTH, Row, means, measures, percentiles
from benchmarks.running import Observation
from search.ranking.rankers import best_first, fuse, long_share, weights_of
from search.retrieval.candidates import Feature, ItemKeys, split_keys

COLUMNS = ("hit@1", "hit@5", "recall@1", "recall@5", "recall@10", "recall@20", "mrr", "ndcg@10")
CONVERSATION_COLUMNS = ("conversation_hit@1", "conversation_hit@5")
WIDTH = 34
CONVERSATION_CUTOFFS = (1, 5, 10)
Tables = Mapping[str, Collection[str]]
"""The features of each table of weights."""

OF_MESSAGES: Tables = {name: frozenset(weights_of(name)) for name in ("messages", "messages_full_text")}
OF_TURNS: Tables = {
    name: frozenset(weights_of(name))
    for name in ("first_stage", "hybrid", "hybrid_long_items", "hybrid_people", "full_text", "semantic")
}

Ranking = Callable[[Observation], ItemKeys]
Observed = dict[str, list[Observation]]
"""Observations by data set."""


def is_held_out(dataset: str, fold: str, share: float) -> bool:
    """Return whether a fold is kept from fitting; its name alone decides, so that the choice never changes."""
    digest = hashlib.sha256(f"{dataset}/{fold}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < share


def figures(observations: Sequence[Observation], ranking: Ranking) -> Row:
    """Return means over the questions: of turns, and of conversations by their best turn among the first twenty."""
    rows = []
    for observation in observations:
        first = ranking(observation)[:DEPTH]
        homes = list(dict.fromkeys(split_keys(first)[0]))
        of_homes = measures(observation.gold_conversations, homes, CONVERSATION_CUTOFFS)
        row = measures(frozenset(observation.gold.tolist()), first.tolist())
        rows.append(row | {f"conversation_{name}": value for name, value in of_homes.items()} | dict(observation.more))
    return {"questions": len(rows), **means(rows)}


def by_category(observations: Sequence[Observation], ranking: Ranking) -> dict[str, Row]:
    """Return the figures of each category of questions."""
    categories = sorted({observation.question.category for observation in observations})
    return {name: figures([o for o in observations if o.question.category == name], ranking) for name in categories}


def each_feature(observations: Sequence[Observation]) -> dict[str, Row]:
    """Return the figures of each feature alone; questions for which it is unavailable count as not found."""
    names = sorted({name for observation in observations for name in observation.features})
    return {name: figures(observations, weighted({name: 1.0})) for name in names}


def as_searched(observation: Observation) -> ItemKeys:
    """Return the order of the search itself."""
    return observation.order


def weighted(weights: Weights) -> Ranking:
    """Return the order by these weights, before the best are made diverse."""

    def ranking(observation: Observation) -> ItemKeys:
        weighted_features = {name: scores for name, scores in observation.features.items() if name in weights}
        if not weighted_features:
            return observation.keys[:0]
        return observation.keys[best_first(fuse(weighted_features, weights), observation.keys)]

    return ranking


def fit_tables(observed: Observed, tables: Tables = OF_TURNS) -> dict[str, Any]:
    """Return, for each weight table, weights fitted to all sets, their figures, and those with folds left out.

    `hybrid_long_items` is fitted on long turns, for the top of the list of the candidates scored by late interaction.
    """
    report: dict[str, Any] = {}
    for table, features in tables.items():
        names = sorted(features)
        long = table == "hybrid_long_items"
        shown = _of_long_turns(observed) if long else observed
        if not shown:
            continue
        examples, flat = _examples(shown, seen_late=long), [o for rows in shown.values() for o in rows]
        weights = fit_weights(examples, names, for_top=long)
        left_out = leave_one_out(examples, names, for_top=long)
        honest = {id(o): fold_weights for o, fold_weights in zip(flat, left_out, strict=True)}
        report[table] = {
            "weights": weights,
            "fitted": {name: figures(rows, weighted(weights)) for name, rows in shown.items()},
            "left out": {
                name: figures(rows, lambda o, honest=honest: weighted(honest[id(o)])(o))  # type: ignore[misc]
                for name, rows in shown.items()
            },
        }
    return report


def _of_long_turns(observed: Observed) -> Observed:
    """Return observations in which `hybrid_long_items` has more than half of the weight; sets without any are left
    out.
    """
    long = {name: [o for o in rows if long_share(o.mean_turn_length) > 0.5] for name, rows in observed.items()}
    return {name: rows for name, rows in long.items() if rows}


def ablation(observed: Observed, table: str = "hybrid") -> dict[str, dict[str, Row]]:
    """Return the figures of a table fitted without each of its features in turn."""
    examples, names = _examples(observed), sorted(weights_of(table))
    report = {}
    for left_out in names:
        weights = fit_weights(examples, [name for name in names if name != left_out])
        report[left_out] = {name: figures(rows, weighted(weights)) for name, rows in observed.items()}
    return report


def _examples(observed: Observed, *, seen_late: bool = False) -> list[Example]:
    return [
        Example(
            dataset,
            o.question.fold,
            o.keys,
            o.features,
            np.isin(o.keys, o.gold),
            ~np.isnan(o.features[Feature.MAX_SIM]) if seen_late and Feature.MAX_SIM in o.features else None,
        )
        for dataset, observations in observed.items()
        for o in observations
    ]


def build_report(observed: Observed, options: dict[str, Any]) -> dict[str, Any]:
    """Return all requested figures as JSON values."""
    share = options["held_out"]
    development = {
        name: [o for o in rows if not is_held_out(name, o.question.fold, share)] for name, rows in observed.items()
    }
    report: dict[str, Any] = {name: _of_set(rows, development[name], options) for name, rows in observed.items()}
    if options["fit"]:
        tables, main = _tables(options)
        report["fit"] = fit_tables(development, tables)
        weights = report["fit"][main]["weights"]
        for name, rows in observed.items():
            if held_out := _held_out(rows, development[name]):
                report[name][f"held out, {main} fitted"] = figures(held_out, weighted(weights))
    if options["ablate"]:
        _, main = _tables(options)
        report["ablation"] = ablation(development, main)
    return report


def _tables(options: dict[str, Any]) -> tuple[Tables, str]:
    """Return the weight tables to fit, and the one that decides."""
    return (OF_MESSAGES, "messages") if options["messages"] else (OF_TURNS, "hybrid")


def _of_set(rows: list[Observation], development: list[Observation], options: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "all": figures(rows, as_searched),
        "categories": by_category(rows, as_searched),
        "milliseconds": percentiles([o.milliseconds for o in rows]),
    }
    if held_out := _held_out(rows, development):
        report["development"] = figures(development, as_searched)
        report["held out"] = figures(held_out, as_searched)
    if options["features"]:
        report["features"] = each_feature(development)
    return report


def _held_out(rows: list[Observation], development: list[Observation]) -> list[Observation]:
    seen = {id(o) for o in development}
    return [o for o in rows if id(o) not in seen]


def lines_of(report: dict[str, Any]) -> list[str]:
    """Return the report as tables."""
    lines: list[str] = []
    for name, section in report.items():
        if name == "fit":
            for table, fit in section.items():
                lines += ["", f"{table} = {fit['weights']}"]
                lines += _table({f"{s}, {how}": f for how in ("fitted", "left out") for s, f in fit[how].items()})
        elif name == "ablation":
            lines += ["", "fitted without"]
            lines += _table({f"{feature}, {s}": f for feature, sets in section.items() for s, f in sets.items()})
        else:
            lines += ["", f"{name}: {section['all']['questions']} questions, {section['milliseconds']} ms"]
            rows = {key: f for key, f in section.items() if isinstance(f, dict) and "mrr" in f}
            lines += _table(rows | section["categories"] | section.get("features", {}))
    return lines[1:]


def _table(rows: dict[str, Row]) -> list[str]:
    more = sorted({name for values in rows.values() for name in values if name.startswith("in_context")})
    columns = (*COLUMNS, *CONVERSATION_COLUMNS, *more)
    headings = [_heading(column) for column in columns]
    lines = ["".join([" " * WIDTH, f"{'n':>6}", *(f"{heading:>13}" for heading in headings)])]
    for label, values in rows.items():
        cells = (f"{values.get(column, 0.0):>13.4f}" for column in columns)
        lines.append("".join([f"{label:<{WIDTH}}", f"{values['questions']:>6.0f}", *cells]))
    return lines


def _heading(column: str) -> str:
    for long, short in (("conversation_", "conv. "), ("recall", "rec"), ("in_context_", "ctx "), ("_partners", "")):
        column = column.replace(long, short)
    return column
