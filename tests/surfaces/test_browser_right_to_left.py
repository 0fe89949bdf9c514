"""Texts in scripts that run from right to left, in a real browser: each text in its own direction, code never."""

import pytest
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.surfaces.browser import Chromium, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

QUESTION = "ماذا يقول عقد الإيجار عن القطط؟"
ANSWER = "لا يمنع الحيوانات.\n\nIt says so in English, too.\n\n- أولا\n- ثانيا\n\n```\ncat lease.txt\n```"
DIRECTION = "(selector) => getComputedStyle(document.querySelector(selector)).direction"
SIDES = """() => [...document.querySelectorAll(".is-assistant .prose > p")].map((paragraph) => {
  const range = document.createRange();
  range.selectNodeContents(paragraph);
  const text = range.getBoundingClientRect(), box = paragraph.getBoundingClientRect();
  return text.left - box.left > box.right - text.right ? "right" : "left";
})"""


def test_every_text_runs_in_its_own_direction(chromium: Chromium, live_server: LiveServer) -> None:
    owner = make_user("ada")
    arabic = make_conversation(owner, exchange((QUESTION, ANSWER)), title=QUESTION)
    make_conversation(owner, exchange(("What does the lease say?", "Nothing.")), title="The lease")
    index_conversation(conversation_id=arabic.pk)

    def steps(page: Page) -> None:
        sign_in(page)
        page.goto(arabic.get_absolute_url())
        assert page.evaluate(DIRECTION, "h1[data-title]") == "rtl"
        assert page.evaluate(DIRECTION, ".is-user .prose") == "rtl"
        assert page.evaluate(DIRECTION, ".is-assistant .prose ul") == "rtl"
        assert page.evaluate(DIRECTION, ".is-assistant .prose pre") == "ltr"
        assert page.evaluate(SIDES) == ["right", "left"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"/search?q={QUESTION.split()[2]}")
        page.locator(".hit").first.wait_for()
        assert page.evaluate(DIRECTION, ".hit .item-question") == "rtl"
        assert page.evaluate(DIRECTION, "#q") == "rtl"

    chromium.visit(live_server.url, steps, width=390, height=844)
