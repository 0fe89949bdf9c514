"""`manage.py evaluate DATASET --data PATH`: how much of an evaluation set the search finds.

Loads the set into scratch users, indexes it, asks its questions, prints the figures and deletes the users.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from convmemory.accounts.users import user_named
from convmemory.core.errors import ConvMemoryError
from convmemory.evaluation import documents, own, reporting, rerank_fitting
from convmemory.evaluation.datasets import DATASETS, read_dataset
from convmemory.evaluation.haystacks import Haystack
from convmemory.evaluation.messages import observe_messages
from convmemory.evaluation.relevance_fitting import fit_calibration
from convmemory.evaluation.reporting import Figures, Observed
from convmemory.evaluation.running import Observation, delete_haystacks, load_haystack, observe_haystack, scratch_user
from convmemory.evaluation.silence import Asked, ask_haystack, silence_figures
from search.options import SearchOptions
from search.query import MODES

DOCUMENTS, OWN = "documents", "own"
COLUMNS = ("hit@1", "hit@5", "recall@1", "recall@5", "recall@10", "recall@20", "mrr", "ndcg@10")
CONVERSATION_COLUMNS = ("conversation_hit@1", "conversation_hit@5")
WIDTH = 34

Found = TypeVar("Found")


class Command(BaseCommand):
    help = (
        "Measure search on evaluation sets that you point to: locomo, longmemeval, beam, coding, samples; or, by "
        "themselves, documents; or compare models on a person's own archive: own."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "dataset", nargs="+", choices=sorted([*DATASETS, DOCUMENTS, OWN]), help="one or more, fitted together"
        )
        parser.add_argument("--data", nargs="+", type=Path, default=[], help="the file or folder of each set")
        parser.add_argument("--mode", choices=MODES, default="hybrid")
        parser.add_argument("--messages", action="store_true", help="measure recall of messages, not search of turns")
        parser.add_argument("--budget", type=int, default=2000, help="tokens of the context that --messages fills")
        parser.add_argument("--silence", action="store_true", help="measure how often nothing is said to answer")
        parser.add_argument(
            "--fit-relevance", action="store_true", help="with --silence: fit a calibration and show what it gives"
        )
        parser.add_argument(
            "--fit-reranker", action="store_true", help="find and keep the weight of the reranker at RERANK_URL"
        )
        parser.add_argument("--features", action="store_true", help="show each feature alone, too")
        parser.add_argument("--fit", action="store_true", help="fit new weights and show what they give")
        parser.add_argument("--ablate", action="store_true", help="fit without each feature in turn")
        parser.add_argument("--held-out", type=_share, default=0.0, help="share of folds that --fit must not see")
        parser.add_argument("--limit", type=int, help="only so many users of each set")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--keep", action="store_true", help="keep the scratch users for the next run")
        group = parser.add_argument_group("own: questions made from a person's own turns; nothing is written")
        group.add_argument("--user", help="whose archive")
        group.add_argument("--against", nargs="+", default=[], help="models, named as for `reembed --model`")
        group.add_argument("--turns", type=_count, default=400, help="turns in the sample")
        group.add_argument("--questions", type=_count, default=150, help="questions of each kind, at most")
        group.add_argument("--seed", type=int, default=0, help="draws another sample")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dataset"] == [OWN]:
            self._own(options)
            return
        if options["dataset"] == [DOCUMENTS] and len(options["data"]) == 1:
            self._documents(options)
            return
        if {DOCUMENTS, OWN} & set(options["dataset"]) and len(options["dataset"]) > 1:
            raise CommandError("Measure documents and own by themselves: they are not fitted together with others.")
        if len(options["dataset"]) != len(options["data"]):
            raise CommandError("Give one --data path for each data set, in the same order.")
        sets = list(zip(options["dataset"], options["data"], strict=True))
        if options["fit_reranker"]:
            self._fit_reranker(options)
            return
        try:
            if options["silence"] or options["fit_relevance"]:
                asked = {name: self._ask_all(name, path, options) for name, path in sets}
                self.stdout.write(json.dumps(build_silence_report(asked, options), indent=1))
                return
            observed = {name: self._observe(name, path, options) for name, path in sets}
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        report = build_report(observed, options)
        if options["json"]:
            self.stdout.write(json.dumps(report))
        else:
            self.stdout.write("\n".join(lines_of(report)))

    def _own(self, options: dict[str, Any]) -> None:
        """The model in use beside others, on a person's own archive."""
        if not options["user"]:
            raise CommandError("Say whose archive: --user NAME.")
        try:
            report = own.compare_on_own(
                user_named(options["user"]),
                against=options["against"],
                turns=options["turns"],
                questions=options["questions"],
                seed=options["seed"],
                progress=self.stderr.write,
            )
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(report) if options["json"] else "\n".join(own.lines_of(report)))

    def _fit_reranker(self, options: dict[str, Any]) -> None:
        """The weight of the reranker, kept for every search; what it gains goes with it."""
        try:
            reranker = rerank_fitting.reranker_in_use()
            ask = partial(
                rerank_fitting.rerank_haystack, options=reranker, mode=options["mode"], progress=self._progress
            )
            questions = [
                found
                for name, path in zip(options["dataset"], options["data"], strict=True)
                for found in self._of_haystacks(name, path, options, ask)
            ]
            fit = rerank_fitting.keep_fitted_weight(reranker, questions)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
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
        """Search of documents, in the mode that is asked for, beside a plain splitter."""
        [folder] = options["data"]
        try:
            questions = documents.read_questions(folder)[: options["limit"]]
            owner = documents.load_library(folder, questions, self._progress)
            found = documents.measure_search(owner, questions, mode=options["mode"], progress=self._progress)
            plain = documents.measure_plain_splitter(folder, owner, questions, self._progress)
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        finally:
            if not options["keep"]:
                delete_haystacks(DOCUMENTS)
        report = {"questions": len(questions), "mode": options["mode"], **found, **plain}
        self.stdout.write(json.dumps(report, indent=None if options["json"] else 1))

    def _observe(self, name: str, path: Path, options: dict[str, Any]) -> list[Observation]:
        return self._of_haystacks(name, path, options, partial(self._search, options=options))

    def _of_haystacks(
        self, name: str, path: Path, options: dict[str, Any], ask: Callable[[User, Haystack], list[Found]]
    ) -> list[Found]:
        """What `ask` finds in all of the set."""
        loaded = self._loaded(name, read_dataset(name, path, limit=options["limit"]), options)
        found = [one for owner, haystack in loaded for one in ask(owner, haystack)]
        if not found:
            raise CommandError(f"No question of {name} is answered by a stored turn: is {path} the right one?")
        return found

    def _ask_all(self, name: str, path: Path, options: dict[str, Any]) -> list[Asked]:
        haystacks = list(read_dataset(name, path, limit=options["limit"]))
        asked: list[Asked] = []
        for owner, haystack in self._loaded(name, haystacks, options):
            others = [question for other in haystacks if other is not haystack for question in other.questions]
            bar = SearchOptions.from_settings().min_relevance
            asked += ask_haystack(owner, haystack, others, mode=options["mode"], bar=bar, progress=self._progress)
        return asked

    def _loaded(
        self, name: str, haystacks: Iterable[Haystack], options: dict[str, Any]
    ) -> Iterator[tuple[User, Haystack]]:
        """Each haystack once it is indexed; of a large set no more than one is stored at a time."""
        try:
            for haystack in haystacks:
                owner = scratch_user(name, haystack)
                load_haystack(owner, haystack, self._progress)
                yield owner, haystack
                if not options["keep"]:
                    owner.delete()
        finally:
            if not options["keep"]:
                delete_haystacks(name)

    def _search(self, owner: User, haystack: Haystack, options: dict[str, Any]) -> list[Observation]:
        if options["messages"]:
            budget = options["budget"]
            return observe_messages(owner, haystack, mode=options["mode"], budget=budget, progress=self._progress)
        return observe_haystack(owner, haystack, mode=options["mode"], progress=self._progress)

    def _progress(self, done: str, number: int, count: int) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{done} {number}{f' of {count}' if count else ''}   ", ending="")


