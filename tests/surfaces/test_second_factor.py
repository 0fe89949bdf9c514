"""Second factors and passkeys: what signs in, once and within limits, what is refused, and who sets up or removes."""

import base64
import html
import re
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.accounts.invitations import VALID, path_of
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import AuditEntry, Invitation
from convmemory.accounts.sign_in_views import CONFIRMED_AT
from convmemory.core import acting
from convmemory.ops.privacy.exporting import exported_columns
from convmemory.ops.privacy.ownership import owned_by_name
from convmemory.sign_in import second_factor
from convmemory.sign_in.attempts import PAIR
from convmemory.sign_in.models import Passkey, SecondFactor
from tests.factories import make_user
from tests.support.authenticator import VERIFIED, Authenticator
from tests.surfaces.browser import Chromium, expect_to_fit

pytestmark = pytest.mark.django_db

PASSWORD = {"username": "ada", "password": "correct horse"}
PAGE = "/settings/second-factor"
NEXT = "/settings/keys?x=1"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def signed_in(user: User, *, confirmed: bool = True) -> Client:
    client = Client()
    client.force_login(user)
    if confirmed:
        session = client.session
        session[CONFIRMED_AT] = time.time()
        session.save()
    return client


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def user_of(client: Client) -> str:
    found = re.search("signed in as <strong>(.*?)</strong>", text_of(client.get("/settings/account")))
    return found[1] if found else ""


def code_of(key: str, steps: int = 0) -> str:
    totp = TOTP(base64.b32decode(key.replace(" ", "")), 6, SHA1(), 30)
    return totp.generate(int(time.time()) + 30 * steps).decode()


def set_up_app(client: Client, path: str = f"{PAGE}/app") -> tuple[str, list[str]]:
    """Set up an app on this page; returns its key and the recovery codes that are shown."""
    page = text_of(client.get(path))
    key, prepared = (re.search(pattern, page) for pattern in ("data-key>(.*?)<", 'name="prepared" value="(.*?)"'))
    assert key
    assert prepared
    answer = client.post(path, {"prepared": prepared[1], "code": code_of(key[1], -1)})
    assert answer.status_code in (200, 302), text_of(answer)
    return key[1], re.findall("<li><code>(.*?)</code>", text_of(answer))


def password_given(values: dict[str, str] = PASSWORD, at: str = "/login") -> Client:
    """A browser that has sent the right password of a person with a second factor."""
    client = Client()
    assert client.post(at, values | {"next": NEXT}).headers["Location"] == "/login/code"
    assert user_of(client) == ""
    return client


def options_in(answer: Any) -> str:
    found = re.search('data-options="(.*?)"', answer.content.decode())
    assert found
    return html.unescape(found[1])


def add_passkey(client: Client, name: str = "Laptop") -> Authenticator:
    authenticator = Authenticator()
    answer = authenticator.create(options_in(client.get(f"{PAGE}/passkeys/add")))
    assert client.post(f"{PAGE}/passkeys/add", {"name": name, "credential": answer}).status_code in (200, 302)
    return authenticator


def sign_in_with(authenticator: Authenticator, client: Client, answer: str = "") -> str:
    """Send a passkey's answer to the log-in page; returns what is said if it is refused."""
    answer = answer or authenticator.get(options_in(client.get("/login")))
    return text_of(client.post("/login/passkey", {"credential": answer, "next": NEXT}, follow=True))


def test_password_of_person_with_app_signs_in_with_code_and_leads_on(ada: User) -> None:
    key, codes = set_up_app(signed_in(ada))
    assert len(set(codes)) == second_factor.RECOVERY_CODES
    client = password_given()
    wrong = client.post("/login/code", {"code": "000000"})
    assert (wrong.status_code, user_of(client)) == (422, "")
    assert client.post("/login/code", {"code": code_of(key)}).headers["Location"] == NEXT
    assert user_of(client) == "ada"
    again = password_given()
    assert again.post("/login/code", {"code": code_of(key)}).status_code == 422, "the code was used"
    assert again.post("/login/code", {"code": code_of(key, -1)}).status_code == 422, "it is older than that one"
    assert again.post("/login/code", {"code": code_of(key, 3)}).status_code == 422, "it is not near now"
    assert again.post("/login/code", {"code": code_of(key, 1)}).status_code == 302
    failed = AuditEntry.objects.filter(action="sign-in failed", what="second factor", about_id=ada.pk)
    assert sum(entry.times or 0 for entry in failed) == 4


