"""SQL that reads or writes rows stands in named files, each with a line that says what it answers."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("convmemory", "search", "memory", "summaries")
STATEMENT = re.compile(r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s")
ORDERS = {"convmemory/ops/privacy/exporting.py"}  # what a column's place is ordered by
CLIENT = {"convmemory/push/ledger.py"}  # installed alone, with a database of its own and no `load_sql`


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_statement_stands_in_the_code() -> None:
    found: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in ROOT.glob(f"{folder}/**/*.py"):
            name = path.relative_to(ROOT).as_posix()
            if "/migrations/" not in name and name not in ORDERS | CLIENT:
                inline = [text for text in texts(ast.parse(path.read_text(encoding="utf-8"))) if STATEMENT.match(text)]
                found |= {name: inline} if inline else {}
    assert not found


def test_every_named_statement_says_what_it_answers_and_is_used() -> None:
    files = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/sql/*.sql")]
    code = "".join(path.read_text(encoding="utf-8") for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))
    assert files
    for path in files:
        assert path.read_text(encoding="utf-8").startswith("-- "), path
        assert f'"{path.stem}"' in code, path


def test_what_replaces_a_row_takes_its_time_from_the_new_one() -> None:
    """A server that hands statements on to others refuses `now()` there: each would have a time of its own."""
    files = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/sql/*.sql")]
    replacing = {path.name: path.read_text(encoding="utf-8").partition("DO UPDATE SET")[2] for path in files}
    assert sum(bool(rest) for rest in replacing.values()) > 5
    assert [name for name, rest in replacing.items() if re.search(r"\bnow\(\)", rest, re.IGNORECASE)] == []


BESIDE_POLICIES = ("convmemory/ops",)  # run as who owns the tables, or where there are no nodes


def test_rows_that_are_computed_from_rows_are_returned() -> None:
    """Without that a server that hands statements on to others would copy them, which policies forbid."""
    files = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/sql/*.sql")]
    texts_of = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    computing = {name: text for name, text in texts_of.items() if re.search(r"INSERT INTO[^;]*\bSELECT\b", text)}
    assert len(computing) > 10
    bare = {name for name, text in computing.items() if not re.search(r"\bRETURNING\b|\bON CONFLICT\b", text)}
    assert {name for name in bare if not name.startswith(BESIDE_POLICIES)} == set()
