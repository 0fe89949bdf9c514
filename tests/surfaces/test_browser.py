"""The pages in a real browser: from log-in to the very turn, by mouse, by keyboard, without JavaScript, on a phone."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote_plus

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolResultPart
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, user_says
from tests.surfaces.browser import ONE_PANE, PHONE, WIDTHS, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = [width for width in WIDTHS if width > ONE_PANE]
TURN = 35
QUESTION = "how do I keep a sourdough starter alive over the holidays?"
ANSWER = "Keep the starter in the **refrigerator** and feed it once a week."


@dataclass(frozen=True)
class Archive:
    """The owner's conversations: a long conversation with one turn about sourdough, and a short one."""

    owner: User
    long: Conversation
    short: Conversation


@pytest.fixture(autouse=True)
def archive(owner: User) -> Archive:
    tall = "\n".join(["```", *[""] * 12, "```"])  # takes room on the page and no time to embed
    pairs = [(f"invoice number {n}?", f"Invoice {n} was paid.\n\n{tall}") for n in range(70)]
    pairs[TURN] = (QUESTION, ANSWER)
    long = make_conversation(owner, exchange(*pairs), title="Invoices and bread", agent="claude-code")
    short = make_conversation(
        owner, exchange(("is rye flour sour?", "Rye sourdough starters are lively.")), title="Rye"
    )
    for conversation in (long, short):
        index_conversation(conversation_id=conversation.pk)
    return Archive(owner, long, short)


def expect_turn_in_view(page: Page, turn: int = TURN) -> None:
    """The turn's first message is in view below the page's head, and marked; no other turn is."""
    expect(page.locator("[data-conversation-page]")).to_be_visible()
    first = page.locator(f'[data-turn="{turn}"]').first
    expect(first).to_be_in_viewport(ratio=0.9)
    expect(first).to_have_class(re.compile(r"\bis-target\b"))
    assert page.locator(".is-target").count() == page.locator(f'[data-turn="{turn}"]').count()
    box, head = first.bounding_box(), page.locator(".page-head").bounding_box()
    assert box
    assert head
    assert box["y"] >= head["y"] + head["height"] - 1, "hidden behind the page's head"


def search_for(page: Page, words: str) -> None:
    page.get_by_role("searchbox").press_sequentially(words)
    expect(page).to_have_url(
        re.compile(rf"/search\?q={re.escape(quote_plus(words))}$")
    )  # until then: found for its beginning
    expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


