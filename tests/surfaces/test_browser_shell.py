"""The page's three zones in a real browser: rail, list, reading pane, at the widths that people have."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from tests.factories import exchange, make_conversation
from tests.support.documents import GUIDE, read, upload
from tests.surfaces.browser import ONE_PANE, WIDTHS, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(("why is my sourdough flat?", "It is too young.")), title="Bread")


def list_width(page: Page) -> float:
    return float(page.locator("#list").evaluate("list => list.getBoundingClientRect().width"))


def test_recall_address_with_query_keeps_default_values(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        usual = page.locator(".recall-form input:not([name=query])")
        values = usual.evaluate_all("fields => fields.map(field => [field.name, field.value])")
        assert len(values) >= 3
        assert [name for name, value in values if not value] == ["threshold"], "recall has none by default"
        page.goto("/recall?query=sourdough")
        assert usual.evaluate_all("fields => fields.map(field => [field.name, field.value])") == values
        expect(page.locator("[name=query]")).to_have_value("sourdough")
        expect(page.locator(".notice.error")).to_have_count(0)

    at_every_width(visit, steps, at="/recall")


@pytest.mark.parametrize("javascript", [True, False])
def test_settings_can_be_clicked_at_every_width(visit: Callable[..., None], javascript: bool) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_label("Settings").click()
        page.get_by_role("link", name="API keys").first.click()
        page.wait_for_url("**/settings/keys")

    at_every_width(visit, steps, at="/import", widths=(1440, 1180, 1024, 768, 390), javascript=javascript)


def test_rail_leads_to_every_room_and_says_which_is_open(visit: Callable[..., None]) -> None:
    rooms = [
        ("Search", "/search"), ("Library", "/library"), ("New chat", "/chat"), ("Documents", "/documents"),
        ("Import", "/import"), ("Statistics", "/statistics"),
    ]  # fmt: skip

    def steps(page: Page, width: int) -> None:
        rail = page.get_by_role("navigation", name="Main")
        for name, address in rooms if width == WIDTHS[0] else rooms[:: len(rooms) - 1]:
            is_in_menu = width <= ONE_PANE and name == "Statistics"
            for step in ("open", "look"):
                if is_in_menu:
                    rail.get_by_label("Settings and more").click()
                if step == "open":
                    rail.get_by_role("link", name=name).click()
                    page.wait_for_url(f"**{address}")
            expect(rail.locator("[aria-current]").filter(visible=True)).to_have_count(1)
            expect(rail.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")

    at_every_width(visit, steps)


@pytest.mark.usefixtures("documents_here")
def test_palette_acts_on_what_is_open(visit: Callable[..., None], conversation: Conversation) -> None:
    document = read(upload(conversation.archive, GUIDE))

    def act(page: Page, typed: str) -> None:
        page.keyboard.press("Control+k")
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def steps(page: Page, _: int) -> None:
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

    at_every_width(visit, steps, at=f"{conversation.get_absolute_url()}?turn=0")


def test_space_bar_previews_rows_of_library_and_enter_opens(visit: Callable[..., None], owner: User) -> None:
    older = make_conversation(owner, exchange(("how is rye bread made?", "With rye.")), title="Rye")
    newer = make_conversation(owner, exchange(("and wheat bread?", "With wheat.")), title="Wheat")
    for row, day in ((older, 1), (newer, 2)):
        Conversation.objects.filter(pk=row.pk).update(updated_at=datetime(2030, 1, day, tzinfo=UTC))

    def steps(page: Page) -> None:
        dialog = page.get_by_role("dialog", name="Preview")
        first = page.locator(".library-title", has_text="Wheat")
        first.focus()
        page.keyboard.press("Space")
        expect(dialog).to_contain_text("With wheat.")
        page.keyboard.press("ArrowDown")
        expect(dialog).to_contain_text("With rye.")
        page.keyboard.press("k")
        expect(dialog).to_contain_text("With wheat.")
        page.keyboard.press("Space")
        expect(dialog).to_be_hidden()
        expect(first).to_be_focused()
        page.keyboard.press("Space")
        expect(dialog).to_contain_text("With wheat.")
        page.keyboard.press("Enter")
        expect(page.locator("[data-conversation-page]")).to_contain_text("and wheat bread?")
        page.goto("/library")
        page.get_by_role("searchbox", name="Title contains").focus()
        page.keyboard.press("ArrowDown")
        expect(first).to_be_focused()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        expect(dialog).to_contain_text("With rye.")

    visit(steps, at="/library")


def test_preview_closed_and_opened_at_once_stays_open(visit: Callable[..., None], owner: User) -> None:
    for bread in ("rye", "wheat"):
        make_conversation(owner, exchange((f"how is {bread} bread made?", f"With {bread}.")), title=bread)
    press = "key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"

    def steps(page: Page) -> None:
        dialog = page.get_by_role("dialog", name="Preview")
        page.locator(".library-title").first.focus()
        page.keyboard.press("Space")
        expect(dialog).to_contain_text("With wheat.")
        for pressed, shown in ((" ", " "), True), (("ArrowDown", " "), False):
            with page.expect_response("**/search/preview/**") as answered:
                page.evaluate(f"{list(pressed)}.map({press})")
            answered.value.finished()
            page.wait_for_timeout(200)
            expect(dialog).to_be_visible(visible=shown)

    visit(steps, at="/library")


def test_list_is_resized_and_stays_so(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        divider = page.get_by_role("separator")
        before = list_width(page)
        divider.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert list_width(page) == pytest.approx(before + 32, abs=1)
        box = divider.bounding_box()
        assert box
        page.mouse.move(box["x"] + 4, 300)
        page.mouse.down()
        page.mouse.move(400, 300, steps=4)
        page.mouse.up()
        wanted = list_width(page)
        assert wanted < before
        page.goto("/import")
        assert list_width(page) == pytest.approx(wanted, abs=1)
        expect(page.get_by_role("separator")).to_have_attribute("aria-valuenow", str(round(wanted)))

    visit(steps, width=1440)


def test_list_is_hidden_and_stays_so(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        toggle = page.get_by_role("button", name="List")
        expect(toggle).to_have_attribute("aria-expanded", "true")
        toggle.click()
        expect(page.locator("#list")).to_be_hidden()
        page.goto("/documents")
        expect(page.locator("#list")).to_be_hidden()
        expect(toggle).to_have_attribute("aria-expanded", "false")
        page.keyboard.press("[")
        expect(page.locator("#list")).to_be_visible()

    at_every_width(visit, steps, widths=[width for width in WIDTHS if width > ONE_PANE])


def test_bundled_font_is_used(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('14px Inter'))")
        assert page.evaluate("[...document.fonts].some(font => font.family === 'Inter' && font.status === 'loaded')")

    visit(steps)
