"""One visit of every page: it breaks no rule of WCAG 2.1, A or AA, that axe can check, wide and narrow, light and dark,
is nowhere wider than its window, and has no words of machines.

Targets have 24 pixels, as WCAG 2.2 asks, and each page has a main area and one first heading. While pages load, nothing
on them moves. The administration's pages are visited by `test_browser_admin.py`."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.conversations.marking import set_mark
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from convmemory.core.marks import Mark
from convmemory.documents.models import Document
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.support.documents import GUIDE, indexed, read, upload
from tests.surfaces.browser import MOST_SHIFT, PHONE, SETTLED, SHIFT, UNFOLD, WIDTHS, expect_to_fit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("documents_here"),
]

AXE = (Path(__file__).parents[1] / "support" / "axe" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
OF_WHOLE_PAGES = ["target-size", "page-has-heading-one", "landmark-one-main"]  # not of ones that a menu covers
# Without preloading: for it axe writes styles into the page, which the content security policy refuses, and says so.
FIND = """async ([rules, more]) => (await axe.run(document, {
    runOnly: rules, preload: false, resultTypes: ["violations"],
    rules: Object.fromEntries(more.map(rule => [rule, {enabled: true}]))
})).violations.map(found => `${found.id}: ${found.nodes.map(node => node.target.join(" ")).slice(0, 5).join(", ")}`)"""
Scheme = Literal["light", "dark"]
WIDE, NARROW = WIDTHS[0], WIDTHS[-1]
EVERY_LOOK: tuple[tuple[int, Scheme], ...] = ((WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light"))
HALVES = (EVERY_LOOK, EVERY_LOOK) if len(WIDTHS) > 2 else (EVERY_LOOK[:2], EVERY_LOOK[2:])
"""Widths and schemes that every other page is checked in, so that what pages share is checked in all four.