def test_recovery_code_signs_in_once_and_later_codes_replace_earlier(ada: User) -> None:
    owner = signed_in(ada)
    _key, codes = set_up_app(owner)
    for code, status in ((codes[0], 302), (codes[0], 422), (codes[1].upper().replace("-", " "), 302)):
        assert password_given().post("/login/code", {"code": code}).status_code == status
    assert "8 are left" in text_of(owner.get(PAGE))
    renewed = re.findall("<li><code>(.*?)</code>", text_of(owner.post(f"{PAGE}/codes")))
    assert password_given().post("/login/code", {"code": codes[2]}).status_code == 422
    assert password_given().post("/login/code", {"code": renewed[2]}).status_code == 302


def test_secrets_are_encrypted_or_hashed(ada: User) -> None:
    key, codes = set_up_app(signed_in(ada))
    with connection.cursor() as cursor:
        cursor.execute("SELECT f::text FROM sign_in_secondfactor AS f")
        stored = cursor.fetchone()[0]
    for secret in (key.replace(" ", ""), codes[0], codes[0].replace("-", "")):
        assert secret not in stored
        assert secret.encode().hex() not in stored
    assert exported_columns(owned_by_name()["secondfactor"]) == ["id", "owner_id", "app_last_step"]


def test_wrong_codes_are_followed_by_pause_that_passwords_do_not_share(ada: User) -> None:
    key, _codes = set_up_app(signed_in(ada))
    client = password_given()
    answers = [client.post("/login/code", {"code": f"00000{number}"}) for number in range(PAIR.free + 2)]
    assert [answer.status_code for answer in answers[:-1]] == [422] * (PAIR.free + 1)
    assert "Too many wrong codes. Wait" in text_of(answers[-1])
    assert password_given().post("/login/code", {"code": code_of(key)}).status_code == 429
    assert user_of(client) == ""


def test_second_step_needs_right_password_first_and_ends_with_it(ada: User) -> None:
    key, _codes = set_up_app(signed_in(ada))
    for client in (Client(), Client()):
        assert client.post("/login/code", {"code": code_of(key)}).headers["Location"] == "/login"
        client.cookies["convmemory_second_step"] = "forged"
    client = password_given()
    ada.set_password("another horse")
    ada.save()
    assert client.post("/login/code", {"code": code_of(key)}).headers["Location"] == "/login"
    client = password_given(PASSWORD | {"password": "another horse"})
    User.objects.update(is_active=False)
    assert client.post("/login/code", {"code": code_of(key)}).headers["Location"] == "/login"


@pytest.mark.parametrize("next_page", ["https://evil.example/", "//evil.example", "/" + "x" * 3_000])
def test_second_step_never_leads_elsewhere(ada: User, next_page: str) -> None:
    key, _codes = set_up_app(signed_in(ada))
    client = Client()
    client.post("/login", PASSWORD | {"next": next_page})
    assert client.post("/login/code", {"code": code_of(key)}).headers["Location"] == "/"


