"""The page's three zones in a real browser: rail, list, reading pane, at the widths that people have."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import ONE_PANE, WIDTHS, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def conversation(owner: User) -> Conversation:
    return make_conversation(owner, exchange(("why is my sourdough flat?", "It is too young.")), title="Bread")


def list_width(page: Page) -> float:
    return float(page.locator("#list").evaluate("list => list.getBoundingClientRect().width"))


def recall_by_address(page: Page) -> None:
    page.goto("/recall")
    usual = page.locator(".recall-form input:not([name=query])")
    values = usual.evaluate_all("fields => fields.map(field => [field.name, field.value])")
    assert len(values) >= 3
    assert [name for name, value in values if not value] == ["threshold"], "recall has none by default"
    page.goto("/recall?query=sourdough")
    assert usual.evaluate_all("fields => fields.map(field => [field.name, field.value])") == values
    expect(page.locator("[name=query]")).to_have_value("sourdough")
    expect(page.locator(".notice.error")).to_have_count(0)


def open_settings(page: Page, _: int) -> None:
    page.get_by_label("Settings").click()
    page.get_by_role("link", name="API keys").first.click()
    page.wait_for_url("**/settings/keys")


ROOMS = (
    ("Search", "/search"), ("Library", "/library"), ("New chat", "/chat"), ("Documents", "/documents"),
    ("Import", "/import"), ("Statistics", "/statistics"),
)  # fmt: skip


def open_rooms(page: Page, width: int) -> None:
    rail = page.get_by_role("navigation", name="Main")
    for name, address in ROOMS if width == WIDTHS[0] else ROOMS[:: len(ROOMS) - 1]:
        is_in_menu = width <= ONE_PANE and name == "Statistics"
        for step in ("open", "look"):
            if is_in_menu:
                rail.get_by_label("Settings and more").click()
            if step == "open":
                rail.get_by_role("link", name=name).click()
                page.wait_for_url(f"**{address}")
        expect(rail.locator("[aria-current]").filter(visible=True)).to_have_count(1)
        expect(rail.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")


def expect_bundled_font(page: Page) -> None:
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('14px Inter'))")
    assert page.evaluate("[...document.fonts].some(font => font.family === 'Inter' && font.status === 'loaded')")


def resize_list(page: Page) -> None:
    divider = page.get_by_role("separator")
    before = list_width(page)
    divider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    widened = list_width(page)
    assert widened == pytest.approx(before + 32, abs=1)
    box = divider.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, 300)
    page.mouse.down()
    page.mouse.move(400, 300, steps=4)
    page.mouse.up()
    dragged = list_width(page)
    assert dragged < widened
    page.goto("/import")
    assert list_width(page) == pytest.approx(dragged, abs=1)
    expect(page.get_by_role("separator")).to_have_attribute("aria-valuenow", str(round(dragged)))


def hide_list(page: Page) -> None:
    page.goto("/")
    toggle = page.get_by_role("button", name="List")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    toggle.click()
    expect(page.locator("#list")).to_be_hidden()
    page.goto("/documents")
    expect(page.locator("#list")).to_be_hidden()
    expect(toggle).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("[")
    expect(page.locator("#list")).to_be_visible()


def test_rail_leads_to_rooms_and_settings_and_list_stays_as_it_was_left(visit: Callable[..., None]) -> None:
    def steps(page: Page, width: int) -> None:
        open_rooms(page, width)
        if width > ONE_PANE:
            hide_list(page)
            resize_list(page)
            expect_bundled_font(page)
            recall_by_address(page)

    at_every_width(visit, steps)
    at_every_width(visit, open_settings, at="/import", widths=(1440, 1180, 1024, 768, 390))
