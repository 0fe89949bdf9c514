"""Style sheets of pages name no left and no right: where a language runs from right to left, the page is mirrored."""

import re
from pathlib import Path

import pytest

STYLES = Path(__file__).resolve().parents[2] / "static" / "css"
ENGLISH_ALWAYS = {"admin.css", "api-docs.css"}
PHYSICAL = re.compile(
    r"(?:margin|padding|border)-(?:left|right)|(?<![-\w])(?:left|right)\s*:|(?:text-align|float):\s*(?:left|right)"
)
CENTRED = "left: 50%"  # with `translateX(-50%)`: the middle is the same from both sides
AS_WRITTEN = ("direction: ltr", "td.right")  # code, and columns whose side the author of a table chose


def physical_sides(source: str) -> list[str]:
    """The lines of a style sheet that name a side."""
    lines = (line.replace(CENTRED, "") for line in source.splitlines() if not any(mark in line for mark in AS_WRITTEN))
    return [line for line in lines if PHYSICAL.search(line)]


@pytest.mark.parametrize("name", sorted(path.name for path in STYLES.glob("*.css") if path.name not in ENGLISH_ALWAYS))
def test_style_sheets_use_logical_sides(name: str) -> None:
    assert physical_sides((STYLES / name).read_text(encoding="utf-8")) == []


def test_physical_css_properties_are_detected() -> None:
    assert physical_sides(".a { margin-left: 1px; }\n.b { left: 0; }\n.c { text-align: right; }") != []
    assert physical_sides(".a { inset-inline-start: 0; left: 50%; }\n.is-left { text-align: start; }") == []