In `make release-check` each page is."""
PAGES = (
    "/search", "/search?q=how+do+I+feed+the+sourdough?",
    "/search?after=2026-01-01&before=2026-12-31", "/search?q=zzz&mode=full_text", "/palette?go=bread", "/recall",
    "/recall?query=sourdough", "/statistics", "/documents", "/import", "/chat", "/agents", "/agents/new",
    "/settings/account", "/settings/appearance", "/settings/keys", "/settings/connect", "/settings/data",
    "/settings/password", "/settings/second-factor", "/settings/sessions", "/settings/confirm",
    "/settings/account/delete", "/design",
)  # fmt: skip
MAIN_PAGES = ("/", "/search?q=sourdough", "/library")
"""Those that `make test` visits; the others wait for `make test-rest`."""
OF_A_CONVERSATION = ("", "?turn=1", "/outline", "/summaries", "/context", "/events", "/documents", "/delete")
MACHINE_TERMS = re.compile(r"\b(hits?|legs?|made up|what would be sent)\b", re.IGNORECASE)
OPENED = ("#chip-agent", "#chip-time", "#chip-places", ".why summary")


LAYOUT = """most => {
  const one = (selector) => document.querySelector(selector), found = [];
  const padding = (element) => parseFloat(getComputedStyle(element).paddingInlineStart);
  const left = (element) => element.getBoundingClientRect().left + padding(element);
  const headings = [...document.querySelectorAll("h1")].filter(heading => heading.checkVisibility());
  if (window.shift >= most) found.push(`it moves by ${window.shift}: ${[...shifted]}`);
  if (headings.length !== 1) found.push(`it has ${headings.length} first headings`);
  if (one("summary :is(a, button, input)")) found.push("a control lies in a summary");
  const column = one("#main .page > :is(.column, .wide-column, .library-grid)");
  if (column && !one("#main .back").checkVisibility() && Math.abs(left(one("#main h1")) - left(column)) > 1)
    found.push(`its title begins at ${left(one("#main h1"))}, its text at ${left(column)}`);
  return found;
}"""
SAID = [
    *exchange(("why is my sourdough flat?", "# Age\n\nIt is too young."), ("and the rye?", "Rye sourdough is lively.")),
    MessageDraft("assistant", (TextPart("I **look**."), ToolCallPart("c1", "Bash", {"command": "pytest"}))),
    MessageDraft("tool", (ToolResultPart("c1", "\x1b[31m1 failed\x1b[0m"),)),
    MessageDraft(
        "assistant", (ToolCallPart("c2", "Edit", {"file_path": "a.py", "old_string": "one", "new_string": "two"}),)
    ),
    MessageDraft("tool", (ToolResultPart("c2", "done"),)),
    MessageDraft("assistant", (TextPart("Mended:\n\n```python\nprint('cinnabar')\n```"),)),
]


def make_bread(owner: User) -> Conversation:
    bread = make_conversation(owner, SAID, title="Bread", agent="baker", project="/home/kitchen")
    count_changed(archive_id=owner.pk)
    return bread


def other_pages(conversation: Conversation, document: Document) -> list[str]:
    """Return the addresses of all pages but the main ones."""
    of_conversation = [conversation.get_absolute_url() + rest for rest in OF_A_CONVERSATION]
    return [*PAGES, *of_conversation, f"{document.get_absolute_url()}?section=1"]


def expect_calm_layout(page: Page, where: str) -> None:
    """The page has loaded without moving, begins at one edge, and has one first heading."""
    page.evaluate(SETTLED)
    assert page.evaluate(LAYOUT, MOST_SHIFT) == [], where


def expect_no_violation(page: Page, where: str, more: Sequence[str] = ()) -> None:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    page.evaluate(SETTLED)
    assert page.evaluate(FIND, [RULES, more]) == [], where


def expect_no_violation_anywhere(page: Page, where: str, more: Sequence[str] = (), *, number: int = 0) -> None:
    """The page as it is, wide and narrow, light and dark; its number decides which width is the light one."""
    for width, scheme in HALVES[number % 2]:
        page.set_viewport_size({"width": width, "height": PHONE["height"]})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        expect_no_violation(page, f"{where}, {scheme}, {width} pixels", more)


def check_page(page: Page, number: int, address: str) -> None:
    """Open a page once, and check all that holds for each; its number decides which width is the light one."""
    page.set_viewport_size({"width": WIDTHS[0], "height": PHONE["height"]})
    page.goto(address)
    expect_calm_layout(page, address)
    expect_no_violation_anywhere(page, address, OF_WHOLE_PAGES, number=number)
    assert not MACHINE_TERMS.search(page.locator("#main").inner_text()), address
    expect_to_fit(page, address, WIDTHS[-1:])
    page.evaluate(UNFOLD)
    expect_to_fit(page, f"{address}, unfolded")


def test_pages_move_nothing_while_index_is_incomplete(visit: Callable[..., None], owner: User) -> None:
    bread, document = make_bread(owner), read(upload(owner, GUIDE))
    addresses = (*MAIN_PAGES, bread.get_absolute_url(), document.get_absolute_url())

    def incomplete(page: Page) -> None:
        page.add_init_script(SHIFT)
        for address in addresses:
            for width in (WIDTHS[0], WIDTHS[-1]):
                page.set_viewport_size({"width": width, "height": PHONE["height"]})
                page.goto(address)
                expect_calm_layout(page, f"{address}, {width} pixels")
        expect(page.locator("#progress progress")).to_have_count(1)
        expect(page.locator("#progress")).to_contain_text("Indexing: 0 of 2 turns")

    visit(incomplete)
    index_conversation(conversation_id=bread.pk)
    indexed(document)
    visit(lambda page: expect(page.locator("#progress")).to_be_hidden())


@pytest.mark.essential
def test_main_pages_fit_move_nothing_and_have_no_accessibility_violations(
    visit: Callable[..., None], owner: User
) -> None:
    conversation = make_bread(owner)
    index_conversation(conversation_id=conversation.pk)

    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        for number, address in enumerate((*MAIN_PAGES, conversation.get_absolute_url())):
            check_page(page, number, address)

    visit(steps)


def check_what_opens(page: Page, conversation: Conversation) -> None:
    for number, opened in enumerate(OPENED):
        page.goto("/search?q=sourdough")
        page.locator(opened).first.click()
        expect_no_violation_anywhere(page, opened, number=number)
    page.goto(conversation.get_absolute_url())
    page.get_by_label("Mark turn 1 as wrong or outdated").click()
    expect_no_violation_anywhere(page, "the menu of a turn")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_contain_text("Bread")
    expect_no_violation_anywhere(page, "the palette")
    page.goto("/api/v1/docs")
    page.locator(".opblock-summary-control").first.click()
    page.locator(".opblock-body").first.wait_for()
    expect_no_violation_anywhere(page, "the documentation of the API")


def test_other_pages_fit_move_nothing_and_have_no_accessibility_violations(
    visit: Callable[..., None], owner: User
) -> None:
    create_key(person=owner, name="w" * 100)
    conversation = make_bread(owner)
    index_conversation(conversation_id=conversation.pk)
    set_mark(
        caller=Caller.of(owner), conversation_id=conversation.pk, turn_number=0, mark=Mark("wrong", "it was too old")
    )
    addresses = other_pages(conversation, indexed(upload(owner, GUIDE)))

    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        for number, address in enumerate(addresses):
            check_page(page, number, address)
        check_what_opens(page, conversation)
        page.context.clear_cookies()
        page.goto("/login")
        expect_no_violation_anywhere(page, "/login")

    visit(steps)
