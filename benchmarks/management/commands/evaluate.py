"""`manage.py evaluate DATASET --data PATH`: measure how much of an evaluation set search finds.

Loads the set into scratch users, indexes it, asks its questions, prints the figures and deletes the users.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import CommandError

from benchmarks import documents, rerank_fitting
from benchmarks.calibrating import build_silence_report
from benchmarks.datasets import DATASETS, read_dataset
from benchmarks.datasets.haystacks import ASKED_ELSEWHERE, Haystack, cut_archives
from benchmarks.reporting import build_report, lines_of
from benchmarks.running import Observation, delete_haystacks, each_loaded, observe_haystack, observe_messages
from benchmarks.silence import Asked, ask_haystack
from convmemory.accounts.callers import Caller, acting_as
from convmemory.core.config import config
from convmemory.ops.management.commands import evaluate as own
from convmemory.ops.management.commands.evaluate import OF_OWN, OWN, add_own_arguments, count_argument
from search.query import MODES
from search.ranking.blending import fit_weight
from search.ranking.reranking import keep_weight

DOCUMENTS = "documents"
OF_SETS = "dataset --data [--mode] [--limit] [--json] [--keep]"

Found = TypeVar("Found")


class Command(own.Command):
    help = (
        "Measure search on evaluation sets that you point to: locomo, longmemeval, beam, coding, samples; or, by "
        "themselves, documents; or compare models on a person's own archive: own (docs/models.md). Sets are loaded "
        "into scratch users, which are deleted unless --keep is given."
    )
    usages = (
        f"{OF_SETS} [--messages [--budget]] [--features] [--fit] [--ablate] [--held-out]",
        f"{OF_SETS} --silence [--fit-relevance] [--archive-turns [--archives]]",
        f"{OF_SETS} --fit-reranker",
        "documents --data [--mode] [--limit] [--json] [--keep]",
        OF_OWN,
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "dataset", nargs="+", choices=sorted([*DATASETS, DOCUMENTS, OWN]), help="one or more, fitted together"
        )
        parser.add_argument("--data", nargs="+", type=Path, default=[], help="the file or folder of each set")
        parser.add_argument("--mode", choices=MODES, default="hybrid", help="how to search (default: hybrid)")
        parser.add_argument("--messages", action="store_true", help="measure recall of messages, not search of turns")
        parser.add_argument("--budget", type=int, default=2000, help="tokens of the context that --messages fills")
        parser.add_argument(
            "--silence", action="store_true", help="measure how often the search says that nothing answers"
        )
        parser.add_argument(
            "--fit-relevance", action="store_true", help="with --silence: fit a calibration and show what it gives"
        )
        parser.add_argument(
            "--archive-turns",
            nargs="+",
            type=count_argument,
            default=[],
            help="with --silence: ask also in archives of so many turns, cut from the sets",
        )
        parser.add_argument(
            "--archives", type=count_argument, default=10, help="archives of each size, from each haystack"
        )
        parser.add_argument(
            "--fit-reranker", action="store_true", help="determine and store the weight of the reranker at RERANK_URL"
        )
        parser.add_argument("--features", action="store_true", help="also measure each feature alone")
        parser.add_argument("--fit", action="store_true", help="fit new weights and show what they give")
        parser.add_argument("--ablate", action="store_true", help="fit without each feature in turn")
        parser.add_argument(
            "--held-out", type=_share, default=0.0, metavar="SHARE", help="share of the folds that --fit leaves out"
        )
        parser.add_argument("--limit", type=int, help="at most this many users of each data set")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--keep", action="store_true", help="keep the scratch users for the next run")
        add_own_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dataset"] == [OWN]:
            super().handle(**options)
            return
        if {DOCUMENTS, OWN} & set(options["dataset"]) and len(options["dataset"]) > 1:
            raise CommandError("Measure documents and own by themselves: they are not fitted together with others.")
        if len(options["dataset"]) != len(options["data"]):
            raise CommandError("Give one --data path for each data set, in the same order.")
        if options["dataset"] == [DOCUMENTS]:
            self._documents(options)
            return
        sets = list(zip(options["dataset"], options["data"], strict=True))
        if options["fit_reranker"]:
            self._fit_reranker(options)
            return
        if options["silence"]:
            asked = {label: rows for name, path in sets for label, rows in self._ask_all(name, path, options)}
            self.stdout.write(json.dumps(build_silence_report(asked, options), indent=1))
            return
        observed = {
            name: self._of_haystacks(name, path, options, partial(self._search, options=options)) for name, path in sets
        }
        report = build_report(observed, options)
        if options["json"]:
            self.stdout.write(json.dumps(report))
        else:
            self.stdout.write("\n".join(lines_of(report)))

    def _fit_reranker(self, options: dict[str, Any]) -> None:
        """Fit the weight of the reranker, and store it with its gain for all searches."""
        reranker = rerank_fitting.reranker_in_use()
        ask = partial(rerank_fitting.rerank_haystack, options=reranker, mode=options["mode"], progress=self._progress)
        questions = [
            question
            for name, path in zip(options["dataset"], options["data"], strict=True)
            for question in self._of_haystacks(name, path, options, ask)
        ]
        fit = fit_weight(questions)
        keep_weight(reranker, fit)
        if options["json"]:
            self.stdout.write(json.dumps({"reranker": reranker.name, **asdict(fit)}))
            return
        self.stdout.write(
            f"{reranker.name}: weight {fit.weight:g}. MRR of {fit.questions} questions {fit.before:.4f} without it, "
            f"{fit.after:.4f} with it (folds left out); 95 % interval of the gain {fit.low:+.4f} to {fit.high:+.4f}."
        )
        if not fit.weight:
            self.stdout.write("The gain is not certain: searches do not ask this reranker.")

    def _documents(self, options: dict[str, Any]) -> None:
        """Measure search of documents in the requested mode, and a plain splitter."""
        [folder] = options["data"]
        try:
            questions = documents.read_questions(folder)[: options["limit"]]
            caller = documents.load_library(folder, questions, self._progress)
            with acting_as(caller):
                figures = documents.measure_search(caller, questions, mode=options["mode"], progress=self._progress)
                plain = documents.measure_plain_splitter(folder, caller, questions, self._progress)
        finally:
            if not options["keep"]:
                delete_haystacks(DOCUMENTS)
        report = {"questions": len(questions), "mode": options["mode"], **figures, **plain}
        self.stdout.write(json.dumps(report, indent=None if options["json"] else 1))

    def _of_haystacks(
        self, name: str, path: Path, options: dict[str, Any], ask: Callable[[Caller, Haystack], list[Found]]
    ) -> list[Found]:
        """Return the results of `ask` over the whole set."""
        loaded = self._loaded(name, read_dataset(name, path, limit=options["limit"]), options)
        results = [one for caller, haystack in loaded for one in ask(caller, haystack)]
        if not results:
            raise CommandError(f"No question of {name} is answered by a stored turn: is {path} the right one?")
        return results

    def _ask_all(self, name: str, path: Path, options: dict[str, Any]) -> Iterator[tuple[str, list[Asked]]]:
        """Yield the outcomes of the haystacks, and of small archives cut from them by size, under their labels."""
        haystacks = list(read_dataset(name, path, limit=options["limit"]))
        for turns in (None, *options["archive_turns"]):
            asked: list[Asked] = []
            for whole in haystacks:
                others = [question for other in haystacks if other is not whole for question in other.questions]
                archives: Iterable[Haystack] = [whole]
                if turns is not None:
                    archives = cut_archives(whole, turns=turns, count=options["archives"])
                    others = others[:: max(1, len(others) // ASKED_ELSEWHERE)]
                for caller, haystack in self._loaded(name, archives, options):
                    bar = config.search_min_relevance
                    asked += ask_haystack(
                        caller, haystack, others, mode=options["mode"], bar=bar, progress=self._progress
                    )
            yield (name if turns is None else f"{name}, {turns} turns"), asked

    def _loaded(
        self, name: str, haystacks: Iterable[Haystack], options: dict[str, Any]
    ) -> Iterator[tuple[Caller, Haystack]]:
        return each_loaded(name, haystacks, keep=options["keep"], progress=self._progress)

    def _search(self, caller: Caller, haystack: Haystack, options: dict[str, Any]) -> list[Observation]:
        if options["messages"]:
            budget = options["budget"]
            return observe_messages(caller, haystack, mode=options["mode"], budget=budget, progress=self._progress)
        return observe_haystack(caller, haystack, mode=options["mode"], progress=self._progress)

    def _progress(self, done: str, number: int, count: int) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{done} {number}{f' of {count}' if count else ''}   ", ending="")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ArgumentTypeError(f"{text} is no share: use 0 up to 0.9.")
    return share