def test_every_way_in_by_password_asks_for_second_factor(ada: User, settings: Settings) -> None:
    User.objects.update(is_staff=True, is_superuser=True)
    set_up_app(signed_in(ada))
    client = Client()
    at = client.get("/admin/", follow=True).redirect_chain
    assert [place for place, _status in at] == ["/admin/login/?next=/admin/", "/login?next=/admin/"]
    client.post("/admin/login/?next=/admin/", PASSWORD)
    assert user_of(client) == "", "the administration has no form of its own"
    password_given()
    page = text_of(signed_in(ada).post("/admin/auth/user/", {"action": "make_reset_links", "_selected_action": ada.pk}))
    link = re.search("/password/reset/[^<\\s]+", page)
    assert link
    client = Client()
    form = client.get(link[0]).headers["Location"]
    chosen = {"new_password1": "a quick brown fox", "new_password2": "a quick brown fox"}
    assert client.post(form, chosen, follow=True).status_code == 200
    assert user_of(client) == ""
    password_given(PASSWORD | {"password": "a quick brown fox"})
    key = create_key(person=ada)
    assert Client().get("/api/v1/conversations", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_person_who_is_no_staff_is_told_so(ada: User) -> None:
    page = signed_in(ada).get("/admin/", follow=True)
    assert "That page is for staff, which ada is not." in text_of(page)


def test_passkey_alone_signs_in_and_leads_on(ada: User) -> None:
    make_user("eve")
    authenticator = add_passkey(signed_in(ada))
    client = Client()
    assert "API keys" in sign_in_with(authenticator, client)
    assert user_of(client) == "ada"
    assert Passkey.objects.get().last_used_at
    client = password_given()
    answer = authenticator.get(options_in(client.get("/login/code")))
    assert client.post("/login/passkey", {"credential": answer, "next": NEXT}).headers["Location"] == NEXT
    assert user_of(client) == "ada"


def test_answer_of_passkey_works_once(ada: User) -> None:
    authenticator = add_passkey(signed_in(ada))
    earlier, answer = (authenticator.get(options_in(Client().get("/login"))) for _ in range(2))
    assert "API keys" in sign_in_with(authenticator, Client(), answer)
    for old in (answer, earlier):
        client = Client()
        assert "This answer was used before" in sign_in_with(authenticator, client, old)
        assert user_of(client) == ""
    failed = AuditEntry.objects.filter(action="sign-in failed", what="passkey", about_id=ada.pk)
    assert sum(entry.times or 0 for entry in failed) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"origin": "https://evil.example"}, "not valid here"),
        ({"origin": "https://sub.testserver"}, "not valid here"),
        ({"host": "evil.example"}, "not valid here"),
        ({"flags": VERIFIED & ~4}, "not valid here"),
        ({"_key": Authenticator()._key}, "not valid here"),
        ({"credential_id": b"x" * 32}, "does not know that passkey"),
        ({"user_handle": ""}, "does not know that passkey"),
        ({"user_handle": "_" * 400}, "does not know that passkey"),
    ],
)
def test_answer_of_other_site_person_or_key_is_refused(ada: User, changed: dict[str, Any], said: str) -> None:
    authenticator = add_passkey(signed_in(ada))
    for name, value in changed.items():
        setattr(authenticator, name, value)
    client = Client()
    assert said in sign_in_with(authenticator, client)
    assert user_of(client) == ""


@pytest.mark.parametrize("answer", ["", "x", "[]", "{}", "[" * 9_000, '{"rawId": 1, "response": {}}', "1" * 20_000])
def test_unreadable_answer_of_browser_is_refused(ada: User, answer: str) -> None:
    assert "The browser has used no passkey" in sign_in_with(Authenticator(), Client(), answer or " ")
    added = signed_in(ada).post(f"{PAGE}/passkeys/add", {"credential": answer})
    assert (added.status_code, "has made no passkey" in text_of(added)) == (422, True)
    assert not Passkey.objects.exists()


def test_deeply_nested_attestation_is_refused(ada: User) -> None:
    authenticator = Authenticator()
    client = signed_in(ada)
    answer = authenticator.create(options_in(client.get(f"{PAGE}/passkeys/add")))
    nested = re.sub('"attestationObject": ".*?"', '"attestationObject": "' + "gYGB" * 3_000 + '"', answer)
    assert client.post(f"{PAGE}/passkeys/add", {"credential": nested}).status_code == 422