def test_search_and_click_first_hit(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        search_for(page, "sourdough starter alive")
        assert len([url for url in asked if "/search?" in url]) <= 5, "every key asks the server"
        expect(page.locator(".hit mark").first).to_have_text("sourdough")
        expect(page.locator(".hit-row .band").first).to_have_text("strong")
        asked.clear()
        page.locator(".hit").first.click()
        expect_turn_in_view(page)
        assert f"/conversations/{archive.long.pk}?turn={TURN}&q=sourdough" in page.url
        assert not [url for url in asked if "/search?" in url], "the sidebar was loaded again"
        expect(page).to_have_title("Invoices and bread · convmemory")
        expect(page.locator(".hit").first).to_have_attribute("aria-current", "page")
        expect(page.locator(f"#turn-{TURN}")).to_be_focused()
        page.reload()
        expect_turn_in_view(page)
        expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")

    at_every_width(visit, steps)


def glacier_story(owner: User) -> Conversation:
    """Two turns about moraines, with the words far below the first one's beginning, in a tool's output."""
    work = [assistant_says(f"Step {number}.\n\n" + "text\n\n" * 12) for number in range(20)]
    output = MessageDraft("tool", (ToolResultPart("t1", "nothing\n" * 150 + "a terminal moraine of the glacier\n"),))
    more = [user_says("where does the moraine of the glacier end?"), assistant_says("At the terminal moraine.")]
    conversation = make_conversation(owner, [user_says("look at the map"), *work, output, *more], title="Glacier")
    index_conversation(conversation_id=conversation.pk)
    return conversation


def unfold(page: Page) -> None:
    """Open the folded results, which are less likely to answer."""
    for fold in page.locator("details.more-hits").all():
        fold.evaluate("fold => { fold.open = true }")


def test_passage_far_below_is_in_view_and_keys_move_between_hits(visit: Callable[..., None], archive: Archive) -> None:
    conversation = glacier_story(archive.owner)
    at = "/search?q=terminal+moraine+of+the+glacier&scope=user,assistant,tool&mode=full_text"

    def steps(page: Page, _: int) -> None:
        unfold(page)
        page.locator('.hit[data-turn-link="0"]').click()
        passage = page.locator("mark.passage")
        expect(passage).to_contain_text("terminal moraine")
        expect(passage).to_be_in_viewport()
        expect(passage).to_be_focused()
        expect(page.locator(f'[data-conversation-page="{conversation.pk}"] .hits')).to_contain_text("1 of 2")
        page.wait_for_timeout(200)
        expect(passage).to_be_in_viewport()
        page.keyboard.press("n")
        expect(page.locator(".hits")).to_contain_text("2 of 2")
        expect(page.locator("mark.passage").first).to_be_in_viewport(ratio=1)
        expect(page.locator("#turn-1")).to_be_in_viewport()
        page.get_by_label("Previous result").click()
        expect(passage).to_contain_text("a terminal moraine")
        expect(passage).to_be_in_viewport()
        page.reload()
        expect(passage).to_be_in_viewport()

    at_every_width(visit, steps, at=at)


def test_back_button_restores_turns_results_and_list(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        search_for(page, "sourdough starter")
        unfold(page)
        page.locator(".hit-group", has_text="Invoices").locator(".hit").first.click()
        expect_turn_in_view(page)
        page.locator(".hit-group", has_text="Rye").locator(".hit").first.click()
        expect_turn_in_view(page, 0)
        expect(page.get_by_role("heading", name="Rye", level=1)).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Invoices and bread", level=1)).to_be_visible()
        expect_turn_in_view(page)
        shown = page.locator(".hit-group", has_text="Invoices").locator(".hit").first
        expect(shown).to_have_attribute("aria-current", "page")
        assert page.locator("aside").count() == 1
        page.go_back()
        expect(page.locator(".preview")).to_be_visible()
        assert page.url.endswith("/search?q=sourdough+starter")
        page.go_back()
        expect(page.get_by_role("searchbox")).to_have_value("")
        expect(page.locator(".list-title").last).to_have_text("Conversations")

    at_every_width(visit, steps, widths=WIDE)


def test_search_works_by_keyboard_alone(visit: Callable[..., None]) -> None:
    def steps(page: Page, _: int) -> None:
        page.locator("body").click()
        page.keyboard.press("/")
        box = page.get_by_role("searchbox")
        expect(box).to_be_focused()
        page.keyboard.type("sourdough starter alive")
        page.keyboard.press("Enter")
        hits = page.locator(".hit").filter(visible=True)  # the less likely ones are folded
        expect(hits.first).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(hits.nth(1)).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(hits.first).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(box).to_be_focused()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect_turn_in_view(page)
        expect(page.locator(f"#turn-{TURN}")).to_be_focused()
        page.keyboard.press("Escape")
        expect(hits.first).to_be_focused()
        page.keyboard.press("Escape")
        expect(box).to_be_focused()
        page.keyboard.press("Escape")
        expect(box).to_have_value("")
        expect(page.locator(".list-title").last).to_have_text("Conversations")
        expect_turn_in_view(page)

    at_every_width(visit, steps, widths=WIDE)


def test_search_and_paging_work_without_javascript(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_role("searchbox").fill("sourdough starter alive")
        page.keyboard.press("Enter")
        page.locator(".hit").first.click()
        expect_turn_in_view(page)
        assert page.url.endswith(f"#turn-{TURN}")
        expect(page.locator("mark.passage").first).to_be_in_viewport()
        page.get_by_text("to the passage").click()
        expect(page.locator("mark.passage").first).to_be_in_viewport()
        expect(page.get_by_role("link", name="all results")).to_be_visible()
        page.go_back()
        page.get_by_text("Later messages").click()
        expect(page.locator(f'[data-turn="{TURN + 20}"]').first).to_be_attached()
        page.goto(f"/conversations/{archive.long.pk}?turn={TURN}")  # as the API links it
        expect_turn_in_view(page)

    at_every_width(visit, steps, widths=(WIDTHS[0], WIDTHS[-1]), javascript=False)


def test_phone_shows_one_pane_at_time(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        search_for(page, "sourdough starter")
        expect(page.get_by_role("heading", name="Find the turn")).to_be_hidden()
        page.locator(".hit").first.click()
        expect_turn_in_view(page)
        expect(page.get_by_role("searchbox")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.get_by_label("Back to the results").click()
        expect(page.locator(".hit").first).to_be_visible()
        expect(page.get_by_role("searchbox")).to_have_value("sourdough starter")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    visit(steps, **PHONE)


def test_scrolling_loads_more_and_keeps_place(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        expect_turn_in_view(page)
        first = page.locator("[data-position]").first
        position = first.get_attribute("data-position")
        read = page.locator(f'[data-position="{position}"]')
        top = read.evaluate("e => (e.scrollIntoView({block: 'center'}), e.getBoundingClientRect().top)")
        expect(page.locator("[data-position]").first).not_to_have_attribute("data-position", str(position))
        assert abs(read.evaluate("e => e.getBoundingClientRect().top") - top) <= 2, "what was read moved"
        page.locator("[data-later]").scroll_into_view_if_needed()
        expect(page.locator(f'[data-turn="{TURN + 25}"]').first).to_be_attached()
        positions = page.locator("[data-position]").evaluate_all("all => all.map(one => +one.dataset.position)")
        assert positions == list(range(positions[0], positions[-1] + 1))

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn={TURN}", widths=(WIDTHS[0], WIDTHS[-1]))


def test_long_output_is_shown_whole_in_its_place(visit: Callable[..., None], archive: Archive) -> None:
    output = MessageDraft("tool", (ToolResultPart("t1", "a line of output\n" * 1_000 + "the end"),))
    said = [user_says("run it"), assistant_says("yes"), output]
    conversation = make_conversation(archive.owner, said, title="Output")

    def steps(page: Page) -> None:
        page.goto(f"/conversations/{conversation.pk}?turn=0")
        page.get_by_text("Result").click()
        page.get_by_text("Show the other").click()
        expect(page.locator(".message pre.output")).to_contain_text("the end")
        expect(page.get_by_text("Show the other")).to_be_hidden()
        assert page.url.endswith("?turn=0")

    visit(steps)


def test_html_in_transcript_is_not_executed(visit: Callable[..., None], archive: Archive) -> None:
    attack = "<img src=x onerror='document.title = 1'><script>document.title = 2</script> [go](javascript:alert(1))"
    conversation = make_conversation(archive.owner, [user_says(attack), assistant_says(attack)], title=attack)

    def steps(page: Page) -> None:
        page.goto(f"/conversations/{conversation.pk}?turn=0")
        expect(page.locator("#turn-0")).to_contain_text("<script>")
        assert page.locator(".message img, .message script, .message a[href^=javascript]").count() == 0
        assert page.title().startswith("<img")

    visit(steps)


LAYOUT_SHIFT = """
window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => (window.shifted += entry.value)))
  .observe({ type: "layout-shift", buffered: true });
"""


def test_indexing_progress_disappears_when_done(visit: Callable[..., None], archive: Archive) -> None:
    conversation = make_conversation(archive.owner, exchange(("new?", "yes")), title="Just imported")

    def waiting(page: Page) -> None:
        page.add_init_script(LAYOUT_SHIFT)
        page.reload()
        expect(page.locator("#progress")).to_contain_text("Indexing: 71 of 72 turns")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("window.shifted") < 0.01

    def silent(page: Page) -> None:
        expect(page.locator("#progress")).to_be_hidden()

    visit(waiting)
    index_conversation(conversation_id=conversation.pk)
    visit(silent)


def test_session_that_ended_leads_to_login(visit: Callable[..., None]) -> None:
    def steps(page: Page) -> None:
        page.wait_for_load_state("networkidle")  # no request of the page itself finds out first
        page.context.clear_cookies()
        page.get_by_role("searchbox").fill("sourdough")
        page.wait_for_url("**/login?next=/&ended=1")

    visit(steps)
