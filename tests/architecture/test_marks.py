"""Marks of tests are written in their own files: `tests/conftest.py` imports no file whose marks choose none."""

import re
from pathlib import Path

import pytest

from tests.conftest import may_be_chosen

TESTS = Path(__file__).parents[1]
FROM_ELSEWHERE = re.compile(r"\bpytest\.mark\.|\bgiven\(")
ESSENTIAL = "essential or not (slow or browser)"


def test_marks_are_written_in_files_of_tests_alone() -> None:
    helpers = [path for path in TESTS.rglob("*.py") if not path.match("test_*.py") and path.name != "conftest.py"]
    assert [path.name for path in helpers if FROM_ELSEWHERE.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "is_chosen"),
    [
        ("def test_a(): ...", True),
        ("pytestmark = pytest.mark.slow", False),
        ("pytestmark = [\n    pytest.mark.django_db,\n    pytest.mark.browser,\n]", False),
        ("pytestmark = pytest.mark.slow\n\n\n@pytest.mark.essential\ndef test_a(): ...", True),
        ("@pytest.mark.slow\ndef test_a(): ...", True),
    ],
)
def test_file_is_left_out_if_its_marks_choose_no_test(tmp_path: Path, text: str, is_chosen: bool) -> None:
    path = tmp_path / "test_a.py"
    path.write_text(text)
    assert may_be_chosen(path, ESSENTIAL) is is_chosen


def test_file_without_marks_and_random_values_is_left_out_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "test_a.py"
    for text, is_chosen in (("def test_a(): ...", False), ("from hypothesis import given", True)):
        path.write_text(text)
        assert may_be_chosen(path, f"hypothesis or not ({ESSENTIAL})") is is_chosen
