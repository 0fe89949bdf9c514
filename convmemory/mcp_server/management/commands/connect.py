"""`manage.py connect --user U`: wire the coding agents of this machine to this server, as the client does."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from convmemory.accounts.keys import active_keys, create_key
from convmemory.accounts.users import user_named
from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import Config
from convmemory.core.text import content_hash
from convmemory.push import __main__ as client
from convmemory.push.account import Account
from convmemory.push.agents import AGENTS, RECALL


class Command(ArchiveCommand):
    help = (
        "Wire the coding agents of this machine to this server, with a key of the user that reads and imports "
        "(docs/agents.md)."
    )
    usages = (
        "[agents] --user [--server] [--home] [--recall] [--yes | --dry-run]",
        "[agents] --user [--server] [--home] --check",
    )

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
        person = user_named(user)
        key = _kept_key(person, Account(home))
        if not key:
            is_dry = options["dry_run"] or options["check"]
            key = "(a new key)" if is_dry else create_key(person=person, name="agents of this machine")
        server = options["server"] or f"http://127.0.0.1:{Config.port.read()}"
        mode = ["--check"] if options["check"] else ["--recall", options["recall"]]
        mode += [f"--{name.replace('_', '-')}" for name in ("yes", "dry_run") if options[name]]
        code = client.main(["connect", "--server", server, "--home", str(home), *mode, *agents], key=key)
        if code:
            raise SystemExit(code)


def _kept_key(person: User, account: Account) -> str:
    """Return the key of an earlier call, if it is valid and belongs to the user; else an empty string.

    Notes no use of the key: a dry run changes nothing.
    """
    try:
        key = account.key_file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    digest = content_hash(key)
    rows = [row for row in active_keys(person=person) if not row.read_only and not row.is_expired]
    return key if any(bytes(row.key_hash) == digest for row in rows) else ""
