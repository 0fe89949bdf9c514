"""The chips of the search box, which is on all pages, also on those whose view does not search."""

from typing import TYPE_CHECKING, Any

from django import template
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.pages.search_box import SearchBox
from search.pages.chips import Chip, chips_of, filters_in
from search.pages.snippets import without_markup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_stubs_ext import StrOrPromise

register = template.Library()
OPERATORS = (
    ("agent:", _("only of this program")),
    ("project:", _("only of this project")),
    ("after:", _("since a day, a month or a year: after:2026-05")),
    ("before:", _("until a day, a month or a year")),
    ("title:", _("with this in the title: title:invoice")),
    ("tag:", _("with this tag")),
    ("model:", _("answered by this model")),
    ("file:", _("turns that edited this file: file:src/pump.py")),
    ("space:", _("only in this space, or space:mine")),
    ("has:code", _("conversations with code")),
    ("has:image", _("conversations with a picture")),
    ("has:link", _("conversations with a link")),
    ("is:starred", _("conversations with a star")),
    ("is:pinned", _("conversations that are pinned")),
    ("role:user", _("only what people wrote")),
    ("role:assistant", _("only what was answered")),
    ("role:tool", _("only what tools did")),
    ("in:questions", _("only in questions")),
    ("in:answers", _("only in answers")),
    ("in:thinking", _("only in what models thought")),
    ("in:tools", _("only in calls of tools and their results")),
    ("in:documents", _("only in documents")),
    ("is:archived", _("archived conversations")),
    ("sort:date", _("newest first")),
    ('"', _('these words, exactly and in this order: "lock timeout"')),
    ("-", _("without this word: -draft; alone, all without it")),
)
"""What can be typed into the search box, with its meaning."""


@register.simple_tag
def typed_operators() -> "Sequence[tuple[str, StrOrPromise]]":
    """Return what can be typed, for the box to offer."""
    return OPERATORS


register.filter("filters_in", filters_in)
register.filter("without_markup", without_markup)


@register.simple_tag
def chips_in(box: Any) -> list[Chip]:
    """Return the chips of a box; those of an empty box if the page has none. No query."""
    return chips_of(box if isinstance(box, SearchBox) else SearchBox())
