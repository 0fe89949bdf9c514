"""Decision records are short, listed, and agree with the code: constants have the value that they give."""

import re
from importlib import import_module
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "adr").glob("0*.md"))
MAX_WORDS = 400
NAMED_CONSTANT = re.compile(r"`([a-z_]+(?:\.[a-z_0-9]+)+)\.([A-Z][A-Z_0-9]*)` = (-?[\d,]*\.?\d+)")


def named_constants() -> list[tuple[str, str, str, float]]:
    found = []
    for record in RECORDS:
        for module, name, value in NAMED_CONSTANT.findall(record.read_text(encoding="utf-8")):
            found.append((record.name, module, name, float(value.replace(",", ""))))
    return found


@pytest.mark.parametrize(("record", "module", "name", "value"), named_constants())
def test_constant_has_value_that_record_gives(record: str, module: str, name: str, value: float) -> None:
    assert getattr(import_module(module), name) == value, f"{record} says that {module}.{name} is {value}"


def test_records_name_constants() -> None:
    assert len(named_constants()) >= 8


def test_index_lists_each_record_once_by_title() -> None:
    index = (RECORDS[0].parent / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d+)\]\(([^)]+)\) (.+)$", index, re.MULTILINE)
    titles = [record.read_text(encoding="utf-8").partition("\n")[0] for record in RECORDS]
    assert sorted((file, f"# {number}. {title}") for number, file, title in listed) == sorted(
        (record.name, title) for record, title in zip(RECORDS, titles, strict=True)
    )


def test_records_have_at_most_400_words() -> None:
    words = {record.name: len(record.read_text(encoding="utf-8").split()) for record in RECORDS}
    assert {name: count for name, count in words.items() if count > MAX_WORDS} == {}, "figures: docs/benchmarks.md"
