"""Pages of the sign-in by an identity provider: leading there, coming back, and signing out there, too."""

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.views import LogoutView
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import get_random_string
from django.utils.encoding import iri_to_uri
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from convmemory.accounts.auditing import Action, record_repeatable
from convmemory.accounts.identities import account_of
from convmemory.accounts.pages import absolute_address
from convmemory.accounts.proxy_sign_in import PROXY, SIGNED_IN_AS
from convmemory.sign_in import oidc
from convmemory.sign_in.attempts import Attempt, SignInsPaused

SIGNED_IN_BY = "signed_in_by"  # in the session, where the provider can sign a person out
KNOWN_BROWSER = "convmemory_known_browser"  # a cookie of browsers in which a person has signed in by the provider
KNOWN_BROWSER_S = 180 * 24 * 3_600


@never_cache
@require_safe
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Lead to the provider. Raises: NotFound, ProviderFailed."""
    next_page = request.GET.get("next", "")
    is_here = url_has_allowed_host_and_scheme(next_page, {request.get_host()}, require_https=request.is_secure())
    address, kept = oidc.begin(
        oidc.provider_named(name),
        redirect_uri=absolute_address(request, reverse("provider-done", args=[name])),
        next_page=iri_to_uri(next_page) if is_here else "",
    )
    response = HttpResponseRedirect(address)
    response.set_cookie(
        oidc.COOKIE, kept, max_age=oidc.COOKIE_S, path=_path(name), secure=request.is_secure(), httponly=True,
        samesite="Lax",  # the provider leads back from another site
    )  # fmt: skip
    return response


@never_cache
@require_safe
def done(request: HttpRequest, name: str) -> HttpResponse:
    """Sign the person in whom the provider leads back.

    Raises: NotFound, SignInRefused, ProviderFailed, SignInsPaused. Nothing is kept of an answer to which this browser
    has begun no sign-in: every client can send those. Refused answers pause their address, but no browser in which a
    person has signed in before: who shares an address cannot keep others out.
    """
    provider, answer = oidc.provider_named(name), request.GET.dict()
    kept = oidc.begun(provider, cookie=request.COOKIES.get(oidc.COOKIE, ""), answer=answer)
    browser = request.get_signed_cookie(KNOWN_BROWSER, "", salt=name, max_age=KNOWN_BROWSER_S)
    with Attempt(
        username=kept["state"],
        address=browser or request.META.get("REMOTE_ADDR", ""),
        wrong=(oidc.SignInRefused, oidc.CodeRefused),
        counted="provider ",
        pause=SignInsPaused,
    ) as attempt:
        if not connection.in_atomic_block:
            connection.close()  # database connections are few: none is held while the provider is waited for
        try:
            outcome = oidc.finish(provider, kept=kept, answer=answer)
            user = account_of(provider, outcome.claims)
        except oidc.SignInRefused:
            record_repeatable(Action.SIGN_IN_FAILED, what=f"provider {name}")
            raise
        attempt.passed()
    login(request, user)
    if outcome.can_sign_out:
        request.session[SIGNED_IN_BY] = name
    response = HttpResponseRedirect(outcome.next_page or reverse("home"))
    response.delete_cookie(oidc.COOKIE, path=_path(name), samesite="Lax")
    response.set_signed_cookie(
        KNOWN_BROWSER, browser or get_random_string(22), salt=name, max_age=KNOWN_BROWSER_S, path=_path(name),
        secure=request.is_secure(), httponly=True, samesite="Lax",
    )  # fmt: skip
    return response


@never_cache
@require_safe
def sign_out(request: HttpRequest, name: str) -> HttpResponse:
    """Lead to the provider's own page for signing out. Raises: NotFound, ProviderFailed."""
    back = absolute_address(request, reverse("login"))
    return HttpResponseRedirect(oidc.sign_out_address(oidc.provider_named(name), back=back))


class SignOut(LogoutView):
    """Ends the session here; the sign-in page then offers to end that of the provider or the proxy."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        name = PROXY if SIGNED_IN_AS in request.session else request.session.get(SIGNED_IN_BY, "")
        response = super().post(request, *args, **kwargs)
        return redirect(f"{reverse('login')}?out={name}") if name else response


def _path(name: str) -> str:
    return f"/login/with/{name}"
