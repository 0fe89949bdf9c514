"""Keys that only read or that end, and wrong keys: over every route of the API, MCP and the proxy."""

import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import ApiKey
from convmemory.api import api
from convmemory.conversations.models import Conversation
from convmemory.core.errors import ReadOnlyKey
from convmemory.mcp_server.http import Refused, admit
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import person_of, signed_in

pytestmark = pytest.mark.django_db

SAFE = {"GET", "HEAD", "OPTIONS"}
READING = {
    ("POST", "/tools/{name}"),
    ("POST", "/memory/recall"),
    ("POST", "/projects/left_off"),
    ("POST", "/conversations/{int:conversation_id}/memory/recall"),
}
"""Routes with an unsafe method that change nothing. Who adds a route here has made sure of that."""
OPEN = {("GET", "/health"), ("GET", "/ready")}


def routes() -> list[tuple[str, str]]:
    """Method and path of every operation of the API."""
    return [
        (method, path)
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    ]


def address_of(path: str) -> str:
    return "/api/v1" + re.sub(r"\{(\w+:)?(\w+)\}", lambda m: "ConversationSearch" if m[2] == "name" else "1", path)


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(("what is the plan?", "To bake bread.")), title="Plan")


@pytest.fixture
def reader(owner: User) -> Client:
    key = create_key(person=owner, read_only=True)
    return Client(headers={"Authorization": f"Bearer {key}"}, raise_request_exception=False)


def send(client: Client, method: str, path: str, body: Any = None, **values: Any) -> Any:
    return client.generic(method, path, json.dumps(body or {}), content_type="application/json", **values)


def test_list_of_routes_is_not_empty() -> None:
    assert len(routes()) > 30
    assert set(routes()) > READING | OPEN


@pytest.mark.django_db(transaction=True)
def test_read_only_key_gets_403_on_every_writing_route(reader: Client) -> None:
    for method, path in routes():
        response = send(reader, method, address_of(path))
        if method in SAFE or (method, path) in READING:
            assert response.status_code not in (401, 403), (method, path)
            continue
        assert response.status_code == 403, f"{method} {path} takes a read-only key: say auth=READING if it only reads"
        assert response.headers["Content-Type"] == "application/problem+json"
        assert "only reads" in response.json()["detail"]


def test_read_only_key_reads_searches_recalls_and_calls_tools(reader: Client, conversation: Conversation) -> None:
    assert reader.get(f"/api/v1/conversations/{conversation.pk}").json()["title"] == "Plan"
    assert reader.get("/api/v1/conversations/search", {"query": "bread"}).status_code == 200
    assert send(reader, "POST", "/api/v1/memory/recall", {"query": "bread"}).status_code == 200
    assert send(reader, "POST", "/api/v1/tools/list_conversations").status_code == 200
    assert send(reader, "DELETE", f"/api/v1/conversations/{conversation.pk}").status_code == 403
    assert Conversation.objects.filter(pk=conversation.pk).exists()


def test_mcp_takes_read_only_key(owner: User) -> None:
    key = create_key(person=owner, read_only=True)
    admitted = admit("POST", {"host": "localhost", "authorization": f"Bearer {key}"}, "http://localhost")
    assert admitted.person == owner


@pytest.mark.django_db(transaction=True)
def test_proxy_records_and_so_refuses_read_only_key(owner: User, settings: Any) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"
    client = Client(headers={"Authorization": f"Bearer {create_key(person=owner, read_only=True)}"})
    refused = send(client, "POST", "/v1/chat/completions", {"messages": []})
    assert refused.status_code == 403
    assert "only reads" in refused.json()["error"]["message"]
    assert client.get("/v1/models").status_code == 502  # let through to the endpoint, which is not there


def test_key_use_counts_as_writing_unless_declared_reading(owner: User) -> None:
    key = create_key(person=owner, read_only=True)
    with pytest.raises(ReadOnlyKey):
        caller_of_key(key)
    assert person_of(key, writes=False) == owner


def test_expired_key_gets_401(owner: User, conversation: Conversation) -> None:
    client = Client(headers={"Authorization": f"Bearer {create_key(person=owner, days=30)}"})
    assert client.get(f"/api/v1/conversations/{conversation.pk}").status_code == 200
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    response = client.get(f"/api/v1/conversations/{conversation.pk}")
    assert response.status_code == 401
    assert "expired" in response.json()["detail"]


