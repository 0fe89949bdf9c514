"""Builds the report of an evaluation from observations, and formats it as tables of text."""

from collections.abc import Mapping, Sequence
from statistics import quantiles
from typing import Any

from convmemory.evaluation import reporting
from convmemory.evaluation.relevance_fitting import fit_calibration
from convmemory.evaluation.reporting import Figures, Observed
from convmemory.evaluation.running import Observation
from convmemory.evaluation.silence import Asked, silence_figures
from search.options import SearchOptions

COLUMNS = ("hit@1", "hit@5", "recall@1", "recall@5", "recall@10", "recall@20", "mrr", "ndcg@10")
CONVERSATION_COLUMNS = ("conversation_hit@1", "conversation_hit@5")
WIDTH = 34


def build_silence_report(asked: Mapping[str, Sequence[Asked]], options: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of each set and, if requested, a calibration fitted to all of them."""
    bar = SearchOptions.from_settings().min_relevance
    report: dict[str, Any] = {name: silence_figures(rows, bar) for name, rows in asked.items()}
    if options["fit_relevance"]:
        report["fit"] = fit_calibration(asked, options["mode"], bar)
    return report


def build_report(observed: Observed, options: dict[str, Any]) -> dict[str, Any]:
    """Return all requested figures as JSON values."""
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
    """Return the weight tables to fit, and the one that decides."""
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


def lines_of(report: dict[str, Any]) -> list[str]:
    """Return the report as tables."""
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
