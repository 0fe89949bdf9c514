"""How pages look to one person: light or dark, and how dense. Kept in cookies of their browser, read with each page."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse

THEMES: Mapping[str, str] = {"": "As the system has it", "light": "Light", "dark": "Dark"}
DENSITIES: Mapping[str, str] = {"": "Comfortable", "compact": "Compact"}
KEPT_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Appearance:
    """Keys of `THEMES` and `DENSITIES`; "" is what nobody chose otherwise."""

    theme: str = ""
    density: str = ""


def appearance_of(request: HttpRequest) -> Appearance:
    """What the browser's cookies say; anything else than what there is counts as not chosen."""
    theme, density = request.COOKIES.get("theme", ""), request.COOKIES.get("density", "")
    return Appearance(theme if theme in THEMES else "", density if density in DENSITIES else "")


def remember(response: HttpResponse, chosen: Appearance, *, is_secure: bool) -> None:
    """Set the cookies, or delete those that are not needed."""
    for name, value in (("theme", chosen.theme), ("density", chosen.density)):
        if value:
            response.set_cookie(name, value, max_age=KEPT_S, samesite="Lax", httponly=True, secure=is_secure)
        else:
            response.delete_cookie(name, samesite="Lax")


def context(request: HttpRequest) -> dict[str, Appearance]:
    """`appearance` for every template."""
    return {"appearance": appearance_of(request)}
