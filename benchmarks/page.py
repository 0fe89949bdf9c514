"""`python -m benchmarks page`: update docs/benchmarks.md with the results.

The page is prose with marked places: the text between `<!-- NAME -->` and `<!-- end of NAME -->` is generated. A test
checks that page and results agree. Each table names its commit and machine. Costs are given with their ratio to
convmemory's, because milliseconds depend on the machine and ratios hardly do.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.runs import QUIET_LOAD, ROOT, read_results
from benchmarks.systems import OURS

PAGE = ROOT / "docs" / "benchmarks.md"
NOT_RUN = "Not run here."
_PLACE = re.compile(r"<!-- (?P<name>[a-z][a-z-]*) -->\n.*?<!-- end of (?P=name) -->", re.DOTALL)
Result = Mapping[str, Any]
QUALITY = ("hit@1", "hit@5", "hit@10", "mrr")
FITTED = {"fitted": "on all questions", "left out": "each conversation's without its own questions"}


def run_line(result: Result) -> str:
    """Return the line with date, commit and machine of the figures below it."""
    load = result["load_before"]
    quiet = "" if load <= QUIET_LOAD else f" **The machine was busy** (load {load:g} before the run): read no times."
    return (
        f"Measured on {result['date']} at commit `{result['commit']}`: {result['cores']} cores, "
        f"{result['memory_gib']:g} GiB of memory, {result['system']}, Python {result['python']}.{quiet}"
    )


def scoreboard(result: Result) -> str:
    """Return quality, cost, the measures in which others are ahead, and the systems that could not be measured."""
    facts = (
        f"{result['questions']:,} questions over {result['turns']:,} turns of {result['archives']} people "
        f"({result['characters'] / 1e6:.1f} million characters)."
    )
    rows = [row for row in result["systems"] if "not_measured" not in row]
    blocks = [f"{run_line(result)} {facts}", quality_table(rows), cost_table(rows), losses(rows), not_measured(result)]
    return "\n\n".join(filter(None, blocks))


def quality_table(rows: Sequence[Result]) -> str:
    """Return each measure with its interval, and convmemory's lead, question by question, in points."""
    lines = [
        [_titled(row), *(_interval(row["quality"][name]) for name in QUALITY), _above(row, "hit@1"), _above(row, "mrr")]
        for row in rows
    ]
    return table(["system", *QUALITY, "convmemory's hit@1 above it", "its MRR above it"], lines)


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost of a system: how it is read from a row of results, and how it is formatted."""

    name: str
    read: Callable[[Result], float | None]
    write: Callable[[float], str]

    def with_ratio(self, row: Result, ours: Result | None) -> str:
        """Return the value, and its ratio to convmemory's."""
        value, our_value = self.read(row), self.read(ours) if ours else None
        if value is None:
            return "not measured"
        return self.write(value) + (f" ({value / our_value:.2g} times)" if our_value and row is not ours else "")


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.1f} MB"


COSTS = (
    Cost("search p50", lambda row: row["search_ms"]["p50"], "{:.1f} ms".format),
    Cost("search p95", lambda row: row["search_ms"]["p95"], "{:.1f} ms".format),
    Cost("time to index", lambda row: row["index_s"], "{:.1f} s".format),
    Cost("bytes on disk", lambda row: row["bytes"], megabytes),
    Cost("peak memory", lambda row: row["peak_bytes"], megabytes),
)


def cost_table(rows: Sequence[Result]) -> str:
    """Return the costs of each system, with ratios to convmemory's if that was measured."""
    ours = _ours(rows)
    lines = [[_titled(row), *(cost.with_ratio(row, ours) for cost in COSTS)] for row in rows]
    return table(["system", *(cost.name for cost in COSTS)], lines)


def losses(rows: Sequence[Result]) -> str:
    """Return the systems ahead of convmemory, measure by measure; "" if convmemory was not measured."""
    ours = _ours(rows)
    if ours is None:
        return ""
    measures = [Cost(name, _minus(name), str) for name in QUALITY]
    lines = [
        f"- {measure.name}: {', '.join(ahead)}"
        for measure in (*measures, *COSTS)
        if (ahead := [row["title"] for row in rows if _is_less(measure.read(row), measure.read(ours))])
    ]
    return "\n".join(["Ahead of convmemory, measure by measure:", "", *lines]) if lines else ""


def not_measured(result: Result) -> str:
    """Return the systems that could not be run, with the reasons."""
    missing = [row for row in result["systems"] if "not_measured" in row]
    return "\n".join(f"- **{row['title']}** was not measured: {row['not_measured']}." for row in missing)


def _ours(rows: Sequence[Result]) -> Result | None:
    return next((row for row in rows if row["name"] == OURS), None)


