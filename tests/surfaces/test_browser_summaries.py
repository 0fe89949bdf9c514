"""Summaries in a real browser: a range is asked for, its state changes by itself, the text appears."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation
from summaries.making import make_summary, summaries_to_make
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import NARROW, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TOPICS = [
    ("Which bread flour gives a sourdough loaf the most rise?", "A strong bread flour with thirteen percent protein."),
    ("How do I tune a ukulele without any tuner at hand?", "Tune the second string first and the others after it."),
]


@pytest.fixture
def conversation(settings: Any, owner: User) -> Conversation:
    settings.CHAT_BASE_URL = settings.CHAT_API_KEY = settings.CHAT_MODEL = ""
    return make_conversation(owner, exchange(*TOPICS), title="Bread and strings")


@pytest.fixture
def worker() -> Iterator[threading.Event]:
    """Makes the summaries that wait in a thread of its own, each time that the event is set."""
    started, is_over = threading.Event(), False

    def work() -> None:
        while started.wait() and not is_over:
            started.clear()
            for archive_id, number, _ in summaries_to_make(limit=1):
                make_summary(archive_id=archive_id, summary_id=number)
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield started
    is_over = True
    started.set()
    thread.join()


@pytest.fixture
def visit(visit: Callable[..., None], conversation: Conversation) -> Callable[..., None]:
    """Runs steps on the conversation."""
    return partial(visit, at=f"/conversations/{conversation.pk}")


@pytest.mark.essential
def test_summary_appears_by_itself(
    visit: Callable[..., None], worker: threading.Event, conversation: Conversation
) -> None:
    def steps(page: Page, _: int) -> None:
        page.get_by_label("What to do with this conversation").click()
        page.get_by_role("link", name="Summaries…").click()
        page.get_by_label("to turn").fill("1")
        page.get_by_role("button", name="Summarise").click()
        card = page.locator(".summary")
        expect(card).to_contain_text("waiting")
        worker.set()
        expect(card).to_contain_text("thirteen percent protein")
        expect(card).not_to_contain_text("waiting")
        card.get_by_label("What to do with this summary").click()
        card.get_by_role("button", name="Delete").click()
        expect(page.locator(".notice")).to_have_text("The summary is deleted.")

    at_every_width(visit, steps, at=f"/conversations/{conversation.pk}", widths=NARROW)