def build_silence_report(asked: Mapping[str, Sequence[Asked]], options: dict[str, Any]) -> dict[str, Any]:
    """The figures of each set, and where asked for a calibration that fits all of them."""
    bar = SearchOptions.from_settings().min_relevance
    report: dict[str, Any] = {name: silence_figures(rows, bar) for name, rows in asked.items()}
    if options["fit_relevance"]:
        report["fit"] = fit_calibration(asked, options["mode"], bar)
    return report


def build_report(observed: Observed, options: dict[str, Any]) -> dict[str, Any]:
    """Everything that was asked for, as JSON values."""
    share = options["held_out"]
    known = {
        name: [o for o in rows if not reporting.is_held_out(name, o.question.fold, share)]
        for name, rows in observed.items()
    }
    report: dict[str, Any] = {name: _of_set(rows, known[name], options) for name, rows in observed.items()}
    if options["fit"]:
        tables, main = _tables(options)
        report["fit"] = reporting.fit_tables(known, tables)
        weights = report["fit"][main]["weights"]
        for name, rows in observed.items():
            if held_out := _held_out(rows, known[name]):
                report[name][f"held out, {main} fitted"] = reporting.figures(held_out, reporting.weighted(weights))
    if options["ablate"]:
        _, main = _tables(options)
        report["ablation"] = reporting.ablation(known, main)
    return report


