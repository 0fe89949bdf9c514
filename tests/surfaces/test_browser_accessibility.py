"""No page breaks a rule of WCAG 2.1, A or AA, that axe can check: wide and narrow, light and dark."""

from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.surfaces.browser import Chromium, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = (Path(__file__).parents[1] / "support" / "axe" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# Without preloading: for it axe writes styles into the page, which the content security policy refuses, and says so.
FIND = """async rules => (await axe.run(document, {runOnly: rules, preload: false})).violations.map(
    found => `${found.id}: ${found.nodes.map(node => node.target.join(" ")).slice(0, 5).join(", ")}`)"""
PAGES = (
    "/", "/search", "/search?q=sourdough", "/search?q=zzz&mode=full_text", "/palette?go=bread", "/recall",
    "/recall?query=sourdough", "/library", "/statistics", "/documents", "/import", "/chat", "/agents", "/agents/new",
    "/settings/account", "/settings/appearance", "/settings/keys", "/settings/connect", "/settings/data",
    "/settings/password", "/settings/account/delete", "/design",
)  # fmt: skip
OF_A_CONVERSATION = ("", "?turn=1", "/outline", "/summaries", "/context", "/events", "/documents", "/delete")
ADMIN = ("", "dashboard/", "conversations/conversation/", "search/itemembedding/", "dashboard/map")
OPENED = ("#chip-agent", "#chip-time", "#chip-places", ".why summary")


def expect_no_violation(page: Page, where: str) -> None:
    page.evaluate(AXE)
    assert page.evaluate(FIND, RULES) == [], where


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_keep_the_rules(
    chromium: Chromium, live_server: LiveServer, scheme: Literal["light", "dark"], width: int
) -> None:
    said = exchange(("why is my sourdough flat?", "It is too young."), ("and the rye?", "Rye sourdough is lively."))
    conversation = make_conversation(make_user("ada"), said, title="Bread", agent="baker", project="/home/kitchen")
    index_conversation(conversation_id=conversation.pk)

    def steps(page: Page) -> None:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.goto("/login")
        expect_no_violation(page, "/login")
        sign_in(page)
        for address in (*PAGES, *(conversation.get_absolute_url() + rest for rest in OF_A_CONVERSATION)):
            page.goto(address, wait_until="networkidle")
            expect_no_violation(page, address)
        for opened in OPENED:
            page.goto("/search?q=sourdough", wait_until="networkidle")
            page.locator(opened).first.click()
            expect_no_violation(page, opened)
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog")).to_contain_text("Bread")
        expect_no_violation(page, "the palette")

    chromium.visit(live_server.url, steps, width=width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_administration_keeps_the_rules(
    chromium: Chromium, live_server: LiveServer, scheme: Literal["light", "dark"]
) -> None:
    owner = User.objects.create_superuser("rita", password="correct horse")
    conversation = make_conversation(owner, exchange(("why is it flat?", "It is too young.")), title="Bread")
    index_conversation(conversation_id=conversation.pk)

    def steps(page: Page) -> None:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.goto("/login")
        page.get_by_label("Name").fill("rita")
        page.get_by_label("Password").fill("correct horse")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        for address in (*ADMIN, f"conversations/conversation/{conversation.pk}/change/"):
            page.goto(f"/admin/{address}", wait_until="networkidle")
            expect_no_violation(page, address)

    chromium.visit(live_server.url, steps, width=1440)
