"""Commands of `manage.py`, with those of a checkout alone, and their page of the documentation.

`python -m tests.support.commands docs/commands.md` writes the page.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from django.core.management import BaseCommand, get_commands, load_command_class
from django.core.management.commands import flush, migrate

from convmemory.core.commands import ArchiveCommand

OWN_APPS = ("convmemory", "memory", "search", "summaries", "benchmarks")
OF_DJANGO = {"flush": flush.Command, "migrate": migrate.Command}
"""Commands of Django that ours replace without options of their own."""
CHAPTERS = {
    "ops": "Running and operating",
    "accounts": "Accounts",
    "conversations": "Conversations",
    "documents": "Documents",
    "search": "Searching",
    "mcp_server": "Agents",
    "benchmarks": "Measuring, in a checkout",
}
BEGIN, END = "<!-- `make commands` writes these chapters. -->\n", "<!-- The end of these chapters. -->\n"


def all_commands() -> dict[str, str]:
    """Return each command's app, by its name."""
    return {**get_commands(), "bench": "benchmarks", "evaluate": "benchmarks"}


def own_commands() -> dict[str, ArchiveCommand]:
    """Return our commands by name, each with the parser of its arguments made."""
    commands = {}
    for name, app in sorted(all_commands().items()):
        if app.startswith(OWN_APPS) and name not in OF_DJANGO:
            command = load_command_class(app, name)
            assert isinstance(command, ArchiveCommand), name
            command.create_parser("manage.py", name)
            commands[name] = command
    return commands


def documented(page: str) -> str:
    """Return the page of commands with new chapters in place of its old ones."""
    before, rest = page.split(BEGIN)
    return "".join([before, BEGIN, *_chapters(), END, rest.split(END)[1]])


def _chapters() -> Iterator[str]:
    apps, commands = all_commands(), own_commands()
    for label, title in CHAPTERS.items():
        yield f"\n## {title}\n"
        for name, command in commands.items():
            if apps[name].rpartition(".")[2] == label:
                usages = "".join(f"{name} {usage}".rstrip() + "\n" for usage in command.shown_usages())
                yield f"\n**{name}**: {_linked(command)}\n\n```\n{usages}```\n"
    yield "\n"


def _linked(command: BaseCommand) -> str:
    return re.sub(r"docs/((?:adr/)?([\w-]+\.md))", r"[\2](\1)", command.help)


if __name__ == "__main__":
    django.setup()
    path = Path(sys.argv[1])
    path.write_text(documented(path.read_text(encoding="utf-8")), encoding="utf-8")
