"""Sign-in by a header of a trusted proxy: whose account it leads to, how long, and which headers are ignored."""

import os
import re
import subprocess
import sys
from contextvars import copy_context
from typing import Any

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, override_settings
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import AuditEntry, Membership
from convmemory.accounts.spaces import create_space, follow_groups
from convmemory.core.web.remote_user import PEER
from convmemory.ops.runtime.instance import web_command
from convmemory.sign_in.models import LinkedIdentity
from tests.factories import make_user
from tests.support.directory import Directory
from tests.support.installation import ROOT
from tests.support.web_process import web_process

pytestmark = pytest.mark.django_db

HEADER, GROUPS = "X-Forwarded-User", "X-Forwarded-Groups"
ACCOUNT = "/settings/account"
SIGNED_IN = re.compile("signed in as <strong>(.*?)</strong>")


@pytest.fixture(autouse=True)
def proxied(settings: Settings) -> None:
    settings.REMOTE_USER_HEADER, settings.FORWARDED_ALLOW_IPS = HEADER, ["10.0.0.0/8", "2001:db8::1"]


class Browser:
    """A browser whose requests come from the address `peer`, with the headers that are named at each request."""

    def __init__(self, peer: str = "10.1.2.3") -> None:
        self.client = AsyncClient()
        self.client.defaults[PEER] = peer  # type: ignore[literal-required]

    def get(self, path: str, **headers: str) -> Any:
        return self.send("get", path, **headers)

    def send(self, method: str, path: str, user: str = "", groups: str = "", **headers: str) -> Any:
        given = {HEADER: user} if user else {}
        given |= {GROUPS: groups} if groups else {}
        send = async_to_sync(getattr(self.client, method))
        return copy_context().run(send, path, headers=given | headers)  # whom the request acts for ends with it

    def user(self, user: str = "", **headers: str) -> str:
        """Return the name of the user whom a page calls signed in, "" without one."""
        found = SIGNED_IN.search(self.get(ACCOUNT, user=user, **headers).content.decode())
        return found[1] if found else ""


def test_new_person_gets_account_that_later_visits_find() -> None:
    make_user("ada")
    assert Browser().user("grace@corp") == "grace"
    assert Browser("::ffff:10.0.0.7").user("grace@corp") == "grace"
    assert Browser("2001:db8::1").user("ada") == "ada-2", "a name finds no account"
    assert [user.has_usable_password() for user in User.objects.order_by("pk")] == [True, False, False]
    assert LinkedIdentity.objects.count() == 2
    assert AuditEntry.objects.filter(action="signed in").count() == 3


def test_header_of_others_is_ignored() -> None:
    for peer in ("192.0.2.1", "127.0.0.1", "", "10.1.2.3.example", "2001:db8::2"):
        answer = Browser(peer).get(ACCOUNT, user="grace")
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/login?next={ACCOUNT}"), peer
        assert "Continue as" not in Browser(peer).get("/login", user="grace").content.decode()
    assert Browser().user("x" * 151) == Browser().user(" ") == ""
    assert not User.objects.exists()


def test_session_is_good_with_same_name_alone(settings: Settings) -> None:
    browser = Browser()
    assert browser.user("grace") == "grace"
    assert browser.get("/api/v1/conversations", user="grace").status_code == 200
    for other in ("", "ada"):
        assert browser.get("/api/v1/conversations", user=other).status_code == 401
    assert browser.user() == ""
    assert browser.user("grace") == "grace"
    assert browser.user("ada") == "ada"
    assert browser.user("ada") == "ada"
    settings.FORWARDED_ALLOW_IPS = ["192.0.2.1"]
    assert browser.user("ada") == ""


def test_only_pages_that_are_read_begin_session() -> None:
    key = create_key(person=make_user("ada"))
    browser = Browser()
    for method, path in (("get", "/api/v1/conversations"), ("post", ACCOUNT), ("get", "/login"), ("get", "/health")):
        answer = browser.send(method, path, user="grace")
        assert "convmemory_session" not in browser.client.cookies, path
        assert answer.status_code in (200, 302, 401, 405), path
    assert browser.get("/api/v1/conversations", user="grace", Authorization=f"Bearer {key}").status_code == 200
    assert not User.objects.filter(username="grace").exists()


def test_groups_decide_who_is_staff_with_next_page(settings: Settings) -> None:
    settings.REMOTE_GROUPS_HEADER, settings.REMOTE_STAFF_GROUPS = GROUPS, ["admins"]
    browser = Browser()
    for groups, is_staff in (("readers, admins", True), ("administrators", False), ("admins", True), ("", False)):
        assert browser.user("grace", groups=groups) == "grace"
        assert User.objects.get().is_staff is is_staff, groups
        assert browser.get("/admin/", user="grace", groups=groups).status_code == (200 if is_staff else 302)
    settings.REMOTE_STAFF_GROUPS = []
    User.objects.update(is_staff=True)
    assert Browser().user("grace", groups="readers") == "grace"
    assert User.objects.get().is_staff, "without groups of staff, the administration decides"


