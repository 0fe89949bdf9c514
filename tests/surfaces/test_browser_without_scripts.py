"""The pages in a real browser that runs no scripts: every job of searching, reading and filing still works."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from convmemory.documents.models import Document
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, make_conversation, user_says
from tests.surfaces.browser import PHONE, WIDTHS, at_every_width
from tests.surfaces.test_browser import TURN, expect_turn_in_view, make_archive
from tests.surfaces.test_browser_accessibility import make_bread
from tests.surfaces.test_browser_rooms import switch_what_is_shown

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("documents_here"),
]


def search_and_turn_pages(page: Page, long: Conversation) -> None:
    page.goto("/")
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
    page.goto(f"/conversations/{long.pk}?turn={TURN}")  # as the API links it
    expect_turn_in_view(page)


def filter_and_use_palette(page: Page) -> None:
    page.goto("/search?q=sourdough")
    page.locator("#chip-agent").click()
    page.get_by_role("link", name="All choices").first.click()
    page.locator("#chip-agent").click()
    page.get_by_role("checkbox", name="baker 1").check()
    page.get_by_role("button", name="Search").first.click()
    expect(page.locator(".hit-group")).to_have_count(1)
    page.get_by_label("Remove the filter baker").click()
    expect(page.locator(".hit-group")).not_to_have_count(1)
    page.goto("/palette?go=bread")
    page.get_by_role("link", name="Bread baker").click()
    expect(page.get_by_role("heading", name="Bread")).to_be_visible()


def star_and_find(page: Page, bread: Conversation) -> None:
    page.goto(f"/conversations/{bread.pk}?turn=1")
    page.locator(".page-head").get_by_role("button", name="Star").click()
    expect(page.locator(".page-head").get_by_role("button", name="Star")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Outline, and find").click()
    page.get_by_role("searchbox", name="Find in this conversation").fill("cinnabar")
    page.get_by_role("button", name="Find").click()
    page.locator(".outline-rows a").click()
    expect(page.locator("#passage")).to_be_in_viewport()


def delete_undo_and_pin(page: Page) -> None:
    page.goto("/library")
    page.locator("[data-choose]").first.check()
    page.locator(".bulk-bar").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".notice")).to_contain_text("Undone.")
    page.locator(".library-row").first.hover()
    page.locator(".library-row").first.get_by_role("button", name="Pin").click()
    expect(page.locator(".shelf-title").first).to_have_text("Pinned")


def choose_month(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".river-range")).not_to_be_visible()
    page.get_by_text("The months as a list").click()
    page.get_by_role("link", name="May 2021", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("May 2021")
    expect(page.locator(".worked a")).to_have_text("May 2021")


def open_settings(page: Page, _: int) -> None:
    page.get_by_label("Settings").click()
    page.get_by_role("link", name="API keys").first.click()
    page.wait_for_url("**/settings/keys")


def test_person_searches_reads_and_files_without_scripts(
    visit: Callable[..., None], owner: User, tmp_path: Path
) -> None:
    long, bread = make_archive(owner).long, make_bread(owner)
    in_may = datetime(2021, 5, 14, 12, tzinfo=UTC)
    drafts = [user_says("q", created_at=in_may), assistant_says("a", created_at=in_may)]
    make_conversation(owner, drafts, title="May 2021", project="/src/mill")
    index_conversation(conversation_id=bread.pk)
    count_changed(archive_id=owner.pk)
    file = tmp_path / "visits.md"
    file.write_text("# Visits\n\nThe greenhouse opens at seven.\n", encoding="utf-8")

    def search_and_read(page: Page, width: int) -> None:
        search_and_turn_pages(page, long)
        if width == WIDTHS[-1]:
            switch_what_is_shown(page, bread, turn=1)
            star_and_find(page, bread)
        elif width == WIDTHS[0]:
            filter_and_use_palette(page)
            delete_undo_and_pin(page)
            choose_month(page)

    def add_file(page: Page) -> None:
        page.get_by_role("link", name="Documents").click()
        page.locator("input#file").set_input_files(str(file))
        page.get_by_role("button", name="Add").click()
        expect(page.get_by_text("waiting")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    at_every_width(visit, search_and_read, javascript=False)
    at_every_width(visit, open_settings, at="/import", javascript=False)
    visit(add_file, **PHONE, javascript=False)
    assert Document.objects.get().name == "visits.md"
