"""The chips of the search box, which stands on every page, whatever its view knows of searching."""

from typing import Any

from django import template

from convmemory.conversations.search_box import SearchBox
from search.pages.chips import Chip, chips_of

register = template.Library()


@register.simple_tag
def chips_in(box: Any) -> list[Chip]:
    """The chips of a box; of the empty one where a page has none. No query."""
    return chips_of(box if isinstance(box, SearchBox) else SearchBox())
