"""Sign-in by OpenID Connect: what is sent to a provider, and what it says about a person.

Authlib does the protocol: discovery, PKCE (S256), state, nonce, and checking the ID token. What a sign-in has to
remember until the provider leads back is signed into a cookie of the browser that began it: visitors store nothing.
Source: https://openid.net/specs/openid-connect-core-1_0.html
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.core import signing
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError, NotFound
from convmemory.core.identity_providers import IdentityProvider
from convmemory.core.text import one_line

COOKIE = "convmemory_sign_in"
COOKIE_S = 600  # to sign in at the provider
SALT = "convmemory.sign_in.oidc"
TIMEOUT_S = 10.0  # of each request to the provider
METADATA_S = 3_600  # addresses and keys of a provider; an unknown key is looked for at once
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
MOST_CHARS = 2_000  # of a code, of a subject, and of the page to lead back to

logger = logging.getLogger(__name__)


class SignInRefused(ConvMemoryError):
    """A person does not get in by a provider; the message says why, and what to do."""


class ProviderFailed(ConvMemoryError):
    """The provider does not answer, or its answer cannot be trusted; the log says what is wrong."""


class CodeRefused(ProviderFailed):
    """The provider answers, and does not accept what the browser brought back."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """What a provider says about a person, checked; `next_page` is where the person wanted to go."""

    claims: Mapping[str, Any]
    next_page: str
    can_sign_out: bool


def provider_named(name: str) -> IdentityProvider:
    """Return a provider of the settings. Raises: NotFound."""
    for provider in config.oidc_providers:
        if provider.name == name:
            return provider
    raise NotFound(f"There is no identity provider {name[:40]!r}.")


def begin(provider: IdentityProvider, *, redirect_uri: str, next_page: str) -> tuple[str, str]:
    """Return the provider's address to lead the browser to, and the value of the cookie. Raises: ProviderFailed."""
    with _failures_of(provider):
        asked = _client(provider).create_authorization_url(redirect_uri)
    address = asked.pop("url")
    kept = {**asked, "name": provider.name, "redirect_uri": redirect_uri}
    kept["next_page"] = next_page if len(next_page) <= MOST_CHARS else ""  # browsers refuse cookies above 4 KB
    return address, signing.dumps(kept, salt=SALT, compress=True)


def begun(provider: IdentityProvider, *, cookie: str, answer: Mapping[str, str]) -> Mapping[str, str]:
    """Return what `begin` kept in this browser, if `answer` belongs to it. Raises: SignInRefused."""
    try:
        kept = signing.loads(cookie, salt=SALT, max_age=COOKIE_S)
    except signing.BadSignature:
        kept = {}
    is_ours = kept.get("name") == provider.name and constant_time_compare(kept["state"], answer.get("state", ""))
    # A provider that names itself shows that the answer is not another one's (RFC 9207).
    if not is_ours or answer.get("iss", provider.issuer) != provider.issuer:
        raise SignInRefused(
            _("This sign-in was not begun in this browser, or took longer than ten minutes. Begin again.")
        )
    begin: Mapping[str, str] = kept
    return begin


def finish(provider: IdentityProvider, *, kept: Mapping[str, str], answer: Mapping[str, str]) -> SignedIn:
    """Return what the provider says about the person whom it has led back with `answer` to what was begun.

    Raises: SignInRefused, ProviderFailed.
    """
    if answer.get("error") == "access_denied":
        raise SignInRefused(_("%(label)s did not let you in, or you did not agree.") % {"label": provider.label})
    code = answer.get("code", "")
    if not code or len(code) > MOST_CHARS:
        raise SignInRefused(_("%(label)s has not signed you in. Begin again.") % {"label": provider.label})
    with _failures_of(provider):
        return SignedIn(
            claims=_claims(provider, kept, code),
            next_page=kept["next_page"],
            can_sign_out=bool(_client(provider).load_server_metadata().get("end_session_endpoint")),
        )


def sign_out_address(provider: IdentityProvider, *, back: str) -> str:
    """Return the provider's address that ends its own session. Raises: ProviderFailed."""
    with _failures_of(provider):
        made = _client(provider).create_logout_url(post_logout_redirect_uri=back, client_id=provider.client_id)
    return str(made["url"])


def _claims(provider: IdentityProvider, kept: Mapping[str, str], code: str) -> Mapping[str, Any]:
    client = _client(provider)
    token = client.fetch_access_token(kept["redirect_uri"], code=code, code_verifier=kept["code_verifier"])
    required = {"iss": provider.issuer, "aud": provider.client_id}
    options = {name: {"essential": True, "value": value} for name, value in required.items()}
    if "id_token" not in token:
        raise ValueError("no ID token")
    claims = dict(client.parse_id_token(token, nonce=kept["nonce"], claims_options=options))
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= MOST_CHARS:
        raise ValueError("no subject")
    if "userinfo_endpoint" not in client.load_server_metadata():
        return claims
    # Many providers give groups and addresses here alone.
    more = client.userinfo(token=token)
    if more.get("sub") != claims["sub"]:
        raise ValueError("user info about another subject")
    return {**more, **claims}


def _client(provider: IdentityProvider) -> Any:
    """Return Authlib's client of the provider, with its metadata. Raises: ValueError for those of another issuer."""
    client = _client_of_hour(provider, int(time.time() // METADATA_S))
    metadata = client.load_server_metadata()
    if metadata.get("issuer") != provider.issuer:
        raise ValueError(f"the metadata are of {str(metadata.get('issuer'))[:200]!r}")
    metadata["id_token_signing_alg_values_supported"] = ALGORITHMS
    return client


@lru_cache(maxsize=64)
def _client_of_hour(provider: IdentityProvider, hour: int) -> Any:
    from authlib.integrations.django_client import OAuth  # with `requests` it takes .4 s to load

    return OAuth().register(
        provider.name,
        client_id=provider.client_id,
        client_secret=provider.client_secret or None,
        server_metadata_url=provider.issuer.rstrip("/") + "/.well-known/openid-configuration",
        client_kwargs={
            "scope": provider.scopes,
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_S,
            **({} if provider.client_secret else {"token_endpoint_auth_method": "none"}),
        },
    )


@contextmanager
def _failures_of(provider: IdentityProvider) -> Iterator[None]:
    """Turn what goes wrong with a provider into a ProviderFailed; the log names it without what it sent."""
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    from requests import RequestException

    try:
        yield
    except (AuthlibBaseError, JoseError, RequestException, RuntimeError, ValueError, KeyError, TypeError) as error:
        logger.warning("Sign-in by %s failed: %s %s", provider.name, type(error).__name__, one_line(str(error), 300))
        kind = CodeRefused if isinstance(error, AuthlibBaseError) else ProviderFailed
        raise kind(
            _("%(label)s does not answer, or its answer is not valid. Try again, or ask who runs this server.")
            % {"label": provider.label}
        ) from error
