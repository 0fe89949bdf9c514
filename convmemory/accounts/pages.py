"""What every page of the product needs: `signed_in` wraps its view, which is called with a `PageRequest`."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase, HttpResponseRedirectBase
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from convmemory.core.config import config

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


class PageRequest(HttpRequest):
    """A request from a signed-in user."""

    htmx: HtmxDetails
    user: User


def signed_in(view: Callable[Concatenate[PageRequest, P], R]) -> Callable[..., R | HttpResponse]:
    """Admits only signed-in users, and keeps pages out of shared caches."""

    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponse:
        caller = cast("PageRequest", request)
        if not request.user.is_authenticated:
            return to_login(caller)
        response = view(caller, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "private, no-cache")
        patch_vary_headers(response, ["Cookie", "HX-Request", "HX-Target"])
        return response

    return wrapper


def to_login(request: HttpRequest, otherwise: str = "/") -> HttpResponseRedirectBase:
    """Redirect to the log-in form, which leads back to the page that the user has open.

    A part of a page and a form cannot log in: the page that they are on has to, or `otherwise` if the browser does not
    say which that is.
    """
    htmx: HtmxDetails = cast("PageRequest", request).htmx
    is_page = not htmx and request.method in ("GET", "HEAD")
    page = request.get_full_path() if is_page else htmx.current_url_abs_path or _referring_page(request) or otherwise
    address = redirect_to_login(page).url
    if not is_page or config.session_cookie_name in request.COOKIES:
        address += "&ended=1"
    return HttpResponseClientRedirect(address) if htmx else HttpResponseRedirect(address)


def _referring_page(request: HttpRequest) -> str:
    """Return path and query of the page of this server that sent the request; "" without one."""
    address = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(address, {request.get_host()}):
        return ""
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path or "/"


def absolute_address(request: HttpRequest, path: str) -> str:
    """Return the address of a page for another person: on `PUBLIC_URL`, or on the server that the request names."""
    return config.public_url.rstrip("/") + path if config.public_url else request.build_absolute_uri(path)
