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
from tests.surfaces.browser import NARROW, PHONE, Chromium, at_every_width
from tests.surfaces.test_ask import QUESTION, answers_gate, store
from tests.surfaces.test_browser_accessibility import OF_WHOLE_PAGES, WIDE, expect_no_violation_anywhere

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators:Warning"),
]

ADDRESS = f"/search?q={QUESTION}"


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


def ask_model_that_quotes_nothing(page: Page) -> None:
    page.goto(ADDRESS)
    answer = page.locator(".answer")
    answer.get_by_role("button").click()
    expect(answer.get_by_role("status")).to_contain_text("quotes nothing that is stored")
    expect(answer.locator("blockquote")).to_be_visible()
    expect(answer.locator(".answer-text")).to_have_count(0)


def ask_model_without_answer(page: Page) -> None:
    page.goto(ADDRESS)
    answer = page.locator(".answer")
    answer.get_by_role("button").click()
    expect(answer.get_by_role("status")).to_contain_text("Nothing here seems to answer")
    expect(answer.get_by_text("Nearest:")).to_be_visible()
    expect(answer.locator("blockquote")).to_be_visible()


def ask_hostile_model(page: Page) -> None:
    page.goto(ADDRESS)
    answer = page.locator(".answer")
    answer.get_by_role("button").click()
    expect(answer.locator(".answer-text")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(answer.locator(".answer-text img")).to_have_count(0)
    expect(answer.locator('a[href*="evil"]')).to_have_count(0)


def ask_what_nothing_answers(page: Page) -> None:
    page.goto("/search")
    page.locator("#q").press_sequentially("zzyzx quux")
    expect(page.get_by_role("heading", name="Nothing here seems to answer “zzyzx quux”")).to_be_visible()
    expect(page.locator(".hit")).to_have_count(0)
    page.get_by_role("link", name="Show the nearest anyway").click()
    expect(page.locator(".hit").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Nothing here seems to answer “zzyzx quux”")).to_be_visible()


def read_passage_without_model(page: Page) -> None:
    page.goto(ADDRESS)
    answer = page.locator(".answer")
    expect(answer.locator("blockquote")).to_be_visible()
    expect(answer.get_by_role("button")).to_have_count(0)


def test_models_that_quote_nothing_leave_the_passage(
    visit: Callable[..., None], endpoint: ChatServer, settings: Settings
) -> None:
    endpoint.scripts.extend([says('<b onclick="x()">Blue</b>. [1 "it is blue paint"]'), says("NOTHING")])
    hostile = '<img src=x onerror=alert(1)> [see](https://evil.example) paint. [1 "metal primer first"]'
    endpoint.otherwise = lambda asked: says(*(Say(hostile.replace("[1 ", f"[{n} ")).text + "\n" for n in range(1, 6)))

    def steps(page: Page) -> None:
        ask_model_that_quotes_nothing(page)
        ask_model_without_answer(page)
        ask_hostile_model(page)

    visit(steps)
    settings.CHAT_MODEL = ""

    def without_model(page: Page, _: int) -> None:
        read_passage_without_model(page)
        ask_what_nothing_answers(page)

    at_every_width(visit, without_model, widths=NARROW)
