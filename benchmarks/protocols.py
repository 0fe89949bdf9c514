"""`python -m benchmarks protocols --data locomo=FILE longmemeval=FILE beam=FOLDER`: figures by other authors'
protocols.

LMEB's messages; sessions and turns of LoCoMo, LongMemEval and BEAM. A session has the rank of its best turn. `any@k`:
one of the right ones is among the first k; `all@k`: all of them are. Sources: LMEB, arXiv 2603.12572 (the mean of five
tasks, each query within its own conversation); LongMemEval, arXiv 2410.10813, `recall_any@k` and `recall_all@k`. Writes
`benchmarks/results/protocols-SET.json`.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.core.management import call_command

from benchmarks.datasets import read_dataset
from benchmarks.datasets.haystacks import Haystack
from benchmarks.metrics import Row, hit, means, measures, recall, reciprocal_rank
from benchmarks.running import Observation, each_loaded, observe_haystack, observe_messages
from benchmarks.runs import is_measured, named_paths, run_facts, say, write_result
from convmemory.accounts.callers import Caller
from convmemory.core.errors import InvalidInput
from search.retrieval.candidates import split_keys

BUDGET = 2_000  # tokens of a context, which these figures ignore
DATASETS = ("locomo", "longmemeval", "beam")
LMEB_TASKS = {
    "single-hop": "single_hop",
    "multi-hop": "multi_hop",
    "temporal": "temporal_reasoning",
    "open domain": "open_domain",
    "adversarial": "adversarial",
}
"""LMEB's names of LoCoMo's categories."""
PROTOCOL_CUTOFFS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The results for a question, best first, and the right ones, at least one."""

    category: str
    right: frozenset[int]
    hits: tuple[int, ...]


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    call_command("migrate", verbosity=0)
    facts = run_facts()
    for dataset, path in named_paths(options.data):
        if dataset not in DATASETS:
            raise InvalidInput(f"There is no protocol for {dataset}: name one of {', '.join(DATASETS)}.")
        if options.again or not is_measured(f"protocols-{dataset}", facts["commit"]):
            write_result(f"protocols-{dataset}", facts | report(dataset, path, limit=options.limit))


def report(dataset: str, path: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Return figures of sessions and turns of each set; for LoCoMo also of messages. Raises: InvalidInput."""
    turns: list[Observation] = []
    messages: list[Observation] = []
    for caller, haystack in each_loaded(f"protocols-{dataset}", read_dataset(dataset, path, limit=limit)):
        turns += observe_haystack(caller, haystack, mode="hybrid")
        if dataset == "locomo":
            messages += _messages(caller, haystack)
        say(f"{haystack.name}: {len(turns)} questions so far")
    figures: dict[str, Any] = {"dataset": dataset, "limit": limit, "questions": len(turns)}
    figures |= {"turns": by_category(_ranked(turns)), "sessions": protocol_figures(_sessions(turns))}
    return figures | ({"lmeb": lmeb_figures(_ranked(messages))} if messages else {})


def _messages(caller: Caller, haystack: Haystack) -> Iterable[Observation]:
    """Return observations of messages.

    LMEB also asks questions without an answer: the messages that such a question is about have to be found.
    """
    questions = [one for one in (*haystack.questions, *haystack.without_answer) if one.category in LMEB_TASKS]
    everything = replace(haystack, questions=tuple(questions), without_answer=())
    return observe_messages(caller, everything, mode="hybrid", budget=BUDGET)


def _ranked(observations: Iterable[Observation]) -> list[Ranked]:
    return [Ranked(o.question.category, frozenset(o.gold.tolist()), tuple(o.order.tolist())) for o in observations]


def _sessions(observations: Sequence[Observation]) -> list[Ranked]:
    """Return the conversations in the order of their best turns."""
    homes = [tuple(dict.fromkeys(split_keys(o.order)[0])) for o in observations]
    return [Ranked(o.question.category, o.gold_conversations, of) for o, of in zip(observations, homes, strict=True)]


def lmeb_figures(rows: Sequence[Ranked]) -> dict[str, Row]:
    """Return nDCG@10 and recall@10 of each task, and the mean over the tasks as LMEB computes it."""
    names = ("ndcg@10", "recall@10")
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        values = measures(row.right, row.hits)
        tasks.setdefault(LMEB_TASKS[row.category], []).append({name: values[name] for name in names})
    by_task = {task: {"questions": len(tasks[task]), **means(tasks[task])} for task in sorted(tasks)}
    whole = means([{name: figures[name] for name in names} for figures in by_task.values()])
    return {"mean of tasks": {"questions": len(rows), **whole}, **by_task}


def protocol_figures(rows: Sequence[Ranked]) -> Row:
    """Return any, all and the share of the right results among the first, and the mean reciprocal rank."""
    values = []
    for row in rows:
        one = {f"any@{k}": hit(row.right, row.hits, k) for k in PROTOCOL_CUTOFFS}
        one |= {f"all@{k}": float(row.right <= set(row.hits[:k])) for k in PROTOCOL_CUTOFFS}
        one |= {f"recall@{k}": recall(row.right, row.hits, k) for k in PROTOCOL_CUTOFFS}
        values.append(one | {"mrr": reciprocal_rank(row.right, row.hits)})
    return {"questions": len(rows), **means(values)}


def by_category(rows: Sequence[Ranked]) -> dict[str, Row]:
    """Return the figures over all questions and of each category."""
    categories = sorted({row.category for row in rows})
    groups = {"all": list(rows)} | {name: [row for row in rows if row.category == name] for name in categories}
    return {name: protocol_figures(group) for name, group in groups.items()}


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks protocols")
    parser.add_argument("--data", nargs="+", required=True, metavar="SET=PATH", help=", ".join(DATASETS))
    parser.add_argument("--limit", type=int, help="only so many archives of each set")
    parser.add_argument("--again", action="store_true", help="repeat what was already measured at this commit")
    return parser.parse_args(arguments)
