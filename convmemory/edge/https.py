"""HTTPS for the applications next to Django, whose own middleware enforces it for the rest."""

from http import HTTPStatus

from convmemory.core.asgi_types import Application, Receive, Scope, Send
from convmemory.core.config import config
from convmemory.edge.refusals import Refusal, refuse
from convmemory.edge.wire import header

_PLAIN = Refusal(
    HTTPStatus.FORBIDDEN,
    "This server takes requests over HTTPS only (HTTPS_ONLY): use https:// in its address, and make a new key, because "
    "this one has travelled unencrypted.",
)


class HttpsOnly:
    """Refuses requests over plain HTTP if the settings say so: programs follow no redirect of a POST."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if config.secure_ssl_redirect and not _is_secure(scope):
            await refuse(scope, send, _PLAIN)
        else:
            await self._application(scope, receive, send)


def _is_secure(scope: Scope) -> bool:
    """As Django sees it: by the proxy's header where there is one, else by the connection."""
    forwarded = header(scope, b"x-forwarded-proto") if config.secure_proxy_ssl_header else ""
    scheme: str = forwarded.partition(",")[0].strip() or scope.get("scheme", "http")
    return scheme == "https"
