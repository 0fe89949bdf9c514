"""Admits users to pages: `signed_in` wraps the view of a page, which is called with a `PageRequest`.

Pages of an archive have `in_archive` instead: there `request.caller` acts in the archive that holds the object of the
address, else in the one that the person chose, their own or a space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase, HttpResponseRedirectBase
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from convmemory.accounts.callers import MINE, Access, Caller, refuse_readers, spaces_in, spaces_query
from convmemory.accounts.space_invitations import OpenInvitation, invitations_query
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.sql import PendingQueries, load_sql

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


class PageRequest(HttpRequest):
    """A request from a signed-in user. `chosen` is the space that the person chose to work in, which lists show.

    `invitations` to spaces are queried when they are used.
    """

    htmx: HtmxDetails
    user: User
    caller: Caller
    chosen: Access | None
    invitations: Sequence[OpenInvitation]


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CHOSEN_SPACE = "space"  # in the session
OBJECTS = {"conversation_id": "conversation", "document_id": "document"}
ON_PAGES = {**OBJECTS, "import_id": "import"}
"""What addresses of pages name. Routes of the API take the space of an import as a parameter."""


def in_archive(view: Callable[Concatenate[PageRequest, P], R]) -> Callable[..., R | HttpResponse]:
    """Admits signed-in users to the archive that they use, and only members to a space.

    It is the chosen one; if the address names an object that is elsewhere, the archive that holds it. Readers of a
    space are refused requests that may write.
    """

    @wraps(view)
    def wrapper(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponse:
        enter_archive_of(request, kwargs)
        return view(request, *args, **kwargs)

    return signed_in(wrapper)


def enter_archive_of(request: PageRequest, kwargs: Mapping[str, Any], *, reads: bool = False) -> None:
    """Continue the request in the archive that holds the object of an address, else in the chosen one.

    `reads` says that it changes nothing, whatever its method. Raises: NotAllowed if a reader would write.
    """
    archive_id = archive_of_address(kwargs, ON_PAGES)
    access = request.chosen if archive_id is None else request.caller.reads(archive_id)
    if access is None or access == request.caller.archive:
        return
    enter(request, access, reads=reads)


def archive_choices(spaces: Sequence[Access]) -> list[tuple[str, str]]:
    """Return the values by which a query chooses an archive, each with the name that pages show."""
    fixed = [("", gettext("All archives")), (MINE, gettext("Your own archive"))]
    return fixed + [(str(access.archive_id), access.name) for access in spaces]


def enter(request: HttpRequest, access: Access, *, reads: bool = False) -> None:
    """Continue the request in an archive of its caller.

    `reads` says that it changes nothing, whatever its method. Raises: NotAllowed if a reader would write.
    """
    if not reads and request.method not in SAFE_METHODS:
        refuse_readers(access)
    page = cast("PageRequest", request)
    page.caller = page.caller.at(access)
    if access.space:
        acting.open_space(access.archive_id)
    else:
        acting.authenticated(access.archive_id)


def archive_of_address(kwargs: Mapping[str, Any], objects: Mapping[str, str] = OBJECTS) -> int | None:
    """Return the owner of the object that an address names, if the caller may read it by themselves or as a member.

    One query, if the address names one of these `objects`.
    """
    kind_and_id = next(((kind, kwargs[name]) for name, kind in objects.items() if name in kwargs), None)
    if kind_and_id is None or kind_and_id[1] > MAX_BIGINT:
        return None
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "archive_of"), kind_and_id)
        archive_id: int | None = cursor.fetchone()[0]
    return archive_id


def _read_rail(person: User) -> tuple[list[Access], list[OpenInvitation]]:
    """Return the spaces of the person who acts, and the open invitations. One query, which each page needs."""
    spaces, invitations = PendingQueries(spaces_query(person), invitations_query()).of_each
    return spaces_in(spaces), [OpenInvitation(*row) for row in invitations]


def signed_in(view: Callable[Concatenate[PageRequest, P], R]) -> Callable[..., R | HttpResponse]:
    """Admits only signed-in users, and keeps pages out of shared caches."""

    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponse:
        page = cast("PageRequest", request)
        if not request.user.is_authenticated:
            return to_login(page)
        rail: Any = SimpleLazyObject(lambda: _read_rail(page.user))
        spaces = cast("Sequence[Access]", SimpleLazyObject(lambda: rail[0]))
        page.caller, page.chosen = replace(Caller.of(page.user), spaces=spaces), None
        page.invitations = cast("Sequence[OpenInvitation]", SimpleLazyObject(lambda: rail[1]))
        if (chosen := request.session.get(CHOSEN_SPACE)) is not None:
            page.chosen = page.caller.reads(chosen)
            if page.chosen is None:
                del request.session[CHOSEN_SPACE]
                messages.error(request, gettext("You are no longer a member of that space. This is your own archive."))
                return redirect("spaces")
        response = view(page, *args, **kwargs)
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
