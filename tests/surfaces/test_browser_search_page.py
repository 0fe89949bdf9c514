"""The search page in a real browser: preview, filters, history and palette, by keyboard, at the widths people have."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from convmemory.documents.models import Document
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.support.documents import GUIDE, read, upload
from tests.surfaces.browser import NARROW, ONE_PANE, WIDE, WIDTHS, at_every_width, held

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TWO_PANES = tuple(width for width in WIDTHS if width > ONE_PANE)
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


def preview_what_is_selected(page: Page) -> None:
    page.goto("/")
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


def wait_for_page_on_its_way(page: Page, bread: Conversation) -> None:
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


def star_hit_and_go_on(page: Page) -> None:
    page.goto("/search?q=sourdough+starter")
    star, shown = page.locator(".preview .star button"), page.locator(".preview h1")
    title = str(page.locator(".hit-group-title").first.text_content()).strip()
    expect(shown).to_have_text(title)
    with held(page, lambda url: url.endswith("/star")):
        page.keyboard.press("s")
        page.locator(".hit-group").first.locator(".hit").filter(visible=True).last.focus()
        page.keyboard.press("ArrowDown")
        expect(shown).not_to_have_text(title)
    expect(page.locator("#toast")).to_have_text("The conversation is starred.")
    expect(star).to_have_attribute("aria-pressed", "false")


def open_address_of_selection(page: Page) -> None:
    page.goto("/search?q=sourdough+starter")
    third = page.locator(".hit").nth(2)
    key, question = third.get_attribute("data-key"), str(third.locator(".item-question").text_content())
    page.goto(f"/search?q=sourdough+starter&at={key}")
    expect(page.locator(f'[data-key="{key}"]')).to_have_attribute("aria-current", "true")
    preview(page, question)
    page.reload()
    preview(page, question)


def search_for_quoted_phrase(page: Page) -> None:
    page.goto("/search?q=%22lock_timeout%22")
    marks = page.locator("#results .hit mark")
    expect(marks.first).to_be_visible()
    assert set(marks.all_text_contents()) == {"lock_timeout"}
    texts = marks.evaluate_all("marks => marks.map(mark => mark.previousSibling?.textContent.at(-1) ?? ' ')")
    assert set(texts) == {" "}, "a part of a longer word is marked"
    page.locator(".hit").first.click()
    expect(page.locator("[data-conversation-page] mark.passage").first).to_contain_text("lock_timeout for the job")


def unfold_results_of_conversation(page: Page) -> None:
    page.goto("/search?q=sourdough+starter&agent=baker")
    place = page.locator(".hit-group").first
    expect(place.locator(".hit:visible")).to_have_count(3)
    place.get_by_text(re.compile(r"^\+\d more here$")).click()
    expect(place.locator(".hit:visible")).to_have_count(5)


def ask_why(page: Page) -> None:
    page.goto("/search?q=sourdough+starter")
    page.get_by_text("Why?").first.click()
    expect(page.locator(".why-body").first).to_contain_text("It contains words of the query.")
    page.keyboard.press("Escape")
    expect(page.locator(".why-body").first).to_be_hidden()


def test_person_previews_hits_and_sees_what_matched(visit: Callable[..., None], owner: User) -> None:
    bread = Conversation.objects.get(archive_id=owner.pk, title="Bread")
    asked = "should we lower deadlock_timeout, or set lock_timeout for the job?"
    told = "Leave deadlock_timeout as it is. Set lock_timeout for the job alone."
    made = make_conversation(owner, exchange((asked, told)), title="Locks")
    index_conversation(conversation_id=made.pk)

    def next_to_preview(page: Page, _: int) -> None:
        preview_what_is_selected(page)
        star_hit_and_go_on(page)
        open_address_of_selection(page)
        wait_for_page_on_its_way(page, bread)

    def on_phone(page: Page, _: int) -> None:
        search_for_quoted_phrase(page)
        unfold_results_of_conversation(page)
        ask_why(page)

    at_every_width(visit, next_to_preview, widths=TWO_PANES)
    at_every_width(visit, on_phone, widths=NARROW)


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


def choose_filters(page: Page) -> None:
    page.goto("/search?q=sourdough")
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


def type_filters(page: Page) -> None:
    page.goto("/search")
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


def save_search(page: Page, width: int) -> None:
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


def test_person_filters_results_and_saves_the_search(visit: Callable[..., None]) -> None:
    at_every_width(visit, lambda page, _: choose_filters(page))
    at_every_width(visit, lambda page, _: type_filters(page), widths=WIDE)
    at_every_width(visit, save_search, widths=NARROW)


def go_anywhere(page: Page) -> None:
    page.goto("/")
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


def keep_choice_while_entries_come(page: Page) -> None:
    page.goto("/")
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


def list_keys(page: Page) -> None:
    page.goto("/")
    page.locator("#results").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def act(page: Page, typed: str) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type(typed)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def act_on_open_page(page: Page, bread: Conversation, document: Document) -> None:
    page.goto(f"{bread.get_absolute_url()}?turn=0")
    star, chosen = page.locator(".star button"), page.locator(".palette-entry.is-chosen")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog").get_by_role("heading", name="Bread")).to_be_visible()
    expect(chosen).to_have_text(re.compile("Star|Take the star off"))
    before = star.get_attribute("aria-pressed")
    page.keyboard.press("Enter")
    expect(star).not_to_have_attribute("aria-pressed", str(before))
    act(page, "copy link")
    expect(page.locator("#toast")).to_have_text("Link copied")
    assert str(page.evaluate("navigator.clipboard.readText()")).endswith("?turn=0#turn-0")
    act(page, "find")
    expect(page.locator("[data-find]")).to_be_focused()
    act(page, "change title")
    expect(page.get_by_role("textbox", name="Title")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("rye")
    expect(chosen).to_have_text("Search for “rye”")
    page.keyboard.press("Escape")
    page.goto(document.get_absolute_url())
    act(page, "find")
    expect(page.get_by_label("Find in this document").last).to_be_focused()
    act(page, "delete")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delete")
    page.goto("/library")
    page.keyboard.press("Control+k")
    expect(chosen).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("heading", name="Library")).to_have_count(0)


@pytest.mark.usefixtures("documents_here")
def test_person_goes_anywhere_and_acts_with_palette(visit: Callable[..., None], owner: User) -> None:
    bread = Conversation.objects.get(archive_id=owner.pk, title="Bread")

    def steps(page: Page, _: int) -> None:
        go_anywhere(page)
        list_keys(page)

    at_every_width(visit, steps, widths=WIDE)
    visit(keep_choice_while_entries_come)
    document = read(upload(owner, GUIDE))
    at_every_width(visit, lambda page, _: act_on_open_page(page, bread, document), widths=NARROW)
