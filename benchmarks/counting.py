"""Computes figures of other authors' protocols: LMEB's messages, sessions of LoCoMo and LongMemEval, turns. Pure.

A session has the rank of its best turn. `any@k`: one of the right ones is among the first k; `all@k`: all of them are.
Sources: LMEB, arXiv 2603.12572 (the mean of five tasks, each query within its own conversation); LongMemEval, arXiv
2410.10813, `recall_any@k` and `recall_all@k`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from convmemory.evaluation.metrics import hit, ndcg, recall, reciprocal_rank

LMEB_TASKS = {
    "single-hop": "single_hop",
    "multi-hop": "multi_hop",
    "temporal": "temporal_reasoning",
    "open domain": "open_domain",
    "adversarial": "adversarial",
}
"""LMEB's names of LoCoMo's categories."""

CUTOFFS = (1, 5, 10)
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The results for a question, best first, and the right ones, at least one."""

    category: str
    right: frozenset[str]
    found: tuple[str, ...]


def lmeb_figures(rows: Sequence[Ranked]) -> dict[str, Figures]:
    """Return nDCG@10 and recall@10 of each task, and the mean over the tasks as LMEB computes it."""
    tasks = {LMEB_TASKS[row.category] for row in rows}
    found = {task: _message_figures(row for row in rows if LMEB_TASKS[row.category] == task) for task in sorted(tasks)}
    means = {name: round(fmean(figures[name] for figures in found.values()), 4) for name in ("ndcg@10", "recall@10")}
    return {"mean of tasks": {"questions": len(rows), **means}, **found}


def session_figures(rows: Sequence[Ranked]) -> Figures:
    """Return the shares with any and all of the right sessions among the first, and the mean reciprocal rank."""
    return {"questions": len(rows), **_any_and_all(rows), "mrr": _mean(reciprocal_rank(r.right, r.found) for r in rows)}


def turn_figures(rows: Sequence[Ranked]) -> dict[str, Figures]:
    """Return any, all and the share of the right turns among the first; over all questions and for each category."""
    categories = sorted({row.category for row in rows})
    groups = {"all": list(rows)} | {name: [row for row in rows if row.category == name] for name in categories}
    return {name: _turn_figures(group) for name, group in groups.items()}


def _turn_figures(rows: Sequence[Ranked]) -> Figures:
    shares = {f"recall@{k}": _mean(recall(row.right, row.found, k) for row in rows) for k in CUTOFFS}
    nearness = {"mrr": _mean(reciprocal_rank(row.right, row.found) for row in rows)}
    return {"questions": len(rows), **_any_and_all(rows), **shares, **nearness}


def _message_figures(rows: Iterable[Ranked]) -> Figures:
    ours = list(rows)
    gains = (ndcg(dict.fromkeys(row.right, 1.0), row.found, 10) for row in ours)
    shares = (recall(row.right, row.found, 10) for row in ours)
    return {"questions": len(ours), "ndcg@10": _mean(gains), "recall@10": _mean(shares)}


def _any_and_all(rows: Sequence[Ranked]) -> Figures:
    found = {f"any@{k}": _mean(hit(row.right, row.found, k) for row in rows) for k in CUTOFFS}
    return found | {f"all@{k}": _mean(float(row.right <= set(row.found[:k])) for row in rows) for k in CUTOFFS}


def _mean(values: Iterable[float]) -> float:
    return round(fmean(values), 4)
