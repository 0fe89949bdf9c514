"""Messages name the command that people type in this installation."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmemory import __version__
from convmemory.__main__ import main
from convmemory.core import program

PACKAGES = ("convmemory", "memory", "search", "summaries")
OF_UNIT = (program.ROOT / "deploy" / "systemd" / "convmemory").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("is_checkout", "script", "name"),
    [
        (True, None, "manage.py"),
        (True, OF_UNIT.replace("/opt/convmemory", str(program.ROOT)), "convmemory"),
        (True, OF_UNIT, "manage.py"),
        (True, "#!/usr/bin/python\n# of another installation\n", "manage.py"),
        (False, None, "convmemory"),
    ],
)
def test_command_is_named_as_it_is_installed(
    is_checkout: bool, script: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        (tmp_path / "convmemory").write_text(script)
        (tmp_path / "convmemory").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "IS_CHECKOUT", is_checkout)
    assert program.name_of_command() == name


@pytest.mark.parametrize("argument", ["--version", "version"])
def test_version_is_that_of_this_program(
    argument: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["convmemory", argument])
    main()
    assert capsys.readouterr().out == f"convmemory {__version__}\n"


def strings_that_name_manage(text: str) -> Iterator[int]:
    """Yield the lines of the strings in a module, docstrings apart, that name `manage.py`."""
    tree = ast.parse(text)
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    documentation = {id(value) for value in statements}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation and "manage.py" in str(node.value):
            yield node.lineno


def test_no_message_names_manage_but_by_the_function() -> None:
    command = ["git", "ls-files", *(f"{package}/*.py" for package in PACKAGES), "templates/*.html", "static/*.js"]
    listing = subprocess.run(command, cwd=program.ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {
        name: text
        for name in listing
        if "/migrations/" not in name and "manage.py" in (text := (program.ROOT / name).read_text(encoding="utf-8"))
    }
    del texts["convmemory/core/program.py"]
    assert [name for name in texts if not name.endswith(".py")] == []
    assert [f"{name}:{line}" for name, text in texts.items() for line in strings_that_name_manage(text)] == []
