"""Invitations and lost passwords, with a real SMTP server: what is mailed, what a link is good for, and how often."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail as django_mail
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import AuditEntry, Invitation, Mail
from convmemory.accounts.tasks import send_mail
from convmemory.core import acting
from convmemory.core.models import OwnerTask
from convmemory.core.queue.retrying import MAIL
from convmemory.sign_in.attempts import PAIR
from tests.factories import make_user
from tests.support.api import signed_in
from tests.support.installation import ROOT
from tests.support.smtp_server import SITE, Mailbox, running_smtp_server
from tests.surfaces.browser import Chromium

pytestmark = pytest.mark.django_db

INVITATIONS = "/admin/accounts/invitation/"
ADDRESS = "grace@example.org"
CHOICE = {"username": "grace", "password1": "a quick brown fox", "password2": "a quick brown fox"}
GONE = "It was used, was revoked, or has expired."
SHOWN_LINK = re.compile(r"https?://[^\s<]+/(?:invitations|password)/[^\s<]+")
ON_ITS_WAY = "a mail with a link is on its way"


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with running_smtp_server(settings) as mailbox:
        yield mailbox


@pytest.fixture
def root() -> Client:
    return signed_in(User.objects.create_superuser("root", password="x"))


def work() -> int:
    """Do what a worker does with the scheduled task; returns how many messages were sent."""
    with acting.without_owner():
        return int(send_mail()["sent"])


def wait_for_next_attempt() -> None:
    for mail in Mail.objects.all():
        pause = MAIL.pause_after(max(1, mail.attempts)) + timedelta(seconds=1)
        Mail.objects.filter(pk=mail.pk).update(updated_at=timezone.now() - pause)


def invite(root: Client, email: str = ADDRESS) -> str:
    """Make an invitation; returns the page that shows it, with its link."""
    return str(root.post(f"{INVITATIONS}add/", {"email": email}, follow=True).content.decode())


def path_in(page: str) -> str:
    (link,) = set(SHOWN_LINK.findall(page))
    return "/" + str(link).split("/", 3)[3]


def ask(email: str, client: Client | None = None) -> Any:
    return (client or Client()).post("/password/reset", {"email": email})


def test_mailed_invitation_makes_one_account(
    root: Client, mailbox: Mailbox, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        page = invite(root)
    assert "waits for a worker" in page
    assert list(OwnerTask.objects.values_list("func", flat=True)) == ["convmemory.accounts.tasks.send_mail"]
    assert (mailbox.attempts, work(), work(), len(mailbox.messages)) == (0, 1, 0, 1)
    assert django_mail.outbox == []
    assert mailbox.messages[0]["To"] == ADDRESS
    link = mailbox.link()
    assert link.startswith(f"{SITE}/invitations/")
    path = link.removeprefix(SITE)
    assert path == path_in(page), "staff can pass on the same link"
    assert "sent 20" in root.get(INVITATIONS).content.decode()

    guest, second = Client(), Client()
    assert ADDRESS in guest.get(path).content.decode()
    weak = guest.post(path, CHOICE | {"password1": "1234567890", "password2": "1234567890"})
    assert (weak.status_code, "entirely numeric" in weak.content.decode()) == (422, True)
    assert guest.post(path, CHOICE).headers["Location"] == "/"
    user = User.objects.get(username="grace")
    assert (user.email, user.is_staff, user.check_password(CHOICE["password1"])) == (ADDRESS, False, True)
    assert guest.get("/settings/account").status_code == 200
    for answer in (second.get(path), second.post(path, CHOICE | {"username": "mallory"})):
        assert (answer.status_code, GONE in answer.content.decode()) == (404, True)
    assert not User.objects.filter(username="mallory").exists()
    assert not Invitation.objects.exists()
    assert not Mail.objects.exists()


def test_invitation_without_smtp_server_is_link_that_can_be_revoked_and_expires(root: Client) -> None:
    revoked, expired = path_in(invite(root, "")), path_in(invite(root))
    assert not Mail.objects.exists()
    assert Client().get(revoked).status_code == Client().get(expired).status_code == 200
    first, second = Invitation.objects.order_by("pk")
    chosen = {"action": "delete_chosen", "_selected_action": first.pk, "post": "yes"}
    root.post(INVITATIONS, chosen)
    Invitation.objects.filter(pk=second.pk).update(expires_at=timezone.now())
    other = f"/invitations/{second.pk}-{'0' * 64}"
    for path in (revoked, expired, other, "/invitations/x", "/invitations/²-1", f"/invitations/{'9' * 30}-1"):
        answer = Client().get(path)
        assert (answer.status_code, GONE in answer.content.decode()) == (404, True), path
    assert "the invitation has expired" in root.get(f"{INVITATIONS}{second.pk}/change/").content.decode()
    Invitation.objects.update(expires_at=timezone.now() - timedelta(days=31))
    work()
    assert not Invitation.objects.exists()


def test_invitations_are_for_staff_with_permission(root: Client) -> None:
    path = path_in(invite(root))
    steve = User.objects.create_user("steve", password="x", is_staff=True)
    client = signed_in(steve)
    pages = [INVITATIONS, f"{INVITATIONS}add/", f"{INVITATIONS}{Invitation.objects.get().pk}/change/"]
    assert [client.get(page).status_code for page in pages] == [403] * 3
    steve.user_permissions.add(Permission.objects.get(codename="add_invitation"))
    assert [client.get(page).status_code for page in pages] == [200] * 3
    assert path_in(client.get(pages[2]).content.decode()) == path
    make_user("ada").__class__.objects.filter(username="ada").update(email="ada@example.org")
    assert "There is an account with this address" in invite(client, "Ada@example.org")


def test_taken_name_leaves_invitation_usable(root: Client) -> None:
    make_user("Grace")
    path = path_in(invite(root))
    assert Client().post(path, CHOICE).status_code == 422
    assert Client().post(path, CHOICE | {"username": "hopper"}).status_code == 302


def test_refused_invitation_is_retried_with_pauses_up_to_limit(root: Client, mailbox: Mailbox) -> None:
    mailbox.is_refusing = True
    invite(root)
    for attempt in range(1, MAIL.max_attempts + 3):
        assert work() == work() == 0
        assert mailbox.attempts == min(attempt, MAIL.max_attempts)
        wait_for_next_attempt()
    assert f"not sent in {MAIL.max_attempts} attempts: (451" in root.get(INVITATIONS).content.decode()


@pytest.fixture
def ada() -> User:
    user = make_user("ada")
    user.email = "ada@example.org"
    user.save()
    return user


def test_reset_answers_same_for_unknown_address_and_mails_only_active_account(ada: User, mailbox: Mailbox) -> None:
    for name, values in (("gone", {"is_active": False}), ("machine", {"password": "!none"})):
        User.objects.create(username=name, email=f"{name}@example.org", **values)
    addresses = ("ADA@example.org", "gone@example.org", "machine@example.org", "unknown@example.org")
    answers = [re.sub('value="[^"]*"', "", ask(address).content.decode()) for address in addresses]
    assert len(set(answers)) == 1
    assert ON_ITS_WAY in answers[0]
    assert (mailbox.attempts, work()) == (0, 1)
    assert [message["To"] for message in mailbox.messages] == [ada.email]
    assert not Mail.objects.exists()


def test_reset_link_sets_password_once_and_ends_sessions_and_keys(ada: User, mailbox: Mailbox) -> None:
    old, key = Client(), create_key(person=ada)
    old.force_login(ada)
    ask(ada.email)
    ask(ada.email)
    assert work() == 2, "a warning about the key; and a second request waits for the first mail"
    path = mailbox.link().removeprefix(SITE)
    client = Client()
    form = client.get(path).headers["Location"]
    assert mailbox.link().rsplit("/", 1)[1] not in form, "the form's address is no link"
    page = client.get(form)
    assert "no-cache" in page.headers["Cache-Control"]
    chosen = {"new_password1": "a quick brown fox", "new_password2": "a quick brown fox", "end_keys": "on"}
    answer = client.post(form, chosen, follow=True)
    assert "Your password is changed" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.check_password("a quick brown fox")
    assert AuditEntry.objects.get(what="password by link").person == ada
    assert old.get("/settings/account").status_code == 302
    assert caller_of_key(key) is None
    assert "This link was used already" in Client().get(path, follow=True).content.decode()


def test_reset_link_of_deactivated_account_is_refused(ada: User, mailbox: Mailbox) -> None:
    ask(ada.email)
    work()
    User.objects.filter(pk=ada.pk).update(is_active=False)
    answer = Client().get(mailbox.link().removeprefix(SITE), follow=True)
    assert "This link was used already, or it is too old." in answer.content.decode()


def test_reset_requests_are_paused_without_pausing_passwords(ada: User, mailbox: Mailbox) -> None:
    answers = [ask(ada.email) for _ in range(PAIR.free + 2)]
    assert answers[-1].status_code == 429
    assert "Too many requests for a new password. Wait" in answers[-1].content.decode()
    assert Client().post("/login", {"username": "ada", "password": "correct horse"}).status_code == 302


def test_reset_that_cannot_be_sent_is_forgotten(ada: User, mailbox: Mailbox) -> None:
    mailbox.is_refusing = True
    ask(ada.email)
    for _ in range(MAIL.max_attempts):
        assert Mail.objects.exists()
        work()
        wait_for_next_attempt()
    assert not Mail.objects.exists()
    ask(ada.email)
    Mail.objects.update(attempts=MAIL.max_attempts, updated_at=timezone.now() - timedelta(hours=3))
    work()
    assert (mailbox.attempts, Mail.objects.exists()) == (MAIL.max_attempts, False), "its worker died in the last one"


def test_without_smtp_server_staff_makes_reset_link(ada: User, root: Client) -> None:
    assert "sends no mail" in ask(ada.email).content.decode()
    assert not Mail.objects.exists()
    assert "Ask who runs this server" in Client().get("/login").content.decode()
    chosen = {"action": "make_reset_links", "_selected_action": ada.pk}
    page = root.post("/admin/auth/user/", chosen)
    assert "no-store" in page.headers["Cache-Control"]
    form = Client().get(path_in(page.content.decode()), follow=True)
    assert "For the account <strong>ada</strong>" in form.content.decode()


def test_staff_reach_no_superuser_and_give_no_right(ada: User, root: Client) -> None:
    boss = User.objects.get(username="root")
    helper = User.objects.create_user("helper", is_staff=True)
    helper.user_permissions.set(Permission.objects.filter(codename__in=["view_user", "change_user"]))
    desk = signed_in(helper)
    shown: list[list[bool | int]] = []
    for user in (ada, boss):
        answers = [
            desk.post("/admin/auth/user/", {"action": action, "_selected_action": user.pk}).content.decode()
            for action in ("make_reset_links", "remove_second_factor")
        ]
        shown.append(["/password/reset/" in answers[0], user.username in answers[1]])
        shown[-1] += [desk.get(f"/admin/auth/user/{user.pk}/{page}/").status_code for page in ("change", "password")]
    assert shown == [[True, True, 200, 200], [False, False, 302, 404]]
    desk.post(f"/admin/auth/user/{helper.pk}/change/", {"username": "helper", "is_active": "on", "is_superuser": "on"})
    assert not User.objects.get(pk=helper.pk).is_superuser


def test_forms_without_log_in_need_csrf_token(ada: User, root: Client, mailbox: Mailbox) -> None:
    path = path_in(invite(root))
    for address, values in ((path, CHOICE), ("/password/reset", {"email": ada.email})):
        assert Client(enforce_csrf_checks=True).post(address, values).status_code == 403
    assert not User.objects.filter(username="grace").exists()
    assert not Mail.objects.filter(kind=Mail.Kind.PASSWORD_RESET).exists()


def test_smtp_server_without_public_address_is_refused_at_start() -> None:
    script = "import os; os.environ |= {'EMAIL_HOST': 'mail.example', 'PUBLIC_URL': ''}; import convmemory.settings"
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "SettingError: EMAIL_HOST needs PUBLIC_URL" in found.stderr


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_invited_person_makes_account_and_signs_in_again(
    chromium: Chromium, live_server: LiveServer, settings: Settings
) -> None:
    root = User.objects.create_superuser("root", password="x")

    def invite_her(page: Page) -> None:
        page.get_by_label("E-mail address").fill(ADDRESS)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("cell", name=f"{live_server.url}/invitations/")).to_be_visible()

    def join(page: Page) -> None:
        page.goto(received.link())
        page.get_by_label("Username").fill("grace")
        page.get_by_label("Password", exact=True).fill(CHOICE["password1"])
        page.get_by_label("Password confirmation").fill(CHOICE["password2"])
        page.get_by_role("button", name="Make the account").click()
        page.wait_for_url(f"{live_server.url}/")
        page.context.clear_cookies()
        page.goto("/login")
        page.get_by_label("Name").fill("grace")
        page.get_by_label("Password").fill(CHOICE["password1"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{live_server.url}/")

    visit: Callable[..., None] = chromium.visit
    with running_smtp_server(settings, site=live_server.url) as received:
        visit(live_server.url, invite_her, visitor=root, at=f"{INVITATIONS}add/")
        assert work() == 1
        visit(live_server.url, join)