def _tables(options: dict[str, Any]) -> tuple[reporting.Tables, str]:
    """The weight tables that are fitted, and the one that decides."""
    return (reporting.OF_MESSAGES, "messages") if options["messages"] else (reporting.OF_TURNS, "hybrid")


def _of_set(rows: list[Observation], known: list[Observation], options: dict[str, Any]) -> dict[str, Any]:
    times = [o.milliseconds for o in rows]
    found: dict[str, Any] = {
        "all": reporting.figures(rows, reporting.as_searched),
        "categories": reporting.by_category(rows, reporting.as_searched),
        "milliseconds": {"p50": round(_percentile(times, 50), 1), "p95": round(_percentile(times, 95), 1)},
    }
    if held_out := _held_out(rows, known):
        found["development"] = reporting.figures(known, reporting.as_searched)
        found["held out"] = reporting.figures(held_out, reporting.as_searched)
    if options["features"]:
        found["features"] = reporting.each_feature(known)
    return found


def _held_out(rows: list[Observation], known: list[Observation]) -> list[Observation]:
    seen = {id(o) for o in known}
    return [o for o in rows if id(o) not in seen]


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ArgumentTypeError(f"{text} is no share: use 0 up to 0.9.")
    return share


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text} is no number above 0.")
    return int(text)


# --- as text --------------------------------------------------------------------------------------


def lines_of(report: dict[str, Any]) -> list[str]:
    """The report as tables."""
    lines: list[str] = []
    for name, found in report.items():
        if name == "fit":
            for table, fit in found.items():
                lines += ["", f"{table} = {fit['weights']}"]
                lines += _table({f"{s}, {how}": f for how in ("fitted", "left out") for s, f in fit[how].items()})
        elif name == "ablation":
            lines += ["", "fitted without"]
            lines += _table({f"{feature}, {s}": f for feature, sets in found.items() for s, f in sets.items()})
        else:
            lines += ["", f"{name}: {found['all']['questions']} questions, {found['milliseconds']} ms"]
            rows = {key: f for key, f in found.items() if isinstance(f, dict) and "mrr" in f}
            lines += _table(rows | found["categories"] | found.get("features", {}))
    return lines[1:]


def _table(rows: dict[str, Figures]) -> list[str]:
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
