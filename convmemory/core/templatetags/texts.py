"""Texts of people inside of sentences of the page: each runs in its own direction, and turns nothing around it."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def isolated(text: object) -> SafeString:
    """The text, escaped, as one that may run in another direction than the page."""
    return format_html("<bdi>{}</bdi>", text)
