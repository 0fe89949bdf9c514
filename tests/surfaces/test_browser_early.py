"""Check input before the scripts and answers after something newer in a real browser."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import SETTLED, held, is_deferred_script

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def conversation(owner: User) -> Conversation:
    pairs = (("how do I keep a sourdough starter alive?", "Feed it once a week."), ("and the rye?", "The same."))
    made = make_conversation(owner, exchange(*pairs), title="Bread", agent="baker")
    other = make_conversation(owner, exchange(("where is invoice 7?", "It was paid.")), title="Invoices", agent="clerk")
    for one in (made, other):
        index_conversation(conversation_id=one.pk)
    return made


def type_query_before_scripts(page: Page, conversation: Conversation) -> None:
    for address in ("/", "/search?q=invoice", f"/conversations/{conversation.pk}", "/import"):
        with held(page, is_deferred_script) as scripts:
            page.goto(address, wait_until="commit")
            page.get_by_role("searchbox").fill("sourdough starter alive")
            assert scripts, "the scripts were there first"
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert page.url.endswith("?q=sourdough+starter+alive") or address == "/import"


def open_palette_before_scripts(page: Page) -> None:
    dialog = page.get_by_role("dialog", name="Go anywhere")
    with held(page, is_deferred_script) as scripts:
        page.goto("/", wait_until="commit")
        expect(page.get_by_role("searchbox")).to_be_visible()
        page.keyboard.press("Control+k")
        expect(dialog).to_be_hidden()
    assert scripts
    expect(dialog).to_be_visible()
    page.keyboard.press("Control+k")
    expect(dialog).to_be_hidden()


def press_enter_before_scripts(page: Page) -> None:
    with held(page, is_deferred_script):
        page.goto("/", wait_until="commit")
        page.get_by_role("searchbox").fill("sourdough starter alive")
        page.keyboard.press("Enter")
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


def filter_before_scripts(page: Page, conversation: Conversation) -> None:
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


def come_back_to_filters(page: Page) -> None:
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


def test_input_before_scripts_takes_effect(visit: Callable[..., None], conversation: Conversation) -> None:
    def steps(page: Page) -> None:
        type_query_before_scripts(page, conversation)
        open_palette_before_scripts(page)
        press_enter_before_scripts(page)
        filter_before_scripts(page, conversation)
        come_back_to_filters(page)

    visit(steps)


def search_before_list_comes(page: Page) -> None:
    with held(page, lambda url: "/search" in url and "/static/" not in url and "q=s" not in url) as waiting:
        page.goto("/import")
        page.get_by_role("searchbox").press_sequentially("sourdough starter alive")
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")
        assert len(waiting) == 1
    waiting[0].request.response()
    page.evaluate(SETTLED)
    expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


def open_filters_during_search(page: Page, conversation: Conversation) -> None:
    page.goto(f"/conversations/{conversation.pk}")
    with held(page, lambda url: "/search?" in url) as waiting:
        with page.expect_request("**/search?q=sourdough*"):
            page.get_by_role("searchbox").press_sequentially("sourdough starter alive")
        with page.expect_response("**/search/filters*"):
            page.locator("#chip-agent").click()
        assert waiting
    expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


PRESS = "key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"


def close_preview_and_go_on_at_once(page: Page) -> None:
    page.goto("/library")
    dialog = page.get_by_role("dialog", name="Preview")
    page.locator(".library-title").first.focus()
    page.keyboard.press("Space")
    expect(dialog).to_contain_text("It was paid.")
    for pressed, is_shown in ((" ", " "), True), (("ArrowDown", " "), False):
        page.evaluate("delete document.body.dataset.closed")
        page.evaluate("document.addEventListener('close', () => (document.body.dataset.closed = ''), {capture: true})")
        with page.expect_response("**/search/preview/**") as answered:
            page.evaluate(f"{list(pressed)}.map({PRESS})")
        answered.value.finished()
        expect(page.locator("body[data-closed]")).to_have_count(1)
        page.evaluate(SETTLED)
        expect(dialog).to_be_visible(visible=is_shown)


def search_while_list_is_loaded_again(page: Page) -> None:
    page.goto("/import")
    expect(page.locator("#results .item")).to_have_count(2)
    with held(page, lambda url: "/search" in url and "q=s" not in url) as waiting:
        with page.expect_request("**/search*"):
            page.evaluate("document.dispatchEvent(new Event('convmemory:changed'))")  # as an import does that has ended
        page.get_by_role("searchbox").press_sequentially("sourdough starter alive")
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")
    waiting[0].request.response()
    page.evaluate(SETTLED)
    expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


def open_row_while_list_is_loaded_again(page: Page) -> None:
    page.goto("/import")
    row = page.locator("#results .item", has_text="Invoices")
    address = str(row.get_attribute("href"))
    with held(page, lambda url: url.endswith(address)):
        row.click()
        with page.expect_response("**/search*"):
            page.evaluate("document.dispatchEvent(new Event('convmemory:changed'))")
        expect(page.locator("#results .item.htmx-request")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Invoices")
    expect(page).to_have_url(re.compile(f"{re.escape(address)}$"))


def rename_and_open_another(page: Page, conversation: Conversation) -> None:
    page.goto(f"/conversations/{conversation.pk}")
    heading = page.get_by_role("heading", level=1)
    with held(page, lambda url: url.endswith("/rename")) as waiting:
        page.get_by_role("button", name="Change the title").click()
        page.get_by_role("textbox", name="Title", exact=True).fill("Sourdough bread")
        page.keyboard.press("Enter")
        page.locator("#results .item", has_text="Invoices").click()
        expect(heading).to_have_text("Invoices")
    waiting[0].request.response()
    expect(page.locator("#results .item-title").filter(has_text="Sourdough bread")).to_have_count(1)
    expect(heading).to_have_text("Invoices")
    expect(page.locator("#results .item-title").filter(has_text="Invoices")).to_have_count(1)


def press_star_twice(page: Page) -> None:
    page.goto("/library")
    row = page.locator(".library-row").first
    row.hover()
    star = row.get_by_role("button", name="Star")
    with held(page, lambda url: url.endswith("/star")) as waiting:
        star.click()
        star.click()
    for route in waiting:
        route.request.response()
    page.evaluate(SETTLED)
    is_starred = star.get_attribute("aria-pressed")
    page.reload()
    expect(star).to_have_attribute("aria-pressed", str(is_starred))


def search_while_home_is_loaded_again(page: Page) -> None:
    page.clock.install()
    page.goto("/")
    expect(page.get_by_text("still to be counted")).to_be_visible()
    with held(page, lambda url: url.endswith("/")) as waiting:
        with page.expect_request(lambda request: request.url.endswith("/")):
            page.clock.run_for(3_000)
        page.get_by_role("searchbox").press_sequentially("sourdough")
        expect(page.locator("#main .preview")).to_be_visible()
    waiting[0].request.response()
    page.evaluate(SETTLED)
    expect(page.locator("#main .preview")).to_be_visible()


def see_second_notice_as_long_as_the_first(page: Page) -> None:
    page.goto("/search?q=sourdough")
    notice = page.locator("#toast")
    expect(page.locator(".preview .star")).to_be_visible()
    page.evaluate(SETTLED)
    page.clock.pause_at(str(page.evaluate("new Date(Date.now() + 1000).toISOString()")))
    page.keyboard.press("s")
    expect(notice).to_have_text("The conversation is starred.")
    page.clock.run_for(2_000)
    page.locator(".preview").get_by_role("button", name="Copy link").click()
    expect(notice).to_have_text("Link copied")
    page.clock.run_for(1_500)
    expect(notice).to_be_visible()
    page.clock.run_for(1_500)
    expect(notice).to_be_hidden()


def test_late_answers_replace_nothing_newer(visit: Callable[..., None], conversation: Conversation) -> None:
    def steps(page: Page) -> None:
        search_before_list_comes(page)
        search_while_list_is_loaded_again(page)
        open_row_while_list_is_loaded_again(page)
        rename_and_open_another(page, conversation)
        press_star_twice(page)
        open_filters_during_search(page, conversation)
        close_preview_and_go_on_at_once(page)

    def with_own_clock(page: Page) -> None:
        search_while_home_is_loaded_again(page)
        see_second_notice_as_long_as_the_first(page)

    visit(steps)
    visit(with_own_clock, is_last=True)
