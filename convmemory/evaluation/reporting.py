"""Computes figures from observations: for the search itself, each feature alone, and newly fitted weights."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from convmemory.evaluation.fitting import Example, Weights, fit_weights, leave_one_out
from convmemory.evaluation.metrics import means, measure
from convmemory.evaluation.running import Observation
from search.ranking.rankers import TABLES, best_first, fuse, long_share
from search.retrieval.candidates import Feature, ItemKeys, split_keys

DEPTH = 20
CONVERSATION_CUTOFFS = (1, 5, 10)
Tables = Mapping[str, Collection[str]]
"""The features of each table of weights."""

OF_MESSAGES: Tables = {name: TABLES[name] for name in ("messages", "messages_full_text")}
OF_TURNS: Tables = {name: features for name, features in TABLES.items() if name not in (*OF_MESSAGES, "sections")}

Ranking = Callable[[Observation], ItemKeys]
Figures = dict[str, float]
Observed = dict[str, list[Observation]]
"""Observations by data set."""


def is_held_out(dataset: str, fold: str, share: float) -> bool:
    """Return whether a fold is kept from fitting; its name alone decides, so that the choice never changes."""
    digest = hashlib.sha256(f"{dataset}/{fold}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < share


def figures(observations: Sequence[Observation], ranking: Ranking) -> Figures:
    """Return means over the questions: of turns, and of conversations by their best turn among the first twenty."""
    # Measures of turns and of conversations, by the question's number.
    gold, run, home_gold, home_run = {}, {}, {}, {}
    for number, observation in enumerate(observations):
        query = str(number)
        first = ranking(observation)[:DEPTH]
        homes, _ = split_keys(first)
        gold[query] = dict.fromkeys(map(str, observation.gold.tolist()), 1.0)
        run[query] = _by_rank(map(str, first.tolist()))
        home_gold[query] = dict.fromkeys(map(str, observation.gold_conversations), 1.0)
        home_run[query] = _by_rank(map(str, dict.fromkeys(homes)))
    turns, conversations = (
        measure(gold, run, depth=DEPTH),
        measure(home_gold, home_run, depth=DEPTH, cutoffs=CONVERSATION_CUTOFFS),
    )
    found = means(turns)
    for name, value in means(conversations).items():
        found[f"conversation_{name}"] = value
    found |= means({str(number): dict(o.more) for number, o in enumerate(observations) if o.more})
    return {"questions": len(observations), **{name: round(value, 4) for name, value in found.items()}}


def by_category(observations: Sequence[Observation], ranking: Ranking) -> dict[str, Figures]:
    """Return the figures of each category of questions."""
    categories = sorted({observation.question.category for observation in observations})
    return {name: figures([o for o in observations if o.question.category == name], ranking) for name in categories}


def each_feature(observations: Sequence[Observation]) -> dict[str, Figures]:
    """Return the figures of each feature alone; questions for which it is unavailable count as not found."""
    names = sorted({name for observation in observations for name in observation.features})
    return {name: figures(observations, weighted({name: 1.0})) for name in names}


def as_searched(observation: Observation) -> ItemKeys:
    """Return the order of the search itself."""
    return observation.order


def weighted(weights: Weights) -> Ranking:
    """Return the order by these weights, before the best are made diverse."""

    def ranking(observation: Observation) -> ItemKeys:
        known = {name: scores for name, scores in observation.features.items() if name in weights}
        if not known:
            return observation.keys[:0]
        return observation.keys[best_first(fuse(known, weights), observation.keys)]

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
        honest = {id(o): found for o, found in zip(flat, left_out, strict=True)}
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


def ablation(observed: Observed, table: str = "hybrid") -> dict[str, dict[str, Figures]]:
    """Return the figures of a table fitted without each of its features in turn."""
    examples, names = _examples(observed), sorted(TABLES[table])
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


def _by_rank(documents: Iterable[str]) -> dict[str, float]:
    """Return scores that keep the order."""
    return {document: -float(rank) for rank, document in enumerate(documents)}
