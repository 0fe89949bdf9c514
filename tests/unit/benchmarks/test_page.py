"""The page of benchmarks: tables from results, and that the page shows the stored results."""

from benchmarks.page import NOT_RUN, PAGE, Result, losses, run_line, scoreboard, table, up_to_date, written_blocks

FACTS = {
    "date": "2026-01-02",
    "commit": "abc",
    "cores": 2,
    "memory_gib": 8.0,
    "system": "Linux x86_64",
    "python": "3.11.7",
    "load_before": 0.1,
}


def row(name: str, score: float, *, index_s: float, peak_bytes: int | None = 1_000_000) -> dict[str, object]:
    figure = {"mean": score, "low": score - 0.05, "high": score + 0.05}
    return {
        "name": name,
        "title": name,
        "versions": {},
        "quality": dict.fromkeys(("hit@1", "hit@5", "hit@10", "recall@10", "mrr"), figure),
        "search_ms": {"p50": 10.0, "p95": 20.0},
        "index_s": index_s,
        "bytes": 2_000_000,
        "peak_bytes": peak_bytes,
    }


def result(*systems: dict[str, object]) -> Result:
    counts = {"questions": 3, "turns": 5, "archives": 1, "characters": 1_000_000}
    return FACTS | counts | {"systems": list(systems)}


def test_scoreboard_shows_cost_ratios_and_names_losses() -> None:
    text = scoreboard(result(row("convmemory", 0.5, index_s=10), row("other", 0.4, index_s=5)))
    assert "| other | 10.0 ms (1 times) | 20.0 ms (1 times) | 5.0 s (0.5 times) |" in text
    assert "- time to index: other" in text
    assert "- hit@1" not in text
    assert "0.400 [0.350, 0.450]" in text


def test_losses_name_better_rankers_before_faster_systems() -> None:
    text = losses([row("convmemory", 0.5, index_s=1), row("other", 0.6, index_s=2)])
    assert text.splitlines()[2] == "- hit@1: other"
    assert "time to index" not in text
    assert losses([row("other", 0.6, index_s=2)]) == ""


def test_unmeasured_system_is_listed_with_its_reason() -> None:
    ours = row("convmemory", 0.5, index_s=1, peak_bytes=None)
    text = scoreboard(result(ours, {"name": "gone", "title": "Gone", "not_measured": "no such package"}))
    assert "- **Gone** was not measured: no such package." in text
    assert "| not measured |" in text


def test_busy_machine_is_called_busy() -> None:
    assert "busy" not in run_line(FACTS)
    assert "The machine was busy" in run_line(FACTS | {"load_before": 3.0})


def test_marked_places_are_filled_and_rest_stays() -> None:
    page = "Before\n<!-- one -->\nold\n<!-- end of one -->\nbetween\n<!-- two -->\nold\n<!-- end of two -->\nafter\n"
    filled = up_to_date(page, {"one": "new"})
    assert filled == page.replace("old", "new", 1).replace("old", NOT_RUN)
    assert up_to_date(filled, {"one": "new"}) == filled


def test_page_is_up_to_date_with_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert up_to_date(page, written_blocks()) == page, "run: python -m benchmarks page"


def test_every_result_has_place_on_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in written_blocks() if f"<!-- {name} -->" not in page] == []


def test_table_is_markdown() -> None:
    assert table(["a", "b"], [[1, 2]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
