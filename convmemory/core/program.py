"""Says where this program lies, how its commands are started, and where its data lies by default.

A checkout has `manage.py` and its data in `var/`. An installed package has the command `convmemory`, and its data in a
folder of the user who runs it.
"""

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
MANAGE = ROOT / "manage.py"
IS_CHECKOUT = MANAGE.is_file()
FILES = ROOT if IS_CHECKOUT else PACKAGE
"""The folder of `templates`, `static` and `locale`."""


def command() -> list[str]:
    """Return the command that runs a command of this program, in any folder."""
    return [sys.executable, str(MANAGE)] if IS_CHECKOUT else [sys.executable, "-m", PACKAGE.name]


def data_folder() -> Path:
    """Return the data folder of a process without CONVMEMORY_VAR."""
    if IS_CHECKOUT:
        return ROOT / "var"
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "convmemory-server"
