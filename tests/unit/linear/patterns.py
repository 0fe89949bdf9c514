"""Every regular expression of the product: those that modules hold, and the places where one is made on the spot."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

PACKAGES = ("convmemory", "search", "memory", "summaries")
ROOT = Path(__file__).parents[3]
_CALLS = frozenset({"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"})


def modules() -> Iterator[ModuleType]:
    """All modules of the product but migrations and what starts a server when it is imported."""
    for package in map(importlib.import_module, PACKAGES):
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." not in info.name and info.name != "convmemory.asgi":
                yield importlib.import_module(info.name)


def compiled_patterns() -> dict[str, "re.Pattern[str] | re.Pattern[bytes]"]:
    """The patterns that stand in modules, alone or in collections, by where they stand."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for number, pattern in enumerate(_patterns_in(value)):
                found.setdefault(f"{module.__name__}.{name}.{number}", pattern)
    distinct = {pattern: place for place, pattern in reversed(found.items())}
    return {place: pattern for pattern, place in distinct.items()}


def _patterns_in(value: object) -> "Iterator[re.Pattern[str] | re.Pattern[bytes]]":
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _patterns_in(item)
    elif isinstance(value, dict):
        yield from _patterns_in(list(value.values()))


def inline_patterns() -> set[str]:
    """`file: source` of every call of `re` inside a function: such a pattern escapes `compiled_patterns`."""
    found = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for function in _nodes(path):
                if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
                    found |= {f"{path.relative_to(ROOT)}: {ast.unparse(call)}" for call in calls if _is_of_re(call)}
    return found


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _is_of_re(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _CALLS
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    )


def modules_of_text(readers: Collection[str]) -> set[str]:
    """The modules that import one of the libraries `readers`."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in _nodes(path):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if set(readers) & {name.partition(".")[0] for name in names}:
                    found.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found
