"""Texts in scripts that run from right to left, in a real browser: each text in its own direction, code never."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page

from convmemory.accounts.callers import Caller
from convmemory.conversations.curating import add_tag
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import PHONE, UNFOLD, WIDTHS, Steps, expect_to_fit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

QUESTION = "ماذا يقول عقد الإيجار عن القطط؟"
ANSWER = "لا يمنع الحيوانات.\n\nIt says so in English, too.\n\n- أولا\n- ثانيا\n\n```\ncat lease.txt\n```"
DIRECTION = "(selector) => getComputedStyle(document.querySelector(selector)).direction"
SIDES = """() => [...document.querySelectorAll(".is-assistant .prose > p")].map((paragraph) => {
  const range = document.createRange();
  range.selectNodeContents(paragraph);
  const text = range.getBoundingClientRect(), box = paragraph.getBoundingClientRect();
  return text.left - box.left > box.right - text.right ? "right" : "left";
})"""


def test_every_text_runs_in_its_own_direction(visit: Callable[..., None], owner: User) -> None:
    arabic = make_conversation(owner, exchange((QUESTION, ANSWER)), title=QUESTION)
    make_conversation(owner, exchange(("What does the lease say?", "Nothing.")), title="The lease")
    index_conversation(conversation_id=arabic.pk)

    def steps(page: Page) -> None:
        page.goto(arabic.get_absolute_url())
        assert page.evaluate(DIRECTION, "h1[data-title]") == "rtl"
        assert page.evaluate(DIRECTION, ".is-user .prose") == "rtl"
        assert page.evaluate(DIRECTION, ".is-assistant .prose ul") == "rtl"
        assert page.evaluate(DIRECTION, ".is-assistant .prose pre") == "ltr"
        assert page.evaluate(SIDES) == ["right", "left"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"/search?q={QUESTION.split()[2]}")
        page.locator(".hit").first.wait_for()
        assert page.evaluate(DIRECTION, ".hit .item-question") == "rtl"
        assert page.evaluate(DIRECTION, "#q") == "rtl"

    visit(steps, **PHONE)


MIRRORED = """() => ({
  rail: document.querySelector(".rail").getBoundingClientRect(),
  list: document.querySelector("#list").getBoundingClientRect(),
  main: document.querySelector("#main").getBoundingClientRect(),
})"""
SIDEWAYS = "(selector) => new DOMMatrix(getComputedStyle(document.querySelector(selector)).transform).a"


@pytest.fixture
def hebrew(visit: Callable[..., None]) -> Callable[..., None]:
    """Runs steps on pages in Hebrew."""

    def visit_in_hebrew(steps: Steps) -> None:
        def choose_hebrew_first(page: Page) -> None:
            page.context.add_cookies([{"name": "language", "value": "he", "url": page.url}])
            page.reload()
            steps(page)

        visit(choose_hebrew_first, width=1440)

    return visit_in_hebrew


def test_no_page_is_wider_than_its_window_from_right_to_left(hebrew: Callable[..., None], owner: User) -> None:
    said = ("what does the lease say about cats?", ANSWER)
    lease = make_conversation(owner, exchange(said, said), title=QUESTION, agent="codex", project="/src/lease")
    index_conversation(conversation_id=lease.pk)
    address = lease.get_absolute_url()

    def steps(page: Page) -> None:
        for room in (
            "/", "/search?q=lease", f"{address}?turn=1&q=lease", f"{address}/summaries", "/library", "/chat",
            "/documents", "/recall?query=lease", "/import", "/statistics", "/agents",
            "/settings/appearance", "/settings/connect",
        ):  # fmt: skip
            page.goto(room)
            assert page.locator("html").get_attribute("dir") == "rtl"
            page.evaluate(UNFOLD)
            expect_to_fit(page, room)

    hebrew(steps)


def test_zones_arrows_and_divider_are_mirrored(hebrew: Callable[..., None], owner: User) -> None:
    lease = make_conversation(owner, exchange(("first", "one"), ("second", "two")), title="The lease")

    def steps(page: Page) -> None:
        page.goto(f"{lease.get_absolute_url()}?turn=0")
        zones = page.evaluate(MIRRORED)
        assert zones["rail"]["left"] >= zones["list"]["right"] - 1
        assert zones["list"]["left"] >= zones["main"]["right"] - 1
        assert page.evaluate(SIDEWAYS, ".turns .icon-forward") == -1
        divider = page.get_by_role("separator")
        divider.focus()
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(MIRRORED)["list"]["width"] == pytest.approx(zones["list"]["width"] + 16, abs=1)

    hebrew(steps)


def test_titles_keep_their_direction_and_align_with_page(hebrew: Callable[..., None], owner: User) -> None:
    said = ("What does the lease say?", "Nothing.")
    lease = make_conversation(owner, exchange(said), title="The lease: what does it say?")
    index_conversation(conversation_id=lease.pk)
    add_tag(caller=Caller.of(owner), conversation_ids=[lease.pk], name="flat")
    side = "(selector) => getComputedStyle(document.querySelector(selector)).textAlign"

    def steps(page: Page) -> None:
        for address, title in (
            ("/", ".home-title"),
            ("/", "#list .item-title"),
            ("/search?q=lease", ".hit-group-title"),
        ):
            page.goto(address)
            page.locator(title).first.wait_for(state="attached")
            assert (page.evaluate(DIRECTION, title), page.evaluate(side, title)) == ("ltr", "right"), title
        page.goto("/")
        assert page.evaluate(DIRECTION, "#q") == "rtl"
        page.locator("#q").fill("lease")
        assert page.evaluate(DIRECTION, "#q") == "ltr"
        page.goto("/import")
        assert page.evaluate(DIRECTION, "#main pre") == "ltr"
        page.goto("/library")
        assert page.evaluate(DIRECTION, ".row-tags bdi") == "ltr"

    def at_both_widths(page: Page) -> None:
        for width in (WIDTHS[0], WIDTHS[-1]):
            page.set_viewport_size({"width": width, "height": PHONE["height"]})
            steps(page)

    hebrew(at_both_widths)