def test_challenge_is_for_one_purpose_and_one_person(ada: User) -> None:
    owner, eve = signed_in(ada), signed_in(make_user("eve"))
    authenticator = add_passkey(owner)
    confirming = authenticator.get(options_in(owner.get("/settings/confirm")))
    assert "was open for too long" in sign_in_with(authenticator, Client(), confirming)
    for_ada = Authenticator().create(options_in(owner.get(f"{PAGE}/passkeys/add")))
    assert eve.post(f"{PAGE}/passkeys/add", {"credential": for_ada}).status_code == 422
    twice = authenticator.create(options_in(eve.get(f"{PAGE}/passkeys/add")))
    assert "known already" in text_of(eve.post(f"{PAGE}/passkeys/add", {"credential": twice}))
    add_passkey(eve)
    assert Passkey.objects.count() == 2
    with acting.acting_for(ada.pk):
        assert [passkey.person_id for passkey in Passkey.objects.all()] == [ada.pk]
    with acting.without_owner():
        assert not Passkey.objects.exists()


def test_passkey_of_deactivated_account_stays_out(ada: User) -> None:
    authenticator = add_passkey(signed_in(ada))
    User.objects.update(is_active=False)
    client = Client()
    assert "Your account is deactivated" in sign_in_with(authenticator, client)


def test_without_passwords_there_are_no_passkeys_and_codes(ada: User, settings: Settings) -> None:
    owner = signed_in(ada)
    authenticator = add_passkey(owner)
    answer, half_in = authenticator.get(options_in(Client().get("/login"))), password_given()
    settings.SSO_ONLY = True
    assert "passkey" not in text_of(Client().get("/login"))
    client = Client()
    assert client.post("/login/passkey", {"credential": answer}).status_code == 403
    assert half_in.get("/login/code").status_code == owner.get(PAGE).status_code == 403
    assert user_of(client) == ""


def test_changes_ask_for_password_or_passkey_again(ada: User) -> None:
    authenticator = add_passkey(signed_in(ada))
    passkey = Passkey.objects.get()
    pages = ["app", "app/remove", "codes", "passkeys/add", f"passkeys/{passkey.pk}/remove"]
    for page in pages:
        client = signed_in(ada, confirmed=False)
        for send in (client.get, client.post):
            assert (
                send(f"{PAGE}/{page}").headers["Location"]
                == f"/settings/confirm?next={PAGE.replace('/', '%2F')}%2F{page.replace('/', '%2F')}"
            )
    wrong = client.post("/settings/confirm", {"password": "wrong", "next": PAGE})
    assert (wrong.status_code, "not your password" in text_of(wrong)) == (422, True)
    eves = add_passkey(signed_in(make_user("eve")))
    stranger = client.post("/settings/confirm", {"credential": eves.get(options_in(client.get("/settings/confirm")))})
    assert "another account's passkey" in text_of(stranger)
    for proof in ({"password": "correct horse"}, {"credential": ""}):
        client = signed_in(ada, confirmed=False)
        if "credential" in proof:
            proof = {"credential": authenticator.get(options_in(client.get("/settings/confirm")))}
        answer = client.post("/settings/confirm", proof | {"next": f"{PAGE}/app"})
        assert answer.headers["Location"] == f"{PAGE}/app"
        assert client.get(f"{PAGE}/app").status_code == 200
        assert client.post("/settings/confirm", {**proof, "next": "//evil.example"}).headers.get("Location") in (
            PAGE,
            None,
        )


def test_owner_alone_renames_passkey(ada: User) -> None:
    owner = signed_in(ada)
    add_passkey(owner)
    address = f"{PAGE}/passkeys/{Passkey.objects.get().pk}/rename"
    assert 'value="Laptop"' in owner.get(address).content.decode()
    assert owner.post(address, {"name": " Old <b>phone "}, follow=True).status_code == 200
    assert "Old &lt;b&gt;phone" in owner.get(PAGE).content.decode()
    assert owner.post(address, {"name": "x" * 101}).status_code == 422
    for send in (signed_in(make_user("eve")).get, signed_in(make_user("bob")).post):
        assert send(address, {"name": "Mine"}).status_code == 404
    assert Passkey.objects.get().name == "Old <b>phone"
    assert AuditEntry.objects.filter(action="changed", what__startswith="passkey", person=ada).count() == 1


