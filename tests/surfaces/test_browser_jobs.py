"""Count the keystrokes and clicks of ten common jobs, and compare them with the product that is best at each.

A typed text counts as one, because its length is the user's choice; so does choosing a file in the system's dialog.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import MOST_SHIFT, SHIFT, without_haste

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


TRANSCRIPT = b'{"role": "user", "content": "how long does rye rest?"}\n{"role": "assistant", "content": "A day."}\n'
JOBS = {
    "find a turn": (3, "Raycast: its key, text, Enter", 3),
    "continue": (1, "ChatGPT: the chat in the list", 1),
    "start a chat": (1, "ChatGPT: New chat", 1),
    "import a file": (2, "Drive: New, File upload, the file", 3),
    "connect an agent": (3, "Stripe: Developers, API keys, Create, name, Create", 5),
    "delete and undo": (3, "Gmail: j, #, z", 3),
    "star a result": (2, "Gmail: j, s", 2),
    "filter by two agents": (3, "Linear: F, the property, two values", 4),
    "find in a conversation": (2, "Chrome: Ctrl F, text", 2),
    "rename a project": (4, "Linear: the project, its name, text, Enter", 4),
}
"""What each job costs here, and in the best product: counted by its documentation, not on its pages."""


@dataclass
class Hands:
    """Does what a user does on the page, and counts it."""

    page: Page
    done: int = 0
    jobs: set[str] = field(default_factory=set)

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
    def job(self, name: str, at: str) -> Iterator[None]:
        """A job that begins on the page `at`, which has come to rest without moving anything."""
        self.page.goto(at, wait_until="networkidle")
        shift = self.page.evaluate("window.shift")
        assert shift < MOST_SHIFT, f"{at} moves by {shift}"
        self.done = 0
        yield
        cost, best, least = JOBS[name]
        assert self.done == cost <= least, f"{name}: {self.done} keystrokes and clicks; {best}: {least}"
        self.jobs.add(name)


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
        with hands.job("find a turn", "/"):
            hands.press("/")
            hands.type("keep rye alive")
            expect(page.locator(".preview mark.passage").first).to_be_visible()
            hands.press("Enter")
            expect(page.locator("[data-conversation-page] mark.passage").first).to_be_visible()
        with hands.job("continue", "/"):
            hands.click(page.locator(".home-list a").first)
            expect(heading).to_have_text(newest.title)
        with hands.job("start a chat", "/"):
            hands.click(page.get_by_role("link", name="New chat"))
            expect(heading).to_have_text("New chat")
        with hands.job("import a file", "/"):
            hands.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Import"))
            hands.choose(page.locator("#main input#file"), "rye.jsonl", TRANSCRIPT)
            expect(page.locator(".import").first).to_contain_text("rye.jsonl")
        with hands.job("connect an agent", "/"):
            hands.click(page.get_by_label("Settings").first)
            hands.click(page.get_by_role("link", name="Connect an agent"))
            hands.click(page.get_by_role("button", name="Make a key and fill it in"))
            expect(page.locator("#new-key")).to_be_visible()
        with hands.job("star a result", "/search?q=rye"):
            hands.press("j", "s")
            expect(page.locator("#toast")).to_have_text("The conversation is starred.")
        with hands.job("filter by two agents", "/search?q=rye"):
            hands.click(page.locator("#chip-agent"))
            for agent in ("baker", "chef"):
                hands.click(page.get_by_role("checkbox", name=agent))
            expect(page).to_have_url(re.compile("agent=baker&agent=chef"))
            expect(page.locator(".hit-group")).to_have_count(2)
        with hands.job("find in a conversation", f"{newest.get_absolute_url()}?turn=0"):
            hands.press("f")
            expect(page.locator("[data-find]")).to_be_focused()
            hands.type("twice")
            expect(page.locator("#turn-1 ~ .message #passage, #turn-1 #passage")).to_be_in_viewport()
        with hands.job("rename a project", "/library"):
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
        with hands.job("delete and undo", "/library"):
            hands.press("j", "#")
            expect(page.locator(".undo-notice")).to_be_visible()
            expect(rows).to_have_count(2)
            hands.click(page.get_by_role("button", name="Undo"))
            expect(rows).to_have_count(3)
        page.goto("/library")
        page.locator(".library-title").nth(1).click()
        expect(heading).not_to_have_text("Library")
        page.go_back()
        expect(page.locator(".library-title").nth(1)).to_be_focused()
        assert hands.jobs == set(JOBS)

    visit(steps)
    assert Conversation.objects.filter(starred_at__isnull=False).count() == 1
    assert set(Conversation.objects.values_list("project", flat=True)) == {"/home/kitchen"}
