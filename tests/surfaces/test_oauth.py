"""OAuth for MCP: the official client from nothing to a tool call, and what a stolen, old or foreign token cannot do."""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.utils import timezone
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pytest_django import Settings

from convmemory.accounts import connections
from convmemory.accounts.models import ApiKey, AuditEntry
from convmemory.accounts.tasks import send_mail
from convmemory.conversations.models import Conversation
from convmemory.core.acting import without_owner
from convmemory.core.text import content_hash
from convmemory.core.threads import in_thread
from tests.factories import exchange, make_conversation, make_user
from tests.support.patience import ANSWER_S
from tests.support.smtp_server import running_smtp_server

pytestmark = pytest.mark.django_db(transaction=True)

CALLBACK = "http://localhost:9999/callback"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_conversations", "arguments": {}}}


@pytest.fixture
def owner() -> User:
    made = make_user("ada")
    make_conversation(made, exchange(("how do I prune roses?", "In March.")), title="Roses")
    return made


@pytest.fixture
def stranger() -> User:
    made = make_user("eve")
    make_conversation(made, exchange(("where is the key?", "Under the mat.")), title="Keys")
    return made


class Program:
    """A small program that asks for access, with steps that a test can take one by one."""

    def __init__(self, address: str, **registration: Any) -> None:
        self.address = address
        self.http = httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False)
        self.verifier = secrets.token_urlsafe(48)
        values = {"client_name": "Gardener", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        answer = self.http.post("/register", json={**values, **registration})
        self.registered = answer.json()
        self.client_id = self.registered.get("client_id", "")

    def query(self, **changes: Any) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        values = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "state": "s1",
            "resource": f"{self.address}/mcp",
        }
        return urlencode({name: value for name, value in {**values, **changes}.items() if value is not None})

    def led_back(self, owner: User, decision: str = "allow", **changes: Any) -> dict[str, str]:
        """The values with which a signed-in person who decides so is led back to the program."""
        answer = consent(self.address, owner, self.query(**changes), decision)
        assert answer.status_code == 302, answer.content
        return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}

    def token(self, **values: Any) -> httpx2.Response:
        given = {"client_id": self.client_id, "redirect_uri": CALLBACK, "code_verifier": self.verifier}
        return self.http.post("/token", data={"grant_type": "authorization_code", **given, **values})

    def tokens_of(self, owner: User) -> dict[str, Any]:
        answer = self.token(code=self.led_back(owner)["code"])
        assert answer.status_code == 200, answer.text
        values: dict[str, Any] = answer.json()
        return values

    def refresh(self, token: str, **values: Any) -> httpx2.Response:
        given = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return self.http.post("/token", data={**given, **values})

    def listed(self, key: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
        return self.http.post("/mcp", json=LIST, headers=headers)


def consent(address: str, owner: User | None, query: str, decision: str = "") -> Any:
    """The consent page's answer to a browser on the server's address."""
    browser = Browser(headers={"host": urlsplit(address).netloc})
    if owner:
        browser.force_login(owner)
    page = f"/authorize?{query}"
    return browser.post(page, {"decision": decision}) if decision else browser.get(page)


@pytest.fixture
def program(address: str) -> Iterator[Program]:
    made = Program(address)
    yield made
    made.http.close()


class Storage:
    """The tokens of the official client, in memory."""

    def __init__(self) -> None:
        self.seen: list[OAuthToken] = []
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.seen[-1] if self.seen else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.seen.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def use_official_client(address: str, owner: User, storage: Storage) -> str:
    """Connect with the official client, which `owner` allows, and again once the key is old; the tools' answers."""
    seen: dict[str, str] = {}

    async def redirect(page: str) -> None:
        answer = await in_thread(consent, address, owner, urlsplit(page).query, "allow")
        seen.update((name, values[0]) for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items())

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=seen["code"], state=seen["state"], iss=seen["iss"])

    metadata = OAuthClientMetadata.model_validate({"client_name": "Official", "redirect_uris": [CALLBACK]})
    auth = OAuthClientProvider(f"{address}/mcp", metadata, storage, redirect, callback)

    async def run() -> str:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=ANSWER_S, trust_env=False) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
        ):
            first = (await client.call_tool("list_conversations", {})).content
            auth.context.token_expiry_time = 1
            return f"{first} {(await client.call_tool('recall', {'query': 'how do I prune roses?'})).content}"

    return asyncio.run(run())


