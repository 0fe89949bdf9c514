"""The client as one file in the user's data folder, which agents start: it outlives the installation that made it.

The file is a zip archive of these modules, behind two lines by which a shell starts it with the Python of the system.
Its modules are compiled for that Python; any other reads their sources.
"""

import functools
import importlib.resources
import io
import py_compile
import shlex
import sys
import tempfile
import zipfile
from pathlib import Path

PROGRAM = "convmemory-push"
"""The name of the distribution, of its command, and of this file."""

_PACKAGE = "convmemory_push"
_MAIN = f"""import sys
if sys.version_info < (3, 11):
    sys.exit("{PROGRAM} needs Python 3.11 or newer; this is %d.%d (%s)." % (*sys.version_info[:2], sys.executable))
from {_PACKAGE}.__main__ import main
sys.exit(main())
"""
_MADE = (1980, 1, 1, 0, 0, 0)  # the same modules make the same file


def interpreter() -> str:
    """Return the Python that this one was made from: a virtual environment goes with what is installed in it.

    Its name without a version is preferred, which an update of the system keeps.
    """
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    plain = base.with_name("python3")
    return str(plain if plain.exists() and plain.resolve() == base.resolve() else base)


def own_modules() -> dict[str, bytes]:
    """Return the sources of this package by file name."""
    folder = importlib.resources.files(__package__ or _PACKAGE)
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".py")}


def modules_of(path: Path) -> dict[str, bytes]:
    """Return the sources in an application by file name. Raises: OSError, zipfile.BadZipFile."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{_PACKAGE}/") and name.endswith(".py")]
        return {name.partition("/")[2]: archive.read(name) for name in names}


def interpreter_of(path: Path) -> str:
    """Return the Python that an application names. Raises: OSError, ValueError, IndexError."""
    with path.open("rb") as file:
        return shlex.split([next(file, b""), next(file, b"")][1].decode())[1]


@functools.cache
def application(python: str) -> bytes:
    """Return the file that runs this version of the client with this Python."""
    file = io.BytesIO()
    # Isolated: the environment and the folder of an agent's project cannot replace modules.
    file.write(f'#!/bin/sh\nexec {shlex.quote(python)} -I "$0" "$@"\n'.encode())
    with zipfile.ZipFile(file, "w") as archive, tempfile.TemporaryDirectory() as folder:
        archive.writestr(zipfile.ZipInfo("__main__.py", _MADE), _MAIN)
        for name, source in sorted(own_modules().items()):
            path = Path(folder, name)
            path.write_bytes(source)
            compiled = path.with_suffix(".pyc")
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # so that the same source gives the same bytes
            py_compile.compile(
                str(path), str(compiled), dfile=f"{_PACKAGE}/{name}", doraise=True, invalidation_mode=unchecked
            )
            archive.writestr(zipfile.ZipInfo(f"{_PACKAGE}/{name}", _MADE), source)
            archive.writestr(zipfile.ZipInfo(f"{_PACKAGE}/{name}c", _MADE), compiled.read_bytes())
    return file.getvalue()
