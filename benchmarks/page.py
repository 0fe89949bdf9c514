"""`python -m benchmarks page`: update docs/benchmarks.md and its plots with the results.

The page is prose with marked places: the text between `<!-- NAME -->` and `<!-- end of NAME -->` is generated. A test
checks that page and results agree.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import tables
from benchmarks.places import ROOT, read_results
from benchmarks.plot import Axes, svg

PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
NOT_RUN = "Not run here."
_PLACE = re.compile(r"<!-- (?P<name>[a-z][a-z-]*) -->\n.*?<!-- end of (?P=name) -->", re.DOTALL)

WRITERS: Mapping[str, Callable[[Any], str]] = {
    "scoreboard": tables.scoreboard,
    "ablation": tables.ablation,
    "protocols": tables.protocols,
    "sizes": tables.sizes,
}


def main(arguments: list[str]) -> None:
    PAGE.write_text(up_to_date(PAGE.read_text(encoding="utf-8"), written_blocks()), encoding="utf-8")
    for name, picture in plots().items():
        (IMAGES / name).write_text(picture, encoding="utf-8")


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
        blocks["versions"] = f"Versions: {tables.versions(measured.values())}."
    return blocks


def plots() -> dict[str, str]:
    """Return the plots by file name; none if no sizes were measured."""
    found = read_results("sizes").get("")
    if not found:
        return {}
    sizes = found["sizes"]
    horizontal = "passages of one person"
    times = {share: {one["passages"]: one["search_ms"][share] for one in sizes} for share in ("p95", "p50")}
    stored = {"bytes": {one["passages"]: round(one["bytes"] / 1e6) for one in sizes}}
    return {
        "benchmarks-search.svg": svg(Axes("Hybrid search by size of the archive", horizontal, "ms"), times),
        "benchmarks-bytes.svg": svg(Axes("On disk by size of the archive", horizontal, "MB"), stored),
    }
