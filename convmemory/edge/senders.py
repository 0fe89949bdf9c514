"""Whether a request comes from a known user (by a key or a session), which decides how large its body may be.

It decides nothing else. Permissions are checked where the request is handled.
"""

from importlib import import_module

from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from convmemory.accounts.keys import user_of_key
from convmemory.core.asgi_types import Scope
from convmemory.core.options import SiteOptions
from convmemory.core.threads import first_in_thread
from convmemory.edge.wire import header


async def is_signed_in(scope: Scope) -> bool:
    """Whether the request brings a valid key, or the cookie of a valid session. At most one thread and two queries."""
    scheme, _, key = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return await first_in_thread(user_of_key, key.strip(), writes=False) is not None
    session_key = parse_cookie(header(scope, b"cookie")).get(SiteOptions.from_settings().session_cookie_name)
    return bool(session_key) and await first_in_thread(_is_session_of_somebody, session_key)


def _is_session_of_somebody(session_key: str | None) -> bool:
    request = HttpRequest()
    request.session = import_module(SiteOptions.from_settings().session_engine).SessionStore(session_key)
    return get_user(request).is_authenticated
