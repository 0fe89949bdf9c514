"""The page that lists the browsers in which a person is signed in, and signs them out."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from convmemory.accounts.models import AuditEntry
from convmemory.accounts.sessions import browser_of, end_sessions
from convmemory.core import acting
from convmemory.ops.privacy.exporting import exported_columns
from convmemory.ops.privacy.ownership import owned_by_name
from convmemory.ops.runtime.sweeping import deep_sweep
from convmemory.sign_in.sessions.models import Session
from tests.factories import make_user
from tests.support.identity_provider import Provider, running_provider
from tests.support.markup import flat
from tests.surfaces.test_proxy_sign_in import HEADER, Browser
from tests.surfaces.test_second_factor import add_passkey, code_of, set_up_app, sign_in_with, signed_in

pytestmark = pytest.mark.django_db

PAGE = "/settings/sessions"
ROW = re.compile(r'<tr>\s*<th scope="row"><bdi>(.*?)</bdi>(.*?)</th>.*?</tr>', re.DOTALL)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EDGE = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0 Safari/537.36 Edg/140.0"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile/15E148 Safari/604"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def browser(user_agent: str, name: str = "ada") -> Client:
    client = Client(headers={"User-Agent": user_agent})
    assert client.post("/login", {"username": name, "password": "correct horse"}).status_code == 302
    return client


def listed(client: Client) -> list[str]:
    """Return the browsers on the page, with a star at the one that asks."""
    page = flat(client.get(PAGE).content.decode())
    return [html.unescape(name) + ("*" if "this one" in rest else "") for name, rest in ROW.findall(page)]


def numbers(client: Client) -> list[str]:
    return re.findall('name="session" value="(.*?)"', flat(client.get(PAGE).content.decode()))


def is_signed_in(client: Client) -> bool:
    return client.get("/settings/account").status_code == 200


def test_person_sees_own_browsers_and_signs_out_one(ada: User) -> None:
    make_user("eve")
    first, second, eves = browser(FIREFOX), browser(IPHONE), browser(EDGE, "eve")
    assert listed(first) == ["Firefox on Linux*", "Safari on iPhone"]
    assert listed(second) == ["Safari on iPhone*", "Firefox on Linux"]
    assert listed(eves) == ["Edge on Windows*"]
    (number,) = numbers(first)
    assert eves.post(PAGE, {"session": number}).status_code == 404
    assert is_signed_in(second)
    page = first.post(PAGE, {"session": number}, follow=True).content.decode()
    assert "That browser is signed out." in page
    assert (is_signed_in(second), is_signed_in(first), is_signed_in(eves)) == (False, True, True)
    assert listed(first) == ["Firefox on Linux*"]
    assert first.post(PAGE, {"session": number}).status_code == 404
    assert AuditEntry.objects.filter(action="revoked", what="session", person=ada, about_id=ada.pk).count() == 1


def test_all_other_browsers_are_signed_out(ada: User) -> None:
    make_user("eve")
    mine, others, eves = browser(FIREFOX), [browser(IPHONE), browser(EDGE)], browser(EDGE, "eve")
    Session.objects.filter(pk=browser(EDGE).session.session_key).update(expire_date=timezone.now())
    assert "2 other browsers are signed out." in mine.post(PAGE, follow=True).content.decode()
    assert [is_signed_in(client) for client in others] == [False, False]
    assert is_signed_in(mine)
    assert is_signed_in(eves)
    assert "Sign out all other browsers" not in mine.get(PAGE).content.decode()


def test_this_browser_is_not_signed_out_here_and_strangers_get_log_in(ada: User) -> None:
    mine, other = browser(FIREFOX), browser(EDGE)
    (number,) = numbers(other)
    assert mine.post(PAGE, {"session": number}).status_code == 404
    assert is_signed_in(mine)
    assert Client().get(PAGE).headers["Location"].startswith("/login")
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(ada)
    assert forged.post(PAGE).status_code == 403
    assert is_signed_in(other)


def test_page_shows_no_key_of_session_and_archive_contains_none(ada: User) -> None:
    mine, other = browser(FIREFOX), browser("<script>alert(1)</script>")
    page = mine.get(PAGE).content.decode()
    assert "&lt;script&gt;" in page
    for client in (mine, other):
        assert str(client.session.session_key) not in page
    assert exported_columns(owned_by_name()["session"]) == [
        "expire_date", "person_id", "user_agent", "signed_in_at", "seen_at"
    ]  # fmt: skip


def test_every_way_to_sign_in_is_listed(ada: User, provider: Provider, settings: Settings) -> None:
    settings.OIDC_PROVIDERS = (provider.settings(match_email=True),)
    settings.REMOTE_USER_HEADER, settings.FORWARDED_ALLOW_IPS = HEADER, ["10.0.0.0/8"]
    User.objects.update(email="ada@example.org")
    provider.describe("s-30", email="ada@example.org", email_verified=True)
    owner = signed_in(ada)
    provider.sign_in(Client(headers={"User-Agent": "by provider"}), "s-30")
    authenticator = add_passkey(owner)
    sign_in_with(authenticator, Client(headers={"User-Agent": "by passkey"}))
    key, _codes = set_up_app(owner)
    coded = Client(headers={"User-Agent": "by code"})
    coded.post("/login", {"username": "ada", "password": "correct horse"})
    coded.post("/login/code", {"code": code_of(key)})
    assert sorted(listed(owner)) == ["Unknown browser*", "by code", "by passkey", "by provider"]

    by_proxy = Browser().get(PAGE, user="grace", **{"User-Agent": "by proxy"})
    assert "by proxy" in by_proxy.content.decode()


def test_last_use_is_noted_once_an_hour(ada: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = browser(FIREFOX)
    rows = Session.objects.filter(person=ada)
    for minutes, is_noted in ((59, False), (61, True)):
        before = timezone.now() - timedelta(minutes=minutes)
        rows.update(seen_at=before, person=ada)
        with django_assert_num_queries(4 if is_noted else 3):  # session, user, memberships
            client.get("/settings/keys/1/use")
        assert rows.filter(seen_at__gt=before).exists() is is_noted


def test_session_of_earlier_version_gets_its_person_with_its_next_use(ada: User) -> None:
    client = browser(FIREFOX)
    Session.objects.update(person=None, seen_at=None)
    assert is_signed_in(client)
    assert end_sessions(user_id=ada.pk) == 1
    assert not is_signed_in(client)


def test_changed_password_keeps_this_browser_alone(ada: User) -> None:
    mine, other = browser(FIREFOX), browser(EDGE)
    form = {"old_password": "correct horse", "new_password1": "battery staple", "new_password2": "battery staple"}
    assert mine.post("/settings/password", form).status_code == 302
    assert (is_signed_in(mine), is_signed_in(other)) == (True, False)
    assert "Firefox on Linux*" in listed(mine)


def test_expired_sessions_are_swept_and_not_listed(ada: User) -> None:
    mine = browser(FIREFOX)
    old = browser(EDGE).session.session_key
    Session.objects.filter(pk=old).update(expire_date=timezone.now())
    assert listed(mine) == ["Firefox on Linux*"]
    with acting.maintenance():
        deep_sweep(enqueue=lambda ids: None)
    assert [session.person_id for session in Session.objects.all()] == [ada.pk]


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (EDGE, "Edge on Windows"),
        (IPHONE, "Safari on iPhone"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("x" * 300, "x" * 59 + "…"),
        ("", "Unknown browser"),
    ],
)
def test_browser_is_named_by_its_user_agent(user_agent: str, name: str) -> None:
    assert browser_of(user_agent) == name
