"""The outcome of a turn in sentences, for pages and files."""

from django import template
from django.utils.translation import gettext

from convmemory.conversations.messages.outcomes import Outcome

register = template.Library()


@register.filter
def commands(outcome: Outcome) -> list[tuple[str, bool]]:
    """Return sentences about the last commands, each with whether it failed."""
    if outcome.passed and outcome.passed == outcome.failed:
        return [(gettext("%(command)s passed after it had failed") % {"command": outcome.passed}, False)]
    passed = [(gettext("%(command)s passed") % {"command": outcome.passed}, False)] if outcome.passed else []
    return passed + ([(gettext("%(command)s failed") % {"command": outcome.failed}, True)] if outcome.failed else [])