def test_removing_last_factor_lets_password_alone_sign_in_again(ada: User) -> None:
    owner = signed_in(ada)
    set_up_app(owner)
    add_passkey(owner)
    owner.post(f"{PAGE}/app/remove")
    password_given()
    passkey = Passkey.objects.get()
    assert signed_in(make_user("eve")).post(f"{PAGE}/passkeys/{passkey.pk}/remove").status_code == 404
    owner.post(f"{PAGE}/passkeys/{passkey.pk}/remove")
    assert not SecondFactor.objects.exists()
    client = Client()
    assert client.post("/login", PASSWORD).headers["Location"] == "/"
    assert user_of(client) == "ada"
    made = AuditEntry.objects.filter(about_id=ada.pk, action__in=("made", "deleted")).order_by("pk")
    assert [entry.what for entry in made] == [
        "authenticator app",
        "passkey",
        "authenticator app",
        f"passkey {passkey.pk}",
    ]


def test_required_second_factor_is_set_up_before_entry_and_kept(ada: User, settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = "staff"
    assert Client().post("/login", PASSWORD).headers["Location"] == "/"
    User.objects.update(is_staff=True)
    client = password_given()
    key, codes = set_up_app(client, "/login/code")
    assert len(codes) == second_factor.RECOVERY_CODES
    assert user_of(client) == "ada"
    assert password_given().post("/login/code", {"code": code_of(key)}).status_code == 302
    owner = signed_in(ada)
    refused = owner.post(f"{PAGE}/app/remove")
    assert (refused.status_code, "requires a second factor" in text_of(refused)) == (422, True)
    authenticator = add_passkey(owner)
    assert owner.post(f"{PAGE}/app/remove").status_code == 302
    assert owner.post(f"{PAGE}/passkeys/{Passkey.objects.get().pk}/remove").status_code == 422
    assert "API keys" in sign_in_with(authenticator, Client())


def test_invited_person_sets_up_required_second_factor(settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = "all"
    made = Invitation.objects.create(email="", expires_at=timezone.now() + VALID)
    client = Client()
    chosen = {"username": "grace", "password1": "a quick brown fox", "password2": "a quick brown fox"}
    assert client.post(path_of(made), chosen).headers["Location"] == "/login/code"
    assert user_of(client) == ""
    set_up_app(client, "/login/code")
    assert user_of(client) == "grace"


@pytest.mark.django_db(transaction=True)  # in a test's own transaction the identity may change
def test_operator_resets_second_factor_and_it_is_recorded(ada: User, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_app(signed_in(ada))
    with acting.maintenance():
        with pytest.raises(CommandError, match=r"Nothing was removed.*--yes"):
            call_command("reset_second_factor", "ada")
        output = capsys.readouterr()
        assert "Will be removed from 'ada': 1 authenticator apps, 10 recovery codes." in output.err
        assert second_factor.count_factors(ada)["authenticator apps"] == 1
        call_command("reset_second_factor", "ada", "--yes")
        assert "The second factor of 'ada' is removed" in capsys.readouterr().out
        with pytest.raises(CommandError, match="'ada' has no second factor"):
            call_command("reset_second_factor", "ada")
    assert (
        AuditEntry.objects.filter(what="second factor", about_id=ada.pk, surface="command", action="deleted").count()
        == 1
    )
    add_passkey(signed_in(ada))
    root = signed_in(User.objects.create_superuser("root", password="x"))
    chosen = {"action": "remove_second_factor", "_selected_action": ada.pk}
    assert "no longer work" in text_of(root.post("/admin/auth/user/", chosen))
    root.post("/admin/auth/user/", chosen | {"post": "yes"})
    assert not Passkey.objects.exists()
    assert not SecondFactor.objects.exists()
    assert AuditEntry.objects.filter(what=f"user {ada.pk}", about_id=ada.pk, surface="admin", action="changed").exists()


def test_account_without_password_has_no_second_factor_here(ada: User) -> None:
    ada.set_unusable_password()
    ada.save()
    client = signed_in(ada)
    assert client.get(PAGE).status_code == 403
    assert PAGE not in text_of(client.get("/settings/account"))


def test_changed_secret_key_leaves_recovery_codes(ada: User, settings: Settings) -> None:
    key, codes = set_up_app(signed_in(ada))
    settings.SECRET_KEY = "another" * 9
    client = password_given()
    assert "cannot be checked" in text_of(client.get("/login/code"))
    assert client.post("/login/code", {"code": code_of(key)}).status_code == 422
    assert client.post("/login/code", {"code": codes[0]}).status_code == 302


def sign_in(page: Page, at: str = "/login") -> None:
    page.goto(at)
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in", exact=True).click()


def confirm(page: Page) -> None:
    page.get_by_label("Password").fill("correct horse")
    page.keyboard.press("Enter")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_person_sets_up_app_without_javascript_and_signs_in_with_code(
    chromium: Chromium, live_server: LiveServer
) -> None:
    ada = make_user("ada")

    def steps(page: Page) -> None:
        page.get_by_role("link", name="Set up an app…").click()
        confirm(page)
        expect(page.locator("svg.qr")).to_be_visible()
        expect_to_fit(page, "the page with the QR code")
        key = page.locator("[data-key]").inner_text()
        page.get_by_label("Code").fill(code_of(key, -1))
        page.keyboard.press("Enter")
        expect(page.locator(".recovery-codes li")).to_have_count(second_factor.RECOVERY_CODES)
        expect_to_fit(page, "the page of recovery codes")
        page.get_by_role("link", name="I have kept them").click()
        expect(page.get_by_text("10 are left.")).to_be_visible()
        page.context.clear_cookies()
        sign_in(page, "/settings/keys")
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_label("Code of your authenticator app").fill(code_of(key))
        page.keyboard.press("Enter")
        page.wait_for_url(f"{live_server.url}/settings/keys")

    chromium.visit(live_server.url, steps, visitor=ada, at=PAGE, javascript=False)


@pytest.mark.essential
@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_person_adds_passkey_and_signs_in_with_it_alone(chromium: Chromium, live_server: LiveServer) -> None:
    ada = make_user("ada")

    def steps(page: Page) -> None:
        devices = page.context.new_cdp_session(page)
        devices.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                   "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip
        device = devices.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]
        page.get_by_role("link", name="Add a passkey…").click()
        confirm(page)
        page.get_by_label("Name").fill("Laptop")
        page.get_by_role("button", name="Add a passkey").click()
        page.get_by_role("link", name="I have kept them").click()
        expect(page.get_by_role("row", name="Laptop never used")).to_be_visible()
        expect_to_fit(page, "the page of passkeys")
        page.context.clear_cookies()
        page.goto("/settings/keys")
        page.get_by_role("button", name="Use a passkey").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"{live_server.url}/settings/keys")
        page.context.clear_cookies()
        sign_in(page, PAGE)
        page.get_by_role("button", name="Use a passkey").click()
        page.wait_for_url(f"{live_server.url}{PAGE}")
        page.get_by_role("link", name="Remove Laptop").click()
        page.get_by_role("button", name="Use a passkey").click()
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_text("The passkey is removed.")).to_be_visible()
        page.context.clear_cookies()
        page.goto("/login")
        devices.send("WebAuthn.clearCredentials", {"authenticatorId": device})
        devices.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_text("The browser has used no passkey.")).to_be_visible()
        devices.detach()

    chromium.visit(live_server.url, steps, visitor=ada, at=PAGE)
