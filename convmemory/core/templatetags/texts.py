"""Formats values for pages: foreign texts with a writing direction of their own, JSON, short numbers."""

import json
from typing import Any

from django import template
from django.utils.formats import number_format
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


@register.filter
def short_count(number: int) -> str:
    """Return a count with two or three digits and its unit: 950, 1.2k, 38k, 1.2M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return number_format(round(number / size, 1), decimal_pos=1 if number < 10 * size else 0) + unit
    return str(number)
