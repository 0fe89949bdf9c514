"""A module that calls itself pure is held to it: import-linter keeps it from Django and the database."""

import ast
import re
import tomllib

from tests.architecture.trees import ROOT, nodes_with

CONTRACT = "Pure modules know no database"


def test_every_module_that_says_pure_has_contract() -> None:
    says_pure = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for folder in ("convmemory", "search", "memory", "summaries", "benchmarks")
        for path in ROOT.glob(f"{folder}/**/*.py")
        for module in nodes_with(path, "Pure")[:1]
        if isinstance(module, ast.Module) and re.search(r"(?<![\w-])Pure\b", ast.get_docstring(module) or "")
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    assert says_pure
    assert says_pure <= set(contracts[CONTRACT]["source_modules"])
