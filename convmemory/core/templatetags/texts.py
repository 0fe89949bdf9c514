"""Foreign texts inside sentences of a page: each keeps its own writing direction and leaves the sentence's
unchanged."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def isolated(text: object) -> SafeString:
    """Return the text, escaped, as one that may run in another direction than the page."""
    return format_html("<bdi>{}</bdi>", text)
