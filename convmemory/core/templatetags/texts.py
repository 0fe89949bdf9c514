"""Foreign texts inside sentences of a page: each keeps its own writing direction without changing the sentence's."""

import json
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def isolated(text: object) -> SafeString:
    """Return the text, escaped, isolated from the writing direction of the page."""
    return format_html("<bdi>{}</bdi>", text)


@register.filter
def as_json(value: Any) -> str:
    """Return a stored value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)
