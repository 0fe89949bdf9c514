"""Filters that describe a run of the context pipeline in sentences."""

from django import template
from django.utils.translation import gettext as _

from convmemory.context.values import StrategyStep, SummaryText, SummaryUse

register = template.Library()


@register.filter
def step_sentence(step: StrategyStep) -> str:
    """Return what the strategy did to the messages, and to their tokens."""
    counts = (
        (_("%(number)s left out"), len(step.removed_ids)),
        (_("%(number)s shortened"), len(step.shortened_ids)),
        (_("%(number)s inserted"), step.added),
    )
    changed = step.tokens_before != step.tokens_after
    values = {"before": step.tokens_before, "after": step.tokens_after}
    tokens = _("%(before)s → %(after)s tokens of messages") % values if changed else _("nothing changed")
    return ", ".join([*(text % {"number": number} for text, number in counts if number), tokens])


@register.filter
def summary_sentence(summary: SummaryText) -> str:
    """Return which messages it summarises, counted from 1."""
    values = {"first": summary.from_position + 1, "last": summary.to_position + 1}
    return _("Summary of messages %(first)s to %(last)s") % values


@register.filter
def represented_messages(use: SummaryUse) -> str:
    """Return the messages that the summary represents, counted from 1."""
    spans = ({"first": first + 1, "last": last + 1} for first, last in use.stands_for)
    one, several = _("message %(first)s"), _("messages %(first)s to %(last)s")
    return ", ".join((one if span["first"] == span["last"] else several) % span for span in spans)
