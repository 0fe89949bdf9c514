"""Response headers that hold for every page."""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
# The OpenAPI page starts Swagger UI from an inline script.
DOCS_POLICY = POLICY.replace("default-src 'self';", "default-src 'self'; script-src 'self' 'unsafe-inline';")
# The administration has no inline style at all.
ADMIN_POLICY = POLICY.replace("style-src 'self' 'unsafe-inline'", "style-src 'self'")


class ContentSecurityPolicyMiddleware:
    """Sets Content-Security-Policy: scripts only from this server, so that a transcript can run none."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            return self._add(request, response)

        async def answer() -> HttpResponseBase:
            return self._add(request, await response)

        return answer()

    def _add(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", policy_for(request.path))
        return response


def policy_for(path: str) -> str:
    """The policy of the page at `path`."""
    if path.startswith("/admin/"):
        return ADMIN_POLICY
    return DOCS_POLICY if path == "/api/v1/docs" else POLICY
