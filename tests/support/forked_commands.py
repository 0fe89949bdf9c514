"""Commands of `manage.py` as processes of their own, forked from one that has loaded the program in their environment.

To load the program and its checks takes two seconds of processor time, which tests with dozens of commands spend once.
`test_up.py` and `test_fleet.py` start `manage.py` itself.
"""

import json
import os
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from tempfile import TemporaryDirectory

import django
from django.core.management import call_command

from convmemory.__main__ import main
from tests.support.run_database import ROOT

STREAMS = ("stdin", "stdout", "stderr")  # in the order of their descriptors


def without_name_of_test(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what pytest sets for each test, so that tests can share a process."""
    return {name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}


class ForkedCommands:
    """Runs commands; as long as their environment stays the same, all are forked from one process."""

    _server: "Popen[str] | None" = None
    _environment: dict[str, str]

    def run(self, *arguments: str, environment: Mapping[str, str], given: str = "") -> CompletedProcess[str]:
        """Run a command to its end, with this process's umask and `given` as its input."""
        environment = without_name_of_test(environment)
        if self._server is None or environment != self._environment:
            self.close()
            command = [sys.executable, "-m", "tests.support.forked_commands"]
            self._server = Popen(command, cwd=ROOT, env=environment, stdin=PIPE, stdout=PIPE, text=True)
            self._environment = environment
        assert self._server.stdin
        assert self._server.stdout
        os.umask(umask := os.umask(0))
        with TemporaryDirectory() as folder:
            stdin, stdout, stderr = (Path(folder, name) for name in STREAMS)
            stdin.write_text(given)
            print(json.dumps([arguments, folder, umask]), file=self._server.stdin, flush=True)
            status = self._server.stdout.readline()
            assert status, "the program could not be loaded"
            return CompletedProcess(arguments, int(status), stdout.read_text(), stderr.read_text())

    def close(self) -> None:
        if self._server:
            self._server.communicate()


def serve() -> None:
    """Load the program, then run each command that a line names in a forked process and answer its exit status."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convmemory.settings")
    django.setup()
    call_command("check", stdout=StringIO())  # imports all that commands check first
    for line in sys.stdin:
        arguments, folder, umask = json.loads(line)
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        os.umask(umask)
        for descriptor, name in enumerate(STREAMS):
            with Path(folder, name).open("r" if name == "stdin" else "w") as file:
                os.dup2(file.fileno(), descriptor)
        sys.argv = ["manage.py", *arguments]
        main()
        return


if __name__ == "__main__":
    serve()
