"""The language and the appearance of a page, as its reader chose them, and the texts of the pages' scripts.

Programs, tools and the administration always get English, so that texts which they match never change. Reasons:
docs/adr/0056-translate-pages-only.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware import locale
from django.utils import translation
from django.utils.translation import get_language, gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from convmemory.core.config import config
from convmemory.core.web.middleware import Inline

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


ENGLISH_PATHS = ("/api/", "/scim/", "/admin/", "/mcp", "/v1/", "/health", "/ready", "/metrics", "/static/")

THEMES: Mapping[str, "StrOrPromise"] = {"": _("As the system has it"), "light": _("Light"), "dark": _("Dark")}
DENSITIES: Mapping[str, "StrOrPromise"] = {"": _("Comfortable"), "compact": _("Compact")}
COOKIE_AGE_S = 365 * 24 * 3600

SCRIPT_WORDS = (
    gettext_noop("Copied"),
    gettext_noop("Selected"),
    gettext_noop("Copy"),
    gettext_noop("Copy this code"),
    gettext_noop("The conversation is starred."),
    gettext_noop("Link copied"),
    gettext_noop("Code copied"),
    gettext_noop("Message copied"),
    gettext_noop("The server does not answer. Is it running?"),
    gettext_noop("That is no longer there."),
    gettext_noop("The server could not answer that. Try again in a moment."),
    gettext_noop("Saved"),
    gettext_noop("{count} chosen"),
    gettext_noop("The title could not be saved."),
    gettext_noop("Thinking"),
    gettext_noop("The server does not answer. What was received is kept: load the page again."),
    gettext_noop("This page is out of date: load it again. What you wrote is kept."),
    gettext_noop("The reply is being written."),
    gettext_noop("The reply is complete."),
    gettext_noop("Stopping…"),
    gettext_noop("You"),
    gettext_noop("Assistant"),
    gettext_noop("Result of {name}"),
    gettext_noop("Error of {name}"),
    gettext_noop("One older message was left out."),
    gettext_noop("{count} older messages were left out."),
    gettext_noop("The server answered {status}."),
    gettext_noop("{model} reads {count} places, for at most {most} tokens."),
    gettext_noop("{count} tokens"),
    gettext_noop("Each sentence quotes the places that it names."),
    gettext_noop("What the model answered quotes nothing that is stored, so it is not shown."),
    gettext_noop("Untitled"),
    gettext_noop("A later turn says otherwise"),
    gettext_noop("View"),
    gettext_noop("The file could not be stored."),
    gettext_noop("A file is still being read: send in a moment, or take it out."),
    gettext_noop("This browser lets nothing be copied here: it wants HTTPS."),
)


def languages() -> dict[str, str]:
    """Return the languages to choose from, by code, each in its own words; "" follows the browser."""
    return {"": translation.gettext("As the browser has it"), **dict(config.languages)}


def chosen_language(request: HttpRequest) -> str:
    """Return the code of the language that the reader chose; "" if the browser decides."""
    code = request.COOKIES.get(config.language_cookie_name, "")
    return code if code in dict(config.languages) else ""


class LanguageMiddleware(Inline, locale.LocaleMiddleware):
    """Activates the page's language for pages, and English for everything else."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(ENGLISH_PATHS):
            request.LANGUAGE_CODE = config.language_code
            translation.activate(request.LANGUAGE_CODE)
        else:
            super().process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if request.path_info.startswith(ENGLISH_PATHS):
            return response
        return super().process_response(request, response)


@dataclass(frozen=True, slots=True)
class Appearance:
    """The choices of one person, stored in cookies: keys of `THEMES`, `DENSITIES` and `languages()`, "" without one."""

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
            response.set_cookie(name, value, max_age=COOKIE_AGE_S, samesite="Lax", httponly=True, secure=is_secure)
        else:
            response.delete_cookie(name, samesite="Lax")


def context(request: HttpRequest) -> dict[str, Appearance]:
    """Return `languages` for every template."""
    return {"appearance": appearance_of(request)}


def translated_words() -> dict[str, str]:
    """Return the scripts' texts that differ in the page's language, by the English ones that `words.js` looks up."""
    if get_language() == "en":
        return {}
    return {word: translation for word in SCRIPT_WORDS if (translation := gettext(word)) != word}
