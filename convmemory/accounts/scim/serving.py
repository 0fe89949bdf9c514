"""Answers the requests of directories. Loading it takes half a second: the view imports it at the first request."""

import json

from django.http import HttpRequest, HttpResponse
from scim2_models import SCIMException, UnauthorizedException
from scim2_server.handler import ScimHandler
from scim2_server.requests import ScimRequest
from scim2_server.service import ScimService

from convmemory.accounts.models import ScimToken
from convmemory.accounts.pages import absolute_address
from convmemory.accounts.scim.resources import PROVIDER
from convmemory.accounts.scim.storage import DirectoryStorage
from convmemory.accounts.scim.tokens import find_token
from convmemory.core import acting
from convmemory.core.program import COMMAND

ROOT = "/scim/v2"
SERVICE = ScimService(PROVIDER)


def answer(request: HttpRequest, path: str) -> HttpResponse:
    """Return the response to a SCIM request, which is an error with what to do without a valid token."""
    asked = ScimRequest(
        method=request.method or "",
        base_url=absolute_address(request, ROOT),
        path=f"/{path}",
        query=request.GET.dict(),
        headers=request.headers,
        body=request.body,
    )
    with acting.maintenance():
        try:
            handler = ScimHandler(SERVICE, DirectoryStorage(_token_of(request)))
            scim_response = handler.handle(asked)
        except SCIMException as error:
            scim_response = SERVICE.error_response(error)
    body = b"" if scim_response.body is None else json.dumps(scim_response.body).encode()
    response = HttpResponse(body, status=scim_response.status, headers=scim_response.headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def _token_of(request: HttpRequest) -> ScimToken:
    """Return the token of the request. Raises: UnauthorizedException."""
    token = find_token(request.headers.get("Authorization", ""))
    if token is not None:
        return token
    if not ScimToken.objects.filter(revoked_at=None).exists():
        raise UnauthorizedException(
            detail=f"SCIM is not set up: the operator makes a token by `{COMMAND} scim_token create NAME`."
        )
    raise UnauthorizedException(
        detail="Send `Authorization: Bearer TOKEN` with a SCIM token; keys of people are not accepted here."
    )
