"""The pages other than search in a real browser: reading a conversation, the library, home, statistics, settings."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.links import link_children
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import MOST_SHIFT, ONE_PANE, SHIFT, WIDTHS, at_every_width, expect_to_fit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAID_AT = datetime(2026, 3, 9, 14, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Archive:
    """The owner's conversations: a long conversation with work in its third turn, and four short ones."""

    owner: User
    long: Conversation
    short: list[Conversation]


@pytest.fixture(autouse=True)
def archive(owner: User) -> Archive:
    work = [
        MessageDraft("assistant", (TextPart("I **look**."), ToolCallPart("c1", "Bash", {"command": "pytest"}))),
        MessageDraft("tool", (ToolResultPart("c1", "\x1b[31m1 failed\x1b[0m"),)),
        MessageDraft(
            "assistant",
            (ToolCallPart("c2", "Edit", {"file_path": "a.py", "old_string": "one", "new_string": "two"}),),
        ),
        MessageDraft("tool", (ToolResultPart("c2", "done"),)),
        MessageDraft("assistant", (TextPart("Mended:\n\n```python\nprint('cinnabar')\n```"),)),
    ]
    pairs = exchange(*[(f"question {number}?", f"answer {number}") for number in range(13)])
    said = [replace(message, created_at=SAID_AT) for message in (*pairs[:5], *work, *pairs[6:])]
    long = make_conversation(owner, said, title="The oven", agent="claude-code", project="/src/oven")
    short = [
        make_conversation(owner, exchange(("rye?", "sour")), title=f"Rye {number}", agent="codex", project="/src/mill")
        for number in range(4)
    ]
    for conversation in (long, *short):
        index_conversation(conversation_id=conversation.pk)
    while count_changed(archive_id=owner.pk):
        pass
    return Archive(owner, long, short)


def copied(page: Page, said: str) -> str:
    expect(page.locator("#toast")).to_have_text(said)
    return str(page.evaluate("navigator.clipboard.readText()"))


def change_the_title(page: Page) -> None:
    """With the pencil, or on a phone from the menu."""
    if not page.locator(".edit-title").is_visible():
        page.get_by_label("What to do with this conversation").click()
    page.get_by_role("button", name="Change the title").click()


