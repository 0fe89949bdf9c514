"""Descriptions of formats: on the page of the documentation and on the import page."""

from pathlib import Path

from convmemory.conversations.importers.detect import IMPORTERS
from convmemory.conversations.importers.registry import NOTES, documented, with_programs

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/formats.md"


def test_every_format_is_described_once() -> None:
    assert sorted(note.name for note in NOTES) == sorted(IMPORTERS)
    assert all(note.export and note.program and note.version for note in NOTES)


def test_page_of_formats_is_as_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == documented(), "write it with: make formats"


def test_readme_names_programs_of_all_formats() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_programs(readme), "write it with: make formats"
