"""`manage.py connect --user U`: wire the coding agents of this machine to this server, as the client does."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import Config
from convmemory.core.errors import ConvMemoryError, ReadOnlyKey
from convmemory.push import __main__ as client
from convmemory.push.account import Account
from convmemory.push.agents import AGENTS, RECALL


class Command(ArchiveCommand):
    help = "Wire the coding agents of this machine to this server, with a key of the user that reads and imports."

    def add_arguments(self, parser: ArgumentParser) -> None:
        slugs = ", ".join(agent.slug for agent in AGENTS)
        parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"only these: {slugs}")
        parser.add_argument("--user", required=True, help="the user whose archive the agents use")
        parser.add_argument("--server", help="address of this server (default: http://127.0.0.1 with PORT)")
        parser.add_argument("--home", type=Path, default=Path.home(), help="home folder of the agents' user")
        parser.add_argument("--recall", choices=RECALL, default="auto", help="off: tools; ask: a skill; auto: a hook")
        parser.add_argument("--yes", action="store_true", help="send the sessions that are listed, without a question")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be written")
        parser.add_argument("--check", action="store_true", help="only check the entries, the server and the hook")

    def handle(self, *args: Any, agents: list[str], user: str, home: Path, **options: Any) -> None:
        try:
            person = user_named(user)
            key = _kept_key(person, Account(home))
            is_dry = options["dry_run"] or options["check"]
            if not key:
                key = "(a new key)" if is_dry else create_key(person=person, name="agents of this machine")
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        server = options["server"] or f"http://127.0.0.1:{Config.port.read()}"
        flags = [f"--{name.replace('_', '-')}" for name in ("yes", "dry_run", "check") if options[name]]
        given = ["connect", "--server", server, "--home", str(home), "--recall", options["recall"], *flags, *agents]
        code = client.main(given, key=key)
        if code:
            raise SystemExit(code)


def _kept_key(person: User, account: Account) -> str:
    """Return the key of an earlier call, if it is valid and belongs to the user; else an empty string."""
    try:
        key = account.key_file.read_text(encoding="utf-8").strip()
        found = caller_of_key(key)
    except (OSError, ReadOnlyKey):
        return ""
    return key if found is not None and found.user == person else ""
