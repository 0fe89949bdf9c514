"""`python -m benchmarks protocols --data locomo=FILE longmemeval=FILE beam=FOLDER`: figures by other authors'
protocols.

The files are those published by the authors, read by the readers of `manage.py evaluate`. `counting.py` defines the
figures. Writes `benchmarks/results/protocols-SET.json`.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command

from benchmarks.counting import LMEB_TASKS, Ranked, lmeb_figures, session_figures, turn_figures
from benchmarks.machine import run_facts
from benchmarks.places import is_measured, named_paths, say, write_result
from convmemory.core.errors import InvalidInput
from convmemory.evaluation.datasets import read_dataset
from convmemory.evaluation.haystacks import Haystack
from convmemory.evaluation.messages import observe_messages
from convmemory.evaluation.running import Observation, load_haystack, observe_haystack, scratch_user
from search.retrieval.candidates import split_keys

BUDGET = 2_000  # tokens of a context, which these figures ignore
KNOWN = ("locomo", "longmemeval", "beam")


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    call_command("migrate", verbosity=0)
    facts = run_facts()
    for dataset, path in named_paths(options.data):
        if dataset not in KNOWN:
            raise InvalidInput(f"There is no protocol for {dataset}: name one of {', '.join(KNOWN)}.")
        if options.again or not is_measured(f"protocols-{dataset}", facts["commit"]):
            write_result(f"protocols-{dataset}", facts | report(dataset, path, limit=options.limit))


def report(dataset: str, path: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Return figures of sessions and turns of each set; for LoCoMo also of messages. Raises: InvalidInput."""
    turns: list[Observation] = []
    messages: list[Observation] = []
    for haystack in read_dataset(dataset, path, limit=limit):
        owner = scratch_user(f"protocols-{dataset}", haystack)
        load_haystack(owner, haystack, _quiet)
        turns += observe_haystack(owner, haystack, mode="hybrid", progress=_quiet)
        if dataset == "locomo":
            messages += _messages(owner, haystack)
        owner.delete()  # of a large set, only one is stored at a time
        say(f"{haystack.name}: {len(turns)} questions so far")
    found: dict[str, Any] = {"dataset": dataset, "limit": limit, "questions": len(turns)}
    found |= {"turns": turn_figures(_ranked(turns)), "sessions": session_figures(_sessions(turns))}
    return found | ({"lmeb": lmeb_figures(_ranked(messages))} if messages else {})


def _messages(owner: User, haystack: Haystack) -> Iterable[Observation]:
    """Return observations of messages.

    LMEB also asks questions without an answer: the messages that such a question is about have to be found.
    """
    questions = [one for one in (*haystack.questions, *haystack.without_answer) if one.category in LMEB_TASKS]
    everything = replace(haystack, questions=tuple(questions), without_answer=())
    return observe_messages(owner, everything, mode="hybrid", budget=BUDGET, progress=_quiet)


def _ranked(observations: Iterable[Observation]) -> list[Ranked]:
    return [
        Ranked(o.question.category, frozenset(map(str, o.gold.tolist())), tuple(map(str, o.order.tolist())))
        for o in observations
    ]


def _sessions(observations: Sequence[Observation]) -> list[Ranked]:
    """Return the conversations in the order of their best turns."""
    found = []
    for o in observations:
        homes, _ = split_keys(o.order)
        right = frozenset(map(str, o.gold_conversations))
        found.append(Ranked(o.question.category, right, tuple(map(str, dict.fromkeys(homes)))))
    return found


def _quiet(done: str, number: int, count: int) -> None:
    """Ignore progress within a haystack."""


def _options(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="benchmarks protocols")
    parser.add_argument("--data", nargs="+", required=True, metavar="SET=PATH", help=", ".join(KNOWN))
    parser.add_argument("--limit", type=int, help="only so many archives of each set")
    parser.add_argument("--again", action="store_true", help="repeat what was already measured at this commit")
    return parser.parse_args(arguments)
