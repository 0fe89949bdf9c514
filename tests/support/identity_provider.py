"""oidc-provider-mock in a process of its own, on 127.0.0.1: an OpenID Connect provider that demands PKCE and a nonce.

As a program it prints its port. In the tests' process it would break their rule that a warning is an error.
"""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from django.test import Client

from convmemory.core.identity_providers import IdentityProvider
from tests.support.installation import ROOT

CLIENT_SITE = "http://testserver"


@dataclass(frozen=True)
class Provider:
    """A running provider; it signs a person in who names a subject."""

    issuer: str

    def settings(self, **changed: Any) -> IdentityProvider:
        values = {"name": "corp", "label": "Corp", "client_id": "memory", "client_secret": "s3cret"}
        return IdentityProvider(**{**values, "issuer": self.issuer, **changed})

    def describe(self, subject: str, **claims: Any) -> None:
        """Set what the provider says about a person."""
        httpx2.put(f"{self.issuer}/users/{subject}", json=claims, trust_env=False).raise_for_status()

    def agree(self, address: str, subject: str) -> str:
        """Sign in there as that person; returns the path that the provider leads back to."""
        answer = httpx2.post(address, data={"sub": subject}, trust_env=False)
        assert answer.status_code == 302, answer.text
        location: str = answer.headers["Location"]
        assert location.startswith(f"{CLIENT_SITE}/"), location
        return location.removeprefix(CLIENT_SITE)

    def sign_in(self, client: Client, subject: str, *, name: str = "corp", next_page: str = "") -> Any:
        """Go through a whole sign-in as a browser would; returns the last response."""
        begun = client.get(f"/login/with/{name}", {"next": next_page} if next_page else {})
        assert begun.status_code == 302, begun.content.decode()
        return client.get(self.agree(begun.headers["Location"], subject))


@contextmanager
def running_provider() -> Iterator[Provider]:
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    command = [sys.executable, "-m", "tests.support.identity_provider"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        try:
            yield Provider(f"http://localhost:{int(process.stdout.readline())}")
        finally:
            process.kill()


class DemandsPkce:
    """Checks code challenges (S256), which oidc-provider-mock leaves out."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._challenges: dict[str, str] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        asked = parse_qs(environ["QUERY_STRING"])

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            code = parse_qs(urlsplit(dict(headers).get("Location", "")).query).get("code")
            if code and asked.get("code_challenge_method") == ["S256"]:
                self._challenges[code[0]] = asked["code_challenge"][0]
            return start_response(status, headers, *rest)

        if environ["PATH_INFO"] == "/oauth2/token":
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = io.BytesIO(body)
            sent = parse_qs(body.decode())
            digest = hashlib.sha256(sent.get("code_verifier", [""])[0].encode()).digest()
            found = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if self._challenges.get(sent["code"][0]) != found:
                start_response("400 Bad Request", [("Content-Type", "application/json")])
                return [json.dumps({"error": "invalid_grant"}).encode()]
        return self._application(environ, start)


def main() -> None:
    import oidc_provider_mock
    from werkzeug.serving import make_server

    application = oidc_provider_mock.app(require_nonce=True)
    server = make_server("localhost", 0, DemandsPkce(application), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
