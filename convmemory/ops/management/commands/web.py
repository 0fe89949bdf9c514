"""`manage.py web`: run the web server alone, for a machine or container without the database and workers.

The command is replaced by the server, so that signals reach the server. `manage.py up` starts the same server with a
worker.
"""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import config
from convmemory.core.files.private_files import private_folder
from convmemory.ops.runtime.instance import listening_address, web_command


class Command(ArchiveCommand):
    help = "Serve pages, API and MCP. The database must be migrated, and a worker must run somewhere."
    usages = ("[--host] [--port]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="address to listen on (default: HOST or 127.0.0.1)")
        parser.add_argument("--port", type=int, help="port to listen on (default: PORT or 8000)")

    def handle(self, *args: Any, host: str | None, port: int | None, **options: Any) -> None:
        private_folder(Path(config.static_root))  # whitenoise wants it
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, web_command(*listening_address(host, port)))  # noqa: S606
