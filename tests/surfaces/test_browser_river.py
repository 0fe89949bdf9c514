"""The brush of the river of time: with the mouse, the keyboard and a finger, from both writing directions."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.accounts.callers import Caller
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.statistics import count_changed
from search.pages.past_searches import save_search
from tests.factories import assistant_says, make_conversation, user_says
from tests.surfaces.browser import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def years(owner: User) -> None:
    """Two messages in May of each year from 2019 to 2024."""
    for year in range(2019, 2025):
        at = datetime(year, 5, 14, 12, tzinfo=UTC)
        drafts = [user_says("q", created_at=at), assistant_says("a", created_at=at)]
        make_conversation(owner, drafts, title=f"May {year}", project="/src/mill")
    count_changed(archive_id=owner.pk)


def places(page: Page) -> tuple[float, float, float]:
    """Return the left edge, the width and the middle of the height of the picture."""
    box = page.locator(".river svg").first.bounding_box()
    assert box
    return box["x"], box["width"], box["y"] + box["height"] / 2


def drag(page: Page, first: float, last: float) -> str:
    left, width, y = places(page)
    page.mouse.move(left + first * width, y)
    page.mouse.down()
    page.mouse.move(left + last * width, y)
    page.mouse.up()
    page.wait_for_url("**/search?after*")
    return page.url.partition("?")[2]


def months(page: Page) -> list[str]:
    columns = page.locator("[data-river]").get_attribute("data-columns") or ""
    return [column.split("/")[0] for column in columns.split()]


def brush_with_mouse_and_keys(page: Page) -> None:
    shown = months(page)
    query = drag(page, 0.25, 0.55)
    assert query.startswith(f"after={shown[int(0.25 * len(shown))]}&before=")
    expect(page.locator(".river-range output")).to_contain_text("Drag over")
    page.goto("/")
    left, width, y = places(page)
    page.mouse.move(left + width / (2 * len(shown)), y)
    expect(page.locator(".river-range output")).to_have_text("May 2019 · Messages: 2")
    page.mouse.click(left + width / (2 * len(shown)), y)
    page.wait_for_url("**/search?after=2019-05-01&before=2019-05-31")
    expect(page.get_by_role("heading", level=1)).to_contain_text("May 2019")
    page.goto("/")
    page.get_by_role("slider", name="To").focus()
    page.keyboard.press("Home")
    page.get_by_role("slider", name="From").press("Enter")
    page.wait_for_url("**/search?after=2019-05-01&before=2019-05-31")
    page.goto("/")
    start = page.get_by_role("slider", name="From")
    start.press("End")
    expect(start).to_have_attribute("aria-valuetext", "Jan 2025")  # of the years without a message


def choose_time_with_finger(page: Page) -> None:
    left, width, y = places(page)
    touch = """([selector, from, to, y]) => {
      const svg = document.querySelector(selector);
      const send = (type, x) => svg.dispatchEvent(new PointerEvent(type, {
        clientX: x, clientY: y, bubbles: true, pointerType: "touch", pointerId: 7, isPrimary: true }));
      send("pointerdown", from); send("pointermove", to); send("pointerup", to);
    }"""
    page.evaluate(touch, [".river svg", left + 0.1 * width, left + 0.5 * width, y])
    page.wait_for_url("**/search?after*")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    summary, listed = page.locator(".worked").bounding_box(), page.locator("#results").bounding_box()
    assert summary
    assert listed
    assert summary["y"] < listed["y"]


def see_hits_of_saved_search(page: Page) -> None:
    hits = page.locator("[data-lane] a")
    expect(hits).to_have_count(6)
    assert hits.first.get_attribute("title") == "May 2024 · 14 May 2024"
    left, width, _ = places(page)
    months_shown = months(page)
    box = hits.first.bounding_box()
    assert box
    position = months_shown.index("2024-05-01") + 13 / 31
    assert abs(box["x"] + box["width"] / 2 - left - width * position / len(months_shown)) < 2


def brush_from_right_to_left(page: Page) -> None:
    page.context.set_extra_http_headers({"Accept-Language": "he"})
    page.goto("/")
    shown = months(page)
    assert drag(page, 0.999, 0.999).startswith(f"after={shown[0]}&")
    page.context.set_extra_http_headers({})


@pytest.mark.usefixtures("years")
def test_person_chooses_span_of_time_by_mouse_keys_and_finger(owner: User, visit: Callable[..., None]) -> None:
    visit(brush_with_mouse_and_keys)
    visit(choose_time_with_finger, width=PHONE["width"], height=PHONE["height"])
    save_search(caller=Caller.of(owner), box=SearchBox(project=("/src/mill",)))
    visit(see_hits_of_saved_search)
    visit(brush_from_right_to_left, is_last=True)
