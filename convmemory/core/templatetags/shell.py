"""The rail of the page: the product's rooms, and the one that the present page belongs to.

Knows pages by the names of their addresses alone; a room whose address does not exist is left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from convmemory.core.script_words import translated_words

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the rail. It leads to the first of `addresses` that exists; `pages` are the others in it."""

    label: "StrOrPromise"
    icon: str
    addresses: tuple[str, ...]
    pages: frozenset[str] = frozenset()
    name: "StrOrPromise" = ""


@dataclass(frozen=True, slots=True)
class RailEntry:
    """An entry as it is drawn. `name` is what it is called where its label alone says too little."""

    label: "StrOrPromise"
    icon: str
    address: str
    name: "StrOrPromise"
    is_current: bool


OF_A_CONVERSATION = frozenset(
    {
        "conversation", "part", "events", "hidden-keys", "context", "reply", "summaries", "summary",
        "attached-documents", "delete-conversation",
    }
)  # fmt: skip

ROOMS = (
    Room(_("Search"), "search", ("search",)),
    Room(_("Library"), "library", ("library", "home"), OF_A_CONVERSATION),
    Room(_("Chat"), "chat", ("new-chat",), frozenset({"start-chat", "send"}), name=_("New chat")),
    Room(_("Documents"), "note", ("documents",), frozenset({"document", "delete-document"})),
    Room(_("Recall"), "recall", ("recall",)),
    Room(_("Import"), "upload", ("import",), frozenset({"one-import", "undo-import"})),
    Room(_("Statistics"), "chart", ("statistics",)),
)


@register.simple_tag
def script_words() -> dict[str, str]:
    """What the page's scripts say, in its language."""
    return translated_words()


@register.simple_tag
def rail_entries(request: HttpRequest) -> list[RailEntry]:
    """The rooms, in order."""
    page = request.resolver_match.url_name if request.resolver_match else ""
    return [entry for room in ROOMS if (entry := _entry(room, page or ""))]


def _entry(room: Room, page: str) -> RailEntry | None:
    for name in room.addresses:
        try:
            address = reverse(name)
        except NoReverseMatch:
            continue
        return RailEntry(room.label, room.icon, address, room.name, page == name or page in room.pages)
    return None
