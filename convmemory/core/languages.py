"""The language of a page: its reader's choice, else the browser's preference, else English.

Programs, tools and the administration always get English, so that texts which they match never change. Reasons:
docs/adr/0056-translate-pages-only.md.
"""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware import locale
from django.utils import translation

from convmemory.core.config import config
from convmemory.core.inline_middleware import Inline

ENGLISH_PATHS = ("/api/", "/admin/", "/mcp", "/v1/", "/health", "/ready", "/metrics", "/static/")


def languages() -> dict[str, str]:
    """The languages to choose from, by code, each in its own words; "" follows the browser."""
    return {"": translation.gettext("As the browser has it"), **dict(config.languages)}


def chosen_language(request: HttpRequest) -> str:
    """The code of the language that the reader chose; "" if the browser decides."""
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
