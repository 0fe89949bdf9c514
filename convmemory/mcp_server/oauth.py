"""OAuth 2.1 for MCP: metadata, registration of programs, tokens. The consent page is in `consent.py`.

The MCP SDK's handlers check requests; keys and codes are those of `accounts/connections.py`. Programs register
themselves, or name a document that describes them as their id. Nothing is stored before an owner agrees.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

import time
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import (
    AuthorizationCode,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.server.auth.routes import build_metadata, cors_middleware, create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken, ProtectedResourceMetadata
from pydantic import AnyHttpUrl, AnyUrl, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from convmemory.accounts import connections
from convmemory.accounts.connections import Tokens
from convmemory.core.conf import LOOPBACK
from convmemory.core.errors import InvalidInput
from convmemory.core.threads import in_thread
from convmemory.mcp_server.places import AUTHORIZE, RESOURCE_METADATA, SERVER_METADATA

SCOPES = ["read"]
# Cursor registers this one together with its HTTPS and loopback addresses, and gives up if one of them is refused.
PROGRAM_SCHEMES = frozenset({"cursor"})
MAX_REDIRECTS, MAX_REDIRECT_CHARS = 10, 500


class Program(OAuthClientInformationFull):
    """A program that asks for access. A port of the loopback address is the program's own choice (RFC 8252)."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        if redirect_uri is not None and any(
            _is_alike(redirect_uri, registered) for registered in self.redirect_uris or ()
        ):
            return redirect_uri
        return super().validate_redirect_uri(redirect_uri)


def _is_alike(uri: AnyUrl, registered: AnyUrl) -> bool:
    """Return whether two addresses of a loopback interface differ in their port alone."""
    is_loopback = uri.scheme == "http" and (uri.host or "").strip("[]") in LOOPBACK
    parts = ("scheme", "host", "path", "query", "fragment", "username", "password")
    return is_loopback and all(getattr(uri, part) == getattr(registered, part) for part in parts)


def require_safe_redirects(redirect_uris: list[AnyUrl] | None) -> None:
    """Raises: InvalidInput unless all are HTTPS, HTTP on the loopback address, or the private scheme of a program."""
    if not redirect_uris or len(redirect_uris) > MAX_REDIRECTS:
        raise InvalidInput(f"A program has 1 to {MAX_REDIRECTS} redirect URIs.")
    for uri in redirect_uris:
        is_on_own_machine = uri.scheme == "http" and (uri.host or "").strip("[]") in LOOPBACK
        is_of_program = uri.scheme in PROGRAM_SCHEMES or _is_private(uri.scheme)
        if uri.scheme != "https" and not is_on_own_machine and not is_of_program:
            raise InvalidInput(
                f"The redirect URI {str(uri)[:100]!r} is neither HTTPS, nor HTTP on the program's own machine, nor of "
                "a private scheme with a dot, such as com.example.app:/callback."
            )
        if uri.fragment or uri.username or uri.password or len(str(uri)) > MAX_REDIRECT_CHARS:
            raise InvalidInput("A redirect URI has no fragment, no password, and at most 500 characters.")


def _is_private(scheme: str) -> bool:
    """Return whether a scheme is a domain name in reverse, which `ms-msdt` and `x-apple.systempreferences` are not.

    Source: https://www.rfc-editor.org/rfc/rfc8252#section-7.1
    """
    first, *rest = scheme.split(".")
    return first.isalpha() and bool(rest) and all(rest)


def registered_program(client_id: str) -> Program | None:
    """Return a program that registered itself; None for an id that this server did not issue."""
    values = connections.client_values(client_id)
    if values is None:
        return None
    secret = connections.client_secret(client_id) if values["auth"] != "none" else None
    return Program(
        client_id=client_id,
        client_name=values["name"],
        redirect_uris=values["redirects"],
        token_endpoint_auth_method=values["auth"],
        client_secret=secret,
    )


def has_document(client_id: str) -> bool:
    """Return whether the id is the address of a document that describes the program."""
    parts = urlsplit(client_id)
    return parts.scheme == "https" and bool(parts.hostname) and parts.path not in ("", "/")


def program_of_document(client_id: str, document: Mapping[str, Any]) -> Program:
    """Return the program that a client-id metadata document describes. Raises: InvalidInput."""
    try:
        program = Program.model_validate({**document, "token_endpoint_auth_method": "none"})
    except ValidationError as error:
        raise InvalidInput("The document at the program's id does not describe a program.") from error
    if program.client_id != client_id:
        raise InvalidInput("The document at the program's id names another id.")
    require_safe_redirects(program.redirect_uris)
    return program


