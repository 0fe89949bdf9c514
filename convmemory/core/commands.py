"""The base of the program's commands."""

from django.core.management.base import BaseCommand


class ArchiveCommand(BaseCommand):
    """A command that does not run Django's checks first: they load every page and the API, which takes half a second.

    `manage.py check`, `migrate` and `doctor` run what concerns an installation.
    """

    requires_system_checks: list[str] = []
