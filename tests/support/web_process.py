"""The product's web server as a process of its own on the test's database, to be killed."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import httpx2
from django.conf import settings
from django.db import connection

from convmemory.core.postgres.logins import ROLES
from tests.support.patience import PROCESSES_S


@dataclass(frozen=True)
class WebProcess:
    """A running server."""

    address: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """As `kill -9`: it can do nothing any more."""
        self.process.kill()
        self.process.wait()


def database_environment() -> dict[str, str]:
    """The test's database, for another process, which uses the product's own log-ins where the server is the tests'."""
    roles = ROLES if connection.settings_dict["EMBEDDED_PATH"] else {}
    own = {f"DATABASE_{login.name}_URL": _database_url(role) for login, role in roles.items()}
    return {"DATABASE_URL": _database_url(), **own}


def _database_url(role: str = "") -> str:
    values = connection.get_connection_params()
    host = quote(str(values.get("host") or "localhost"), safe="")
    password = f":{quote(values['password'], safe='')}" if values.get("password") and not role else ""
    return f"postgres://{role or values['user']}{password}@{host}:{values.get('port') or 5432}/{values['dbname']}"


@contextmanager
def web_process(
    variables: Mapping[str, str], *, command: Callable[[int], list[str]] | None = None, log: IO[bytes] | None = None
) -> Iterator[WebProcess]:
    """Run a server with these environment variables, started by `command(port)`.

    It writes to `log`; without one, its log is printed if the block fails.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    started_by = command(port) if command else _bare_command(port)
    environment = {**os.environ, **database_environment(), "LOG_LEVEL": "ERROR", **variables}
    with tempfile.TemporaryFile() as own:
        log = log or own
        process = subprocess.Popen(started_by, cwd=Path(settings.BASE_DIR), env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address, process)
            yield WebProcess(address, process)
        except BaseException:
            own.seek(0)
            sys.stderr.write(own.read().decode(errors="replace"))
            raise
        finally:
            process.kill()
            process.wait()


def _bare_command(port: int) -> list[str]:
    return [sys.executable, "-m", "uvicorn", "convmemory.asgi:application", "--port", str(port), "--no-access-log"]


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PROCESSES_S
    with httpx2.Client(trust_env=False) as http:
        while True:
            assert process.poll() is None, "the server ended while it started"
            assert time.monotonic() < deadline, "the server did not start"
            try:
                http.get(f"{address}/health")
                return
            except httpx2.TransportError:
                time.sleep(0.1)
