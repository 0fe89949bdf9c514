"""`python -m benchmarks NAME …`: run one of the benchmarks, on a database of its own under var/benchmarks."""

import sys
from importlib import import_module

from benchmarks.runs import VAR, start_django, wait_until_quiet

COMMANDS = ("scoreboard", "ablation", "protocols", "sizes", "page")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"Name a benchmark: python -m benchmarks {{{','.join(COMMANDS)}}}")
    start_django(VAR / "own" / sys.argv[1])
    if sys.argv[1] != "page":
        wait_until_quiet()
    import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