@pytest.mark.essential
def test_head_outline_and_address_follow_turn_that_is_read(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        turns = page.locator(".turns")
        expect(turns).to_contain_text("3 / 13")
        composer = page.get_by_role("textbox", name="Message")
        if composer.count():
            expect(page.get_by_role("button", name="Send")).to_be_hidden()
        page.locator("[data-outline-link]").click()
        expect(page.locator("[data-find]")).to_be_focused()
        page.locator("#main").evaluate("main => main.focus()")
        page.keyboard.press("J")
        expect(turns).to_contain_text("4 / 13")
        expect(page.locator("[data-outline-turn][aria-current]")).to_have_attribute("data-outline-turn", "3")
        expect(page).to_have_url(re.compile(r"\?turn=3#turn-3$"))
        page.keyboard.press("K")
        page.keyboard.press("K")
        expect(turns).to_contain_text("2 / 13")
        page.mouse.move(900, 400)
        page.mouse.wheel(0, 10_000)
        expect(turns).not_to_contain_text("2 / 13")
        read = int(str(page.locator("[data-turn-now]").text_content())) - 1
        expect(page).to_have_url(re.compile(rf"\?turn={read}#turn-{read}$"))
        assert page.evaluate("history.length") <= 3, "addresses are replaced"
        page.goto(f"/conversations/{archive.long.pk}")
        page.keyboard.press("J")
        expect(turns).to_contain_text("2 / 13")

    visit(steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_wide_screen_shows_contents_until_closed(visit: Callable[..., None], archive: Archive) -> None:
    address = f"/conversations/{archive.long.pk}?turn=2"

    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        page.goto(address)
        expect(page.locator(".outline-rows")).to_be_visible()
        expect(page.locator("[data-outline-turn]")).to_have_count(13)
        assert page.evaluate("window.shift") <= MOST_SHIFT, page.evaluate("[...window.shifted]")
        page.keyboard.press("J")
        expect(page.locator("[data-outline-turn][aria-current]")).to_have_attribute("data-outline-turn", "3")
        page.keyboard.press("t")
        expect(page.locator(".outline-panel")).to_be_hidden()
        page.reload()
        expect(page.locator(".turns")).to_contain_text("4 / 13")
        expect(page.locator(".outline-panel")).to_be_hidden()

    visit(steps, at=address, width=1680)


def test_work_is_one_line_that_opens_to_cards(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        expect(page.locator(".turns")).to_contain_text("3 / 13")
        run = page.locator(".run")
        expect(run).to_have_count(1)
        expect(run.locator("summary").first).to_contain_text("2 steps, 1 file")
        run.locator("summary").first.click()
        run.get_by_text("pytest").first.click()
        expect(run.locator(".ansi-1")).to_have_text("1 failed")
        run.get_by_text("a.py +1 -1").click()
        expect(run.locator(".is-removed")).to_contain_text("one")
        expect(run.locator(".is-added")).to_contain_text("two")
        page.get_by_label("What to do with this conversation").click()
        with page.expect_download() as saved:
            page.get_by_role("link", name="Download as Markdown").click()
        assert saved.value.suggested_filename.endswith(".md")

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_title_is_changed_in_its_place(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        heading = page.get_by_role("heading", level=1)
        before, after = str(heading.text_content()), f"The <new> oven of {width}"
        change_the_title(page)
        box = page.get_by_role("textbox", name="Title", exact=True)
        expect(box).to_be_focused()
        page.keyboard.press("Escape")
        expect(heading).to_have_text(before)
        change_the_title(page)
        box.fill(after)
        page.keyboard.press("Enter")
        expect(heading).to_have_text(after)
        expect(page).to_have_title(re.compile(after))
        assert page.url.endswith("?turn=2")
        page.reload()
        expect(heading).to_have_text(after)

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_links_messages_and_code_are_copied(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        target = page.locator("#turn-2")
        target.hover()
        target.get_by_role("button", name="Copy the link").click()
        assert copied(page, "Link copied").endswith(f"/conversations/{archive.long.pk}?turn=2#turn-2")
        answer = page.locator(".message", has_text="I look.").first
        answer.hover()
        answer.get_by_role("link", name="Copy this message").click()
        assert copied(page, "Message copied") == "I **look**."
        page.locator(".code").hover()
        page.get_by_role("button", name="Copy this code").click()
        assert copied(page, "Code copied") == "print('cinnabar')\n"

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_stars_and_tags_are_set_without_leaving(visit: Callable[..., None], archive: Archive) -> None:
    of_width = dict(zip(WIDTHS, archive.short, strict=False))

    def steps(page: Page, width: int) -> None:
        page.goto(f"/conversations/{of_width[width].pk}?turn=0")
        star = page.locator(".page-head").get_by_role("button", name="Star")
        star.click()
        expect(star).to_have_attribute("aria-pressed", "true")
        page.get_by_label("Add a tag").fill(f"bake-{width}")
        page.keyboard.press("Enter")
        expect(page.locator(".own-tag")).to_contain_text(f"#bake-{width}")
        assert page.url.endswith("?turn=0")
        page.goto(f"/library?tag=bake-{width}")
        expect(page.locator(".library-row")).to_have_count(1)

    at_every_width(visit, steps)


def test_words_are_found_and_outline_leads_to_turns(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        page.keyboard.press("f")
        panel = page.get_by_role("complementary", name="Outline")
        expect(panel.get_by_role("link")).to_have_count(13)
        expect(panel.locator("[aria-current]")).to_contain_text("question 2?")
        panel.get_by_role("searchbox").fill("cinnabar")
        page.keyboard.press("Enter")
        expect(panel.get_by_role("status")).to_contain_text("1 turn with “cinnabar”")
        panel.locator(".outline-rows a").click()
        expect(page.locator("#passage")).to_be_in_viewport()
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        page.keyboard.press("f")
        panel.get_by_role("link", name="question 11?").click()
        expect(page.locator("#turn-11")).to_be_in_viewport()

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_opening_outline_does_not_move_text(visit: Callable[..., None], archive: Archive) -> None:
    long = " ".join(["words that fill more lines the narrower they stand"] * 30)
    pairs = [(f"question {number}?", long) for number in range(12)]
    read = make_conversation(archive.owner, exchange(*pairs), title="Long")

    def steps(page: Page) -> None:
        page.goto(f"/conversations/{read.pk}?turn=8")
        target = page.locator("#turn-8")
        expect(target).to_be_in_viewport()
        page.evaluate("document.fonts.ready.then(() => true)")
        top = target.bounding_box()
        page.keyboard.press("f")
        expect(page.locator(".outline-rows")).to_be_visible()
        opened = target.bounding_box()
        page.get_by_role("button", name="Close the outline").click()
        expect(page.locator(".outline-panel")).to_be_hidden()
        closed = target.bounding_box()
        assert top
        assert opened
        assert closed
        assert opened["width"] < top["width"], "the outline lies over the text"
        assert max(abs(opened["y"] - top["y"]), abs(closed["y"] - top["y"])) <= 2

    visit(steps, width=1440)


def test_find_marks_all_that_it_counts(visit: Callable[..., None], archive: Archive) -> None:
    said = "Leave deadlock_timeout, set lock_timeout. Locks end. 締め切りは明日です。"
    locks = make_conversation(archive.owner, exchange(("lower deadlock_timeout?", said)), title="Locks")
    index_conversation(conversation_id=locks.pk)
    found = {"lock_timeout": ["lock_timeout"] * 3, "lock": ["lock", "lock", "lock", "Lock"], "締め切り": ["締め切り"]}
    are_marked = """(places) => {
      const ranges = [...(CSS.highlights.get("found-words") ?? [])];
      return JSON.stringify(ranges.map((range) => range.toString())) === JSON.stringify(places);
    }"""

    def steps(page: Page) -> None:
        for word, places in found.items():
            page.goto(f"/conversations/{locks.pk}?turn=0")
            page.keyboard.press("f")
            panel = page.get_by_role("complementary", name="Outline")
            expect(panel.get_by_role("searchbox")).to_be_focused()
            page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')")
            panel.get_by_role("searchbox").fill(word)
            page.keyboard.press("Enter")
            expect(panel.get_by_role("status")).to_contain_text(f"1 turn with “{word}”")
            page.wait_for_function(are_marked, arg=places)

    visit(steps)


def test_display_switch_is_address(visit: Callable[..., None], archive: Archive) -> None:
    runs = ".run"

    def steps(page: Page, _: int) -> None:
        switch = page.get_by_role("navigation", name="What is shown")
        for chosen, show, shown, gone in (
            ("Questions and outcomes", "questions", ".message.is-user", runs),
            ("Everything", "", runs, ".empty"),
        ):
            switch.get_by_role("link", name=chosen).click()
            expect(switch.locator("[aria-current]")).to_have_text(chosen)
            expect(page).to_have_url(re.compile(f"[?&]turn=2&show={show}$"))
            expect(page.locator(shown).first).to_be_visible()
            expect(page.locator(gone)).to_have_count(0)
            expect(page.locator("#turn-2")).to_be_in_viewport()
        page.go_back()
        expect(switch.locator("[aria-current]")).to_have_text("Questions and outcomes")
        expect(page.locator(runs)).to_have_count(0)
        page.reload()
        expect(page.locator(runs)).to_have_count(0)

    at = f"/conversations/{archive.long.pk}?turn=2"
    at_every_width(visit, steps, at=at)
    at_every_width(visit, steps, at=at, widths=(WIDTHS[-1],), javascript=False)


def test_reading_works_without_javascript(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        page.locator(".page-head").get_by_role("button", name="Star").click()
        expect(page.locator(".page-head").get_by_role("button", name="Star")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("link", name="Outline, and find").click()
        page.get_by_role("searchbox", name="Find in this conversation").fill("cinnabar")
        page.get_by_role("button", name="Find").click()
        page.locator(".outline-rows a").click()
        expect(page.locator("#passage")).to_be_in_viewport()

    visit(steps, javascript=False)


def choose(page: Page, count: int) -> None:
    """The first conversations of the list: the first with a click, the last with Shift."""
    boxes = page.locator("[data-choose]")
    boxes.nth(0).click()
    boxes.nth(count - 1).click(modifiers=["Shift"])
    expect(page.locator("[data-bulk-count]")).to_have_text(f"{count} chosen")


def test_conversations_selected_with_shift_are_changed_together(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        bar, rows = page.locator(".bulk-bar"), page.locator(".library-row")
        undo = page.get_by_role("button", name="Undo")
        expect(bar).to_be_hidden()
        choose(page, 3)
        bar.get_by_role("button", name="None").click()
        expect(bar).to_be_hidden()
        page.get_by_label("Choose all").check()
        expect(page.locator("[data-bulk-count]")).to_have_text("5 chosen")
        page.get_by_label("Choose all").uncheck()
        expect(bar).to_be_hidden()
        page.locator(".library-title").first.focus()
        page.keyboard.press("x")
        expect(page.locator("[data-bulk-count]")).to_have_text("1 chosen")
        page.keyboard.press("x")
        page.get_by_label("Title contains").fill("oven")
        expect(rows).to_have_count(1)
        page.get_by_label("Title contains").fill("")
        expect(rows).to_have_count(5)
        page.get_by_label("Order").last.select_option("title")
        expect(rows.first).to_contain_text("Rye 0")
        expect(page).to_have_url(re.compile("sort=title"))
        choose(page, 3)
        with page.expect_download() as export:
            bar.get_by_role("button", name="Export").click()
        assert export.value.suggested_filename == "conversations.md"
        bar.get_by_role("button", name="Archive", exact=True).click()
        expect(rows).to_have_count(2)
        undo.click()
        expect(rows).to_have_count(5)
        choose(page, 2)
        bar.get_by_label("Tag for the chosen conversations").fill(f"of-{width}")
        page.keyboard.press("Enter")
        expect(rows.get_by_role("link", name=f"#of-{width}")).to_have_count(2)
        undo.click()
        expect(rows.get_by_role("link", name=f"#of-{width}")).to_have_count(0)

    at_every_width(visit, steps, at="/library")


def test_deleted_conversations_can_be_put_back(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        rows, undo = page.locator(".library-row"), page.get_by_role("button", name="Undo")
        count = rows.count()
        rows.first.locator("[data-choose]").click()
        page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
        expect(page.locator(".undo-notice")).to_contain_text("1 conversation in the trash.")
        expect(rows).to_have_count(count - 1)
        undo.click()
        expect(rows).to_have_count(count)
        rows.first.locator(".library-title").click()
        page.get_by_label("What to do with this conversation").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(rows).to_have_count(count - 1)
        page.goto("/trash")
        page.get_by_role("button", name="Delete").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete this for good?")
        page.get_by_role("link", name="Keep it").click()
        page.get_by_role("button", name="Put").click()
        expect(page.locator(".notice")).to_contain_text("It is back.")

    at_every_width(visit, steps, at="/library")


def test_library_works_without_javascript(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        page.goto("/library")
        page.locator("[data-choose]").first.check()
        page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".notice")).to_contain_text("Undone.")
        page.locator(".library-row").first.hover()
        page.locator(".library-row").first.get_by_role("button", name="Pin").click()
        expect(page.locator(".shelf-title").first).to_have_text("Pinned")

    visit(steps, javascript=False)


def test_library_rows_are_starred_pinned_and_show_children(visit: Callable[..., None], owner: User) -> None:
    for number, width in enumerate(WIDTHS):
        for name, parent in ((f"Kiln {width}", ""), (f"Started by {width}", f"kiln {number}")):
            make_conversation(
                owner, exchange(("hot?", "yes")), title=name, source="codex", parent_source_id=parent,
                source_id=f"of {number}" if parent else f"kiln {number}",
            )  # fmt: skip
    link_children(caller=Caller.of(owner))

    def steps(page: Page, width: int) -> None:
        row = page.locator(".library-row", has=page.get_by_role("link", name=f"Kiln {width}"))
        expect(page.locator(".library-row")).to_have_count(5 + len(WIDTHS))
        row.get_by_text("1 started from it").click()
        expect(row.get_by_role("link", name=f"Started by {width}")).to_be_visible()
        row.hover()
        for what in ("Star", "Pin"):
            button = row.get_by_role("button", name=f"{what} Kiln {width}")
            button.click()
            expect(button).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".shelf-title").first).to_have_text("Pinned")
        page.goto("/library?starred=1")
        expect(page.get_by_role("link", name=f"Kiln {width}")).to_be_visible()
        page.goto("/library")
        expect(page.locator(".shelf-title").first).to_have_text("Pinned")
        expect(page.locator(".shelf").first.get_by_role("link", name=f"Kiln {width}")).to_be_visible()

    at_every_width(visit, steps, at="/library")


def test_turn_is_marked_by_keyboard_and_undone(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        turn = page.locator("#turn-1")
        menu = turn.get_by_label("Mark turn 2 as wrong or outdated")
        menu.focus()
        expect(menu).to_be_in_viewport()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("it was 230 degrees")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(turn.locator(".turn-mark")).to_have_text(
            re.compile(r"You marked this turn as wrong: recall leaves it out\.\s+it was 230 degrees")
        )
        page.locator(".undo-notice").get_by_role("button", name="Undo").click()
        expect(page.locator(".turn-mark")).to_have_count(0)

    at_every_width(visit, steps, at=archive.long.get_absolute_url())


def test_statistics_bars_open_filtered_library(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_role("link", name=re.compile("Bash")).click()
        expect(page.locator(".library-row")).to_have_count(1)
        page.go_back()
        page.locator(".bars").get_by_role("link", name=re.compile("codex")).click()
        expect(page).to_have_url(re.compile("agent=codex"))

    at_every_width(visit, steps, at="/statistics")


def test_new_key_is_filled_in_and_appearance_is_kept(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        theme = ("Dark", "Light")[WIDTHS.index(width) % 2]
        page.get_by_role("button", name="Make a key and fill it in").click()
        key = page.locator("#new-key").text_content() or ""
        expect(page.locator("#claude-code")).to_contain_text(key)
        expect(page.locator(".key-use")).to_contain_text("Waiting for the first use")
        if width in (WIDTHS[0], WIDTHS[-1]):  # it asks every two seconds
            page.request.get("/api/v1/index/status", headers={"Authorization": f"Bearer {key}"})
            expect(page.locator(".key-use")).to_contain_text("Connected")
        page.goto("/settings/appearance")
        page.get_by_label(theme).check()
        expect(page.get_by_text("Saved")).to_be_visible()
        expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())

    at_every_width(visit, steps, at="/settings/connect")


def test_buttons_of_message_cover_nothing_of_its_head(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        message = page.locator("#turn-2")
        message.hover()
        buttons = message.locator(".message-actions").bounding_box()
        for part in (".speaker", "time", ".turn-number"):
            beside = message.locator(f".message-head {part}").bounding_box()
            assert buttons
            assert beside
            is_beside = beside["x"] + beside["width"] <= buttons["x"] or buttons["x"] + buttons["width"] <= beside["x"]
            assert is_beside or beside["y"] + beside["height"] <= buttons["y"], part
        head, number = message.locator(".message-head").bounding_box(), message.locator(".turn-number").bounding_box()
        assert head
        assert number
        assert head["x"] + head["width"] - number["x"] - number["width"] < 1, "the date ends where the message does"

    at_every_width(visit, steps, at=f"/conversations/{archive.long.pk}?turn=2")


def test_library_has_one_list_of_what_to_choose_by(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, width: int) -> None:
        choices = page.locator(".choices-pane:visible")
        if width < ONE_PANE:
            expect(choices).to_have_count(0)
            page.locator(".choices-fold summary").first.click()
        expect(choices).to_have_count(1)
        page.keyboard.press("j")
        expect(page.locator(".library-title").first).to_be_focused()
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator(".library-title").first).to_be_focused()
        cut = "rows => rows.filter(row => row.scrollWidth > row.clientWidth).map(row => row.innerText)"
        facts = page.locator(".library-what .item-meta > :not([title])")
        assert (facts.count() >= 5, facts.evaluate_all(cut)) == (True, [])
        choices.get_by_role("link", name="Starred").click()
        page.wait_for_url("**/library?starred=1")

    at_every_width(visit, steps, at="/library")


def test_home_has_one_search_and_where_to_go_on(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page, _: int) -> None:
        expect(page.get_by_role("heading", name="Recent conversations")).to_be_in_viewport()
        box = page.get_by_role("searchbox")
        expect(box).to_have_count(1)
        box.fill("cinnabar")
        box.press("Enter")
        page.wait_for_url("**/search?*q=cinnabar*")
        expect(page.locator(".hit").first).to_be_visible()

    at_every_width(visit, steps)


def test_language_is_chosen_in_settings(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        for language, heading in (("Deutsch", "Bibliothek"), ("日本語", "ライブラリ")):
            page.goto("/settings/appearance")
            with page.expect_navigation():
                page.get_by_label(language).check()
            page.goto("/library")
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            labels = page.locator(".rail-label").filter(visible=True)
            lines = "labels => labels.map(label => label.offsetHeight / parseFloat(getComputedStyle(label).lineHeight))"
            assert max(labels.evaluate_all(lines)) < 1.5, f"a label of the rail takes two lines in {language}"
            for address in ("/", "/library", "/statistics", f"/conversations/{archive.long.pk}?turn=2", "/recall"):
                page.goto(address)
                expect_to_fit(page, f"{address}, {language}")

    visit(steps)
