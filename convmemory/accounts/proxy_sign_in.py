"""Signs people in whom a trusted proxy names in a header, and ends what a session may do once it names another.

A person's account is found, or made, as that of a person of an identity provider. The session that is made is good only
with the same name in the header, on pages and in the API. A page that is read begins it: the API has its keys, and a
form comes from a page. A person who has signed in otherwise stays that person.
"""

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from convmemory.accounts.auditing import Action, record_repeatable
from convmemory.accounts.identities import account_of
from convmemory.core.config import config
from convmemory.core.identity_providers import IdentityProvider
from convmemory.core.web.asgi_types import is_for_programs
from convmemory.core.web.remote_user import remote_user_of
from convmemory.sign_in.oidc import SignInRefused

PROXY = "_proxy"  # in the place of a provider's name, which has no underscore
ISSUER = "proxy"  # of the linked identities
STAFF_GROUP = "staff"
SIGNED_IN_AS = "signed_in_as"  # in the session: the name in the header, and what its groups decided
HEALTH = frozenset({"/health", "/ready"})
STAYS_OUT = ("/login", "/logout")  # so that a person who has signed out sees that page


class ProxySignInMiddleware(MiddlewareMixin):
    """Not used without `REMOTE_USER_HEADER`. It follows the middleware that sets `request.user`."""

    def __init__(self, get_response: Any) -> None:
        if not config.remote_user_header:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Runs in a thread, since it may use the database."""
        if request.path in HEALTH or request.path.startswith(config.static_url):
            return None
        remote = remote_user_of(request)
        now = None if remote is None else [remote.name, remote.is_staff]
        has_session = config.session_cookie_name in request.COOKIES
        before = request.session.get(SIGNED_IN_AS) if has_session else None
        if before is not None and before != now:
            request.user = AnonymousUser()
        begins = request.method in ("GET", "HEAD") and not is_for_programs(request.path)
        if remote is None or not begins or request.path.startswith(STAYS_OUT) or request.user.is_authenticated:
            return None
        decides = remote.is_staff is not None
        described = IdentityProvider(
            name=PROXY, label="", issuer=ISSUER, client_id="", create_accounts=True,
            scim_claim="sub" if config.remote_user_scim else "", staff_groups=(STAFF_GROUP,) if decides else (),
        )  # fmt: skip
        groups = [STAFF_GROUP] if remote.is_staff else []
        try:
            user = account_of(described, {"sub": remote.name, "preferred_username": remote.name, "groups": groups})
        except SignInRefused as error:
            record_repeatable(Action.SIGN_IN_FAILED, what="proxy")
            context = {"title": _("You are not signed in"), "reason": str(error), "again": request.path}
            return render(request, "refused.html", context, status=403)
        login(request, user)
        request.session[SIGNED_IN_AS] = now
        return None
