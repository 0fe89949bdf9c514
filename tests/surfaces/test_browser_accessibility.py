"""No page breaks a rule of WCAG 2.1, A or AA, that axe can check: wide and narrow, light and dark.

Targets have 24 pixels, as WCAG 2.2 asks, and each page has a main area and a first heading."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.marking import set_mark
from convmemory.core.marks import Mark
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import PHONE, WIDTHS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = (Path(__file__).parents[1] / "support" / "axe" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# Without preloading: for it axe writes styles into the page, which the content security policy refuses, and says so.
SETTLED = """async () => {
  const isUnderWay = (one) => one.playState === "running" && one.effect.getTiming().iterations !== Infinity;
  const until = performance.now() + 10_000;
  const isBusy = () => document.querySelector("#main[aria-busy], .htmx-request");
  const isMoving = () => document.getAnimations().some(isUnderWay) || isBusy();
  for (let still = 0; still < 2; still = isMoving() ? 0 : still + 1) {
    if (performance.now() > until) throw new Error("The page does not come to rest.");
    await Promise.race([new Promise(requestAnimationFrame), new Promise(done => setTimeout(done, 1_000))]);
  }
}"""
"""Until what htmx loads is there, also the reading pane, which is dimmed meanwhile, and no colour is on its way to
another: one that is inherited follows a frame later. A page that Chromium does not draw has no frames. To wait for an
idle network takes half a second more on each page."""
OF_WHOLE_PAGES = ["target-size", "page-has-heading-one", "landmark-one-main"]  # not of ones that a menu covers
FIND = """async ([rules, more]) => (await axe.run(document, {
    runOnly: rules, preload: false, resultTypes: ["violations"],
    rules: Object.fromEntries(more.map(rule => [rule, {enabled: true}]))
})).violations.map(found => `${found.id}: ${found.nodes.map(node => node.target.join(" ")).slice(0, 5).join(", ")}`)"""
RULES_BY_SCHEME: tuple[tuple[Literal["light", "dark"], Sequence[str]], ...] = (
    ("light", RULES),
    ("dark", ["color-contrast"]),
)
PAGES = (
    "/", "/search", "/search?q=sourdough", "/search?q=zzz&mode=full_text", "/palette?go=bread", "/recall",
    "/recall?query=sourdough", "/library", "/statistics", "/documents", "/import", "/chat", "/agents", "/agents/new",
    "/settings/account", "/settings/appearance", "/settings/keys", "/settings/connect", "/settings/data",
    "/settings/password", "/settings/account/delete", "/design",
)  # fmt: skip
OF_A_CONVERSATION = ("", "?turn=1", "/outline", "/summaries", "/context", "/events", "/documents", "/delete")
ADMIN = ("", "dashboard/", "conversations/conversation/", "search/itemembedding/", "dashboard/map")
OPENED = ("#chip-agent", "#chip-time", "#chip-places", ".why summary")


def expect_no_violation(page: Page, where: str, rules: Sequence[str] = RULES, more: Sequence[str] = ()) -> None:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    page.evaluate(SETTLED)
    assert page.evaluate(FIND, [rules, more]) == [], where


def expect_no_violation_anywhere(page: Page, where: str, more: Sequence[str] = ()) -> None:
    """The page as it is, wide and narrow; and its colours in the dark, too, of which all else is the same."""
    for width in (WIDTHS[0], WIDTHS[-1]):
        page.set_viewport_size({"width": width, "height": PHONE["height"]})
        for scheme, rules in RULES_BY_SCHEME:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            expect_no_violation(page, f"{where}, {scheme}, {width} pixels", rules, more if rules == RULES else ())


def test_pages_have_no_accessibility_violations(visit: Callable[..., None], owner: User) -> None:
    said = exchange(("why is my sourdough flat?", "It is too young."), ("and the rye?", "Rye sourdough is lively."))
    conversation = make_conversation(owner, said, title="Bread", agent="baker", project="/home/kitchen")
    index_conversation(conversation_id=conversation.pk)
    set_mark(owner=owner, conversation_id=conversation.pk, turn_number=0, mark=Mark("wrong", "it was too old"))

    def steps(page: Page) -> None:
        for address in (*PAGES, *(conversation.get_absolute_url() + rest for rest in OF_A_CONVERSATION)):
            page.goto(address)
            expect_no_violation_anywhere(page, address, OF_WHOLE_PAGES)
        for opened in OPENED:
            page.goto("/search?q=sourdough")
            page.locator(opened).first.click()
            expect_no_violation_anywhere(page, opened)
        page.goto(conversation.get_absolute_url())
        page.get_by_label("Mark turn 0 as wrong or outdated").click()
        expect_no_violation_anywhere(page, "the menu of a turn")
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("dialog")).to_contain_text("Bread")
        expect_no_violation_anywhere(page, "the palette")
        page.goto("/api/v1/docs")
        page.locator(".opblock-summary-control").first.click()
        page.locator(".opblock-body").first.wait_for()
        expect_no_violation_anywhere(page, "the documentation of the API")
        page.context.clear_cookies()
        page.goto("/login")
        expect_no_violation_anywhere(page, "/login")

    visit(steps)


def test_administration_has_no_accessibility_violations(visit: Callable[..., None], owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_staff=True, is_superuser=True)
    conversation = make_conversation(owner, exchange(("why is it flat?", "It is too young.")), title="Bread")
    index_conversation(conversation_id=conversation.pk)

    def steps(page: Page) -> None:
        for address in (*ADMIN, f"conversations/conversation/{conversation.pk}/change/"):
            page.goto(f"/admin/{address}")
            expect_no_violation_anywhere(page, address)

    visit(steps)
