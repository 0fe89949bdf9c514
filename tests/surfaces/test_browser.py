"""The pages in a real browser: from log-in to the very turn, by mouse, by keyboard, on a phone."""

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
from tests.surfaces.browser import ONE_PANE, SETTLED, WIDTHS, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TWO_PANES = [width for width in WIDTHS if width > ONE_PANE]
TURN = 35
QUESTION = "how do I keep a sourdough starter alive over the holidays?"
ANSWER = "Keep the starter in the **refrigerator** and feed it once a week."


@dataclass(frozen=True)
class Archive:
    """The owner's conversations: a long conversation with one turn about sourdough, and a short one."""

    owner: User
    long: Conversation
    short: Conversation


def make_archive(owner: User) -> Archive:
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


@pytest.fixture(autouse=True)
def archive(owner: User) -> Archive:
    return make_archive(owner)


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


def open_first_hit(page: Page, archive: Archive) -> None:
    page.goto("/")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    search_for(page, "sourdough starter alive")
    assert len([url for url in requests if "/search?" in url]) <= 5, "every key asks the server"
    expect(page.locator(".hit mark").first).to_have_text("sourdough")
    expect(page.locator(".hit-row .band").first).to_have_text("strong")
    requests.clear()
    page.locator(".hit").first.click()
    expect_turn_in_view(page)
    assert f"/conversations/{archive.long.pk}?turn={TURN}&q=sourdough" in page.url
    assert not [url for url in requests if "/search?" in url], "the sidebar was loaded again"
    expect(page).to_have_title("Invoices and bread · convmemory")
    expect(page.locator(".hit").first).to_have_attribute("aria-current", "page")
    expect(page.locator(f"#turn-{TURN}")).to_be_focused()
    page.reload()
    expect_turn_in_view(page)
    expect(page.locator(".hit").first).to_contain_text("sourdough starter alive")


def return_to_results_on_phone(page: Page) -> None:
    expect(page.get_by_role("searchbox")).to_be_hidden()
    page.get_by_label("Back to the results").click()
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.get_by_role("searchbox")).to_have_value("sourdough starter alive")


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


def walk_passages_far_below(page: Page, conversation: Conversation) -> None:
    page.goto("/search?q=terminal+moraine+of+the+glacier&scope=user,assistant,tool&mode=full_text")
    unfold(page)
    page.locator('.hit[data-turn-link="0"]').click()
    passage = page.locator("mark.passage")
    expect(passage).to_contain_text("terminal moraine")
    expect(passage).to_be_in_viewport()
    expect(passage).to_be_focused()
    expect(page.locator(f'[data-conversation-page="{conversation.pk}"] .hits')).to_contain_text("1 of 2")
    page.evaluate(SETTLED)
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


def step_back_to_the_home_page(page: Page) -> None:
    page.goto("/")
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


def test_person_opens_hits_walks_their_passages_and_steps_back(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        open_first_hit(page, archive)
        if width > ONE_PANE:
            step_back_to_the_home_page(page)
        else:
            return_to_results_on_phone(page)

    at_every_width(visit, steps)
    glacier = glacier_story(archive.owner)  # from here on other words are rare
    at_every_width(visit, lambda page, _: walk_passages_far_below(page, glacier))


def test_person_searches_by_keyboard_alone_until_session_ends(visit: Callable[..., None]) -> None:
    def search(page: Page, _: int) -> None:
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

    def lose_session(page: Page) -> None:
        page.wait_for_load_state("networkidle")  # no request of the page itself finds out first
        page.context.clear_cookies()
        page.get_by_role("searchbox").fill("sourdough")
        page.wait_for_url("**/login?next=/&ended=1")

    at_every_width(visit, search, widths=TWO_PANES)
    visit(lose_session)


def scroll_up_and_down(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn={TURN}")
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


def open_long_output(page: Page, conversation: Conversation) -> None:
    page.goto(f"/conversations/{conversation.pk}?turn=0")
    page.get_by_text("Result").click()
    page.get_by_text("Show the other").click()
    expect(page.locator(".message pre.output")).to_contain_text("the end")
    expect(page.get_by_text("Show the other")).to_be_hidden()
    assert page.url.endswith("?turn=0")


ATTACK = "<img src=x onerror='document.title = 1'><script>document.title = 2</script> [go](javascript:alert(1))"


def read_attack(page: Page, conversation: Conversation) -> None:
    page.goto(f"/conversations/{conversation.pk}?turn=0")
    expect(page.locator("#turn-0")).to_contain_text("<script>")
    assert page.locator(".message img, .message script, .message a[href^=javascript]").count() == 0
    assert page.title().startswith("<img")


def test_reader_scrolls_opens_output_and_is_attacked_by_no_transcript(
    visit: Callable[..., None], archive: Archive
) -> None:
    output = MessageDraft("tool", (ToolResultPart("t1", "a line of output\n" * 1_000 + "the end"),))
    work = [user_says("run it"), assistant_says("yes"), output]
    long_output = make_conversation(archive.owner, work, title="Output")
    hostile = make_conversation(archive.owner, [user_says(ATTACK), assistant_says(ATTACK)], title=ATTACK)

    def steps(page: Page, width: int) -> None:
        scroll_up_and_down(page, archive)
        if width == WIDTHS[0]:
            open_long_output(page, long_output)
            read_attack(page, hostile)

    at_every_width(visit, steps)
