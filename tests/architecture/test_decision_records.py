"""Decision records agree with the code: constants that they name have the value that they give."""

import re
from importlib import import_module
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "adr").glob("0*.md"))
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


def test_every_record_stands_in_index_with_state() -> None:
    index = (RECORDS[0].parent / "README.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| \[\d+\]\(([^)]+)\) \| .+ \| (?:in force|replaced by \[\d+\]\([^)]+\)) \|$", index, re.MULTILINE
    )
    assert listed == [record.name for record in RECORDS]
