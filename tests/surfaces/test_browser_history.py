"""Asking, reading and files with ten years of history, each as the job of a person, by mouse, finger and keyboard."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django import Settings

from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from convmemory.core.acting import in_archive_of
from search.adapters.conversations import index_conversation
from tests.factories import make_conversation, user_says
from tests.integration.conversations.test_file_edits import agent_edits, write
from tests.support.ten_years import make_ten_years
from tests.surfaces.browser import PHONE, SETTLED, SHIFT, WIDTHS, at_every_width
from tests.surfaces.test_ask import QUESTION
from tests.surfaces.test_browser_accessibility import OF_WHOLE_PAGES, expect_no_violation_anywhere
from tests.surfaces.test_no_answer import PAIRS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROOT = "/home/ada/house"
MOST_SHIFT = 0.05

FOCUS = """() => {
  const active = document.activeElement, {top, bottom, left, right} = active.getBoundingClientRect();
  const style = getComputedStyle(active), inView = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
  const hasOutline = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
  const isShown = hasOutline || active.matches(".is-target, [id^=turn-]");
  return inView && isShown ? "" : `${active.outerHTML.slice(0, 120)} at ${top}, ${left}`;
}"""
"""Returns what is focused if the window does not show that; a turn has a bar at its side instead of an outline."""


def store(owner: User) -> Conversation:
    """A conversation about a house, in which each answer writes a file."""
    drafts = []
    for number, (question, answer) in enumerate(PAIRS):
        drafts += [user_says(question), *agent_edits(write(f"{ROOT}/step{number}.py", f"step = {number}"), text=answer)]
    made = make_conversation(owner, drafts, title="House", project=ROOT, agent="claude-code")
    with in_archive_of(made.archive_id):
        index_conversation(conversation_id=made.pk)
        count_changed(archive_id=made.archive_id)
    return made


@pytest.fixture
def house(owner: User, settings: Settings) -> Conversation:
    settings.SEARCH_MIN_RELEVANCE, settings.CHAT_MODEL = 0.37, ""
    make_ten_years(owner, 30)
    return store(owner)


def settle(page: Page) -> None:
    """Wait until the page rests, and check that it has not moved since it was loaded."""
    page.evaluate(SETTLED)
    assert page.evaluate("window.shift ?? 0") < MOST_SHIFT, page.evaluate("[...window.shifted]")


def ask(page: Page, question: str = QUESTION) -> None:
    page.keyboard.press("/")
    page.keyboard.type(question)
    expect(page.locator(".answer blockquote")).to_be_visible()


def ask_and_read_turn(page: Page, house: Conversation) -> None:
    page.goto("/")
    settle(page)
    ask(page)
    expect(page.locator(".answer")).to_contain_text("metal primer first")
    settle(page)
    page.locator(".answer-place a").click()
    turn = page.locator("#main [data-turn='3'][id]")
    expect(turn).to_be_in_viewport()
    expect(page).to_have_url(re.compile(rf"/conversations/{house.pk}\?turn=3&"))
    page.go_back()
    expect(page.locator(".answer blockquote")).to_be_visible()


def read_questions(page: Page, house: Conversation) -> None:
    page.goto(f"/conversations/{house.pk}")
    settle(page)
    turns = page.locator("#main [id^='turn-']")
    expect(turns).to_have_count(len(PAIRS))
    for key, number in (("J", 1), ("J", 2), ("K", 1)):
        page.keyboard.press(key)
        expect(page.locator(f"#main #turn-{number}")).to_be_focused()
        expect(page.locator(f"#main #turn-{number}")).to_be_in_viewport()
    page.goto(f"/conversations/{house.pk}?show=questions")
    settle(page)
    expect(page.locator("#main details.run")).to_have_count(0)
    expect(page.locator("#main .turn-outcome .conclusion")).to_have_count(len(PAIRS))


def go_to_file_and_back(page: Page, width: int, house: Conversation) -> None:
    page.goto(f"/conversations/{house.pk}?turn=3")
    settle(page)
    page.locator(".turn-outcome a", has_text="step3.py").click()
    expect(page.locator("#main .file-list li")).to_have_count(1)
    settle(page)
    page.get_by_role("link", name="step3.py").click()
    expect(page.locator("#main .file-lines")).to_contain_text("step = 3")
    settle(page)
    expect_no_violation_anywhere(page, "a file", OF_WHOLE_PAGES)
    page.set_viewport_size({"width": width, "height": PHONE["height"]})
    page.go_back()
    page.get_by_role("link", name="Back", exact=True).click()
    expect(page.locator("#main #turn-3")).to_be_in_viewport()


def tab_to(page: Page, selector: str, most: int = 40) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS) == ""
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached with {most} steps from {page.url}")


def tab_to_content(page: Page) -> None:
    page.evaluate(SETTLED)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    assert page.evaluate(FOCUS) == ""
    page.keyboard.press("Enter")


def go_to_file_and_back_by_keyboard(page: Page) -> None:
    ask(page)
    tab_to(page, ".answer-place a")
    page.keyboard.press("Enter")
    expect(page.locator("#main #turn-3")).to_be_focused()
    expect(page).to_have_url(re.compile("/conversations/"))
    page.evaluate(SETTLED)
    page.keyboard.press("J")
    expect(page.locator("#main #turn-4")).to_be_focused()
    page.evaluate(SETTLED)
    page.keyboard.press("K")
    expect(page.locator("#main #turn-3")).to_be_focused()
    assert page.evaluate(FOCUS) == ""
    tab_to(page, ".turn-outcome a")
    page.keyboard.press("Enter")
    expect(page.locator("#main .file-list")).to_be_visible()
    tab_to_content(page)
    tab_to(page, ".file-list a")
    page.keyboard.press("Enter")
    expect(page.locator("#main .file-lines")).to_be_visible()
    tab_to_content(page)
    tab_to(page, ".file-lines a")
    page.keyboard.press("Enter")
    expect(page.locator("#main #turn-3")).to_be_in_viewport()


def preview_and_open_by_keyboard(page: Page) -> None:
    page.goto(f"/search?q={QUESTION}")
    tab_to(page, "#results .hit")
    page.keyboard.press("Space")
    expect(page.locator("dialog[open] [data-preview-open]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert page.evaluate(FOCUS) == ""
    page.keyboard.press("Enter")
    expect(page.locator("#main #turn-3")).to_be_focused()
    expect(page).to_have_url(re.compile("/conversations/"))
    page.evaluate(SETTLED)
    page.keyboard.press("Escape")
    expect(page.locator("#results .hit[aria-current]")).to_be_focused()
    page.goto("/statistics")
    tab_to_content(page)
    for bar in (".columns a", ".bars a"):
        tab_to(page, bar, 80)


def test_person_asks_reads_and_opens_files_by_mouse_finger_and_keys(
    visit: Callable[..., None], house: Conversation
) -> None:
    def steps(page: Page, width: int) -> None:
        page.add_init_script(SHIFT)
        ask_and_read_turn(page, house)
        if width != WIDTHS[0]:
            read_questions(page, house)
            go_to_file_and_back(page, width, house)

    at_every_width(visit, steps)
    visit(
        lambda page: expect_no_violation_anywhere(page, "an answer of ten years", OF_WHOLE_PAGES),
        at=f"/search?q={QUESTION}",
    )

    def by_keyboard(page: Page) -> None:
        go_to_file_and_back_by_keyboard(page)
        preview_and_open_by_keyboard(page)

    visit(by_keyboard)
