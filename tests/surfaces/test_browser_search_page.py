"""The search page in a real browser: preview, filters, history and palette, by keyboard, at the widths people have."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django import Settings

from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import ONE_PANE, PHONE, WIDTHS, at_every_width, held

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = tuple(width for width in WIDTHS if width > ONE_PANE)
RYE = ("is rye flour sour?", "Rye sourdough starters are lively.")
STARTER = ("how do I keep a sourdough starter alive?", "Feed the starter once a week.")
FLAT = ("why is my sourdough flat?", "The starter was too young.")
INVOICE = ("where is invoice 7?", "It was paid in May.")


@pytest.fixture(autouse=True)
def archive(owner: User) -> None:
    for title, agent, project, pairs in (
        ("Bread", "baker", "/home/kitchen", (STARTER, FLAT, ("and the oven?", "Hot, with sourdough."), RYE, FLAT)),
        ("Rye", "chef", "/home/kitchen", (RYE,)),
        ("Invoices", "clerk", "/src/billing", (INVOICE,)),
    ):
        made = make_conversation(owner, exchange(*pairs), title=title, agent=agent, project=project, source="codex")
        index_conversation(conversation_id=made.pk)


def preview(page: Page, text: str) -> None:
    expect(page.locator("#main .preview")).to_contain_text(text)


def test_preview_follows_selection_and_enter_opens(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_role("searchbox").press_sequentially("keep a sourdough starter alive")
        expect(page).to_have_url(re.compile(r"/search\?q=keep\+a\+sourdough\+starter\+alive$"))
        preview(page, STARTER[1])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("j")
        second = page.locator(".hit").nth(1)
        expect(second).to_be_focused()
        expect(second).to_have_attribute("aria-current", "true")
        expect(page).to_have_url(re.compile(rf"&at={second.get_attribute('data-key')}$"))
        preview(page, str(second.locator(".item-question").text_content()))
        page.keyboard.press("k")
        expect(page.locator(".hit").first).to_be_focused()
        preview(page, STARTER[1])
        page.keyboard.press("Enter")
        expect(page.locator("[data-conversation-page]")).to_contain_text(STARTER[1])
        expect(page).to_have_url(re.compile(r"/conversations/\d+\?turn=0&q=keep"))

    at_every_width(visit, steps, widths=WIDE)


def test_page_that_is_on_its_way_dims_pane_and_its_keys_wait(visit: Callable[..., None], owner: User) -> None:
    bread = Conversation.objects.get(archive_id=owner.pk, title="Bread")

    def steps(page: Page) -> None:
        page.goto(f"/conversations/{bread.pk}?turn=0&q=sourdough")
        expect(page.locator(".hits .step").first).to_be_visible()
        other = page.locator(f'#results .hit[data-conversation="{bread.pk}"][data-turn-link="3"]')
        address = str(other.get_attribute("href"))
        main = page.locator("#main")
        with held(page, lambda url: "/conversations/" in url):
            other.click()
            expect(other).to_have_attribute("aria-current", "page")
            expect(page.locator("#results [aria-current]")).to_have_count(1)
            expect(main).to_have_class("is-loading")
            page.keyboard.press("n")
        expect(main).not_to_have_class("is-loading")
        expect(page).to_have_url(re.compile(rf"{re.escape(address)}$"))
        with held(page, lambda url: "/preview" in url):
            page.goto("/search?q=sourdough", wait_until="commit")
            expect(main).to_have_class("is-loading")
        preview(page, "sourdough")
        expect(main).not_to_have_attribute("aria-busy", "true")

    visit(steps)


def test_tapped_hit_opens_its_conversation_on_phone(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        page.get_by_role("searchbox").press_sequentially("sourdough starter")
        expect(page).to_have_url(re.compile(r"\?q=sourdough\+starter$"))
        page.locator(".hit").first.click()
        expect(page.locator("[data-conversation-page]")).to_be_visible()
        expect(page.locator("#list")).to_be_hidden()

    visit(steps, width=PHONE["width"])


def test_address_shows_what_was_selected_again(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        third = page.locator(".hit").nth(2)
        key, question = third.get_attribute("data-key"), str(third.locator(".item-question").text_content())
        page.goto(f"/search?q=sourdough+starter&at={key}")
        expect(page.locator(f'[data-key="{key}"]')).to_have_attribute("aria-current", "true")
        preview(page, question)
        page.reload()
        preview(page, question)

    at_every_width(visit, steps, at="/search?q=sourdough+starter", widths=WIDE)


@pytest.mark.essential
def test_back_and_forward_restore_box_list_and_preview(visit: Callable[..., None]) -> None:
    def expect_found(page: Page, query: str, title: str, text: str) -> None:
        expect(page.locator("#q")).to_have_value(query)
        expect(page).to_have_url(re.compile(rf"\?q={query}$"))
        expect(page.locator(".hit-group-title").first).to_have_text(title)
        if page.evaluate("innerWidth") > ONE_PANE:
            preview(page, text)

    def steps(page: Page, width: int) -> None:
        box = page.locator("#q")
        box.press_sequentially("sourdough")
        expect_found(page, "sourdough", "Bread", "sourdough")
        if width > ONE_PANE:
            page.locator(".hit").first.focus()
            expect(page.locator(".hit").first).to_be_focused()  # else the focus leaves the box while it is cleared
        else:
            page.locator(".hit").first.click()
            expect(page.locator("[data-conversation-page]")).to_be_visible()
            page.go_back()
            expect_found(page, "sourdough", "Bread", "sourdough")
        box.fill("")
        box.press_sequentially("invoice")
        expect_found(page, "invoice", "Invoices", INVOICE[1])
        page.go_back()
        expect_found(page, "sourdough", "Bread", "sourdough")
        page.go_forward()
        expect_found(page, "invoice", "Invoices", INVOICE[1])

    at_every_width(visit, steps)


def test_chips_filter_at_once_and_say_so(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        groups = page.locator(".hit-group")
        expect(groups).not_to_have_count(1)
        page.locator("#chip-agent").click()
        page.get_by_role("checkbox", name="chef 1").check()
        expect(groups).to_have_count(1)
        expect(page.locator("#chip-agent")).to_have_text("chef")
        expect(page).to_have_url(re.compile(r"/search\?q=sourdough&agent=chef"))
        page.get_by_role("checkbox", name="baker 1").check()
        expect(groups).to_have_count(2)
        expect(page).to_have_url(re.compile(r"/search\?q=sourdough&agent=baker&agent=chef"))
        page.get_by_label("Remove the filter baker +1").click()
        expect(page.locator("#chip-agent")).to_have_text("Program")
        expect(page).to_have_url(re.compile(r"/search\?q=sourdough$"))
        page.locator("#chip-time").click()
        page.get_by_role("link", name="Past 30 days").click()
        expect(page.locator("#clear-time a")).to_be_visible()
        page.go_back()
        expect(page.locator("#clear-time a")).to_have_count(0)

    at_every_width(visit, steps, at="/search?q=sourdough")


def test_tokens_become_chips(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        box = page.locator("#q")
        box.press_sequentially("sourdough age")
        page.get_by_role("button", name="agent:").click()
        expect(box).to_have_value("sourdough agent:")
        page.get_by_role("button", name="chef").click()
        expect(page.locator("#chip-agent")).to_have_text("chef")
        expect(box).to_have_value("sourdough ")
        expect(page.locator(".hit-group")).to_have_count(1)
        box.press_sequentially("rye")
        expect(page).to_have_url(re.compile(r"/search\?q=sourdough\+rye&agent=chef"))
        page.reload()
        expect(page.locator("#chip-agent")).to_have_text("chef")
        expect(box).to_have_value("sourdough rye")

    at_every_width(visit, steps, at="/search")


def test_quoted_phrase_is_marked_and_no_part_of_longer_word(visit: Callable[..., None], owner: User) -> None:
    asked = "should we lower deadlock_timeout, or set lock_timeout for the job?"
    told = "Leave deadlock_timeout as it is. Set lock_timeout for the job alone."
    made = make_conversation(owner, exchange((asked, told)), title="Locks")
    index_conversation(conversation_id=made.pk)

    def steps(page: Page, _: int) -> None:
        marks = page.locator("#results .hit mark")
        expect(marks.first).to_be_visible()
        assert set(marks.all_text_contents()) == {"lock_timeout"}
        texts = marks.evaluate_all("marks => marks.map(mark => mark.previousSibling?.textContent.at(-1) ?? ' ')")
        assert set(texts) == {" "}, "a part of a longer word is marked"
        page.locator(".hit").first.click()
        expect(page.locator("[data-conversation-page] mark.passage").first).to_contain_text("lock_timeout for the job")

    at_every_width(visit, steps, at="/search?q=%22lock_timeout%22")


def test_place_shows_three_results_and_others_when_asked(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        place = page.locator(".hit-group").first
        expect(place.locator(".hit:visible")).to_have_count(3)
        place.get_by_text(re.compile(r"^\+\d more here$")).click()
        expect(place.locator(".hit:visible")).to_have_count(5)

    at_every_width(visit, steps, at="/search?q=sourdough+starter&agent=baker")


def test_unanswered_query_shows_notice_and_offers_nearest(visit: Callable[..., None], settings: Settings) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37

    def steps(page: Page, _: int) -> None:
        page.locator("#q").press_sequentially("zzyzx quux")
        expect(page.get_by_role("heading", name="Nothing here seems to answer “zzyzx quux”")).to_be_visible()
        expect(page.locator(".hit")).to_have_count(0)
        page.get_by_role("link", name="Show the nearest anyway").click()
        expect(page.locator(".hit").first).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Nothing here seems to answer “zzyzx quux”")).to_be_visible()

    at_every_width(visit, steps, at="/search")


def test_saved_search_restores_its_filters_and_order(visit: Callable[..., None]) -> None:
    def steps(page: Page, width: int) -> None:
        query = f"sourdough {width}"
        page.goto(f"/search?q={query}&agent=chef")
        page.locator(".chip.is-order summary").click()
        page.get_by_role("radio", name="newest first").check()
        expect(page).to_have_url(re.compile("sort=date"))
        with page.expect_navigation():
            page.get_by_role("button", name="Save search").click()
        page.goto("/search")
        saved = page.locator(".past").first.get_by_role("link", name=query)
        expect(saved).to_contain_text("chef")
        saved.click()
        expect(page).to_have_url(re.compile("agent=chef"))
        expect(page.locator("#chip-order")).to_have_text("Newest first")
        expect(page.locator(".hit-group")).to_have_count(1)

    at_every_width(visit, steps)


def test_filters_and_palette_work_without_javascript(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.locator("#chip-agent").click()
        page.get_by_role("link", name="All choices").first.click()
        page.locator("#chip-agent").click()
        page.get_by_role("checkbox", name="chef 1").check()
        page.get_by_role("button", name="Search").first.click()
        expect(page.locator(".hit-group")).to_have_count(1)
        page.get_by_label("Remove the filter chef").click()
        expect(page.locator(".hit-group")).not_to_have_count(1)
        page.goto("/palette?go=invoices")
        page.get_by_role("link", name="Invoices clerk").click()
        expect(page.get_by_role("heading", name="Invoices")).to_be_visible()

    at_every_width(visit, steps, at="/search?q=sourdough", widths=(WIDTHS[0], WIDTHS[-1]), javascript=False)


def test_why_shows_reasons_of_hit(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_text("Why?").first.click()
        expect(page.locator(".why-body").first).to_contain_text("It contains words of the query.")
        page.keyboard.press("Escape")
        expect(page.locator(".why-body").first).to_be_hidden()

    at_every_width(visit, steps, at="/search?q=sourdough+starter")


def test_palette_opens_searches_conversations_and_settings(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.keyboard.press("Control+k")
        dialog = page.get_by_role("dialog", name="Go anywhere")
        expect(dialog).to_be_visible()
        page.keyboard.type("invoi")
        expect(dialog.locator(".is-chosen")).to_contain_text("Search for “invoi”")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Invoices")).to_be_visible()
        page.wait_for_load_state()
        page.keyboard.press("Control+k")
        page.keyboard.type("api keys")
        expect(dialog.locator(".is-chosen")).to_contain_text("API keys")
        page.keyboard.press("ArrowDown")
        expect(dialog.locator(".is-chosen")).to_contain_text("Search for “api keys”")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        page.wait_for_url("**/settings/keys")

    at_every_width(visit, steps)


def test_palette_choice_is_kept_when_entries_arrive_late(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        dialog = page.get_by_role("dialog", name="Go anywhere")
        chosen = dialog.locator(".is-chosen")
        with held(page, lambda url: "/palette?go=i" in url) as waiting:
            page.keyboard.press("Control+k")
            expect(chosen).to_contain_text("Invoices")
            with page.expect_request("**/palette?go=i*"):
                page.keyboard.type("i")
            page.keyboard.press("ArrowDown")
            expect(chosen).to_contain_text("Rye")
            page.keyboard.press("ArrowUp")
            expect(chosen).to_contain_text("Invoices")
        assert waiting
        expect(dialog.get_by_role("link", name="Search for “i”")).to_be_visible()
        expect(chosen).to_contain_text("Invoices")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Invoices", level=1)).to_be_visible()
        with held(page, lambda url: "/palette?go=r" in url):
            page.keyboard.press("Control+k")
            expect(chosen).to_have_text("Star")
            expect(dialog.get_by_role("link", name="Rye chef")).to_be_visible()
            page.keyboard.type("r")
            expect(chosen).to_contain_text("Read or print")
            page.keyboard.press("ArrowDown")
            expect(chosen).to_contain_text("Invoices")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", name="Rye", level=1)).to_be_visible()

    visit(steps)


def test_question_mark_lists_keys(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.locator("#results").focus()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()

    at_every_width(visit, steps)