def test_official_client_connects_from_nothing_renews_and_is_revoked(address: str, owner: User, stranger: User) -> None:
    storage = Storage()
    said = use_official_client(address, owner, storage)
    assert "Roses" in said
    assert "Keys" not in said
    first, renewed = storage.seen
    assert first.access_token != renewed.access_token
    key = ApiKey.objects.get(person_id=owner.pk)
    assert (key.name, key.read_only, key.key_hash) == ("Official", True, content_hash(renewed.access_token))
    browser = Browser()
    browser.force_login(owner)
    page = browser.get("/settings/keys").content.decode()
    assert "Official" in page
    assert "expired" not in page
    browser.post(f"/settings/keys/{key.pk}/revoke")
    with httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as http:
        headers = {"Authorization": f"Bearer {renewed.access_token}"}
        assert http.post("/mcp", json=LIST, headers=headers).status_code == 401


def test_token_reads_its_owners_archive_alone_and_writes_nothing(program: Program, owner: User, stranger: User) -> None:
    tokens = program.tokens_of(owner)
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "read")
    answer = program.listed(tokens["access_token"]).text
    assert "Roses" in answer
    assert "Keys" not in answer
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    foreign = Conversation.objects.get(archive_id=stranger.pk).pk
    assert program.http.get(f"/api/v1/conversations/{foreign}", headers=headers).status_code == 404
    assert program.http.post("/api/v1/conversations", json={"title": "x"}, headers=headers).status_code == 403
    assert program.http.get("/settings/keys", headers=headers).status_code == 302


def revocations() -> list[tuple[Any, ...]]:
    """Return the audit entries of ended connections: the key and what ended it, the surface, who, and whose."""
    entries = AuditEntry.objects.filter(action="revoked").order_by("pk")
    return list(entries.values_list("what", "surface", "person_id", "about_id"))


