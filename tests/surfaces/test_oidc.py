"""Sign-in by OpenID Connect, with a real provider in another process: whose account it leads to, and who stays out."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.core.management import call_command
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import AuditEntry, Membership, ProviderAddress
from convmemory.accounts.spaces import change_role, create_space, remove_member
from convmemory.core import acting
from convmemory.core.identity_providers import SpaceGroup
from convmemory.sign_in import oidc
from convmemory.sign_in.models import LinkedIdentity
from tests.factories import add_member, make_user
from tests.support.directory import Directory
from tests.support.fleet import free_port
from tests.support.identity_provider import Provider, running_provider
from tests.support.installation import ROOT
from tests.surfaces.browser import Chromium

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def corp(provider: Provider, settings: Settings) -> Callable[..., None]:
    """Sets what the operator says about the provider; at first, that it makes accounts."""

    def describe(**changed: Any) -> None:
        settings.OIDC_PROVIDERS = (provider.settings(**changed),)

    describe(create_accounts=True)
    return describe


def user_of(client: Client) -> str:
    found = re.search("signed in as <strong>(.*?)</strong>", client.get("/settings/account").content.decode())
    return found[1] if found else ""


def test_new_person_gets_account_that_later_sign_ins_find(provider: Provider) -> None:
    provider.describe("s-1", preferred_username="grace hopper@corp", email="grace@example.org", email_verified=True)
    client = Client()
    asked = parse_qs(urlsplit(client.get("/login/with/corp").headers["Location"]).query)
    assert (asked["code_challenge_method"], asked["response_type"]) == (["S256"], ["code"])
    assert asked["redirect_uri"] == ["http://testserver/login/with/corp/done"]
    assert {"state", "nonce", "code_challenge"} <= set(asked)
    answer = provider.sign_in(client, "s-1", next_page=f"/settings/keys?x={'ß' * 300}")
    assert answer.headers["Location"] == f"/settings/keys?x={'%C3%9F' * 300}"
    assert user_of(client) == "grace-hopper"
    user = User.objects.get()
    assert (user.email, user.has_usable_password(), user.is_staff) == ("grace@example.org", False, False)

    provider.describe("s-1", preferred_username="root", email="other@example.org", email_verified=True)
    again = Client()
    assert provider.sign_in(again, "s-1").headers["Location"] == "/"
    assert user_of(again) == "grace-hopper"
    provider.describe("s-2", preferred_username="Grace-Hopper")
    namesake = Client()
    provider.sign_in(namesake, "s-2")
    assert user_of(namesake) == "Grace-Hopper-2", "a name finds no account"
    assert LinkedIdentity.objects.count() == 2
    with acting.acting_for(user.pk):
        assert [identity.subject for identity in LinkedIdentity.objects.all()] == ["s-1"]
    with acting.without_owner():
        assert not LinkedIdentity.objects.exists()


def test_unknown_person_is_refused_unless_provider_makes_accounts(
    provider: Provider, corp: Callable[..., None]
) -> None:
    corp()
    answer = provider.sign_in(Client(), "s-3")
    assert (answer.status_code, "there is no account for you here" in answer.content.decode()) == (403, True)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("matches", "verified", "found"),
    [(True, True, "ada"), (False, True, ""), (True, False, ""), (True, "true", ""), (True, None, "")],
)
def test_only_verified_address_finds_account_and_only_if_set(
    provider: Provider, corp: Callable[..., None], matches: bool, verified: object, found: str
) -> None:
    corp(match_email=matches)
    make_user("ada")
    User.objects.update(email="Ada@example.org")
    provider.describe("s-4", email="ada@example.org", email_verified=verified)
    client = Client()
    answer = provider.sign_in(client, "s-4")
    assert answer.status_code == (302 if found else 403)
    assert user_of(client) == found


def test_address_that_passed_to_another_person_or_is_ambiguous_finds_no_account(
    provider: Provider, corp: Callable[..., None]
) -> None:
    corp(match_email=True, create_accounts=True)
    make_user("ada")
    User.objects.update(email="ada@example.org")
    for subject in ("s-5", "s-6"):
        provider.describe(subject, email="ada@example.org", email_verified=True)
    assert provider.sign_in(Client(), "s-5").status_code == 302
    for _ in range(2):
        refused = provider.sign_in(Client(), "s-6")
        assert (refused.status_code, "has another sign-in" in refused.content.decode()) == (403, True)
        LinkedIdentity.objects.all().delete()
        User.objects.get_or_create(username="second", email="ada@example.org")
    assert User.objects.count() == 2


def test_address_that_other_provider_gave_finds_no_account(provider: Provider, settings: Settings) -> None:
    with running_provider() as club:
        trusted = provider.settings(match_email=True, create_accounts=True)
        settings.OIDC_PROVIDERS = (trusted, club.settings(name="club", create_accounts=True))
        club.describe("mallory", preferred_username="mallory", email="ada@example.org", email_verified=True)
        provider.describe("s-17", preferred_username="ada", email="Ada@example.org", email_verified=True)
        mallory, ada = Client(), Client()
        club.sign_in(mallory, "mallory", name="club")
        provider.sign_in(ada, "s-17")
        assert (user_of(mallory), user_of(ada)) == ("mallory", "ada")


def test_address_that_same_provider_gave_or_staff_set_finds_account(
    provider: Provider, corp: Callable[..., None]
) -> None:
    corp(match_email=True, create_accounts=True)
    for subject in ("s-18", "s-19", "s-20"):
        provider.describe(subject, preferred_username=subject, email="ada@example.org", email_verified=True)
    provider.sign_in(Client(), "s-18")
    LinkedIdentity.objects.all().delete()
    again = Client()
    provider.sign_in(again, "s-19")
    assert user_of(again) == "s-18", "a person whose subject at the provider has changed"
    ProviderAddress.objects.update(issuer="https://else.example")
    LinkedIdentity.objects.all().delete()
    provider.describe("s-20", email="countess@example.org", email_verified=True)
    User.objects.update(email="countess@example.org")  # as staff set it in the administration
    last = Client()
    provider.sign_in(last, "s-20")
    assert user_of(last) == "s-18"


def test_unverified_address_finds_no_account_that_scim_made(provider: Provider, corp: Callable[..., None]) -> None:
    corp(scim_claim="email")
    Directory().user("ada@example.org")
    for is_verified, status in ((False, 403), (None, 403), (True, 302)):
        provider.describe("s-21", email="ada@example.org", email_verified=is_verified)
        assert provider.sign_in(Client(), "s-21").status_code == status


def test_groups_decide_who_is_staff_at_each_sign_in(provider: Provider, corp: Callable[..., None]) -> None:
    corp(create_accounts=True, groups_claim="roles", staff_groups=("admins",))
    for roles, is_staff in ((["admins", "x"], True), ([], False), ("admins", True), (None, False), ([None, 7], False)):
        provider.describe("s-7", roles=roles)
        provider.sign_in(Client(), "s-7")
        assert User.objects.get().is_staff is is_staff, roles
    User.objects.update(is_staff=True, is_superuser=True)
    provider.sign_in(Client(), "s-7")
    assert User.objects.get().is_staff, "a superuser is none by a group"


def test_groups_give_memberships_at_sign_in_and_end_those_alone(provider: Provider, corp: Callable[..., None]) -> None:
    mia = make_user("mia")
    sales, boats, gone = (create_space(person=mia, name=name) for name in ("Sales", "Boats", "Gone"))
    given = (("sales", sales, "reader"), ("leads", sales, "manager"), ("boats", boats, "contributor"))
    groups = tuple(SpaceGroup(group, space.pk, role) for group, space, role in given)
    corp(create_accounts=True, space_groups=(*groups, SpaceGroup("sales", 999_999, "reader")))

    def memberships(*groups: str) -> dict[str, str]:
        provider.describe("s-15", preferred_username="rosa", groups=list(groups))
        assert provider.sign_in(Client(), "s-15").status_code == 302
        rows = Membership.objects.filter(person__username="rosa").select_related("archive")
        return {row.archive.name: row.role for row in rows}

    assert memberships("other") == {}
    assert memberships("sales", "boats") == {"Sales": "reader", "Boats": "contributor"}
    assert memberships("leads", "sales") == {"Sales": "manager"}
    add_member(person=mia, space_id=gone.pk, username="rosa", role="reader")
    add_member(person=mia, space_id=boats.pk, username="rosa", role="reader")
    assert memberships("boats") == {"Gone": "reader", "Boats": "reader"}, "what a manager gave stays"
    rosa = User.objects.get(username="rosa").pk
    remove_member(person=mia, space_id=boats.pk, member_id=rosa)
    assert memberships("boats") == {"Gone": "reader", "Boats": "contributor"}
    change_role(person=mia, space_id=boats.pk, member_id=rosa, role="manager")
    assert memberships() == {"Gone": "reader", "Boats": "manager"}, "a manager changed it, and so keeps it"
    acts = AuditEntry.objects.filter(what__contains="by provider corp").order_by("pk").values_list("action", "what")
    assert list(acts)[-1] == ("made", f"contributor of space {boats.pk} by provider corp")


def test_space_loses_last_manager_with_the_group(provider: Provider, corp: Callable[..., None]) -> None:
    mia = make_user("mia")
    space = create_space(person=mia, name="Sales")
    corp(create_accounts=True, space_groups=(SpaceGroup("leads", space.pk, "manager"),))
    for groups, managers in ((["leads"], {"mia", "rosa"}), (["leads"], {"rosa"}), ([], set())):
        provider.describe("s-16", preferred_username="rosa", groups=groups)
        provider.sign_in(Client(), "s-16")
        if managers == {"rosa"}:
            remove_member(person=mia, space_id=space.pk, member_id=mia.pk)
        rows = Membership.objects.filter(archive=space, role="manager")
        assert set(rows.values_list("person__username", flat=True)) == managers


def test_deactivated_account_stays_out(provider: Provider) -> None:
    client = Client()
    provider.sign_in(client, "s-8")
    User.objects.update(is_active=False)
    assert user_of(client) == ""
    answer = provider.sign_in(client, "s-8")
    assert (answer.status_code, "Your account is deactivated" in answer.content.decode()) == (403, True)
    assert user_of(client) == ""


def test_answer_that_does_not_belong_to_sign_in_of_browser_is_refused(
    provider: Provider, corp: Callable[..., None], settings: Settings
) -> None:
    settings.OIDC_PROVIDERS = (*settings.OIDC_PROVIDERS, provider.settings(name="other"))
    client, attacker = Client(), Client()
    mine = provider.agree(client.get("/login/with/corp").headers["Location"], "s-9")
    theirs = provider.agree(attacker.get("/login/with/corp").headers["Location"], "s-10")
    strange = [theirs, f"{mine}&iss=https://else.example", mine.replace("state=", "state=x"), "/login/with/corp/done",
               mine.replace("/corp/", "/other/")]  # fmt: skip
    for path in strange:
        answer = client.get(path)
        assert (answer.status_code, "was not begun in this browser" in answer.content.decode()) == (403, True), path
    assert Client().get(mine).status_code == 403
    state = parse_qs(urlsplit(mine).query)["state"][0]
    stolen = re.sub("state=[^&]*", f"state={state}", theirs)
    assert client.get(stolen).status_code == 502, "the provider compares the code verifier"
    denied = client.get(f"/login/with/corp/done?state={state}&error=access_denied&error_description=<b>pay</b>")
    assert (denied.status_code, "did not let you in" in denied.content.decode()) == (403, True)
    assert "pay" not in denied.content.decode()
    assert not User.objects.exists()
    assert client.get(mine).status_code == 302
    assert Client().get("/login/with/unknown").status_code == 404


@pytest.mark.parametrize("changed", ["nonce", "code_verifier", "redirect_uri"])
def test_token_for_another_sign_in_is_refused(provider: Provider, changed: str) -> None:
    client = Client()
    path = provider.agree(client.get("/login/with/corp").headers["Location"], "s-11")
    kept = signing.loads(client.cookies[oidc.COOKIE].value, salt=oidc.SALT)
    client.cookies[oidc.COOKIE] = signing.dumps(kept | {changed: "another"}, salt=oidc.SALT)
    answer = client.get(path)
    assert (answer.status_code, "its answer is not valid" in answer.content.decode()) == (502, True)
    assert not User.objects.exists()


def test_cookie_of_sign_in_is_for_browser_and_its_pages_alone(client: Client) -> None:
    cookie = client.get("/login/with/corp", secure=True).cookies[oidc.COOKIE]
    assert (cookie["path"], cookie["samesite"]) == ("/login/with/corp", "Lax")
    assert cookie["httponly"]
    assert cookie["secure"]


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/" + "x" * 2_000]
)
def test_sign_in_never_leads_elsewhere(provider: Provider, wanted: str) -> None:
    assert provider.sign_in(Client(), "s-12", next_page=wanted).headers["Location"] == "/"


def test_provider_that_is_silent_or_another_issuer_gets_sentence(provider: Provider, corp: Callable[..., None]) -> None:
    for issuer in (f"{provider.issuer}/", f"http://localhost:{free_port()}"):
        corp(issuer=issuer)
        answer = Client().get("/login/with/corp")
        assert answer.status_code == 502
        assert "Corp does not answer, or its answer is not valid." in answer.content.decode()


def test_signing_out_offers_to_sign_out_of_provider(provider: Provider) -> None:
    client = Client()
    provider.sign_in(client, "s-13")
    page = client.post("/logout").headers["Location"]
    assert page == "/login?out=corp"
    assert user_of(client) == ""
    assert 'href="/login/with/corp/out"' in client.get(page).content.decode()
    out = urlsplit(client.get("/login/with/corp/out").headers["Location"])
    assert f"{out.scheme}://{out.netloc}{out.path}" == f"{provider.issuer}/oauth2/end_session"
    assert parse_qs(out.query)["post_logout_redirect_uri"] == ["http://testserver/login"]


def test_without_passwords_only_provider_and_keys_let_in(
    provider: Provider, settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = User.objects.create_superuser("root", password="correct horse", email="root@example.org")
    key = create_key(person=root)
    settings.SSO_ONLY = True
    page = Client().get("/login").content.decode()
    assert "Sign in with Corp" in page
    assert 'type="password"' not in page
    client = Client()
    answer = client.post("/login", {"username": "root", "password": "correct horse"})
    assert (answer.status_code, user_of(client)) == (200, "")
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    for send in (client.get, client.post):
        assert send("/admin/login/?next=/admin/").headers["Location"] == "/login?next=/admin/"
    client.force_login(root)
    for path in ("/settings/password", "/password/reset", "/password/reset/MQ/set-password", "/invitations/1-a",
                 f"/admin/auth/user/{root.pk}/password/"):  # fmt: skip
        answer = client.get(path)
        assert (answer.status_code, "This server takes no passwords" in answer.content.decode()) == (403, True), path
    assert client.get("/admin/accounts/invitation/add/").status_code == 403
    assert "make_reset_links" not in client.get("/admin/auth/user/").content.decode()
    assert 'href="/settings/password"' not in client.get("/settings/account").content.decode()
    assert Client().get("/api/v1/conversations", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    monkeypatch.setattr("sys.stdin", StringIO("a quick brown fox\n"))
    call_command("create_user", "emergency")
    assert "only once the web server runs without it" in capsys.readouterr().out
    assert "Your user name" in client.get("/settings/account/delete").content.decode()


def test_no_passwords_without_provider_is_refused_at_start() -> None:
    script = "import os; os.environ |= {'SSO_ONLY': '1', 'OIDC_PROVIDERS': ''}; import convmemory.settings"
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "SettingError: SSO_ONLY needs OIDC_PROVIDERS or REMOTE_USER_HEADER" in found.stderr


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_person_signs_in_at_provider_and_out_of_both(
    chromium: Chromium, live_server: LiveServer, provider: Provider, settings: Settings
) -> None:
    settings.SSO_ONLY = True
    provider.describe("s-14", preferred_username="hopper", groups=["admins"])
    settings.OIDC_PROVIDERS = (provider.settings(create_accounts=True, staff_groups=("admins",)),)

    def is_elsewhere(url: str) -> bool:
        return url.endswith("/favicon.ico") or not url.startswith((live_server.url, provider.issuer))

    def steps(page: Page) -> None:
        page.route(is_elsewhere, lambda route: route.fulfill(body=""))  # fonts of the provider's page
        page.goto("/admin/")
        page.get_by_role("link", name="Sign in with Corp").click()
        page.locator("input[name=sub]").fill("s-14")
        page.get_by_role("button", name="Authorize").first.click()
        page.wait_for_url(f"{live_server.url}/admin/")
        page.goto("/settings/account")
        expect(page.get_by_text("You are signed in as hopper")).to_be_visible()
        page.get_by_label("Settings").first.click()
        page.get_by_role("button", name="Sign out").first.click()
        page.get_by_role("link", name="Sign out of Corp, too").click()
        page.get_by_role("button").first.click()
        page.wait_for_url(f"{live_server.url}/login*")
        page.goto("/settings/account")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    chromium.visit(live_server.url, steps)
