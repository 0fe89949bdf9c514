"""Creates a separate environment for each system from its pinned requirements: never the project's own.

An environment is created once, and again if the file names another version. pip uses its configured index.
"""

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.systems import System

DONE = "installed.sha256"
# txtai brings PyTorch, whose wheels are large.
INSTALL_TIMEOUT_S = 1_800


class NotInstalled(Exception):
    """A system cannot be installed on this machine; the message gives the reason."""


def python_of(system: System, folder: Path) -> Path:
    """Return the Python that runs the system's adapter. Raises: NotInstalled."""
    if not system.requirements:
        return Path(sys.executable)
    target = folder / system.requirements
    python = target / "bin" / "python"
    digest = hashlib.sha256(system.requirements_file.read_bytes()).hexdigest()
    done = target / DONE
    if not done.exists() or done.read_text(encoding="utf-8") != digest:
        shutil.rmtree(target, ignore_errors=True)
        venv.create(target, with_pip=True)
        install(python, system.requirements_file)
        done.write_text(digest, encoding="utf-8")
    return python


def install(python: Path, requirements: Path) -> None:
    """Install the requirements. Raises: NotInstalled with pip's output."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"pip did not end within {INSTALL_TIMEOUT_S} s") from None
    if found.returncode:
        last = [line for line in found.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise NotInstalled(last[-1].removeprefix("ERROR: "))
