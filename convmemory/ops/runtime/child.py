"""Runs a command that gets TERM if the supervisor dies suddenly (on Linux only).

The supervisor starts this file as `python -I -S child.py SUPERVISOR_PID PROGRAM ARGUMENT...`; it imports nothing of
convmemory and replaces itself with the program.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Source: prctl(2)


def main() -> None:
    supervisor, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # the supervisor died before the call above
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main()
