"""Every advisory lock has its number in `convmemory.core.postgres.locks`, so that no two purposes share one."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import statements_of
from tests.architecture.trees import ROOT, nodes_of, text_of

REGISTER = ROOT / "convmemory/core/postgres/locks.py"
FOLDERS = ("benchmarks", "convmemory", "search", "memory", "summaries", "tests")
LOCKING = re.compile(r"\bpg_(?:try_)?advisory_")
LOCKING_OR_LOADING = re.compile(r"advisory_|load_sql")


def sources(words: re.Pattern[str]) -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Yield the nodes of modules that contain any of the words; to parse all modules takes seconds."""
    for folder in FOLDERS:
        for path in ROOT.glob(f"{folder}/**/*.py"):
            if path not in (REGISTER, Path(__file__)) and words.search(text_of(path)):
                yield path.relative_to(ROOT).as_posix(), nodes_of(path)


def takes_a_lock(node: ast.AST) -> bool:
    """Return True for a text with a locking statement, and for the call that loads one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return LOCKING.search(node.value) is not None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_sql":
        names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if len(names) == 2:
            return LOCKING.search(statements_of(str(names[0])).get(str(names[1]), "")) is not None
    return False


def in_any_writing(numbers: Iterable[int]) -> re.Pattern[str]:
    """Return a pattern of these numbers in decimal, with or without underscores, and of any number in another base."""
    return re.compile("|".join(["_?".join(str(int(number))) for number in numbers] + ["0[xXoObB]"]))


def test_functions_that_lock_take_number_from_register() -> None:
    locking = {
        f"{name}:{function.lineno}": function
        for name, nodes in sources(LOCKING_OR_LOADING)
        for function in nodes
        if isinstance(function, ast.FunctionDef) and any(takes_a_lock(node) for node in ast.walk(function))
    }
    assert len(locking) > 5
    for place, function in locking.items():
        assert "AdvisoryLock" in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}, place
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and len(node.args) == 2):
            if any(takes_a_lock(node) for node in ast.walk(call.args[0])) and isinstance(call.args[1], ast.List):
                assert not isinstance(call.args[1].elts[0], ast.Constant), place


def test_locking_statements_are_inside_functions() -> None:
    for name, nodes in sources(LOCKING_OR_LOADING):
        inside = {id(node) for each in nodes if isinstance(each, ast.FunctionDef) for node in ast.walk(each)}
        assert not [node for node in nodes if takes_a_lock(node) and id(node) not in inside], name


def test_numbers_of_locks_stand_in_register_alone() -> None:
    numbers = set(AdvisoryLock) - {AdvisoryLock.VECTORS}  # a million is a number of much else
    found = {
        name
        for name, nodes in sources(in_any_writing(numbers))
        for node in nodes
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in numbers
    }
    assert found == set()
