"""Templates are code: their lines can be reviewed."""

from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
MAX_COLUMNS = 140


def long_lines(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(TEMPLATES)}:{number}"
        for path in sorted(folder.rglob("*.html"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ]


@pytest.mark.parametrize("folder", sorted(path.name for path in TEMPLATES.iterdir() if path.is_dir()))
def test_template_lines_have_at_most_140_columns(folder: str) -> None:
    assert long_lines(TEMPLATES / folder) == []


def test_base_templates_have_at_most_140_columns() -> None:
    assert not [line for line in long_lines(TEMPLATES) if "/" not in line]
