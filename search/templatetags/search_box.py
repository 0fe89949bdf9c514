"""The chips of the search box, which is on all pages, also on those whose view does not search."""

from typing import Any

from django import template

from convmemory.conversations.pages.search_box import SearchBox
from search.pages.chips import Chip, chips_of

register = template.Library()


@register.simple_tag
def chips_in(box: Any) -> list[Chip]:
    """Return the chips of a box; those of an empty box if the page has none. No query."""
    return chips_of(box if isinstance(box, SearchBox) else SearchBox())
