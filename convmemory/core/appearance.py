"""The appearance of pages for one person: light or dark, density, and language.

Stored in browser cookies and read with each page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from convmemory.core.config import config
from convmemory.core.languages import chosen_language

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

THEMES: Mapping[str, "StrOrPromise"] = {"": _("As the system has it"), "light": _("Light"), "dark": _("Dark")}
DENSITIES: Mapping[str, "StrOrPromise"] = {"": _("Comfortable"), "compact": _("Compact")}
KEPT_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Appearance:
    """Keys of `THEMES`, `DENSITIES` and `languages()`; "" if nothing was chosen."""

    theme: str = ""
    density: str = ""
    language: str = ""


def appearance_of(request: HttpRequest) -> Appearance:
    """Return the choices in the browser's cookies; an unknown value counts as not chosen."""
    theme, density = request.COOKIES.get("theme", ""), request.COOKIES.get("density", "")
    return Appearance(
        theme if theme in THEMES else "", density if density in DENSITIES else "", chosen_language(request)
    )


def remember(response: HttpResponse, chosen: Appearance, *, is_secure: bool) -> None:
    """Set the cookies, and delete those that are no longer needed."""
    language = config.language_cookie_name
    for name, value in (("theme", chosen.theme), ("density", chosen.density), (language, chosen.language)):
        if value:
            response.set_cookie(name, value, max_age=KEPT_S, samesite="Lax", httponly=True, secure=is_secure)
        else:
            response.delete_cookie(name, samesite="Lax")


def context(request: HttpRequest) -> dict[str, Appearance]:
    """Return `appearance` for every template."""
    return {"appearance": appearance_of(request)}