def test_expired_and_revoked_tokens_are_refused(program: Program, owner: User) -> None:
    tokens = program.tokens_of(owner)
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    refused = program.listed(tokens["access_token"])
    assert refused.status_code == 401
    assert "resource_metadata=" in refused.headers["WWW-Authenticate"]
    renewed = program.refresh(tokens["refresh_token"]).json()
    assert program.listed(renewed["access_token"]).status_code == 200
    ApiKey.objects.update(renewable_until=timezone.now() - timedelta(seconds=1))
    assert program.refresh(renewed["refresh_token"]).json()["error"] == "invalid_grant"
    other = program.tokens_of(owner)
    for row in ApiKey.objects.filter(revoked_at=None):
        row.revoked_at = timezone.now()
        row.save()
    assert program.listed(other["access_token"]).status_code == 401
    assert program.refresh(other["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_program_can_end_its_own_connection_alone(program: Program, owner: User, kind: str) -> None:
    tokens = program.tokens_of(owner)
    other = Program(program.address)
    for who, status in ((other, 200), (program, 401)):
        ended = who.http.post("/revoke", data={"token": tokens[kind], "client_id": who.client_id})
        assert ended.status_code == 200
        assert program.listed(tokens["access_token"]).status_code == status
    other.http.close()
    program.http.post("/revoke", data={"token": tokens[kind], "client_id": program.client_id})
    assert revocations() == [(f"key {ApiKey.objects.get().pk} by its program", "agent", None, owner.pk)]


def test_refresh_token_works_once_and_its_reuse_ends_connection(program: Program, owner: User) -> None:
    tokens = program.tokens_of(owner)
    renewed = program.refresh(tokens["refresh_token"]).json()
    assert program.listed(tokens["access_token"]).status_code == 401, "the key before is replaced"
    assert program.listed(renewed["access_token"]).status_code == 200
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.listed(renewed["access_token"]).status_code == 401
    assert revocations() == [(f"key {ApiKey.objects.get().pk} by second use of its token", "agent", None, owner.pk)]


def test_code_works_once_and_its_reuse_ends_connection(program: Program, owner: User) -> None:
    code = program.led_back(owner)["code"]
    tokens = program.token(code=code).json()
    assert program.token(code=code).json()["error"] == "invalid_grant"
    assert program.listed(tokens["access_token"]).status_code == 401
    assert revocations() == [(f"key {ApiKey.objects.get().pk} by second use of its code", "agent", None, owner.pk)]


def test_owner_ends_connection_of_program(program: Program, owner: User) -> None:
    tokens = program.tokens_of(owner)
    key, browser = ApiKey.objects.get().pk, Browser(headers={"host": urlsplit(program.address).netloc})
    browser.force_login(owner)
    assert browser.post(f"/settings/keys/{key}/revoke").status_code == 302
    assert program.listed(tokens["access_token"]).status_code == 401
    assert revocations() == [(f"key {key}", "page", owner.pk, owner.pk)]


def test_code_and_refresh_token_are_useless_without_their_proof(
    program: Program, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Program(program.address)
    code = program.led_back(owner)["code"]
    for stolen in (
        program.token(code=code, code_verifier="x" * 48),
        program.token(code=code, redirect_uri="http://localhost:9999/other"),
        other.token(code=code, code_verifier=program.verifier),
        program.token(code=code[:-2] + "xx"),
        program.token(code=f"cvm_{code}"),
    ):
        assert stolen.status_code == 400
    assert not ApiKey.objects.exists()
    tokens = program.token(code=code).json()
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.refresh(tokens["access_token"]).json()["error"] == "invalid_grant"
    late = program.led_back(owner)["code"]
    monkeypatch.setattr(connections, "CODE_S", -1)
    assert program.token(code=late).json()["error"] == "invalid_grant"
    other.http.close()


def test_owner_is_mailed_about_program_once(program: Program, owner: User, settings: Settings) -> None:
    User.objects.filter(pk=owner.pk).update(email="ada@example.org")
    with running_smtp_server(settings, site=program.address) as mailbox:
        tokens = program.tokens_of(owner)
        program.refresh(tokens["refresh_token"])
        with without_owner():
            send_mail()
        (message,) = mailbox.messages
    assert message["To"] == "ada@example.org"
    assert "A program was given access to what you have stored." in message.get_content()
    assert "Gardener" not in message.as_string()


def test_inactive_owner_gets_no_token(program: Program, owner: User) -> None:
    tokens, code = program.tokens_of(owner), program.led_back(owner)["code"]
    owner.is_active = False
    owner.save()
    assert program.token(code=code).json()["error"] == "invalid_grant"
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_consent_page_names_program_and_asks_before_it_leads_back(program: Program, owner: User) -> None:
    page = consent(program.address, owner, program.query())
    text = page.content.decode()
    assert page.status_code == 200
    assert "Gardener" in text
    assert "localhost" in text
    assert "form-action 'self' http://localhost:9999;" in page.headers["Content-Security-Policy"] + ";"
    assert page.headers["X-Frame-Options"] == "DENY"
    assert program.led_back(owner, "deny") == {"error": "access_denied", "state": "s1", "iss": program.address}
    assert not ApiKey.objects.exists()
    anonymous = consent(program.address, None, program.query())
    assert anonymous.headers["Location"].startswith("/login?next=/authorize%3F")
    cross_site = Browser(enforce_csrf_checks=True, headers={"host": urlsplit(program.address).netloc})
    cross_site.force_login(owner)
    assert cross_site.post(f"/authorize?{program.query()}", {"decision": "allow"}).status_code == 403


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
    ],
)
def test_wrong_request_leads_back_with_its_error(
    program: Program, owner: User, changes: dict[str, Any], error: str
) -> None:
    answer = program.led_back(owner, **changes)
    assert (answer["error"], answer["state"], answer.get("code")) == (error, "s1", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": "http://localhost:9999/elsewhere"},
        {"redirect_uri": "http://localhost.evil.example:9999/callback"},
        {"client_id": "made-up"},
        {"client_id": "https://127.0.0.1/client.json"},
        {"client_id": None},
    ],
)
def test_unknown_program_or_address_is_not_led_to(program: Program, owner: User, changes: dict[str, Any]) -> None:
    answer = consent(program.address, owner, program.query(**changes), "allow")
    assert answer.status_code in (400, 403, 422), answer.content
    assert "Location" not in answer.headers


