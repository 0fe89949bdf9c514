"""Test the check of prose (.ci/prose.py) on small sources."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "prose.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = load_script()


def findings_of(source: str) -> list[tuple[str, int, str]]:
    return [(finding.rule, finding.line, finding.words) for finding in prose.check(source)[1]]


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("The row beside it.", "beside", "beside"),
        ("Nobody waits.", "persons", "Nobody"),
        ("Read somebody's rows.", "persons", "somebody's"),
        ("Serve whoever asks.", "persons", "whoever"),
        ("The owner for whom it runs.", "phrases", "for whom"),
        ("Rows of theirs.", "phrases", "of theirs"),
        ("The index is made anew.", "phrases", "made anew"),
        ("Damage is put\n    right here.", "phrases", "put right"),
        ("Return what is there.", "phrases", "what is there"),
    ],
)
def test_avoided_word_is_found_in_docstring_and_comment(text: str, rule: str, words: str) -> None:
    comment = "".join(f"# {line.strip()}\n" for line in text.splitlines())
    assert findings_of(f'def f():\n    """{text}"""\n') == [(rule, 2, words)]
    assert findings_of(f"x = 1\n{comment}") == [(rule, 2, words)]


@pytest.mark.parametrize("opening", ["What", "Whether", "Who", "Whose", "How", "Which", "Where", "Those"])
def test_noun_clause_as_docstring_opening_is_found(opening: str) -> None:
    assert findings_of(f'class A:\n    """\n    {opening} it is.\n    """\n') == [("openings", 3, opening)]


@pytest.mark.parametrize("name", ["test_what_is_small_is_kept", "test_whoever_asks_gets_none", "test_a_row_beside_it"])
def test_riddle_as_test_name_is_found(name: str) -> None:
    assert findings_of(f"def {name}():\n    pass\n") == [("test names", 1, name)]


def test_plain_prose_passes() -> None:
    source = '''
"""Store rows. Besides, this module reads them."""
# Return `without_owner()` or `for whom` as code, a bedside lamp, and what a caller asks.
def test_out_of_range_setting_names_allowed_range():
    """Return what is stored; whether a row exists does not matter."""
    text = "somebody beside what is there"
def who(): ...
'''
    assert findings_of(source) == []


def test_words_are_counted_in_docstrings_and_comments() -> None:
    assert prose.check('"""One two."""\nx = "not these"  # three four five\n')[0] == 5


def test_limits_apply_per_ten_thousand_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "LIMITS", {"beside": 0.5, "persons": 0.0})
    assert prose.exceeded({"beside": 1, "persons": 0}, words=20_000) == []
    assert prose.exceeded({"beside": 1, "persons": 1}, words=19_999) == ["beside", "persons"]


def test_python_files_exclude_migrations_and_hidden_folders(tmp_path: Path) -> None:
    for name in ("a.py", "app/b.py", "app/migrations/0001.py", ".venv/c.py", ".ci/d.py", "var/e.py", "app/f.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in prose.python_files(tmp_path)]
    assert found == [".ci/d.py", "a.py", "app/b.py"]


def test_named_file_is_allowed_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.py"
    path.write_text('"""Who asks."""\n')
    assert prose.main([str(path)]) == 1
    output = capsys.readouterr().out
    assert "new.py:1: 'Who': begin with a verb phrase" in output
    assert "openings: 1, or 5000.0 per 10,000 words; allowed: 0.0" in output
    path.write_text('"""Return the caller."""\n')
    assert prose.main([str(path)]) == 0
