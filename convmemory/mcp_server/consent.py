"""The page on which a person agrees that a program may read their archive: the authorization endpoint of OAuth."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from convmemory.accounts.connections import Consent, code_for
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.core.errors import AddressRefused, InvalidInput, NotFound
from convmemory.core.text import one_line, visible
from convmemory.core.web.asgi_types import site_of
from convmemory.core.web.middleware import POLICY
from convmemory.mcp_server.places import OFF, can_authorize

DOCUMENT_TIMEOUT_S = 10.0
MAX_DOCUMENT_BYTES = 64 * 1024


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def authorize(request: PageRequest) -> HttpResponse:
    """Show who asks for access; a POST leads back to the program, with a code or a refusal.

    Raises: InvalidInput for a program or an address to lead back to that this server does not know.
    """
    # The SDK takes long to load, and only this page and the routes of tokens need it.
    from mcp.server.auth.handlers.authorize import AuthorizationRequest
    from mcp.server.auth.provider import construct_redirect_uri
    from mcp.shared.auth import InvalidRedirectUriError
    from pydantic import AnyUrl, ValidationError

    site = site_of(request.scheme or "http", request.headers)
    if not can_authorize(site):
        raise NotFound(OFF)
    asked = request.GET.dict()
    program = _program(asked.get("client_id", ""))
    try:
        uri = AnyUrl(asked["redirect_uri"]) if "redirect_uri" in asked else None
        redirect_uri = str(program.validate_redirect_uri(uri))
    except (InvalidRedirectUriError, ValidationError) as error:
        raise InvalidInput("The program wants to be led to an address that it has not registered.") from error

    def lead_back(**values: str) -> HttpResponse:
        address = construct_redirect_uri(redirect_uri, state=asked.get("state"), iss=site, **values)
        # Django's redirects refuse the schemes of programs on the person's own machine.
        return HttpResponse(status=302, headers={"Location": address, "Cache-Control": "no-store"})

    try:
        authorization = AuthorizationRequest.model_validate(asked)
    except ValidationError:
        description = "response_type has to be code, with a code_challenge of the method S256"
        return lead_back(error="invalid_request", error_description=description)
    if authorization.resource and authorization.resource.partition("?")[0].rstrip("/") not in (site, f"{site}/mcp"):
        return lead_back(error="invalid_target", error_description=f"this server is {site}/mcp")
    name = one_line(visible(program.client_name or ""), 100) or urlsplit(redirect_uri).hostname or "A program"
    if request.method != "POST":
        target = urlsplit(redirect_uri)
        context = {
            "name": name,
            "publisher": urlsplit(program.client_id).hostname if program.client_id.startswith("https://") else "",
            "place": target.hostname if target.scheme in ("http", "https") else f"{target.scheme}:",
        }
        response = render(request, "mcp/consent.html", context)
        # Browsers apply the page's policy to the redirect that answers its form.
        response.headers["Content-Security-Policy"] = POLICY.replace(
            "form-action 'self'", f"form-action 'self' {_source(redirect_uri)}"
        )
        return response
    if request.POST.get("decision") != "allow":
        return lead_back(error="access_denied")
    consent = Consent(
        person_id=request.user.pk,
        client_id=program.client_id,
        client_name=name,
        redirect_uri=redirect_uri,
        names_redirect_uri="redirect_uri" in asked,
        code_challenge=authorization.code_challenge,
    )
    return lead_back(code=code_for(consent))


def _program(client_id: str) -> Any:
    """Return the program with this id. Raises: InvalidInput."""
    from convmemory.mcp_server import oauth

    if oauth.has_document(client_id):
        return oauth.program_of_document(client_id, async_to_sync(fetch_document)(client_id))
    program = oauth.registered_program(client_id)
    if program is None:
        raise InvalidInput("This server does not know the program that asks: connect it again, so that it registers.")
    oauth.require_safe_redirects(program.redirect_uris)  # ids do not expire, and earlier versions refused fewer
    return program


async def fetch_document(address: str) -> Mapping[str, Any]:
    """Return the JSON object at a public HTTPS address. Raises: InvalidInput."""
    import httpx2

    from convmemory.chat.pinned import PublicTransport
    from convmemory.core.endpoints.http import AsyncEndpointClient

    transport = PublicTransport(httpx2.Limits(max_connections=1))
    client = AsyncEndpointClient(timeout=DOCUMENT_TIMEOUT_S, max_body_bytes=MAX_DOCUMENT_BYTES, transport=transport)
    try:
        async with client:
            response = await client.get(address, headers={"Accept": "application/json"})
            values = json.loads(response.raise_for_status().content)
    except AddressRefused as error:
        raise InvalidInput("The document at the program's id is at an address that is not public.") from error
    except (httpx2.HTTPError, ValueError, RecursionError) as error:
        raise InvalidInput("The document at the program's id cannot be read: tell its publisher.") from error
    if not isinstance(values, dict):
        raise InvalidInput("The document at the program's id does not describe a program.")
    return values


def _source(redirect_uri: str) -> str:
    """Return the place of a redirect as a source of a Content-Security-Policy."""
    parts = urlsplit(redirect_uri)
    if parts.scheme not in ("http", "https") or any(sign in parts.netloc for sign in ";, '\""):
        return f"{parts.scheme}:"
    return f"{parts.scheme}://{parts.netloc}"
