"""A module that calls itself pure is held to it: import-linter keeps it from Django and the database."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = "Pure modules know no database"


def test_every_module_that_says_pure_has_contract() -> None:
    says_pure = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for folder in ("convmemory", "search", "memory", "summaries", "benchmarks")
        for path in ROOT.glob(f"{folder}/**/*.py")
        if re.search(r"(?<![\w-])Pure\b", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    assert says_pure
    assert says_pure <= set(contracts[CONTRACT]["source_modules"])
