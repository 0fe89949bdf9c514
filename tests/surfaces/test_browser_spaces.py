"""Spaces in a real browser: a space is opened from its page, and a reader is offered nothing that would be refused."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.accounts.space_invitations import invite
from convmemory.accounts.spaces import create_space
from convmemory.documents.models import Document
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.documents import read, upload
from tests.surfaces.browser import WIDTHS
from tests.surfaces.test_browser_accessibility import expect_no_violation_anywhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OFFERS = """#main :is(form[method="post"]:not([data-bulk]), [hx-post]), #main a[href$="/delete"],
.list-pane form[method="post"]:not(.space-bar)"""


@pytest.mark.essential
def test_reader_opens_space_and_is_offered_reading_alone(visit: Callable[..., None], owner: User) -> None:
    manager = make_user("mia")
    account = create_space(person=manager, name="Boat house")
    add_member(person=manager, space_id=account.pk, username=owner.username, role="reader")
    made = make_conversation(account, exchange(("where is the oar?", "in the shed")), title="Oars")

    def steps(page: Page) -> None:
        page.goto("/spaces")
        expect_no_violation_anywhere(page, "spaces")
        page.get_by_role("button", name="Open Boat house").click()
        expect(page.locator(".space-bar")).to_contain_text("Boat house")
        read = (f"/conversations/{made.pk}?turn=0", f"/conversations/{made.pk}/files", "/search?q=where+is+the+oar")
        for address in ("/library", *read, "/documents", "/statistics"):
            page.goto(address)
            expect(page.locator("body[data-role=reader]")).to_be_visible()
            shown = (
                page.locator(f":is({OFFERS})").locator("visible=true").evaluate_all("all => all.map(a => a.outerHTML)")
            )
            assert [each for each in shown if "data-bulk" not in each] == [], address
            expect_no_violation_anywhere(page, address)
        page.goto("/library")
        expect(page.locator(".library-rows")).to_contain_text("Oars")
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(f"/spaces/{account.pk}")
        expect_no_violation_anywhere(page, "one space")
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.get_by_role("button", name="Your own archive").click()
        expect(page.locator(".space-bar")).to_have_count(0)

    visit(steps)


def answer_invitations_and_invite(page: Page) -> None:
    page.goto("/")
    notice = page.get_by_role("link", name=re.compile(r"mia invites you to a space\s+and 1 other invitation"))
    expect(notice.first).to_be_visible()  # with nothing stored yet
    page.goto("/library")
    notice.first.click()
    expect_no_violation_anywhere(page, "invitations")
    page.get_by_role("button", name="Decline Ski club").click()
    expect(page.get_by_role("status").filter(has_text="declined")).to_be_visible()
    page.get_by_role("button", name="Accept Boat house").click()
    expect(page.get_by_role("heading", name="Boat house")).to_be_visible()
    expect(page.locator(".space-bar")).to_have_count(0)
    page.get_by_label("User name").fill("no-such-user")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.get_by_role("button", name="Withdraw the invitation of no-such-user")).to_be_visible()
    expect_no_violation_anywhere(page, "invitations of a space")


def see_documents_of_all_archives(page: Page, shared: Document) -> None:
    page.goto("/documents")
    rows = page.locator(".documents-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="Rowing").get_by_role("link", name="Delete")).to_be_hidden()
    expect(rows.filter(has_text="Skis").get_by_role("link", name="Delete")).to_be_visible()
    expect_no_violation_anywhere(page, "documents of all archives")
    page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
    page.get_by_role("navigation", name="Archives").get_by_role("link", name="Rowing").click()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Oars").click()
    expect(page).to_have_url(re.compile(rf"/documents/{shared.pk}$"))


def test_person_answers_invitations_and_sees_documents_of_all_archives(
    visit: Callable[..., None], owner: User, documents_here: None
) -> None:
    manager = make_user("mia")
    for name in ("Boat house", "Ski club"):
        space = create_space(person=manager, name=name)
        invite(person=manager, space_id=space.pk, username=owner.username, role="manager")
    visit(answer_invitations_and_invite)
    rowing = create_space(person=manager, name="Rowing")
    add_member(person=manager, space_id=rowing.pk, username=owner.username, role="reader")
    read(upload(owner, "# Skis\n\nWax them.", "skis.md"))
    shared = read(upload(rowing, "# Oars\n\nVarnish them.", "oars.md"))
    visit(lambda page: see_documents_of_all_archives(page, shared))
