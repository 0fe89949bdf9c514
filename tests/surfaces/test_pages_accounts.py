"""Account pages: signing in, API keys that are shown once, the password."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import ApiKey
from convmemory.accounts.views import NEW_KEY_COOKIE
from convmemory.sign_in.sessions.models import Session
from tests.factories import make_user
from tests.support.api import person_of, signed_in

pytestmark = pytest.mark.django_db

KEY = re.compile(r"cvm_[\w-]{43}")


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def client_of_owner(owner: User) -> Client:
    return signed_in(owner)


def test_signing_in_leads_to_page_that_was_asked_for(owner: User) -> None:
    client = Client()
    page = client.get("/login?next=/settings/keys").content.decode()
    assert 'name="next" value="/settings/keys"' in page
    wrong = client.post("/login", {"username": "ada", "password": "wrong"})
    assert "do not match an account" in wrong.content.decode()
    answer = client.post("/login", {"username": "ada", "password": "correct horse", "next": "/settings/keys"})
    assert answer.headers["Location"] == "/settings/keys"
    outside = client.post("/login", {"username": "ada", "password": "correct horse", "next": "https://evil.example"})
    assert outside.headers["Location"] == "/"
    assert client.post("/logout").headers["Location"] == "/login"


def test_key_is_shown_once(owner: User, client_of_owner: Client) -> None:
    answer = client_of_owner.post("/settings/keys", {"name": "Laptop <b>"}, follow=True)
    text = answer.content.decode()
    (key,) = set(KEY.findall(text))
    assert person_of(key) == owner
    assert "no-store" in answer.headers["Cache-Control"]
    assert "/api/v1/conversations/search" in text
    later = client_of_owner.get("/settings/keys").content.decode()
    assert key not in later
    assert key[:10] in later
    assert "Laptop &lt;b&gt;" in later


def test_name_that_is_too_long_makes_no_key(client_of_owner: Client) -> None:
    text = client_of_owner.post("/settings/keys", {"name": "x" * 101}).content.decode()
    assert "at most 100 characters" in text
    assert not ApiKey.objects.exists()


def test_revoking_key(owner: User, client_of_owner: Client) -> None:
    key = create_key(person=owner, name="old")
    row = ApiKey.objects.get()
    text = client_of_owner.post(f"/settings/keys/{row.pk}/revoke", follow=True).content.decode()
    assert "revoked" in text
    assert key[:10] not in text
    assert caller_of_key(key) is None
    assert client_of_owner.post(f"/settings/keys/{row.pk}/revoke").status_code == 404
    assert client_of_owner.get(f"/settings/keys/{row.pk}/revoke").status_code == 404


def test_revoking_key_asks_first(owner: User, client_of_owner: Client) -> None:
    key = create_key(person=owner, name="Laptop")
    address = f"/settings/keys/{ApiKey.objects.get().pk}/revoke"
    assert f'href="{address}"' in client_of_owner.get("/settings/keys").content.decode()
    page = client_of_owner.get(address).content.decode()
    assert "Laptop" in page
    assert "Revoke this key?" in page
    assert person_of(key) == owner


@pytest.mark.parametrize("page", ["/settings/keys", "/settings/connect"])
def test_loading_page_of_new_key_again_makes_no_other(owner: User, client_of_owner: Client, page: str) -> None:
    answer = client_of_owner.post(page, {"name": "Laptop"})
    assert (answer.status_code, answer.headers["Location"]) == (302, page)
    cookie = answer.cookies[NEW_KEY_COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (page, True, "Strict")
    (key,) = set(KEY.findall(client_of_owner.get(page).content.decode()))
    assert person_of(key, writes=False) == owner
    assert not KEY.search(client_of_owner.get(page).content.decode())
    assert ApiKey.objects.count() == 1


def test_new_key_is_not_shown_to_another_user_of_browser(client_of_owner: Client) -> None:
    client_of_owner.post("/settings/keys", {"name": "Laptop"})
    client_of_owner.force_login(make_user("bob"))
    assert not KEY.search(client_of_owner.get("/settings/keys").content.decode())


def test_new_key_is_stored_as_hash_only(client_of_owner: Client) -> None:
    client_of_owner.post("/settings/keys", {"name": "Laptop"})
    sessions = [session.get_decoded() for session in Session.objects.all()]
    assert sessions
    assert "cvm_" not in str(sessions)


def test_keys_of_others_are_neither_seen_nor_revoked(client_of_owner: Client) -> None:
    key = create_key(person=make_user(), name="foreign")
    assert "foreign" not in client_of_owner.get("/settings/keys").content.decode()
    assert client_of_owner.post(f"/settings/keys/{ApiKey.objects.get().pk}/revoke").status_code == 404
    assert caller_of_key(key) is not None


def test_keys_page_costs_five_queries(
    owner: User, client_of_owner: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        create_key(person=owner, name=f"key {number}")
    with django_assert_num_queries(5):  # session, user, memberships, keys, invitations
        client_of_owner.get("/settings/keys")


def test_changing_password(owner: User, client_of_owner: Client) -> None:
    form = {"old_password": "correct horse", "new_password1": "battery staple", "new_password2": "battery staple"}
    refused = client_of_owner.post("/settings/password", {**form, "old_password": "wrong"})
    assert "entered incorrectly" in refused.content.decode()
    text = client_of_owner.post("/settings/password", form, follow=True).content.decode()
    assert "Your password is changed" in text
    owner.refresh_from_db()
    assert owner.check_password("battery staple")


def test_page_while_database_is_down_gets_503(client_of_owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(ApiKey.objects, "filter", fail)
    answer = client_of_owner.get("/settings/keys")
    assert answer.status_code == 503
    assert "The server cannot reach its data" in answer.content.decode()


def test_unknown_address_is_page_without_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        answer = Client().get("/no/such/page")
    assert answer.status_code == 404
    assert "Nothing here" in answer.content.decode()


def test_error_of_server_is_page(client_of_owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(ApiKey.objects, "filter", fail)
    client_of_owner.raise_request_exception = False
    answer = client_of_owner.get("/settings/keys")
    assert answer.status_code == 500
    assert "Something broke" in answer.content.decode()
