"""Run a command of convmemory: `convmemory COMMAND` of an installed package, `manage.py COMMAND` of a checkout."""

import gc
import os
import sys

from convmemory import __version__
from convmemory.core.program import ROOT


def main() -> None:
    if sys.argv[1:] in (["--version"], ["version"]):  # Django's commands would print its own
        print(f"convmemory {__version__}")
        return
    # A checkout has the benchmarks, which are no part of the program: their app is there for their commands alone.
    is_measuring = sys.argv[1:2] in (["bench"], ["evaluate"]) and (ROOT / "benchmarks" / "settings.py").is_file()
    settings = "benchmarks.settings" if is_measuring else "convmemory.settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings)
    gc.disable()  # what is loaded stays for good: to look for garbage among it takes 0.1 s of 0.8 s
    import django
    from django.core.management import execute_from_command_line

    from convmemory.core import acting
    from convmemory.core.errors import ConvMemoryError

    acting.process_acts_as(acting.of_command(sys.argv[1] if len(sys.argv) > 1 else ""))
    try:
        django.setup()
        gc.freeze()
        gc.enable()
        _name_other_installation()
        execute_from_command_line(sys.argv)
    except ConvMemoryError as error:  # of the settings, which are read before any command runs, or of Django's commands
        if "--traceback" in sys.argv:
            raise
        sys.exit(str(error))
    except Exception as error:
        from django.db import ProgrammingError

        from convmemory.core.postgres.failures import UNMIGRATED, missing_migrations

        if "--traceback" in sys.argv or not isinstance(error, ProgrammingError) or not missing_migrations():
            raise
        sys.exit(UNMIGRATED)


def _name_other_installation() -> None:
    """Say which data folder this process uses if that is new while an installation runs on another one.

    A folder that `CONVMEMORY_VAR` names for `up` may be new.
    """
    from convmemory.core.config import config
    from convmemory.core.postgres import server

    folder = config.var_dir / "postgres"
    is_new = not config.database_url and not (folder / "PG_VERSION").exists()
    is_meant = sys.argv[1:2] == ["up"] and "CONVMEMORY_VAR" in os.environ
    if is_new and not is_meant and (other := server.data_folder_elsewhere(folder)):
        print(
            f"This uses the data folder {config.var_dir}, where nothing is stored yet. "
            f"An installation runs on {other}: CONVMEMORY_VAR={other} uses that one.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
