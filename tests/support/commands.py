"""Commands of `manage.py`, with the one whose app the running program does not install."""

from django.core.management import get_commands


def all_commands() -> dict[str, str]:
    """Return each command's app, by its name."""
    return {**get_commands(), "evaluate": "convmemory.evaluation"}
