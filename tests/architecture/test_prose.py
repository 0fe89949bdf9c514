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


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("found = 1", [("names", "found")]),
        ("def f(place): ...", [("names", "place")]),
        ("for a.held in (): ...", [("names", "held")]),
        ("class known: ...", [("names", "known")]),
        ("print(found, place.held)", []),
        ("x = 'It answers nobody.'", [("persons", "nobody")]),
        ("x = 'nobody'", []),
        ('"""Nobody is read twice."""', []),
    ],
)
def test_vague_name_and_sentence_are_found_in_product(source: str, findings: list[tuple[str, str]]) -> None:
    assert [(each.rule, each.words) for each in prose.check_product(source)[1]] == findings


@pytest.mark.parametrize("source", ["/* --- chips ---- */", "-- ==== rows", "a();\n// ---- keys"])
def test_banner_is_found_in_other_languages(source: str) -> None:
    assert [each.rule for each in prose.check_whole(source)] == ["banners"]
    assert findings_of("x = 1\n# --- rows ---\n") == [("banners", 2, "# ---")]


@pytest.mark.parametrize(
    ("source", "has_finding"),
    [
        ("x = 1\n\n# Rows of the page.\n\ny = 2\n", True),
        ("x = 1\n\n# Rows of the page.\ny = 2\n", False),
        ("#!/usr/bin/env python\n\nx = 1\n", False),
        ("def f():\n    x = 1\n    # the rest\n\n    return x\n", False),
        ("x = '''\n# Heading\n\ntext'''\n", False),
    ],
)
def test_comment_before_empty_line_is_a_banner(source: str, has_finding: bool) -> None:
    assert [rule for rule, *_ in findings_of(source)] == ["banners"] * has_finding


def test_template_is_read_whole() -> None:
    assert {each.words for each in prose.check_whole("<p>Nobody\n stands beside it.</p>")} == {"Nobody", "beside"}


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
    monkeypatch.setattr(prose, "LIMITS", {"beside": 0.5, "persons": 0.0, "names": 1.0})
    assert prose.exceeded({"beside": 1, "persons": 0, "names": 1}, words=20_000, names=10_000) == []
    assert prose.exceeded({"beside": 1, "persons": 1, "names": 1}, words=19_999, names=9_999) == [
        "beside",
        "persons",
        "names",
    ]


def test_source_files_exclude_migrations_hidden_folders_and_data_of_tests(tmp_path: Path) -> None:
    left_out = ("app/migrations/0001.py", ".venv/c.py", "var/e.py", "app/f.txt", "tests/a.html", "static/vendor/a.js")
    for name in ("a.py", "app/b.py", ".ci/d.py", "app/g.sql", *left_out):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    paths = [path.relative_to(tmp_path).as_posix() for path in prose.source_files(tmp_path)]
    assert paths == [".ci/d.py", "a.py", "app/b.py", "app/g.sql"]


def test_named_file_is_allowed_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.py"
    path.write_text('"""Who asks."""\n')
    assert prose.main([str(path)]) == 1
    output = capsys.readouterr().out
    assert "new.py:1: 'Who': begin with a verb phrase" in output
    assert "openings: 1 in 2 words and 0 names; allowed in 10,000: 0.0" in output
    path.write_text('"""Return the caller."""\n')
    assert prose.main([str(path)]) == 0
