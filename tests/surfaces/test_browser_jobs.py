"""Count the keystrokes and clicks of twelve common jobs, and compare them with the product that is best at each.

A typed text counts as one, because its length is the user's choice; so does choosing a file in the system's dialog.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import MOST_SHIFT, SETTLED, SHIFT, without_haste

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


TRANSCRIPT = b'{"role": "user", "content": "how long does rye rest?"}\n{"role": "assistant", "content": "A day."}\n'


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

    def choose(self, locator: Locator, name: str, content: bytes) -> None:
        self.done += 1
        locator.set_input_files({"name": name, "mimeType": "application/jsonl", "buffer": content})

    @contextmanager
    def job(self, at: str, cost: int, best: str, least: int) -> Iterator[None]:
        """A job that begins on the page `at`, which has come to rest without moving anything.

        It has this cost here, and the `least` one in the product that is `best` at it, counted by its documentation.
        """
        self.page.goto(at)
        self.page.evaluate(SETTLED)
        shift = self.page.evaluate("window.shift")
        assert shift < MOST_SHIFT, f"{at} moves by {shift}"
        self.done = 0
        yield
        assert self.done == cost <= least, f"{self.done} keystrokes and clicks; {best}: {least}"


@pytest.fixture
def newest(owner: User) -> Conversation:
    """The newest of three conversations, each of another agent."""
    pairs = [("how do I keep rye alive?", "Feed the rye once a week."), ("and in summer?", "Twice.")]
    for agent in ("baker", "chef", "clerk"):
        made = make_conversation(owner, exchange(*pairs), title=f"Rye {agent}", agent=agent, project="/home/kitchen")
        index_conversation(conversation_id=made.pk)
    return Conversation.objects.latest("pk")


def do_jobs_of_search(hands: Hands, page: Page, newest: Conversation) -> None:
    with hands.job("/", 3, "Raycast: its key, text, Enter", 3):
        hands.press("/")
        hands.type("keep rye alive")
        expect(page).to_have_url(re.compile(r"\?q=keep\+rye\+alive$"))  # until then: results of its beginning
        expect(page.locator("#main:not([aria-busy]) .preview mark.passage").first).to_be_visible()
        hands.press("Enter")
        expect(page.locator("[data-conversation-page] mark.passage").first).to_be_visible()
    with hands.job("/search?q=rye", 2, "Gmail: j, s", 2):
        hands.press("j", "s")
        expect(page.locator("#toast")).to_have_text("The conversation is starred.")
    with hands.job("/search?q=rye", 3, "Linear: F, the property, two values", 4):
        hands.click(page.locator("#chip-agent"))
        for agent in ("baker", "chef"):
            hands.click(page.get_by_role("checkbox", name=agent))
        expect(page).to_have_url(re.compile("agent=baker&agent=chef"))
        expect(page.locator(".hit-group")).to_have_count(2)
    with hands.job(f"{newest.get_absolute_url()}?turn=0", 2, "Chrome: Ctrl F, text", 2):
        hands.press("f")
        expect(page.locator("[data-find]")).to_be_focused()
        hands.type("twice")
        expect(page.locator("#turn-1 ~ .message #passage, #turn-1 #passage")).to_be_in_viewport()
    with hands.job(f"{newest.get_absolute_url()}", 2, "ChatGPT: Share, Create link", 2):
        hands.click(page.get_by_role("link", name="Share", exact=True))
        hands.click(page.get_by_role("button", name="Make a link"))
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert "/shared/" in page.evaluate("navigator.clipboard.readText()")
    with hands.job("/", 2, "Notion: the switcher, the workspace", 2):
        hands.click(page.get_by_label("Archive: Your own archive"))
        hands.click(page.get_by_role("button", name="Bakers"))
        expect(page.get_by_label("Archive: Bakers")).to_be_visible()


def begin_and_go_on(hands: Hands, page: Page, newest: Conversation) -> None:
    heading = page.get_by_role("heading", level=1)
    with hands.job("/", 1, "ChatGPT: the chat in the list", 1):
        hands.click(page.locator(".home-list a").first)
        expect(heading).to_have_text(newest.title)
    with hands.job("/", 1, "ChatGPT: New chat", 1):
        hands.click(page.get_by_role("link", name="New chat"))
        expect(heading).to_have_text("New chat")
    with hands.job("/", 2, "Drive: New, File upload, the file", 3):
        hands.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Import"))
        hands.choose(page.locator("#main input#file"), "rye.jsonl", TRANSCRIPT)
        expect(page.locator(".import").first).to_contain_text("rye.jsonl")
    with hands.job("/", 3, "Stripe: Developers, API keys, Create, name, Create", 5):
        hands.click(page.get_by_label("Settings").first)
        hands.click(page.get_by_role("link", name="Connect an agent"))
        hands.click(page.get_by_role("button", name="Make a key and fill it in"))
        expect(page.locator("#new-key")).to_be_visible()


def do_jobs_of_library(hands: Hands, page: Page) -> None:
    rows = page.locator(".library-row")
    with hands.job("/library", 4, "Linear: the project, its name, text, Enter", 4):
        hands.click(page.get_by_role("link", name="kitchen"))
        hands.click(page.get_by_text("Rename or merge this project"))
        expect(page.get_by_label("Name")).to_be_focused()
        hands.type("bakery")
        hands.press("Enter")
        expect(page.get_by_text("“kitchen” is called “bakery” now.")).to_be_visible()
        expect(rows).to_have_count(3)
    page.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(3)
    page.goto("/library")
    without_haste(page)  # Undo stands for eight seconds
    with hands.job("/library", 3, "Gmail: j, #, z", 3):
        hands.press("j", "#")
        expect(page.locator(".undo-notice")).to_be_visible()
        expect(rows).to_have_count(2)
        hands.click(page.get_by_role("button", name="Undo"))
        expect(rows).to_have_count(3)
    page.goto("/library")
    page.locator(".library-title").nth(1).click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Library")
    page.go_back()
    expect(page.locator(".library-title").nth(1)).to_be_focused()


def test_common_jobs_cost_few_keystrokes_and_clicks(
    visit: Callable[..., None], owner: User, newest: Conversation
) -> None:
    def steps(page: Page) -> None:
        page.add_init_script(SHIFT)
        hands = Hands(page)
        begin_and_go_on(hands, page, newest)
        do_jobs_of_library(hands, page)

    def search(page: Page) -> None:
        page.add_init_script(SHIFT)
        do_jobs_of_search(Hands(page), page, newest)

    create_space(person=owner, name="Bakers")
    visit(search)
    assert Conversation.objects.filter(starred_at__isnull=False).count() == 1
    visit(steps)
    assert set(Conversation.objects.values_list("project", flat=True)) == {"/home/kitchen"}