def test_port_of_programs_own_machine_is_its_choice(program: Program, owner: User) -> None:
    other = "http://localhost:12345/callback"
    answer = program.led_back(owner, redirect_uri=other)
    assert program.token(code=answer["code"], redirect_uri=other).status_code == 200


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://evil.example/cb",
        "https://a.example/#x",
        "https://a@b.example/",
        "ms-msdt:/id",
        "search-ms:query=x",
        "intent://scan/#Intent;scheme=x;end",
        "chrome://settings/",
        "tel:112",
        "gardener://callback",
        "com.example.:/callback",
        "x-apple.systempreferences:com.apple.preference",
    ],
)
def test_unsafe_redirect_is_not_registered_nor_led_to_by_earlier_id(address: str, owner: User, uri: str) -> None:
    program = Program(address, redirect_uris=[CALLBACK, uri])
    assert program.registered["error"] in ("invalid_redirect_uri", "invalid_client_metadata")
    values = {"name": "Gardener", "redirects": [uri], "auth": "none"}
    program.client_id = connections.client_id_for(values)
    answer = consent(address, owner, program.query(redirect_uri=uri), "allow")
    assert (answer.status_code, "Location" in answer.headers) == (422, False)
    program.http.close()


@pytest.mark.parametrize(
    "uri",
    [
        "https://a.example/cb",
        "http://127.0.0.1:8787/cb",
        "http://[::1]/cb",
        "com.example.gardener:/oauth/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_https_own_machine_and_scheme_of_program_are_registered(address: str, owner: User, uri: str) -> None:
    program = Program(address, redirect_uris=[uri, "http://localhost:8787/callback"])
    answer = consent(address, owner, program.query(redirect_uri=uri), "allow")
    place, _, query = answer.headers["Location"].partition("?")
    assert (place, "code" in parse_qs(query)) == (uri, True)
    program.http.close()


def test_program_with_secret_has_to_prove_it(address: str, owner: User) -> None:
    program = Program(
        address, token_endpoint_auth_method="client_secret_post", redirect_uris=[CALLBACK, "cursor://x/cb"]
    )
    code = program.led_back(owner)["code"]
    assert program.token(code=code).status_code == 401
    assert program.token(code=code, client_secret="wrong").status_code == 401
    assert program.token(code=code, client_secret=program.registered["client_secret"]).status_code == 200
    page = consent(address, owner, program.query(redirect_uri="cursor://x/cb"))
    assert "form-action 'self' cursor:" in page.headers["Content-Security-Policy"]
    program.http.close()


def test_program_is_described_by_document_at_its_id(
    program: Program, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.client_id = "https://gardener.example/client.json"
    document = {"client_id": program.client_id, "client_name": "Gardener", "redirect_uris": [CALLBACK]}

    async def fetch(address: str) -> Mapping[str, Any]:
        assert address == program.client_id
        return document

    monkeypatch.setattr("convmemory.mcp_server.consent.fetch_document", fetch)
    assert "gardener.example" in consent(program.address, owner, program.query()).content.decode()
    tokens = program.tokens_of(owner)
    assert "Roses" in program.listed(tokens["access_token"]).text
    assert program.refresh(tokens["refresh_token"]).status_code == 200
    document["client_id"] = "https://other.example/client.json"
    assert consent(program.address, owner, program.query()).status_code == 422


def test_metadata_lead_from_resource_to_endpoints(address: str) -> None:
    with httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as http:
        found = http.post("/mcp", json=LIST).headers["WWW-Authenticate"]
        resource = http.get(re.search('resource_metadata="(.*?)"', found)[1]).json()  # type: ignore[index]
        assert (resource["resource"], resource["scopes_supported"]) == (f"{address}/mcp", ["read"])
        (issuer,) = resource["authorization_servers"]
        assert issuer.rstrip("/") == address
        answer = http.get("/.well-known/oauth-authorization-server", headers={"Origin": "http://localhost:6274"})
        server = answer.json()
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["client_id_metadata_document_supported"] is True
        assert server["registration_endpoint"] == f"{address}/register"
        unknown = http.get("/.well-known/openid-configuration")
        assert (unknown.status_code, unknown.json()["error"]) == (404, "not_found")
        assert http.get("/.well-known/oauth-authorization-server", headers={"Host": "evil.example"}).status_code == 421


def test_without_oauth_its_paths_answer_with_json_that_names_key(address: str, owner: User, settings: Settings) -> None:
    settings.MCP_OAUTH = False
    with httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as http:
        for method, path in (
            ("GET", "/.well-known/oauth-authorization-server"),
            ("GET", "/.well-known/oauth-protected-resource/mcp"),
            ("POST", "/register"),
            ("POST", "/token"),
        ):
            answer = http.request(method, path)
            assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
            assert "create_api_key" in answer.json()["error_description"]
        assert http.post("/mcp", json=LIST).headers["WWW-Authenticate"] == 'Bearer realm="convmemory"'
    assert consent(address, owner, "client_id=x").status_code == 404
