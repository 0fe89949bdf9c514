"""The rooms beside search in a real browser: reading a conversation, the library, home, statistics, settings."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.models import Conversation
from convmemory.conversations.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.statistics import count_changed
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.surfaces.browser import WIDTHS, Chromium, Steps, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAID_AT = datetime(2026, 3, 9, 14, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Archive:
    """What the user `ada` has: a long conversation with work in its third turn, and four short ones."""

    owner: User
    long: Conversation
    short: list[Conversation]


@pytest.fixture
def archive() -> Archive:
    owner = make_user("ada")
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
    while count_changed(owner_id=owner.pk):
        pass
    return Archive(owner, long, short)


@pytest.fixture
def visit(chromium: Chromium, live_server: LiveServer, archive: Archive) -> Callable[..., None]:
    """Runs steps on a page where `ada` has just signed in."""

    def visit_signed_in(steps: Steps, *, javascript: bool = True, width: int = 1280, height: int = 800) -> None:
        def sign_in_first(page: Page) -> None:
            sign_in(page)
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            steps(page)

        chromium.visit(live_server.url, sign_in_first, javascript=javascript, width=width, height=height)

    return visit_signed_in


def copied(page: Page, said: str) -> str:
    expect(page.locator("#toast")).to_have_text(said)
    return str(page.evaluate("navigator.clipboard.readText()"))


def change_the_title(page: Page) -> None:
    """With the pencil, or on a phone from the menu."""
    if not page.locator(".edit-title").is_visible():
        page.get_by_label("What to do with this conversation").click()
    page.get_by_role("button", name="Change the title").click()


# --- reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_every_width(visit: Callable[..., None], archive: Archive, width: int) -> None:
    paths = ["/", "/library", "/statistics", f"/conversations/{archive.long.pk}?turn=2", "/settings/connect",
             "/settings/appearance", "/settings/data", "/chat"]  # fmt: skip

    def steps(page: Page) -> None:
        for path in paths:
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_work_is_one_line_that_opens_to_cards(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        expect(page.locator(".turns")).to_contain_text("3 / 13")
        run = page.locator(".run")
        expect(run).to_have_count(1)
        expect(run.locator("summary").first).to_contain_text("2 steps: 1 Bash, 1 Edit")
        run.locator("summary").first.click()
        run.get_by_text("pytest").first.click()
        expect(run.locator(".ansi-1")).to_have_text("1 failed")
        run.get_by_text("a.py +1 -1").click()
        expect(run.locator(".is-removed")).to_contain_text("one")
        expect(run.locator(".is-added")).to_contain_text("two")

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_title_is_changed_in_its_place(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        change_the_title(page)
        box = page.get_by_role("textbox", name="Title", exact=True)
        expect(box).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", level=1)).to_have_text("The oven")
        change_the_title(page)
        box.fill("The <new> oven")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("The <new> oven")
        expect(page).to_have_title(re.compile("The <new> oven"))
        assert page.url.endswith("?turn=2")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("The <new> oven")

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_links_messages_and_code_are_copied(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
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

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_stars_and_tags_are_set_without_leaving(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        star = page.locator(".page-head").get_by_role("button", name="Star")
        star.click()
        expect(star).to_have_attribute("aria-pressed", "true")
        page.get_by_label("Add a tag").fill("bake")
        page.keyboard.press("Enter")
        expect(page.locator(".own-tag")).to_contain_text("#bake")
        assert page.url.endswith("?turn=2")
        page.goto("/library?tag=bake")
        expect(page.locator(".library-row")).to_have_count(1)

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_words_are_found_and_the_outline_leads_to_turns(
    visit: Callable[..., None], archive: Archive, width: int
) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
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

    visit(steps, width=width)


def test_the_outline_moves_nothing_that_is_read(visit: Callable[..., None], archive: Archive) -> None:
    long = " ".join(["words that fill more lines the narrower they stand"] * 30)
    pairs = [(f"question {number}?", long) for number in range(12)]
    read = make_conversation(archive.owner, exchange(*pairs), title="Long")

    def steps(page: Page) -> None:
        page.goto(f"/conversations/{read.pk}?turn=8")
        target = page.locator("#turn-8")
        expect(target).to_be_in_viewport()
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
        assert [round(opened["y"] - top["y"]), round(closed["y"] - top["y"])] == [0, 0]

    visit(steps, width=1440)


def test_words_are_marked_whole(visit: Callable[..., None], archive: Archive) -> None:
    said = "Leave deadlock_timeout, set lock_timeout. Locks end. 締め切りは明日です。"
    locks = make_conversation(archive.owner, exchange(("lower deadlock_timeout?", said)), title="Locks")
    index_conversation(conversation_id=locks.pk)
    found = {"lock_timeout": ["lock_timeout"], "lock": ["lock", "Locks"], "締め切り": ["締め切り"]}
    marked = """() => [...(CSS.highlights.get("found-words") ?? [])].map((range) => range.toString())"""

    def steps(page: Page) -> None:
        for word, places in found.items():
            page.goto(f"/conversations/{locks.pk}?turn=0")
            page.keyboard.press("f")
            panel = page.get_by_role("complementary", name="Outline")
            panel.get_by_role("searchbox").fill(word)
            page.keyboard.press("Enter")
            expect(panel.get_by_role("status")).to_contain_text(f"1 turn with “{word}”")
            assert page.evaluate(marked) == places

    visit(steps)


def test_the_display_switch_is_an_address(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
        page.get_by_role("link", name="Questions only").click()
        expect(page.locator(".message.is-assistant")).to_have_count(0)
        assert "show=questions" in page.url
        page.get_by_role("link", name="No tools").click()
        expect(page.locator(".message", has_text="I look.")).to_be_visible()
        expect(page.locator(".run")).to_have_count(0)

    for javascript in (True, False):
        visit(steps, javascript=javascript)


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


# --- the library ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_many_are_chosen_with_shift_and_archived(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto("/library")
        expect(page.locator(".bulk-bar")).to_be_hidden()
        boxes = page.locator("[data-choose]")
        boxes.nth(0).click()
        boxes.nth(2).click(modifiers=["Shift"])
        expect(page.locator("[data-bulk-count]")).to_have_text("3 chosen")
        page.get_by_role("button", name="Archive", exact=True).click()
        expect(page.locator(".library-row")).to_have_count(2)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".library-row")).to_have_count(5)

    visit(steps, width=width)


def test_deleting_can_be_taken_back_for_a_while(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        page.goto("/library")
        first = page.locator(".library-row").first
        first.locator("[data-choose]").click()
        page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
        expect(first).to_be_hidden()
        page.get_by_role("button", name="Undo").click()
        expect(first).to_be_visible()
        first.locator("[data-choose]").click()
        page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
        with page.expect_response(re.compile("/library/change"), timeout=60_000):
            expect(page.locator(".undo-toast")).to_be_visible()
        page.goto("/library")
        expect(page.locator(".library-row")).to_have_count(4)

    visit(steps)
    assert Conversation.objects.count() == 4


def test_the_library_works_without_javascript(visit: Callable[..., None], archive: Archive) -> None:
    def steps(page: Page) -> None:
        page.goto("/library")
        page.locator("[data-choose]").first.check()
        page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete 1 conversation?")
        page.get_by_role("link", name="Keep them").click()
        page.locator(".library-row").first.hover()
        page.locator(".library-row").first.get_by_role("button", name="Pin").click()
        expect(page.locator(".shelf-title").first).to_have_text("Pinned")

    visit(steps, javascript=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_bars_and_days_open_what_is_behind_them(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto("/statistics")
        page.get_by_role("link", name=re.compile("Bash")).click()
        expect(page.locator(".library-row")).to_have_count(1)
        page.go_back()
        page.locator(".bars").get_by_role("link", name=re.compile("codex")).click()
        expect(page).to_have_url(re.compile("agent=codex"))

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_new_key_is_filled_in_and_appearance_is_kept(
    visit: Callable[..., None], archive: Archive, width: int
) -> None:
    def steps(page: Page) -> None:
        page.goto("/settings/connect")
        page.get_by_role("button", name="Make a key and fill it in").click()
        key = page.locator("#new-key").text_content() or ""
        expect(page.locator("#claude-code")).to_contain_text(key)
        expect(page.locator(".key-use")).to_contain_text("Waiting for the first use")
        page.request.get("/api/v1/index/status", headers={"Authorization": f"Bearer {key}"})
        expect(page.locator(".key-use")).to_contain_text("Connected")
        page.goto("/settings/appearance")
        page.get_by_label("Dark").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_buttons_of_a_message_cover_nothing_of_its_head(
    visit: Callable[..., None], archive: Archive, width: int
) -> None:
    def steps(page: Page) -> None:
        page.goto(f"/conversations/{archive.long.pk}?turn=2")
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

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_library_has_one_list_of_what_to_choose_by(
    visit: Callable[..., None], archive: Archive, width: int
) -> None:
    def steps(page: Page) -> None:
        page.goto("/library")
        choices = page.locator(".choices-pane:visible")
        if width < 720:
            expect(choices).to_have_count(0)
            page.locator(".choices-fold summary").first.click()
        expect(choices).to_have_count(1)
        page.keyboard.press("j")
        expect(page.locator(".library-title").first).to_be_focused()
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator(".library-title").first).to_be_focused()
        choices.get_by_role("link", name="Starred").click()
        page.wait_for_url("**/library?starred=1")
        cut = "rows => rows.filter(row => row.scrollWidth > row.clientWidth).map(row => row.innerText)"
        assert page.locator(".library-what .item-meta > :not([title])").evaluate_all(cut) == []

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_home_begins_with_a_search_and_where_to_go_on(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        page.goto("/")
        expect(page.get_by_role("heading", name="Continue where you were")).to_be_in_viewport()
        box = page.locator(".home-search input" if width > 720 else "#q")
        box.fill("cinnabar")
        box.press("Enter")
        page.wait_for_url("**/search?*q=cinnabar*")
        expect(page.locator(".hit").first).to_be_visible()

    visit(steps, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_language_is_chosen_in_the_settings(visit: Callable[..., None], archive: Archive, width: int) -> None:
    def steps(page: Page) -> None:
        for language, button, heading in (("Deutsch", "Save", "Bibliothek"), ("日本語", "Speichern", "ライブラリ")):
            page.goto("/settings/appearance")
            page.get_by_label(language).check()
            page.get_by_role("button", name=button).click()
            page.goto("/library")
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            for address in ("/", "/library", "/statistics", f"/conversations/{archive.long.pk}?turn=2", "/recall"):
                page.goto(address)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (language, address)

    visit(steps, width=width)
