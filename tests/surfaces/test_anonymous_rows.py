"""Rows that requests without an account cause: however many requests there are, they stay few, in every table."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextvars import copy_context
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import AuditEntry, ShareLink
from convmemory.conversations import sharing
from convmemory.core.acting import acting_for
from convmemory.core.web.remote_user import PEER
from convmemory.ops.observability import measures
from convmemory.sign_in import oidc, passkeys
from convmemory.sign_in.attempts import ADDRESS, PAIR
from convmemory.sign_in.models import Passkey
from tests.factories import exchange, make_conversation, make_user
from tests.support.authenticator import Authenticator
from tests.support.identity_provider import Provider, running_provider
from tests.support.patience import ANSWER_S
from tests.support.sign_in_pauses import prolong_pauses

pytestmark = pytest.mark.django_db(transaction=True)

REQUESTS = int(os.environ.get("ANONYMOUS_REQUESTS", "30"))  # 1,000 in `make trials`
HEADER = "X-Forwarded-User"
ARGUMENTS = {"int": "1", "slug": "corp", "uuid": "00000000-0000-4000-8000-000000000000"}
Send = Callable[[int], object]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def open_server(provider: Provider, settings: Settings) -> None:
    """A server with every way in that anonymous requests have."""
    settings.OIDC_PROVIDERS = (provider.settings(create_accounts=True),)
    settings.SHARING, settings.EMAIL_HOST = "anybody", "localhost"
    settings.REMOTE_USER_HEADER, settings.FORWARDED_ALLOW_IPS = HEADER, ["10.0.0.0/8"]


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def rows() -> dict[str, int]:
    """The number of rows of every table."""
    measures.flush()
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        names = [name for (name,) in cursor.fetchall()]
        cursor.execute(" UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in names))
        return dict(cursor.fetchall())


def added_by(send: Send, requests: int = REQUESTS) -> dict[str, int]:
    """The rows that so many requests add, by table; one request comes before, whose measurements are not counted."""
    send(0)
    before = rows()
    for number in range(1, requests + 1):
        send(number)
    after = rows()
    # Measurements are of a route and a status, not of a request; an hour may have ended meanwhile.
    assert after.pop("ops_measure") - before.pop("ops_measure") <= 8
    assert after.pop("accounts_auditentry") - before.pop("accounts_auditentry") <= 1
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def counted(**of: object) -> tuple[set[tuple[str, int | None, int | None]], int]:
    """The objects, persons and archives of entries of the audit log, and how often these happened in all."""
    entries = list(AuditEntry.objects.filter(**of).values_list("what", "person_id", "about_id", "times"))
    assert len(entries) <= 2
    return {entry[:3] for entry in entries}, sum(entry[3] or 0 for entry in entries)


def link_of(owner: User) -> str:
    found = make_conversation(owner, exchange(("which glaze?", "Celadon.")))
    with acting_for(owner.pk):
        _, token = sharing.create_link(
            caller=Caller.of(owner), conversation_id=found.pk, turn=None, days=7, audience="anybody"
        )
    return f"/shared/{token}"


def test_answers_of_provider_without_begun_sign_in_add_no_row() -> None:
    assert added_by(lambda number: Client().get("/login/with/corp/done", {"code": "x", "state": f"s{number}"})) == {}


def test_answers_to_one_sign_in_are_one_entry_and_pause() -> None:
    client = Client()
    state = parse_qs(urlsplit(client.get("/login/with/corp").headers["Location"]).query)["state"][0]
    statuses = set()

    def refused(number: int) -> None:
        statuses.add(client.get("/login/with/corp/done", {"error": "access_denied", "state": state}).status_code)
        prolong_pauses()

    assert added_by(refused) == {}
    assert statuses == {403, 429}
    assert counted(action="sign-in failed") == ({("provider corp", None, None)}, PAIR.free + 1)


def test_no_database_connection_is_held_while_provider_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    client, held = Client(), []

    def finish(*args: object, **kwargs: object) -> oidc.SignedIn:
        held.append(connection.connection is not None)
        raise oidc.SignInRefused("No.")

    monkeypatch.setattr(oidc, "finish", finish)
    state = parse_qs(urlsplit(client.get("/login/with/corp").headers["Location"]).query)["state"][0]
    assert client.get("/login/with/corp/done", {"code": "x", "state": state}).status_code == 403
    assert held == [False]


def test_answers_to_many_sign_ins_pause_by_address() -> None:
    def refused(number: int) -> None:
        client = Client()
        state = parse_qs(urlsplit(client.get("/login/with/corp").headers["Location"]).query)["state"][0]
        client.get("/login/with/corp/done", {"error": "access_denied", "state": state})

    added = added_by(refused)
    assert set(added) == {"sign_in_passwordfailures"}
    assert added["sign_in_passwordfailures"] <= 60


def test_refused_answers_of_an_address_keep_out_no_browser_that_has_signed_in(provider: Provider) -> None:
    known, new = Client(), Client()
    assert provider.sign_in(known, "s-1").status_code == 302
    for _ in range(30):
        client = Client()
        state = parse_qs(urlsplit(client.get("/login/with/corp").headers["Location"]).query)["state"][0]
        paused = client.get("/login/with/corp/done", {"error": "access_denied", "state": state}).status_code == 429
        prolong_pauses()
    assert paused
    assert provider.sign_in(new, "s-2").status_code == 429
    known.post("/logout")
    assert provider.sign_in(known, "s-1").status_code == 302
    forged = Client()
    forged.cookies["convmemory_known_browser"] = "x:y:z"
    assert provider.sign_in(forged, "s-3").status_code == 429


@pytest.mark.parametrize("signed_in", [False, True])
def test_openings_of_link_are_one_entry_an_hour_for_each_visitor(ada: User, signed_in: bool) -> None:
    path, visitor = link_of(ada), Client()
    eve = make_user("eve")
    if signed_in:
        visitor.force_login(eve)

    def opened(number: int) -> None:
        b"".join(visitor.get(path).streaming_content)  # type: ignore[attr-defined]

    assert added_by(opened) == {}
    link = ShareLink.objects.get()
    what = f"conversation {link.conversation_id} by share link {link.pk}"
    assert counted(action="read") == ({(what, eve.pk if signed_in else None, ada.pk)}, REQUESTS + 1)
    assert link.opened_count == REQUESTS + 1


def test_requests_for_head_of_link_are_one_entry_and_no_opening(ada: User) -> None:
    path = link_of(ada)
    assert added_by(lambda number: Client().head(path)) == {}
    link = ShareLink.objects.get()
    assert counted(action="read") == ({(f"head of share link {link.pk}", None, ada.pk)}, REQUESTS + 1)
    assert link.opened_count == 0


def test_wrong_passwords_are_one_entry_for_each_account_and_pause(ada: User) -> None:
    def wrong(number: int) -> None:
        Client().post("/login", {"username": f"no{number}", "password": "wrong"})
        prolong_pauses()

    added = added_by(wrong)
    assert set(added) == {"sign_in_passwordfailures"}
    assert added["sign_in_passwordfailures"] <= 60
    for _ in range(3):
        Client(REMOTE_ADDR="192.0.2.7").post("/login", {"username": "ada", "password": "wrong"})
    assert counted(action="sign-in failed", about=None) == ({("password", None, None)}, ADDRESS.free + 1)
    assert counted(action="sign-in failed", about=ada.pk) == ({("password", None, ada.pk)}, 3)


def test_requests_for_new_password_pause_by_address() -> None:
    added = added_by(lambda number: Client().post("/password/reset", {"email": f"a{number}@example.org"}))
    assert set(added) <= {"sign_in_passwordfailures", "accounts_mail"}
    assert sum(added.values()) <= 80


def test_answers_of_known_passkey_are_one_entry_and_no_session(ada: User) -> None:
    """The browser keeps its cookies, in which sentences about refusals gather that no page has shown."""
    authenticator = Authenticator()
    passkeys.add_passkey(
        ada, name="Laptop", answer=authenticator.create(passkeys.creation_options(ada, "testserver")), host="testserver"
    )
    assert Passkey.objects.count() == 1
    authenticator.origin = "https://else.example"
    wrong, client = authenticator.get(passkeys.request_options("testserver")), Client()
    assert added_by(lambda number: client.post("/login/passkey", {"credential": wrong})) == {}
    assert counted() == ({("passkey", None, ada.pk)}, REQUESTS + 1)


def test_refused_names_of_proxy_are_one_entry() -> None:
    browser = AsyncClient()
    browser.defaults[PEER] = "10.1.2.3"  # type: ignore[literal-required]

    def visit(number: int) -> None:
        copy_context().run(async_to_sync(browser.get), "/settings/account", headers={HEADER: "grace"})
        browser.cookies.clear()

    visit(0)
    User.objects.update(is_active=False)
    assert added_by(visit) == {}
    assert counted(action="sign-in failed") == ({("proxy", None, None)}, REQUESTS + 1)


@pytest.mark.parametrize("path", ["/api/v1/conversations", "/v1/models", "/scim/v2/Users"])
def test_wrong_keys_add_no_row(path: str) -> None:
    assert added_by(lambda number: Client(headers={"Authorization": f"Bearer cvm_{number}"}).get(path)) == {}


@pytest.mark.parametrize("path", ["/shared/x{}", "/invitations/{}-x", "/password/reset/MQ/x{}", "/no-{}", "/no/{}/x"])
def test_guessed_links_add_no_row(ada: User, path: str) -> None:
    assert added_by(lambda number: Client().get(path.format(number))) == {}


@pytest.mark.parametrize("path", ["/register", "/token", "/revoke", "/mcp"])
def test_programs_without_account_add_no_row(address: str, path: str) -> None:
    http = httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False)
    values = {"redirect_uris": ["http://localhost/done"], "token_endpoint_auth_method": "none"}
    client_id = http.post("/register", json=values).json()["client_id"]
    form = {"grant_type": "authorization_code", "code_verifier": "x" * 43, "client_id": client_id}

    def send(number: int) -> None:
        if path == "/register":
            http.post(path, json=values | {"client_name": secrets.token_hex(4)})
        elif path == "/mcp":
            http.post(path, json={}, headers={"Authorization": f"Bearer {number}"})
        else:
            http.post(path, data=form | {"code": f"c{number}", "token": f"cvm_{number}"})

    assert added_by(send) == {}
    http.close()


def routes(patterns: list[URLPattern | URLResolver], before: str = "/") -> Iterator[str]:
    """The paths of every route, with an argument of each kind."""
    for each in patterns:
        path = before + str(each.pattern).removeprefix("^").removesuffix(r"\Z").removesuffix("$")
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns, path)
        elif "(?" not in path:
            for name, kind in each.pattern.converters.items():
                path = path.replace(f"<{type_of(path, name)}{name}>", ARGUMENTS.get(type(kind).__name__, "1"))
            yield path


def type_of(path: str, name: str) -> str:
    before, _, _ = path.partition(f"{name}>")
    return before.rpartition("<")[2]


@pytest.mark.slow
def test_no_other_route_adds_rows() -> None:
    paths = sorted(set(routes(get_resolver().url_patterns)))
    assert len(paths) > 150

    def send_all(number: int) -> None:
        client = Client(raise_request_exception=False)
        for path in paths:
            for method in ("get", "head", "post", "put", "patch", "delete"):
                answer = getattr(client, method)(path, {"x": number} if method == "post" else None)
                assert answer.status_code != 500, (method, path)

    assert added_by(send_all, 1) == {}
