"""Whatever goes wrong under /api/ is problem JSON that says what to do: no key, an unknown address or parameter."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.keys import create_key
from convmemory.api import api
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (method.upper(), re.sub(r"\{[^}]*\}", "1", path), operation)
    for path, methods in api.get_openapi_schema()["paths"].items()
    for method, operation in methods.items()
]
GUARDED = [(method, path) for method, path, operation in OPERATIONS if operation.get("security")]
READING = [(path, operation) for method, path, operation in OPERATIONS if method == "GET"]
IN_THREADS = (
    "/stream",
    "/documents",
    "/imports",
    "/ask",
)  # their keys are read in a thread, outside of the test's transaction
CHANGING = [
    (method, path)
    for method, path, operation in OPERATIONS
    if method != "GET" and operation.get("security") and not path.endswith(IN_THREADS)
]
BODILESS = [
    (method, path)
    for method, path, operation in OPERATIONS
    if (method, path) in CHANGING and "requestBody" not in operation
]
WRITING = [
    (method, path)
    for method, path, operation in OPERATIONS
    if "application/json" in operation.get("requestBody", {}).get("content", {})
    and "/tools/" not in path  # a tool checks its arguments itself
    and not path.endswith(IN_THREADS)
]


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def program(owner: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=owner)}"})


def problem_of(response: Any, status: int) -> str:
    assert response.status_code == status, (response.status_code, response.content[:200])
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    return str(body["detail"])


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_credentials_every_method_names_remedy(method: str, path: str) -> None:
    stranger = Client(enforce_csrf_checks=True)
    response = stranger.generic(method, path, "{}", content_type="application/json")
    assert "create_api_key" in problem_of(response, 401)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_session_without_its_token_is_still_refused(owner: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    response = browser.post("/api/v1/conversations", "{}", content_type="application/json")
    assert "CSRF" in problem_of(response, 403)


@pytest.mark.parametrize(
    "path",
    [
        "/api/", "/api/v2/conversations", "/api/v1/no/such/route", "/api/v1/conversations/abc",
        "/api/v1/conversations/-1", "/api/v1/conversations/1.5", "/api/v1/conversations/1/messages/2",
        "/api/v1/imports/x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_unknown_addresses_and_bad_ids(program: Client, method: str, path: str) -> None:
    response = program.generic(method, path, "{}", content_type="application/json")
    assert "/api/v1/docs" in problem_of(response, 404)


def test_too_large_id_gets_404(program: Client) -> None:
    assert problem_of(program.get(f"/api/v1/conversations/{10**30}"), 404)


def test_unsupported_method_names_allowed_ones(program: Client) -> None:
    response = program.put("/api/v1/conversations")
    assert problem_of(response, 405) == "PUT is not possible here: use GET, POST."
    assert set(response.headers["Allow"].split(", ")) == {"GET", "POST"}
    assert "Content-Security-Policy" in response.headers


def test_pages_keep_their_own_errors(owner: User) -> None:
    response = Client().get("/no/such/page")
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", [path for path, operation in READING if operation.get("security")])
def test_unknown_query_parameters_are_refused_by_name(program: Client, path: str) -> None:
    detail = problem_of(program.get(path, {"agnet": "claude", "query": "two words"}), 422)
    assert "'agnet'" in detail or "'query'" in detail


def test_unknown_parameter_names_known_ones(program: Client, owner: User) -> None:
    make_conversation(owner, exchange(("a question", "an answer")))
    assert "use any of after, agent" in problem_of(program.get("/api/v1/conversations", {"agnet": "x"}), 422)
    assert "'q'" in problem_of(program.get("/api/v1/conversations/search", {"q": "bread"}), 422)
    assert "takes none" in problem_of(program.get("/api/v1/tools", {"name": "x"}), 422)
    assert program.get("/api/v1/conversations", {"agent": "", "limit": "5"}).status_code == 200


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_unknown_query_parameters_of_changes_are_refused_by_name(program: Client, method: str, path: str) -> None:
    response = program.generic(method, f"{path}?agnet=claude", "{}", content_type="application/json")
    assert "'agnet'" in problem_of(response, 422)


@pytest.mark.parametrize(("method", "path"), BODILESS)
def test_fields_for_route_without_body_are_refused_by_name(program: Client, method: str, path: str) -> None:
    response = program.generic(method, path, '{"agnet": "claude"}', content_type="application/json")
    assert "There is no field 'agnet' here: this route takes none." in problem_of(response, 422)


@pytest.mark.parametrize(("method", "path"), WRITING)
def test_unknown_fields_of_bodies_are_refused_by_name(program: Client, method: str, path: str) -> None:
    response = program.generic(method, path, '{"agnet": "claude"}', content_type="application/json")
    assert "There is no field 'agnet' here: use any of " in problem_of(response, 422)


def test_half_of_surrogate_pair_is_refused(program: Client) -> None:
    body = json.dumps({"query": "two words", "project": "\ud800"})
    response = program.post("/api/v1/memory/recall", body, content_type="application/json")
    assert "half of a surrogate pair" in problem_of(response, 422)


def test_misspelt_change_is_refused_and_alias_is_known(program: Client, owner: User) -> None:
    number = make_conversation(owner, exchange(("a question", "an answer"))).pk
    path, form = f"/api/v1/conversations/{number}", "application/json"
    refused = program.patch(path, '{"archive": true}', content_type=form)
    assert "use any of agent, archived, project, title" in problem_of(refused, 422)
    copied = {"kind": "conversation", "id": number, "space": 10**9, "copy": True}
    assert "space" in problem_of(program.post("/api/v1/moves", copied, content_type=form), 404)


def test_missing_key_is_reported_before_unknown_parameters() -> None:
    assert "key" in problem_of(Client().get("/api/v1/conversations", {"agnet": "x"}), 401)


def test_bodies_that_cannot_be_read_are_problems(program: Client) -> None:
    response = program.post("/api/v1/conversations", "{", content_type="application/json")
    assert "line 1 column 2" in problem_of(response, 400)
    body = json.dumps({"messages": "none"})
    refused = program.post("/api/v1/conversations", body, content_type="application/json")
    assert problem_of(refused, 422).startswith("body.messages: ")