def test_page_makes_and_shows_keys_with_limits(owner: User) -> None:
    browser = signed_in(owner)
    browser.post("/settings/keys", {"name": "laptop", "expires": "90", "read_only": "on"})
    row = ApiKey.objects.get()
    assert row.read_only
    assert row.expires_at is not None
    assert timedelta(days=89) < row.expires_at - timezone.now() < timedelta(days=91)
    browser.post("/settings/keys", {"name": "server", "expires": ""})
    text = browser.get("/settings/keys").content.decode()
    assert text.count(">read only<") == 1
    assert ">expired<" not in text
    ApiKey.objects.filter(pk=row.pk).update(expires_at=timezone.now())
    assert ">expired<" in browser.get("/settings/keys").content.decode()
    refused = browser.post("/settings/keys", {"name": "x", "expires": "10000"}).content.decode()
    assert "Select a valid choice" in refused
    assert ApiKey.objects.count() == 2


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("create_api_key", *arguments, stdout=out)
    return out.getvalue().strip().splitlines()[-1]


def test_command_makes_keys_with_limits(owner: User) -> None:
    key = run("ada", "--days", "7", "--read-only")
    row = ApiKey.objects.get()
    assert row.expires_at is not None
    assert (person_of(key, writes=False), row.read_only) == (owner, True)
    assert timedelta(days=6) < row.expires_at - timezone.now() < timedelta(days=8)
    for days in ("0", "-1", "99999999999"):
        with pytest.raises(CommandError, match="1 to 36,500"):
            run("eve", "--create", "--days", days)
    assert not User.objects.filter(username="eve").exists()


def wrong_headers(owner: User) -> Iterator[str]:
    revoked = create_key(person=owner, days=1)
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    yield from ("Bearer cvm_wrong", f"Bearer {revoked}", "Bearer", "Basic YWRhOmNvcnJlY3QgaG9yc2U=", "Token x", "")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("checks_csrf", [False, True])
def test_wrong_key_never_falls_back_to_session(owner: User, checks_csrf: bool) -> None:
    browser = Client(enforce_csrf_checks=checks_csrf, raise_request_exception=False)
    browser.force_login(owner)
    for header in wrong_headers(owner):
        for method, path in set(routes()) - OPEN:
            response = send(browser, method, address_of(path), headers={"Authorization": header})
            assert response.status_code == 401, (method, path, header, response.content)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/chat/completions"), ("GET", "/v1/models")])
def test_proxy_knows_keys_only(owner: User, settings: Any, method: str, path: str) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "m"
    browser = signed_in(owner)
    for header in wrong_headers(owner):
        assert send(browser, method, path, headers={"Authorization": header}).status_code == 401


def test_mcp_knows_keys_only(owner: User) -> None:
    browser = signed_in(owner)
    cookie = f"convmemory_session={browser.cookies['convmemory_session'].value}"
    for header in wrong_headers(owner):
        with pytest.raises(Refused) as refused:
            admit("POST", {"host": "localhost", "cookie": cookie, "authorization": header}, "http://localhost")
        assert refused.value.response.status_code == 401


PASSWORD = {"old_password": "correct horse", "new_password1": "battery staple", "new_password2": "battery staple"}


@pytest.mark.parametrize("asked", [False, True])
def test_new_password_ends_keys_if_asked(owner: User, asked: bool) -> None:
    key, other = create_key(person=owner), create_key(person=make_user())
    browser = signed_in(owner)
    assert 'name="end_keys"' in browser.get("/settings/password").content.decode()
    wrong = browser.post("/settings/password", {**PASSWORD, "old_password": "wrong", "end_keys": "on"})
    assert "entered incorrectly" in wrong.content.decode()
    assert person_of(key) == owner
    values = PASSWORD | ({"end_keys": "on"} if asked else {})
    text = browser.post("/settings/password", values, follow=True).content.decode()
    assert ("1 API key ended" in text) is asked
    assert (caller_of_key(key) is None) is asked
    assert caller_of_key(other) is not None


@pytest.mark.parametrize("asked", [False, True])
def test_admin_password_change_revokes_keys_if_asked(owner: User, asked: bool) -> None:
    key = create_key(person=owner)
    User.objects.create_superuser("root", password="x")
    admin = signed_in(User.objects.get(username="root"))
    page = f"/admin/auth/user/{owner.pk}/password/"
    assert 'name="end_keys"' in admin.get(page).content.decode()
    values = {"password1": "battery staple", "password2": "battery staple", "usable_password": "true"}
    answer = admin.post(page, values | ({"end_keys": "on"} if asked else {}) | {"set-password": "x"})
    assert answer.status_code == 302
    owner.refresh_from_db()
    assert owner.check_password("battery staple")
    assert (caller_of_key(key) is None) is asked
