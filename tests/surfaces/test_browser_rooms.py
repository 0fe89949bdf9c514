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
from tests.surfaces.browser import MOST_SHIFT, NARROW, ONE_PANE, SHIFT, WIDE, WIDTHS, at_every_width, expect_to_fit

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


def see_contents_until_closed(page: Page, archive: Archive) -> None:
    page.set_viewport_size({"width": 1680, "height": 800})
    page.add_init_script(SHIFT)
    page.goto(f"/conversations/{archive.long.pk}?turn=2")
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


def open_work(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn=2")
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
    page.keyboard.press("Escape")


def switch_what_is_shown(page: Page, conversation: Conversation, turn: int) -> None:
    page.goto(f"/conversations/{conversation.pk}?turn={turn}")
    switch = page.get_by_role("navigation", name="What is shown")
    for chosen, show, shown, gone in (
        ("Questions and outcomes", "questions", ".message.is-user", ".run"),
        ("Everything", "", ".run", ".empty"),
    ):
        switch.get_by_role("link", name=chosen).click()
        expect(switch.locator("[aria-current]")).to_have_text(chosen)
        expect(page).to_have_url(re.compile(f"[?&]turn={turn}&show={show}$"))
        expect(page.locator(shown).first).to_be_visible()
        expect(page.locator(gone)).to_have_count(0)
        expect(page.locator(f"#turn-{turn}")).to_be_in_viewport()
    page.go_back()
    expect(switch.locator("[aria-current]")).to_have_text("Questions and outcomes")
    expect(page.locator(".run")).to_have_count(0)
    page.reload()
    expect(page.locator(".run")).to_have_count(0)


def find_words_and_follow_outline(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn=2&show=")
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


def open_and_close_outline_in_place(page: Page, conversation: Conversation) -> None:
    page.set_viewport_size({"width": 1440, "height": 800})
    page.evaluate("localStorage.removeItem('convmemory.outline')")
    page.goto(f"/conversations/{conversation.pk}?turn=8")
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


def test_reader_opens_work_and_outline(visit: Callable[..., None], archive: Archive) -> None:
    long = " ".join(["words that fill more lines the narrower they stand"] * 30)
    pairs = [(f"question {number}?", long) for number in range(12)]
    wordy = make_conversation(archive.owner, exchange(*pairs), title="Long")

    def on_phone(page: Page, _: int) -> None:
        open_work(page, archive)
        switch_what_is_shown(page, archive.long, turn=2)

    def at_a_desk(page: Page) -> None:
        see_contents_until_closed(page, archive)
        open_and_close_outline_in_place(page, wordy)

    at_every_width(visit, on_phone, widths=NARROW)
    at_every_width(visit, lambda page, _: find_words_and_follow_outline(page, archive), widths=WIDE)
    visit(at_a_desk)


def change_title_in_place(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn=2")
    heading = page.get_by_role("heading", level=1)
    before = str(heading.text_content())
    after = f"{before} <new>"
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


def copy_link_message_and_code(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn=2")
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


def mark_turn_by_keyboard(page: Page, archive: Archive) -> None:
    page.goto(archive.long.get_absolute_url())
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


def star_and_tag(page: Page, conversation: Conversation) -> None:
    address, tag = f"/conversations/{conversation.pk}?turn=0", f"bake-{conversation.pk}"
    page.goto(address)
    star = page.locator(".page-head").get_by_role("button", name="Star")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Add a tag").fill(tag)
    page.keyboard.press("Enter")
    expect(page.locator(".own-tag")).to_contain_text(f"#{tag}")
    assert page.url.endswith(address)
    page.goto(f"/library?tag={tag}")
    expect(page.locator(".library-row")).to_have_count(1)


def expect_buttons_beside_head_of_message(page: Page, archive: Archive) -> None:
    page.goto(f"/conversations/{archive.long.pk}?turn=2")
    message = page.locator("#turn-2")
    message.hover()
    buttons = message.locator(".message-actions").bounding_box()
    assert buttons
    for part in (".speaker", "time", ".turn-number"):
        beside = message.locator(f".message-head {part}").bounding_box()
        assert beside
        is_beside = beside["x"] + beside["width"] <= buttons["x"] or buttons["x"] + buttons["width"] <= beside["x"]
        assert is_beside or beside["y"] + beside["height"] <= buttons["y"], part
    head, number = message.locator(".message-head").bounding_box(), message.locator(".turn-number").bounding_box()
    assert head
    assert number
    assert head["x"] + head["width"] - number["x"] - number["width"] < 1, "the date ends where the message does"


def test_reader_titles_copies_marks_stars_and_tags(visit: Callable[..., None], archive: Archive) -> None:
    of_width = dict(zip(NARROW, archive.short, strict=False))

    def steps(page: Page, _: int) -> None:
        change_title_in_place(page, archive)
        expect_buttons_beside_head_of_message(page, archive)

    def on_phone(page: Page, width: int) -> None:
        copy_link_message_and_code(page, archive)
        star_and_tag(page, of_width[width])

    at_every_width(visit, steps)
    at_every_width(visit, on_phone, widths=NARROW)
    at_every_width(visit, lambda page, _: mark_turn_by_keyboard(page, archive), widths=WIDE)


def choose(page: Page, count: int) -> None:
    """The first conversations of the list: the first with a click, the last with Shift."""
    boxes = page.locator("[data-choose]")
    boxes.nth(0).click()
    boxes.nth(count - 1).click(modifiers=["Shift"])
    expect(page.locator("[data-bulk-count]")).to_have_text(f"{count} chosen")


def choose_and_narrow(page: Page) -> None:
    page.goto("/library")
    bar, rows = page.locator(".bulk-bar"), page.locator(".library-row")
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


def change_chosen_together(page: Page, width: int) -> None:
    page.goto("/library?sort=title")
    bar, rows = page.locator(".bulk-bar"), page.locator(".library-row")
    undo = page.get_by_role("button", name="Undo")
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


def choose_from_the_one_list_of_facts(page: Page, width: int) -> None:
    page.goto("/library")
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


@pytest.mark.essential
def test_person_chooses_conversations_and_changes_them_together(visit: Callable[..., None], archive: Archive) -> None:
    at_every_width(visit, lambda page, _: choose_and_narrow(page), widths=WIDE)
    at_every_width(visit, change_chosen_together, widths=NARROW)
    at_every_width(visit, choose_from_the_one_list_of_facts)


def delete_undo_and_put_back(page: Page) -> None:
    page.goto("/library")
    rows, undo = page.locator(".library-row"), page.get_by_role("button", name="Undo")
    count = rows.count()
    rows.first.locator("[data-choose]").first.click()
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


def star_and_pin_rows(page: Page, width: int, count: int) -> None:
    page.goto("/library")
    row = page.locator(".library-row", has=page.get_by_role("link", name=f"Kiln {width}"))
    expect(page.locator(".library-row")).to_have_count(count)
    row.get_by_text("1 started from it").click()
    expect(row.get_by_role("link", name=f"Started by {width}")).to_be_visible()
    row.hover()
    for action in ("Star", "Pin"):
        button = row.get_by_role("button", name=f"{action} Kiln {width}")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".shelf-title").first).to_have_text("Pinned")
    page.goto("/library?starred=1")
    expect(page.get_by_role("link", name=f"Kiln {width}")).to_be_visible()
    page.goto("/library")
    expect(page.locator(".shelf-title").first).to_have_text("Pinned")
    expect(page.locator(".shelf").first.get_by_role("link", name=f"Kiln {width}")).to_be_visible()


def preview_rows_with_space_bar(page: Page) -> None:
    page.goto("/library")
    dialog = page.get_by_role("dialog", name="Preview")
    first = page.locator(".library-title", has_text="Wheat")
    first.focus()
    page.keyboard.press("Space")
    expect(dialog).to_contain_text("With wheat.")
    page.keyboard.press("ArrowDown")
    expect(dialog).to_contain_text("With spelt.")
    page.keyboard.press("k")
    expect(dialog).to_contain_text("With wheat.")
    page.keyboard.press("Space")
    expect(dialog).to_be_hidden()
    expect(first).to_be_focused()
    page.keyboard.press("Space")
    expect(dialog).to_contain_text("With wheat.")
    page.keyboard.press("Enter")
    expect(page.locator("[data-conversation-page]")).to_contain_text("and wheat bread?")
    page.goto("/library")
    page.get_by_role("searchbox", name="Title contains").focus()
    page.keyboard.press("ArrowDown")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(dialog).to_contain_text("With spelt.")


def test_person_previews_deletes_stars_and_pins_rows(visit: Callable[..., None], owner: User) -> None:
    for number, width in enumerate(NARROW):
        for name, parent in ((f"Kiln {width}", ""), (f"Started by {width}", f"kiln {number}")):
            make_conversation(
                owner, exchange(("hot?", "yes")), title=name, source="codex", parent_source_id=parent,
                source_id=f"of {number}" if parent else f"kiln {number}",
            )  # fmt: skip
    link_children(caller=Caller.of(owner))
    for day, bread in enumerate(("spelt", "wheat"), start=1):
        row = make_conversation(owner, exchange((f"and {bread} bread?", f"With {bread}.")), title=bread.capitalize())
        Conversation.objects.filter(pk=row.pk).update(updated_at=datetime(2030, 1, day, tzinfo=UTC))

    visit(preview_rows_with_space_bar)
    at_every_width(visit, lambda page, width: star_and_pin_rows(page, width, 7 + len(NARROW)), widths=NARROW)
    at_every_width(visit, lambda page, _: delete_undo_and_put_back(page), widths=WIDE)


def open_bars_of_statistics(page: Page) -> None:
    page.goto("/statistics")
    page.get_by_role("link", name=re.compile("Bash")).click()
    expect(page.locator(".library-row")).to_have_count(1)
    page.go_back()
    page.locator(".bars").get_by_role("link", name=re.compile("codex")).click()
    expect(page).to_have_url(re.compile("agent=codex"))


def search_from_home(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Recent conversations")).to_be_in_viewport()
    box = page.get_by_role("searchbox")
    expect(box).to_have_count(1)
    box.fill("cinnabar")
    box.press("Enter")
    page.wait_for_url("**/search?*q=cinnabar*")
    expect(page.locator(".hit").first).to_be_visible()


def connect_agent(page: Page) -> None:
    page.goto("/settings/connect")
    page.get_by_role("button", name="Make a key and fill it in").click()
    key = page.locator("#new-key").text_content() or ""
    expect(page.locator("#claude-code")).to_contain_text(key)
    expect(page.locator(".key-use")).to_contain_text("Waiting for the first use")
    page.request.get("/api/v1/index/status", headers={"Authorization": f"Bearer {key}"})
    expect(page.locator(".key-use")).to_contain_text("Connected")


def choose_theme(page: Page, theme: str) -> None:
    page.goto("/settings/appearance")
    page.get_by_label(theme).check()
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())


def choose_languages(page: Page, archive: Archive) -> None:
    for language, heading in (("Deutsch", "Bibliothek"), ("日本語", "ライブラリ")):
        page.set_viewport_size({"width": WIDTHS[0], "height": 800})
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


def test_person_goes_on_from_home_and_statistics_and_chooses_settings(
    visit: Callable[..., None], archive: Archive
) -> None:
    def on_desk(page: Page, width: int) -> None:
        open_bars_of_statistics(page)
        choose_theme(page, ("Dark", "Light")[WIDTHS.index(width) % 2])

    at_every_width(visit, lambda page, _: search_from_home(page))
    at_every_width(visit, on_desk, widths=WIDE)
    at_every_width(visit, lambda page, _: connect_agent(page), widths=NARROW)
    visit(lambda page: choose_languages(page, archive))