class Provider:
    """Answers the SDK's handlers of tokens and registrations; the others are not mounted."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if has_document(client_id):
            # The consent page has read the document; a code or a token is bound to this id.
            return Program(client_id=client_id, token_endpoint_auth_method="none")  # noqa: S106
        return registered_program(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        try:
            require_safe_redirects(client_info.redirect_uris)
        except InvalidInput as error:
            raise RegistrationError("invalid_redirect_uri", str(error)) from error
        client_info.client_id = connections.client_id_for(
            {
                "name": (client_info.client_name or "")[:100],
                "redirects": list(map(str, client_info.redirect_uris or ())),
                "auth": client_info.token_endpoint_auth_method,
            }
        )
        if len(client_info.client_id) > connections.MAX_CLIENT_CHARS:
            raise RegistrationError("invalid_client_metadata", "The redirect URIs are too long.")
        if client_info.client_secret is not None:
            client_info.client_secret = connections.client_secret(client_info.client_id)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        consent = connections.consent_of(authorization_code)
        if consent is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=SCOPES,
            expires_at=time.time() + 1,  # its age was checked with its signature
            client_id=consent.client_id,
            code_challenge=consent.code_challenge,
            redirect_uri=AnyUrl(consent.redirect_uri),
            redirect_uri_provided_explicitly=consent.names_redirect_uri,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        consent = connections.consent_of(authorization_code.code)
        if consent is None:
            return _answer(None, "The code is too old: ask again.")
        tokens = await in_thread(connections.open_connection, consent, authorization_code.code)
        return _answer(tokens, "The code was used before: ask again.")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        if not connections.is_refresh_token(refresh_token):
            return None
        return RefreshToken(token=refresh_token, client_id=client.client_id, scopes=SCOPES)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        tokens = await in_thread(connections.renew_connection, refresh_token.token, client_id=client.client_id)
        return _answer(tokens, "The access was revoked or has ended: ask the user again.")


def _answer(tokens: Tokens | None, otherwise: str) -> OAuthToken:
    if tokens is None:
        raise TokenError("invalid_grant", otherwise)
    return OAuthToken(
        access_token=tokens.access,
        expires_in=connections.ACCESS_S,
        refresh_token=tokens.refresh,
        scope=" ".join(SCOPES),
    )


PROVIDER = cast("OAuthAuthorizationServerProvider[Any, Any, Any]", Provider())


@lru_cache(maxsize=32)
def application_of(site: str) -> Starlette:
    """Return the application for a server at this address. Raises: ValueError if it is neither HTTPS nor local."""
    issuer = AnyHttpUrl(site)
    registration, revocation = ClientRegistrationOptions(enabled=True), RevocationOptions(enabled=True)
    made = build_metadata(issuer, None, registration, revocation)
    methods = ["none", "client_secret_post", "client_secret_basic"]
    server = made.model_copy(
        update={
            "scopes_supported": SCOPES,
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
    )
    resource = ProtectedResourceMetadata(
        resource=AnyHttpUrl(f"{site}/mcp"),
        authorization_servers=[issuer],
        scopes_supported=SCOPES,
        resource_name="convmemory",
    )
    # Programs compare these as text with the address that they know; the SDK's type adds a slash.
    described = resource.model_dump(mode="json", exclude_none=True) | {"authorization_servers": [site]}
    documents = {
        SERVER_METADATA: server.model_dump(mode="json", exclude_none=True) | {"issuer": site},
        RESOURCE_METADATA: described,
        f"{RESOURCE_METADATA}/mcp": described,
    }
    routes = create_auth_routes(PROVIDER, issuer, client_registration_options=registration)
    kept = [route for route in routes if route.path not in (AUTHORIZE, SERVER_METADATA)]
    kept += [_document(path, document) for path, document in documents.items()]
    kept.append(Route("/revoke", cors_middleware(_revoke, ["POST", "OPTIONS"]), methods=["POST", "OPTIONS"]))
    return Starlette(routes=kept, exception_handlers={404: _refused, 405: _refused})


def _document(path: str, values: Mapping[str, Any]) -> Route:
    async def answer(request: Request) -> Response:
        return JSONResponse(values)

    return Route(path, endpoint=cors_middleware(answer, ["GET", "OPTIONS"]), methods=["GET", "OPTIONS"])


async def _revoke(request: Request) -> Response:
    """End the connection of a token. The SDK's own handler refuses programs without a secret (mcp 2.3)."""
    try:
        client = await ClientAuthenticator(PROVIDER).authenticate_request(request)
    except AuthenticationError as error:
        body = {"error": "invalid_client", "error_description": error.message}
        return JSONResponse(body, status_code=HTTPStatus.UNAUTHORIZED)
    token = (await request.form()).get("token")
    if isinstance(token, str):
        await in_thread(connections.end_connection, token, client_id=client.client_id)
    return Response(headers={"Cache-Control": "no-store"})


async def _refused(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", HTTPStatus.NOT_FOUND)
    description = f"There is no {request.method} {request.url.path[:100]} here: {SERVER_METADATA} lists what there is."
    return JSONResponse({"error": "not_found", "error_description": description}, status_code=status)
