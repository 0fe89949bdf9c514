"""SQL that reads or writes rows is named, in one file a package, each with a line that says what it answers."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache

from convmemory.core.sql import FILE, statements_of
from tests.architecture.trees import ROOT, nodes_of, nodes_with, text_of

FOLDERS = ("benchmarks/speeds", "convmemory", "search", "memory", "summaries")
STATEMENT = re.compile(r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s")
FRAGMENT = re.compile(r"\s*(?:EXISTS|NOT EXISTS|AND|OR|JOIN|WHERE|CASE)\s.*\b(?:SELECT|FROM)\s", re.DOTALL)
COMMAND = re.compile(
    r"\s*(?:CREATE|ALTER|DROP|TRUNCATE|COPY|LOCK|REINDEX|VACUUM|ANALYZE|REASSIGN|GRANT|REVOKE|EXPLAIN|SHOW|SET|RESET)\s+\S"
)
OPTIONS = re.compile(r"\((?:FORCE|FORMAT JSON)\)")
CLIENT = {  # their processes load no Django and so no `load_sql`
    "convmemory/conversations/importers/sqlite_child.py",  # asks SQLite for its catalogue
    "convmemory/push/databases.py",  # installed alone, reads those of agents
    "convmemory/push/ledger.py",  # installed alone, with a database of its own
}


COMMANDS = {
    "benchmarks/speeds/bench.py": 1,  # VACUUM ANALYZE
    "benchmarks/speeds/row_security.py": 1,  # EXPLAIN
    "convmemory/conversations/importing/runner.py": 1,  # SET LOCAL for its commits
    "convmemory/core/postgres/embedded.py": 1,  # CREATE DATABASE
    "convmemory/core/postgres/base.py": 2,  # SET ROLE, RESET search_path
    "convmemory/core/postgres/grouped.py": 2,  # SET search_path, SET LOCAL for nodes
    "convmemory/core/postgres/row_security.py": 3,  # ALTER ROLE, SET and RESET search_path
    "convmemory/core/sql.py": 3,  # SET LOCAL of the planner, and for nodes
    "convmemory/ops/doctor/database_area.py": 5,  # ANALYZE; REINDEX and DROP INDEX, as advice and as action
    "convmemory/ops/privacy/backup.py": 1,  # SHOW server_version
    "convmemory/ops/privacy/erasing.py": 1,  # SET CONSTRAINTS
    "convmemory/ops/privacy/exporting.py": 1,  # SET TRANSACTION
    # ALTER DATABASE, DROP DATABASE; DROP ROLE twice, CREATE DATABASE, CREATE EXTENSION, REASSIGN OWNED
    "convmemory/ops/privacy/restoring.py": 7,
    "search/indexing/switching.py": 1,  # SET lock_timeout
}
"""How many commands without a row or a column stand in the code: one verb and the name that it is about."""
DEFINED_BY_THE_CATALOGUE = "convmemory/ops/groups/"  # every name in its commands is read from the database


def texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    pieces = {id(part) for node in formatted for part in node.values}
    for text in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in text.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            yield node.value


@cache
def texts_by_file() -> dict[str, list[str]]:
    paths = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py")]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths if "migrations" not in path.parts}
    return {name: list(texts(nodes_of(path))) for name, path in names.items() if name not in CLIENT}


def test_no_statement_stands_in_code() -> None:
    found = {
        name: inline
        for name, all_texts in texts_by_file().items()
        if (inline := [text for text in all_texts if STATEMENT.match(text) or FRAGMENT.match(text)])
    }
    assert not found


def test_inline_sql_commands_are_registered_and_define_nothing() -> None:
    found = {
        name: inline
        for name, all_texts in texts_by_file().items()
        if not name.startswith(DEFINED_BY_THE_CATALOGUE)
        and (inline := [text for text in all_texts if COMMAND.match(text)])
    }
    assert {name: inline for name, inline in found.items() if len(inline) > COMMANDS.get(name, 0)} == {}
    assert [text for inline in found.values() for text in inline if "(" in OPTIONS.sub("", text)] == []
    assert COMMANDS.keys() == found.keys()


def packages_of_statements() -> list[str]:
    files = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/{FILE}")]
    return [".".join(path.relative_to(ROOT).parts[:-1]) for path in files]


def statements() -> dict[tuple[str, str], str]:
    """Return every named statement, by its package and its name."""
    return {
        (package, name): text for package in packages_of_statements() for name, text in statements_of(package).items()
    }


def test_every_statement_stands_in_file_of_its_package() -> None:
    others = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in ROOT.glob(f"{folder}/**/*.sql")
        if path.name != FILE
    }
    assert others == set()
    assert len(statements()) > 100


def test_every_named_statement_says_what_it_answers_and_is_used() -> None:
    code = "".join(text_of(path) for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))
    for (package, name), text in statements().items():
        assert text.startswith("-- "), (package, name)
        assert f'"{name}"' in code, (package, name)


def test_every_statement_that_code_names_exists() -> None:
    asked = {
        tuple(argument.value for argument in node.args if isinstance(argument, ast.Constant))
        for folder in FOLDERS
        for path in ROOT.glob(f"{folder}/**/*.py")
        for node in nodes_with(path, "load_sql")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_sql"
    }
    assert {names for names in asked if len(names) == 2} - statements().keys() == set()


def test_upserts_take_their_time_from_new_row() -> None:
    """A server that hands statements on to others refuses `now()` there: each would have a time of its own."""
    replacing = {name: text.partition("DO UPDATE SET")[2] for name, text in statements().items()}
    assert sum(bool(rest) for rest in replacing.values()) > 5
    assert [name for name, rest in replacing.items() if re.search(r"\bnow\(\)", rest, re.IGNORECASE)] == []


BESIDE_POLICIES = ("benchmarks", "convmemory.ops")  # run as who owns the tables, or where there are no nodes


def test_rows_that_are_computed_from_rows_are_returned() -> None:
    """Without that a server that hands statements on to others would copy them, which policies forbid."""
    computing = {name: text for name, text in statements().items() if re.search(r"INSERT INTO[^;]*\bSELECT\b", text)}
    assert len(computing) > 10
    bare = {name for name, text in computing.items() if not re.search(r"\bRETURNING\b|\bON CONFLICT\b", text)}
    assert {(package, name) for package, name in bare if not package.startswith(BESIDE_POLICIES)} == set()
