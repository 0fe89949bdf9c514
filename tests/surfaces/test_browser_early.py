"""Input before the page's scripts have loaded takes effect: typing, pressing Enter, setting filters."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import Steps, held, is_deferred_script

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def conversation(owner: User) -> Conversation:
    pairs = (("how do I keep a sourdough starter alive?", "Feed it once a week."), ("and the rye?", "The same."))
    made = make_conversation(owner, exchange(*pairs), title="Bread", agent="baker")
    other = make_conversation(owner, exchange(("where is invoice 7?", "It was paid.")), title="Invoices", agent="clerk")
    for one in (made, other):
        index_conversation(conversation_id=one.pk)
    return made


def test_query_typed_before_scripts_is_searched(visit: Callable[[Steps], None], conversation: Conversation) -> None:
    def steps(page: Page) -> None:
        for address in ("/", "/search?q=invoice", f"/conversations/{conversation.pk}", "/import"):
            with held(page, is_deferred_script) as scripts:
                page.goto(address, wait_until="commit")
                page.get_by_role("searchbox").fill("sourdough starter alive")
                assert scripts, "the scripts were there first"
            expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")
            expect(page.get_by_role("searchbox")).to_be_focused()
            assert page.url.endswith("?q=sourdough+starter+alive") or address == "/import"

    visit(steps)


def test_palette_opens_though_its_key_was_pressed_before_scripts_were_there(
    visit: Callable[..., None],
) -> None:
    def steps(page: Page) -> None:
        dialog = page.get_by_role("dialog", name="Go anywhere")
        with held(page, is_deferred_script) as scripts:
            page.goto(page.url, wait_until="commit")
            expect(page.get_by_role("searchbox")).to_be_visible()
            page.keyboard.press("Control+k")
            expect(dialog).to_be_hidden()
        assert scripts
        expect(dialog).to_be_visible()
        page.keyboard.press("Control+k")
        expect(dialog).to_be_hidden()

    visit(steps)


def test_enter_before_scripts_searches_as_plain_form(visit: Callable[[Steps], None]) -> None:
    def steps(page: Page) -> None:
        with held(page, is_deferred_script):
            page.goto("/", wait_until="commit")
            page.get_by_role("searchbox").fill("sourdough starter alive")
            page.keyboard.press("Enter")
            expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")

    visit(steps)


def test_filters_set_before_scripts_load_are_applied(
    visit: Callable[[Steps], None], conversation: Conversation
) -> None:
    def steps(page: Page) -> None:
        with held(page, is_deferred_script):
            page.goto(f"/conversations/{conversation.pk}", wait_until="commit")
            page.get_by_text("Look in").first.click()
            page.get_by_label("archived conversations").check()
        expect(page.locator("#results")).to_contain_text("Nothing is archived")
        page.get_by_label("archived conversations").uncheck()
        expect(page.locator(".item")).to_have_count(2)
        page.locator("#chip-agent").click()
        page.get_by_role("checkbox", name="clerk").check()
        expect(page.locator(".item")).to_have_count(1)

    visit(steps)


def test_list_that_comes_late_does_not_replace_what_was_found(visit: Callable[[Steps], None]) -> None:
    def steps(page: Page) -> None:
        with held(page, lambda url: "/search" in url and "/static/" not in url and "q=s" not in url) as waiting:
            page.goto("/import")
            page.get_by_role("searchbox").press_sequentially("sourdough starter alive")
            expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")
            assert len(waiting) == 1
        page.wait_for_timeout(500)
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")

    visit(steps)


def test_opening_filters_does_not_abort_search(visit: Callable[[Steps], None], conversation: Conversation) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{conversation.pk}")
        with held(page, lambda url: "/search?" in url) as waiting:
            with page.expect_request("**/search?q=sourdough*"):
                page.get_by_role("searchbox").press_sequentially("sourdough starter alive")
            with page.expect_response("**/search/filters*"):
                page.locator("#chip-agent").click()
            assert waiting
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")

    visit(steps)


def test_filters_that_browser_fills_in_again_count(visit: Callable[[Steps], None]) -> None:
    def steps(page: Page) -> None:
        archived = page.get_by_label("archived conversations")
        page.goto("/import")
        page.locator("#chip-places").click()
        archived.check()
        expect(page.locator("#results")).to_contain_text("Nothing is archived")
        page.goto("/recall")
        page.go_back()
        page.locator("#chip-places").locator("xpath=ancestor::details").evaluate("chip => (chip.open = true)")
        expect(archived).to_be_checked()
        expect(page.locator("#results")).to_contain_text("Nothing is archived")

    visit(steps)
