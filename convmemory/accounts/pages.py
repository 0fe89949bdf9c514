"""What every page of the product needs: `signed_in` wraps its view, which is called with a `PageRequest`."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

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
            return _to_login(caller)
        response = view(caller, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "private, no-cache")
        patch_vary_headers(response, ["Cookie", "HX-Request", "HX-Target"])
        return response

    return wrapper


def _to_login(request: PageRequest) -> HttpResponse:
    answer = redirect_to_login(request.get_full_path())
    if request.htmx:  # a part of a page cannot log in: the whole page has to
        return HttpResponseClientRedirect(redirect_to_login(request.htmx.current_url_abs_path or "/").url)
    return answer
