"""`python -m benchmarks NAME …`: run one of the benchmarks, on a database of its own under var/benchmarks."""

import os
import sys
from importlib import import_module

from benchmarks.places import VAR

COMMANDS = ("scoreboard", "ablation", "protocols", "sizes", "page")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"Name a benchmark: python -m benchmarks {{{','.join(COMMANDS)}}}")
    use_scratch_database(sys.argv[1])
    import django

    django.setup()
    from convmemory.core import acting

    acting.process_acts_as(acting.SCHEMA)
    if sys.argv[1] != "page":
        from benchmarks.machine import wait_until_quiet

        wait_until_quiet()
    import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


def use_scratch_database(benchmark: str) -> None:
    """Use a database of its own: a benchmark must not touch a database in use, or that of another benchmark."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "convmemory.settings"
    os.environ["CONVMEMORY_VAR"] = str(VAR / "own" / benchmark)
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)


if __name__ == "__main__":
    main()
