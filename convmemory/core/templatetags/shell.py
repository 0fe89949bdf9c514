"""The rail of the page: the product's areas, and the one that the current page belongs to; and a part of the menu.

Identifies pages by the names of their addresses alone; a destination whose address does not exist is left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from convmemory.core.config import config
from convmemory.core.web.languages import translated_words

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django_stubs_ext import StrOrPromise

register = template.Library()


@register.filter
def signs_in_by_password(user: "AbstractBaseUser") -> bool:
    """Return whether the user has a password that this server accepts."""
    return user.has_usable_password() and not config.sso_only


@dataclass(frozen=True, slots=True)
class Destination:
    """One entry of the rail. It leads to the first of `addresses` that exists; `pages` are the others in it.

    On a phone, what `is_secondary` is in the menu, so that the others have room for their labels.
    """

    label: "StrOrPromise"
    icon: str
    addresses: tuple[str, ...]
    pages: frozenset[str] = frozenset()
    name: "StrOrPromise" = ""
    is_secondary: bool = False


@dataclass(frozen=True, slots=True)
class RailEntry:
    """An entry for the template. `name` is its accessible name if the label alone says too little."""

    label: "StrOrPromise"
    icon: str
    address: str
    name: "StrOrPromise"
    is_current: bool
    is_secondary: bool


OF_A_CONVERSATION = frozenset(
    {
        "conversation", "part", "events", "hidden-keys", "context", "reply", "summaries", "summary",
        "attached-documents", "delete-conversation", "share-conversation",
    }
)  # fmt: skip

DESTINATIONS = (
    Destination(_("Search"), "search", ("search",)),
    Destination(
        _("Library"), "library", ("library", "home"), OF_A_CONVERSATION | {"trash", "change-trash", "retention-rules"}
    ),
    Destination(_("Chat"), "chat", ("new-chat",), frozenset({"start-chat", "send"}), name=_("New chat")),
    Destination(_("Documents"), "note", ("documents",), frozenset({"document", "delete-document"})),
    Destination(
        _("Agents"),
        "agent",
        ("agents",),
        frozenset({"new-agent", "agent", "agent-documents", "delete-agent"}),
        is_secondary=True,
    ),
    Destination(_("Import"), "upload", ("import",), frozenset({"one-import", "undo-import"}), is_secondary=True),
    Destination(_("Statistics"), "chart", ("statistics",), is_secondary=True),
)


@register.simple_tag
def script_words() -> dict[str, str]:
    """Return the texts of the page's scripts, in its language."""
    return translated_words()


@register.simple_tag
def upload_limits() -> dict[str, int]:
    """Return the limits of a file that is dropped on any page."""
    return {"max_upload_mb": config.max_upload_mb, "max_upload_bytes": config.max_upload_mb * 1024**2}


def unusable_in(access: Any) -> frozenset[str]:
    """Return the URL names of the pages that do not work in the space of this access; None is no space."""
    if access is None:
        return frozenset()
    return frozenset({"new-chat", "import"} if access.role == "reader" else {"new-chat"})


@register.simple_tag
def rail_entries(request: HttpRequest) -> list[RailEntry]:
    """Return the entries, in order; in a space those alone that work there for its member."""
    page = request.resolver_match.url_name if request.resolver_match else ""
    left_out = unusable_in(getattr(request, "chosen", None))
    shown = [destination for destination in DESTINATIONS if not left_out & set(destination.addresses)]
    entries = []
    for destination in shown:
        for name in destination.addresses:
            try:
                address = reverse(name)
            except NoReverseMatch:
                continue
            entries.append(
                RailEntry(
                    destination.label,
                    destination.icon,
                    address,
                    destination.name,
                    is_current=page == name or page in destination.pages,
                    is_secondary=destination.is_secondary,
                )
            )
            break
    return entries
