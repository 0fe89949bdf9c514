"""`manage.py web`: the web server alone, for a machine or container whose database and workers are elsewhere.

It becomes the server, so that a signal to it is one to the server. `manage.py up` starts the same beside a worker.
"""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from convmemory.core.options import PathOptions
from convmemory.ops.runtime.programs import listening_address, web_command


class Command(BaseCommand):
    help = "Serve pages, API and MCP; the database has to be migrated, and a worker to run somewhere."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="address to listen on (default: HOST or 127.0.0.1)")
        parser.add_argument("--port", type=int, help="port to listen on (default: PORT or 8000)")

    def handle(self, *args: Any, host: str | None, port: int | None, **options: Any) -> None:
        Path(PathOptions.from_settings().static_root).mkdir(parents=True, exist_ok=True)  # whitenoise wants it
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, web_command(*listening_address(host, port)))  # noqa: S606
