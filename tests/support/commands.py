"""Commands of `manage.py`, with those of a checkout alone."""

from django.core.management import get_commands


def all_commands() -> dict[str, str]:
    """Return each command's app, by its name."""
    return {**get_commands(), "bench": "benchmarks", "evaluate": "benchmarks"}
