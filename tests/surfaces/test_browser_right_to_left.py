"""Texts in scripts that run from right to left, in a real browser: each text in its own direction, code never."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page

from convmemory.accounts.callers import Caller
from convmemory.conversations.curating import add_tag
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import PHONE, UNFOLD, WIDTHS, expect_to_fit

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


def read_arabic(page: Page, arabic: Conversation) -> None:
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


MIRRORED = """() => ({
  rail: document.querySelector(".rail").getBoundingClientRect(),
  list: document.querySelector("#list").getBoundingClientRect(),
  main: document.querySelector("#main").getBoundingClientRect(),
})"""
SIDEWAYS = "(selector) => new DOMMatrix(getComputedStyle(document.querySelector(selector)).transform).a"
SIDE = "(selector) => getComputedStyle(document.querySelector(selector)).textAlign"


def expect_all_pages_to_fit(page: Page, address: str) -> None:
    for room in (
        "/", "/search?q=lease", f"{address}?turn=1&q=lease", f"{address}/summaries", "/library", "/chat",
        "/documents", "/recall?query=lease", "/import", "/statistics", "/agents",
        "/settings/appearance", "/settings/connect",
    ):  # fmt: skip
        page.goto(room)
        assert page.locator("html").get_attribute("dir") == "rtl"
        page.evaluate(UNFOLD)
        expect_to_fit(page, room)


def see_zones_mirrored(page: Page, address: str) -> None:
    page.goto(f"{address}?turn=0")
    zones = page.evaluate(MIRRORED)
    assert zones["rail"]["left"] >= zones["list"]["right"] - 1
    assert zones["list"]["left"] >= zones["main"]["right"] - 1
    assert page.evaluate(SIDEWAYS, ".turns .icon-forward") == -1
    divider = page.get_by_role("separator")
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(MIRRORED)["list"]["width"] == pytest.approx(zones["list"]["width"] + 16, abs=1)


def see_titles_at_the_side_of_their_page(page: Page) -> None:
    for address, title in (
        ("/", ".home-title"),
        ("/", "#list .item-title"),
        ("/search?q=lease", ".hit-group-title"),
    ):
        page.goto(address)
        page.locator(title).first.wait_for(state="attached")
        assert (page.evaluate(DIRECTION, title), page.evaluate(SIDE, title)) == ("ltr", "right"), title
    page.goto("/")
    assert page.evaluate(DIRECTION, "#q") == "rtl"
    page.locator("#q").fill("lease")
    assert page.evaluate(DIRECTION, "#q") == "ltr"
    page.goto("/import")
    assert page.evaluate(DIRECTION, "#main pre") == "ltr"
    page.goto("/library")
    assert page.evaluate(DIRECTION, ".row-tags bdi") == "ltr"


def test_texts_and_pages_run_from_right_to_left(visit: Callable[..., None], owner: User) -> None:
    arabic = make_conversation(owner, exchange((QUESTION, ANSWER)), title=QUESTION)
    pairs = [("What does the lease say about cats?", ANSWER)] * 2
    lease = make_conversation(
        owner, exchange(*pairs), title="The lease: what does it say?", agent="codex", project="/src/lease"
    )
    for conversation in (arabic, lease):
        index_conversation(conversation_id=conversation.pk)
    add_tag(caller=Caller.of(owner), conversation_ids=[lease.pk], name="flat")

    def in_hebrew(page: Page) -> None:
        page.context.add_cookies([{"name": "language", "value": "he", "url": page.url}])
        for width in (WIDTHS[-1], WIDTHS[0]):
            page.set_viewport_size({"width": width, "height": PHONE["height"]})
            see_titles_at_the_side_of_their_page(page)
        see_zones_mirrored(page, lease.get_absolute_url())
        expect_all_pages_to_fit(page, lease.get_absolute_url())

    visit(lambda page: read_arabic(page, arabic), **PHONE)
    visit(in_hebrew)
