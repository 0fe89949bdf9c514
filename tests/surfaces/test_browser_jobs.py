"""Count the keystrokes and clicks of common jobs; a typed text counts as one, because its length is the user's choice.

The limits are what each job costs now, so that no change makes one longer. Other products were not measured.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import MOST_SHIFT, SHIFT, without_haste

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@dataclass
class Hands:
    """Does what a user does on the page, and counts it."""

    page: Page
    done: int = 0

    def click(self, locator: Locator) -> None:
        self.done += 1
        locator.click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.done += 1
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.done += 1
        self.page.keyboard.type(text)

    @contextmanager
    def job(self, at: str, most: int) -> Iterator[None]:
        """A job that begins on the page `at`, comes to rest without moving anything, and costs at most `most`."""
        self.page.goto(at, wait_until="networkidle")
        shift = self.page.evaluate("window.shift")
        assert shift < MOST_SHIFT, f"{at} moves by {shift}"
        self.done = 0
        yield
        assert self.done <= most, f"{self.done} keystrokes and clicks from {at}"


def test_common_jobs_cost_few_keystrokes_and_clicks(visit: Callable[..., None], owner: User) -> None:
    pairs = [("how do I keep rye alive?", "Feed the rye once a week."), ("and in summer?", "Twice.")]
    for number, agent in enumerate(("baker", "chef", "clerk")):
        made = make_conversation(owner, exchange(*pairs), title=f"Rye {number}", agent=agent, project="/home/kitchen")
        index_conversation(conversation_id=made.pk)
    newest = Conversation.objects.latest("pk")

    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        hands = Hands(page)
        heading = page.get_by_role("heading", level=1)
        with hands.job("/", 4):  # find a turn
            hands.press("/")
            hands.type("keep rye alive")
            expect(page.locator(".hit").first).to_be_visible()
            hands.press("ArrowDown", "Enter")
            expect(page.locator("[data-conversation-page] mark.passage").first).to_be_visible()
        with hands.job("/", 1):  # continue
            hands.click(page.locator(".home-list a").first)
            expect(heading).to_have_text(newest.title)
        with hands.job("/", 1):  # start a chat
            hands.click(page.get_by_role("link", name="New chat"))
            expect(heading).to_have_text("New chat")
        with hands.job("/", 3):  # connect an agent
            hands.click(page.get_by_label("Settings").first)
            hands.click(page.get_by_role("link", name="Connect an agent"))
            hands.click(page.get_by_role("button", name="Make a key and fill it in"))
            expect(page.locator("#new-key")).to_be_visible()
        with hands.job("/search?q=rye", 2):  # star a result
            hands.press("j", "s")
            expect(page.locator("#toast")).to_have_text("The conversation is starred.")
        with hands.job("/search?q=rye", 3):  # filter by two agents
            hands.click(page.locator("#chip-agent"))
            for agent in ("baker", "chef"):
                hands.click(page.get_by_role("checkbox", name=agent))
            expect(page).to_have_url(re.compile("agent=baker&agent=chef"))
            expect(page.locator(".hit-group")).to_have_count(2)
        with hands.job(f"{newest.get_absolute_url()}?turn=0", 3):  # find in a conversation
            hands.press("f")
            expect(page.locator("[data-find]")).to_be_focused()
            hands.type("twice")
            hands.press("Enter")
            expect(page.locator(".outline-rows a")).to_have_count(1)
        with hands.job("/library", 4):  # rename a project
            hands.click(page.get_by_role("link", name="kitchen"))
            hands.click(page.get_by_text("Rename or merge this project"))
            expect(page.get_by_label("Name")).to_be_focused()
            hands.type("bakery")
            hands.press("Enter")
            expect(page.get_by_text("“kitchen” is called “bakery” now.")).to_be_visible()
            expect(page.locator(".library-row")).to_have_count(3)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".library-row")).to_have_count(3)
        page.goto("/library")
        without_haste(page)  # Undo stands for eight seconds
        rows = page.locator(".library-row")
        with hands.job("/library", 3):  # delete and undo
            hands.press("j", "#")
            expect(rows.first).to_be_hidden()
            hands.press("Enter")
            expect(rows.first).to_be_visible()
        with hands.job("/library", 2):  # come back to where one was
            hands.click(page.locator(".library-title").nth(1))
            expect(heading).not_to_have_text("Library")
            hands.done += 1
            page.go_back()
            expect(page.locator(".library-title").nth(1)).to_be_focused()

    visit(steps)
    assert Conversation.objects.filter(starred_at__isnull=False).count() == 1
    assert set(Conversation.objects.values_list("project", flat=True)) == {"/home/kitchen"}
