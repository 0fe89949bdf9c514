"""The modules that tests of the architecture read, each parsed once in a run."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a module, the module first."""
    return tuple(ast.walk(ast.parse(text_of(path))))


def nodes_with(path: Path, *words: str) -> tuple[ast.AST, ...]:
    """Return the nodes of a module that contains any of the words, none of another: to parse all takes seconds."""
    return nodes_of(path) if any(word in text_of(path) for word in words) else ()