def test_person_who_signed_in_otherwise_stays_that_person(settings: Settings) -> None:
    browser = Browser()
    async_to_sync(browser.client.aforce_login)(make_user("ada"))
    assert browser.user("grace") == "ada"
    assert not User.objects.filter(username="grace").exists()


def test_header_finds_account_that_scim_made_if_set_and_scim_finds_account_of_header(settings: Settings) -> None:
    directory = Directory()
    ada = directory.user("ada@example.org", externalId="7f3")
    directory.user("bob@example.org")
    assert Browser().user("bob@example.org") == "bob", "without the setting a name finds no account"
    settings.REMOTE_USER_SCIM = True
    assert (Browser().user("ADA@example.org"), Browser().user("ADA@example.org")) == (ada.username, ada.username)
    refused = Browser().get(ACCOUNT, user="7f3")
    assert (refused.status_code, "Your account has another sign-in" in refused.content.decode()) == (403, True)
    assert Browser().user("grace@example.org") == "grace"
    grace = directory.user("Grace@example.org", externalId="8a1")
    assert grace == User.objects.get(username__iexact="grace@example.org")
    assert LinkedIdentity.objects.get(person_id=grace.pk).subject == "grace@example.org"
    for person, name in ((ada, "ADA@example.org"), (grace, "grace@example.org")):
        directory.patch(f"/Users/{person.pk}", {"op": "Replace", "path": "active", "value": False})
        assert Browser().get(ACCOUNT, user=name).status_code == 403


def test_provider_named_proxy_keeps_its_memberships_when_header_signs_in() -> None:
    assert Browser().user("grace") == "grace"
    grace = User.objects.get(username="grace")
    space = create_space(person=make_user("mia"), name="Sales").pk
    follow_groups(person=grace, provider="proxy", roles={space: "reader"})
    assert Browser().user("grace") == "grace"
    assert Membership.objects.get(person=grace).role == "reader"


def test_signed_out_person_sees_who_would_be_signed_in_again(settings: Settings) -> None:
    settings.SSO_ONLY, settings.REMOTE_SIGN_OUT_URL = True, "https://id.example.org/oauth2/sign_out"
    browser = Browser()
    browser.user("grace")
    assert browser.send("post", "/logout", user="grace").headers["Location"] == "/login?out=_proxy"
    page = browser.get("/login?out=_proxy&next=/library", user="grace").content.decode()
    assert 'href="https://id.example.org/oauth2/sign_out"' in page
    assert re.search('href="/library">Continue as grace<', page)
    assert 'type="password"' not in page
    assert browser.get("/api/v1/conversations", user="grace").status_code == 401
    assert browser.user("grace") == "grace"


def test_deactivated_account_stays_out() -> None:
    browser = Browser()
    browser.user("grace")
    User.objects.update(is_active=False)
    answer = browser.get(ACCOUNT, user="grace")
    assert (answer.status_code, "Your account is deactivated" in answer.content.decode()) == (403, True)
    assert AuditEntry.objects.filter(action="sign-in failed", what="proxy").count() == 1


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "REMOTE_USER_HEADER needs FORWARDED_ALLOW_IPS"),
        ({"FORWARDED_ALLOW_IPS": "*"}, "REMOTE_USER_HEADER needs FORWARDED_ALLOW_IPS"),
        (
            {"FORWARDED_ALLOW_IPS": "10.0.0.1", "REMOTE_STAFF_GROUPS": "a"},
            "REMOTE_STAFF_GROUPS needs REMOTE_GROUPS_HEADER",
        ),
    ],
)
def test_header_without_trusted_proxy_or_groups_without_header_is_refused_at_start(
    variables: dict[str, str], said: str
) -> None:
    environment = {**os.environ, "FORWARDED_ALLOW_IPS": "", "REMOTE_USER_HEADER": HEADER, **variables}
    command = [sys.executable, "-c", "import convmemory.settings"]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert f"SettingError: {said}" in found.stderr


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_server_believes_header_of_its_proxy_alone() -> None:
    variables = {"FORWARDED_ALLOW_IPS": "127.0.0.1", "REMOTE_USER_HEADER": HEADER}

    def start(port: int) -> list[str]:
        with override_settings(FORWARDED_ALLOW_IPS=["127.0.0.1"]):
            return web_command("127.0.0.1", port)

    def visit(source: str, *headers: tuple[str, str]) -> str:
        transport = httpx2.HTTPTransport(local_address=source)
        with httpx2.Client(base_url=server.address, transport=transport, timeout=60, follow_redirects=True) as client:
            found = SIGNED_IN.search(client.get(ACCOUNT, headers=list(headers)).text)
        return found[1] if found else ""

    named = (HEADER, "grace")
    with web_process(variables, command=start) as server:
        for claimed in ((), (("X-Forwarded-For", "127.0.0.1"),)):
            assert visit("127.0.0.2", named, *claimed) == ""
        assert visit("127.0.0.1", (HEADER, "mallory"), named) == "", "one of the two is not the proxy's"
        assert not User.objects.exists()
        for forwarded in ((), (("X-Forwarded-For", "192.0.2.7"),)):
            assert visit("127.0.0.1", named, *forwarded) == "grace"
