"""`make setup` on machines where it cannot install, and with a virtual environment whose Python has gone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON_OF_ANOTHER_MACHINE = """#!/bin/sh
exec {python} -c 'import platform, sys
sys.platform, platform.machine, platform.libc_ver = "{system}", lambda: "x86_64", lambda: ("", "")
exec(sys.argv.pop(1))' "$2"
"""
PYTHON_THAT_MAKES_ENVIRONMENTS = """#!/bin/sh
[ "$1 $2" != "-m venv" ] || { mkdir -p .venv/bin && echo '#!/bin/sh' > .venv/bin/python && chmod 755 .venv/bin/python; }
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.lock", "requirements-model.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def setup(checkout: Path, python: str) -> subprocess.CompletedProcess[str]:
    path = checkout / "python"
    path.write_text(python)
    path.chmod(0o755)
    command = ["make", "setup", f"PYTHON={path}"]
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("system", ["darwin", "linux"])
def test_machine_without_wheels_is_refused_before_anything_is_installed(checkout: Path, system: str) -> None:
    done = setup(checkout, PYTHON_OF_ANOTHER_MACHINE.format(python=sys.executable, system=system))
    assert done.returncode == 2
    assert "do not exist for Macs with Intel processors and for\nLinux without glibc" in done.stderr
    assert not (checkout / ".venv").exists()


def test_environment_whose_python_has_gone_is_made_again(checkout: Path) -> None:
    binaries = checkout / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(checkout / "gone")
    (checkout / ".venv" / ".ready").touch()
    done = setup(checkout, PYTHON_THAT_MAKES_ENVIRONMENTS)
    assert done.stdout.splitlines() == ["Installing packages into .venv ..."], done.stderr
    assert (binaries / "python").is_file()
    assert (checkout / ".venv" / ".ready").exists()
