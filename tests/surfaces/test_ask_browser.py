"""A question on the search page in a real Chromium: the passage, and the model's sentences with their citations."""

import re
import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django import Settings

from tests.support.chat_server import ChatServer, Hold, Say, Script, says
from tests.surfaces.browser import PHONE, Chromium
from tests.surfaces.test_ask import QUESTION, answers_gate, store
from tests.surfaces.test_browser_accessibility import OF_WHOLE_PAGES, WIDE, expect_no_violation_anywhere

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators:Warning"),
]


@pytest.fixture
def visit(chromium: Chromium, site: str, owner: User, settings: Settings) -> Callable[..., None]:
    """Runs steps on a page of a server whose model answers, where the owner of the pairs is signed in."""
    settings.SEARCH_MIN_RELEVANCE = 0.37
    store(owner)
    return partial(chromium.visit, site, visitor=owner)


def test_enter_asks_once_and_a_citation_opens_its_turn(visit: Callable[..., None], endpoint: ChatServer) -> None:
    release = threading.Event()
    endpoint.otherwise = lambda asked: Script((Hold(release), *answers_gate(asked).steps))

    def steps(page: Page) -> None:
        box, answer = page.locator("#q"), page.locator(".answer")
        box.fill(QUESTION)
        expect(answer.locator("blockquote")).to_be_visible()
        expect(answer.get_by_role("button", name="Let test-model answer, for at most 5,000 tokens")).to_be_visible()
        assert endpoint.requests == []
        expect(page.locator("#main [data-preview]")).to_be_visible()
        box.press("Enter")
        expect(answer.get_by_role("status")).to_have_text(re.compile(r"test-model reads \d places, for at most 5,000"))
        expect(answer.locator("blockquote")).to_be_visible()
        release.set()
        expect(answer.locator(".answer-text")).to_contain_text("Use a primer for metal, then enamel.")
        expect(answer.locator("q")).to_have_text("metal primer first")
        expect(answer.locator("blockquote")).to_be_hidden()
        expect(answer.get_by_role("status")).to_have_text(re.compile(r"quotes the places .* · [\d,]+ tokens"))
        expect_no_violation_anywhere(page, "an answer", OF_WHOLE_PAGES)
        page.set_viewport_size({"width": WIDE, "height": PHONE["height"]})
        box.fill("sourdough")
        expect(answer).to_have_count(0)
        box.fill(QUESTION)
        expect(answer.locator(".answer-text")).to_contain_text("Use a primer")
        assert len(endpoint.requests) == 1
        answer.locator("sup a").click()
        expect(page).to_have_url(re.compile(r"/conversations/\d+\?turn=3&"))
        expect(page.locator("#main #turn-3")).to_be_visible()
        expect(answer).to_be_visible()

    visit(steps)


def test_passage_stays_where_the_model_quotes_nothing(visit: Callable[..., None], endpoint: ChatServer) -> None:
    endpoint.scripts.append(says('<b onclick="x()">Blue</b>. [1 "it is blue paint"]'))

    def steps(page: Page) -> None:
        answer = page.locator(".answer")
        answer.get_by_role("button").click()
        expect(answer.get_by_role("status")).to_contain_text("quotes nothing that is stored")
        expect(answer.locator("blockquote")).to_be_visible()
        expect(answer.locator(".answer-text")).to_have_count(0)

    visit(steps, at=f"/search?q={QUESTION}")


def test_model_without_an_answer_leaves_the_nearest_passage(visit: Callable[..., None], endpoint: ChatServer) -> None:
    endpoint.scripts.append(says("NOTHING"))

    def steps(page: Page) -> None:
        answer = page.locator(".answer")
        answer.get_by_role("button").click()
        expect(answer.get_by_role("status")).to_contain_text("Nothing here seems to answer")
        expect(answer.get_by_text("Nearest:")).to_be_visible()
        expect(answer.locator("blockquote")).to_be_visible()

    visit(steps, at=f"/search?q={QUESTION}")


def test_markup_of_a_model_is_shown_as_text(visit: Callable[..., None], endpoint: ChatServer) -> None:
    hostile = '<img src=x onerror=alert(1)> [see](https://evil.example) paint. [1 "metal primer first"]'
    endpoint.otherwise = lambda asked: says(*(Say(hostile.replace("[1 ", f"[{n} ")).text + "\n" for n in range(1, 6)))

    def steps(page: Page) -> None:
        answer = page.locator(".answer")
        answer.get_by_role("button").click()
        expect(answer.locator(".answer-text")).to_contain_text("<img src=x onerror=alert(1)>")
        expect(answer.locator(".answer-text img")).to_have_count(0)
        expect(answer.locator('a[href*="evil"]')).to_have_count(0)

    visit(steps, at=f"/search?q={QUESTION}")


def test_without_a_model_the_passage_alone_answers(visit: Callable[..., None], settings: Settings) -> None:
    settings.CHAT_MODEL = ""

    def steps(page: Page) -> None:
        answer = page.locator(".answer")
        expect(answer.locator("blockquote")).to_be_visible()
        expect(answer.get_by_role("button")).to_have_count(0)

    visit(steps, at=f"/search?q={QUESTION}")
