"""The page's three zones in a real browser: rail, list, reading pane, at the widths that people have."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.factories import exchange, make_conversation, make_user
from tests.surfaces.browser import WIDTHS, Chromium, Steps, at_every_width, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAGES = (
    "/", "/search", "/chat", "/documents", "/recall", "/import", "/agents", "/settings/keys", "/settings/connect",
    "/design", "/library", "/statistics", "/settings/account", "/settings/appearance", "/settings/data",
)  # fmt: skip


@pytest.fixture
def visit(chromium: Chromium, live_server: LiveServer) -> Callable[..., None]:
    """Runs steps on a page where `ada`, who has one conversation, has just signed in."""
    make_conversation(make_user("ada"), exchange(("why is my sourdough flat?", "It is too young.")), title="Bread")

    def visit_signed_in(steps: Steps, *, width: int = 1440, javascript: bool = True) -> None:
        def sign_in_first(page: Page) -> None:
            sign_in(page)
            steps(page)

        chromium.visit(live_server.url, sign_in_first, width=width, javascript=javascript)

    return visit_signed_in


def list_width(page: Page) -> float:
    return float(page.locator("#list").evaluate("list => list.getBoundingClientRect().width"))


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(visit: Callable[..., None], width: int) -> None:
    def steps(page: Page) -> None:
        for address in PAGES:
            page.goto(address)
            page.evaluate("document.querySelectorAll('#main details').forEach(fold => (fold.open = true))")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{address} is {wide} pixels wide"

    visit(steps, width=width)


def test_an_address_of_recall_keeps_what_it_does_not_say(visit: Callable[..., None]) -> None:
    def steps(page: Page, width: int) -> None:
        page.goto("/recall")
        usual = page.locator(".recall-form input:not([name=query])")
        values = usual.evaluate_all("fields => fields.map(field => field.value)")
        assert len(values) >= 3
        assert all(values)
        page.goto("/recall?query=sourdough")
        assert usual.evaluate_all("fields => fields.map(field => field.value)") == values
        expect(page.locator("[name=query]")).to_have_value("sourdough")
        expect(page.locator(".notice.error")).to_have_count(0)

    visit(at_every_width(steps))


@pytest.mark.parametrize("width", [1440, 1180, 1024, 768, 390])
def test_the_settings_can_be_clicked_at_every_width(visit: Callable[..., None], width: int) -> None:
    def steps(page: Page) -> None:
        page.goto("/import")
        page.get_by_label("Settings").click()
        page.get_by_role("link", name="API keys").first.click()
        page.wait_for_url("**/settings/keys")

    visit(steps, width=width)
    visit(steps, width=width, javascript=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_rail_leads_to_every_room_and_says_which_is_open(visit: Callable[..., None], width: int) -> None:
    def steps(page: Page) -> None:
        rail = page.get_by_role("navigation", name="Main")
        for name, address in (("Documents", "/documents"), ("Recall", "/recall"), ("Import", "/import")):
            rail.get_by_role("link", name=name).click()
            page.wait_for_url(f"**{address}")
            expect(rail.locator("[aria-current]")).to_have_count(1)
            expect(rail.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")

    visit(steps, width=width)


def test_the_list_is_resized_and_stays_so(visit: Callable[..., None]) -> None:
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

    visit(steps)


def test_the_list_is_hidden_and_stays_so(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        toggle = page.get_by_role("button", name="List")
        expect(toggle).to_have_attribute("aria-expanded", "true")
        toggle.click()
        expect(page.locator("#list")).to_be_hidden()
        page.goto("/documents")
        expect(page.locator("#list")).to_be_hidden()
        expect(toggle).to_have_attribute("aria-expanded", "false")
        page.keyboard.press("[")
        expect(page.locator("#list")).to_be_visible()

    visit(steps)


def test_the_bundled_font_is_used(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        page.goto("/")
        assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('14px Inter'))")
        assert page.evaluate("[...document.fonts].some(font => font.family === 'Inter' && font.status === 'loaded')")

    visit(steps)