def _minus(name: str) -> Callable[[Result], float]:
    """Return a reader of a quality figure that negates it, so that less is better, as for costs."""
    return lambda row: -float(row["quality"][name]["mean"])


def _is_less(value: float | None, our_value: float | None) -> bool:
    return value is not None and our_value is not None and value < our_value


def ablation(result: Result) -> str:
    """Return the complete search, and the change if a part is left out."""
    names = ("hit@1", "hit@5", "recall@10", "mrr")
    rows = [["nothing", *(_interval(result["complete"][name]) for name in names)]]
    rows += [[row["without"], *(_change(row["change"][name]) for name in names)] for row in result["without"]]
    blocks = [f"{run_line(result)} {result['questions']:,} questions.", table(["left out", *names], rows)]
    if weights := result["weights"]:
        lines = [[title, *(f"{weights[how][name]:.3f}" for name in names)] for how, title in FITTED.items()]
        note = "Newly fitted weights, before the best hits are made diverse:"
        blocks += [note, table(["fitted", *names], lines)]
    return "\n\n".join(blocks)


def protocols(result: Result) -> str:
    """Return sessions, turns, and for LoCoMo LMEB's messages."""
    cut = f" Only the first {result['limit']} archives." if result["limit"] else ""
    units = {"sessions": result["sessions"], "turns": result["turns"]["all"]}
    names = ("any@1", "any@5", "any@10", "all@5", "mrr")
    rows = [[title, *(f"{one[name]:.3f}" for name in names)] for title, one in units.items()]
    blocks = [f"{run_line(result)} {result['questions']:,} questions.{cut}", table(["unit", *names], rows)]
    if lmeb := result.get("lmeb"):
        shown = ("ndcg@10", "recall@10")
        rows = [[task, str(one["questions"]), *(f"{one[name]:.3f}" for name in shown)] for task, one in lmeb.items()]
        blocks.append(table(["messages, as LMEB counts them", "questions", "nDCG@10", "R@10"], rows))
    return "\n\n".join(blocks)


def sizes(result: Result) -> str:
    """Return search times and bytes by size."""
    rows = [
        [
            f"{one['passages']:,}",
            f"{one['search_ms']['p50']:.1f} ms",
            f"{one['search_ms']['p95']:.1f} ms",
            megabytes(one["bytes"]),
            f"{one['bytes'] / one['passages']:,.0f}",
            f"{one['made_s']:.0f} s",
            *(_hnsw(one, name) for name in ("turns", "passages")),
        ]
        for one in result["sizes"]
    ]
    heads = [
        "passages of one person",
        "search p50",
        "p95",
        "on disk",
        "bytes a passage",
        "made in",
        "HNSW of turns, p50, p95",
        "of passages",
    ]
    return f"{run_line(result)}\n\n{table(heads, rows)}"


def _hnsw(row: Result, name: str) -> str:
    """Return the times of plain vectors in an HNSW index."""
    times = row.get(f"hnsw_{name}_ms")
    return f"{times['p50']:.1f}, {times['p95']:.1f} ms" if times else "not measured"


def versions(results: Iterable[Result]) -> str:
    """Return the versions that were measured, each once."""
    numbers: dict[str, str] = {}
    for result in results:
        for row in result["systems"]:
            numbers |= row.get("versions", {})
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items()))


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _titled(row: Result) -> str:
    return f"**{row['title']}**" if row["name"] == OURS else str(row["title"])


def _interval(figure: Mapping[str, float]) -> str:
    return f"{figure['mean']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def _change(figure: Mapping[str, float]) -> str:
    return f"{100 * figure['mean']:+.1f} [{100 * figure['low']:+.1f}, {100 * figure['high']:+.1f}]"


def _above(row: Result, name: str) -> str:
    return _change(row["convmemory_above"][name]) if "convmemory_above" in row else ""


WRITERS: Mapping[str, Callable[[Any], str]] = {
    "scoreboard": scoreboard,
    "ablation": ablation,
    "protocols": protocols,
    "sizes": sizes,
}


def main(arguments: list[str]) -> None:
    PAGE.write_text(up_to_date(PAGE.read_text(encoding="utf-8"), written_blocks()), encoding="utf-8")


def up_to_date(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with its marked places filled; a place without results says so."""

    def filled(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- {name} -->\n{blocks.get(name, NOT_RUN)}\n<!-- end of {name} -->"

    return _PLACE.sub(filled, page)


def written_blocks() -> dict[str, str]:
    """Return the results in words and tables: `scoreboard-locomo`, `sizes`, `versions`."""
    blocks = {}
    for kind, write in WRITERS.items():
        for name, result in read_results(kind).items():
            blocks[f"{kind}-{name}" if name else kind] = write(result)
    if measured := read_results("scoreboard"):
        blocks["versions"] = f"Versions: {versions(measured.values())}."
    return blocks
