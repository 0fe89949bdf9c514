"""The base of the program's commands, and a type of their arguments."""

from argparse import ArgumentTypeError
from datetime import datetime

from django.core.management.base import BaseCommand
from django.utils.timezone import is_naive, make_aware


class ArchiveCommand(BaseCommand):
    """A command that does not run Django's checks first: they load every page and the API, which takes half a second.

    `manage.py check`, `migrate` and `doctor` run what concerns an installation.
    """

    requires_system_checks: list[str] = []


def moment(text: str) -> datetime:
    """Return the time that an argument names, in the server's zone unless it names its own."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time: write it as 2026-03-01 or 2026-03-01T09:00.") from None
    return make_aware(found) if is_naive(found) else found
