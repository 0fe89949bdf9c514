"""Mail to a person whose address, password, keys or second factors change: each change, once, to the address before."""

import re
from collections.abc import Iterator
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.identities import account_of
from convmemory.accounts.mail import Change
from convmemory.accounts.models import Mail, MailChoice
from convmemory.accounts.tasks import send_mail
from convmemory.core import acting
from convmemory.core.identity_providers import IdentityProvider
from convmemory.sign_in.models import Passkey
from tests.factories import make_user
from tests.support.directory import Directory
from tests.support.smtp_server import SITE, Mailbox, running_smtp_server
from tests.surfaces.test_second_factor import add_passkey, set_up_app, signed_in

pytestmark = pytest.mark.django_db

NEW_PASSWORD = {"new_password1": "a quick brown fox", "new_password2": "a quick brown fox"}
ADDRESS = "ada@example.org"


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with running_smtp_server(settings) as mailbox:
        yield mailbox


@pytest.fixture
def ada() -> User:
    user = make_user("ada")
    user.email = ADDRESS
    user.save()
    return user


@pytest.fixture
def desk() -> Client:
    """The administration, as a superuser without an address."""
    return signed_in(User.objects.create_superuser("root", password="x"))


def changes(mailbox: Mailbox, to: str = ADDRESS) -> list[Change]:
    """Return the changes of which a worker mails warnings now, all to this address."""
    before = len(mailbox.messages)
    with acting.without_owner():
        send_mail()
    mailed = []
    for message in mailbox.messages[before:]:
        assert (message["To"], message["Subject"]) == (to, "Your account at convmemory was changed")
        mailed += [change for change in Change if str(change.label) in message.get_content()]
    return mailed


def test_password_that_changes_is_mailed(ada: User, mailbox: Mailbox, desk: Client) -> None:
    mine = signed_in(ada)
    refused = {"old_password": "wrong", **NEW_PASSWORD}
    assert mine.post("/settings/password", refused).status_code == 200
    assert changes(mailbox) == []
    assert mine.post("/settings/password", refused | {"old_password": "correct horse"}).status_code == 302
    assert changes(mailbox) == [Change.PASSWORD]
    assert f"at {SITE}" in mailbox.messages[-1].get_content()
    assert mailbox.link() == f"{SITE}/settings/account"

    Client().post("/password/reset", {"email": ADDRESS})
    with acting.without_owner():
        send_mail()
    visitor = Client()
    visitor.post(visitor.get(mailbox.link().removeprefix(SITE)).headers["Location"], NEW_PASSWORD)
    assert changes(mailbox) == [Change.PASSWORD]

    chosen = {"password1": "a slow red fox", "password2": "a slow red fox", "usable_password": "true"}
    assert desk.post(f"/admin/auth/user/{ada.pk}/password/", chosen).status_code == 302
    assert changes(mailbox) == [Change.PASSWORD]


def test_address_that_changes_is_mailed_to_address_before(ada: User, mailbox: Mailbox, desk: Client) -> None:
    page = f"/admin/auth/user/{ada.pk}/change/"
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "12:00", "username": "ada", "is_active": "on"}
    assert desk.post(page, joined | {"email": ADDRESS, "first_name": "Ada"}).status_code == 302
    assert changes(mailbox) == []
    assert desk.post(page, joined | {"email": "new@example.org"}).status_code == 302
    assert changes(mailbox) == [Change.ADDRESS]
    assert "new@example.org" not in mailbox.messages[-1].as_string()

    directory = Directory()
    bob = directory.user("bob", emails=[{"value": "bob@example.org"}])
    assert changes(mailbox) == [], "an account without an address before"
    to_mallory = {"op": "replace", "value": {"emails": [{"value": "mallory@example.org"}]}}
    for user in (bob, ada):
        assert directory.patch(f"/Users/{user.pk}", to_mallory).status_code in (200, 204)
    assert changes(mailbox, to="bob@example.org") == [Change.ADDRESS], "ada's own stays what it is"


def test_key_that_is_made_is_mailed(ada: User, mailbox: Mailbox) -> None:
    mine = signed_in(ada)
    assert mine.post("/settings/keys", {"name": "Zebrafinch"}).status_code == 302
    assert changes(mailbox) == [Change.KEY]
    assert "Zebrafinch" not in mailbox.messages[-1].as_string(), "a text that a person wrote"
    for _ in range(5):
        mine.post("/settings/keys", {"name": "x"})
    assert len(changes(mailbox)) <= 2, "no more than one a minute while it waits"
    call_command("create_api_key", "ada", stdout=StringIO())
    assert changes(mailbox) == [Change.KEY]


def test_second_factor_that_changes_is_mailed(ada: User, mailbox: Mailbox, desk: Client) -> None:
    mine, page = signed_in(ada), "/settings/second-factor"
    set_up_app(mine)
    assert changes(mailbox) == [Change.APP]
    add_passkey(mine)
    assert changes(mailbox) == [Change.PASSKEY]
    mine.post(f"{page}/codes")
    assert changes(mailbox) == [Change.CODES]
    mine.post(f"{page}/app/remove")
    assert changes(mailbox) == [Change.APP_REMOVED]
    mine.post(f"{page}/passkeys/{Passkey.objects.get().pk}/remove")
    assert changes(mailbox) == [Change.PASSKEY_REMOVED]
    set_up_app(mine)
    assert changes(mailbox) == [Change.APP]
    chosen = {"action": "remove_second_factor", "_selected_action": ada.pk, "post": "yes"}
    for _ in range(2):
        desk.post("/admin/auth/user/", chosen)
    assert changes(mailbox) == [Change.FACTORS_REMOVED]
    set_up_app(mine)
    assert changes(mailbox) == [Change.APP]
    call_command("reset_second_factor", "ada", yes=True, stdout=StringIO())
    assert changes(mailbox) == [Change.FACTORS_REMOVED]


def test_app_that_is_set_up_before_entry_is_mailed(ada: User, mailbox: Mailbox, settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = "all"
    client = Client()
    client.post("/login", {"username": "ada", "password": "correct horse"})
    set_up_app(client, "/login/code")
    assert changes(mailbox) == [Change.APP]


def test_provider_that_finds_account_in_use_is_mailed(ada: User, mailbox: Mailbox) -> None:
    provider = IdentityProvider("corp", "Corp", "https://id.example.org", "c", match_email=True)
    claims = {"sub": "s-1", "email": ADDRESS, "email_verified": True}
    signed_in(ada)
    for _ in range(2):
        with acting.without_owner():
            assert account_of(provider, claims) == ada
    assert changes(mailbox) == [Change.PROVIDER]


def test_warning_is_in_language_of_person_and_no_choice_of_mail_stops_it(ada: User, mailbox: Mailbox) -> None:
    MailChoice.objects.create(person=ada, notices=MailChoice.Notices.NONE, language="de")
    signed_in(ada).post("/settings/keys", {"name": "x"})
    (waiting,) = Mail.objects.all()
    assert re.search(r"\d{1,2}\. \w+ \d{4}", waiting.text), "a date as in German"


def test_without_smtp_server_or_address_nothing_is_stored(ada: User, mailbox: Mailbox, settings: Settings) -> None:
    User.objects.update(email="")
    signed_in(ada).post("/settings/keys", {"name": "x"})
    User.objects.update(email=ADDRESS)
    settings.EMAIL_HOST = ""
    signed_in(ada).post("/settings/keys", {"name": "x"})
    assert not Mail.objects.exists()
