"""`manage.py mcp --user U`: serve the tools over MCP to an agent that starts this command itself."""

import asyncio
import contextlib
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import OperationalError, connections

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Serve the tools over MCP on standard input and output, reading the archive of one user."
    usages = ("--user",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose archive to read")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        from convmemory.mcp_server.stdio import serve

        try:
            caller = Caller.of(user_named(user)).alone()
            record(Action.READ, what="tools over MCP", person_id=None, about_id=caller.archive_id)
        except OperationalError as error:
            raise CommandError(str(error)) from error
        finally:
            # The server lives as long as the agent: it holds no connection between calls.
            connections.close_all()
        with contextlib.suppress(KeyboardInterrupt), acting_as(caller):
            asyncio.run(serve(caller))
