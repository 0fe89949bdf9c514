"""Finding words in a long conversation in a real browser: from where one is, on the page, and back."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation, Message
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import NARROW, at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKED = 'CSS.highlights.get("found-words")?.size ?? 0'


@pytest.fixture
def long(owner: User) -> Conversation:
    pairs = [(f"which currency, {number}?", f"The currency of {number}.") for number in range(300)]
    return make_conversation(owner, exchange(*pairs), title="Budgets")


def step_from_where_one_is(page: Page, long: Conversation) -> None:
    page.goto(f"{long.get_absolute_url()}?turn=150")
    field = page.get_by_role("searchbox", name="Find in this conversation")
    shown = page.locator("[data-find-count]")
    page.keyboard.press("f")
    expect(field).to_be_focused()
    expect(field).to_be_in_viewport()
    page.keyboard.type("currency")
    expect(shown).to_have_text("151 / 300")
    expect(page.locator("#turn-150")).to_be_in_viewport()
    assert page.evaluate(MARKED) >= 40
    page.keyboard.press("Enter")
    expect(shown).to_have_text("152 / 300")
    expect(page.locator("#turn-151 #passage")).to_be_in_viewport()
    expect(field).to_be_focused()
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    expect(shown).to_have_text("150 / 300")
    expect(page.locator("#turn-149 #passage")).to_be_in_viewport()
    expect(field).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Outline")).to_be_hidden()
    expect(page.locator("#turn-150")).to_be_in_viewport()
    expect(page).to_have_url(f"{long.get_absolute_url()}?turn=150")
    assert page.evaluate(MARKED) == 0


def go_round_and_find_nothing(page: Page, long: Conversation) -> None:
    page.goto(f"{long.get_absolute_url()}?turn=150")
    shown = page.locator("[data-find-count]")
    page.keyboard.press("f")
    page.keyboard.type("of 29")
    expect(shown).to_have_text("3 / 13")
    for place in (2, 1, 13):
        page.keyboard.press("Shift+Enter")
        expect(shown).to_have_text(f"{place} / 13")
    expect(page.locator("#turn-299")).to_be_in_viewport()
    page.keyboard.type("7 fences")
    expect(shown).to_have_text("0 / 0")
    expect(page.get_by_role("complementary", name="Outline").get_by_role("status")).to_contain_text(
        "“of 297 fences” does not occur here."
    )


MARKED_WORDS = {
    "lock_timeout": ["lock_timeout"] * 3, "lock": ["lock", "lock", "lock", "Lock"], "締め切り": ["締め切り"]
}  # fmt: skip
ARE_MARKED = """(words) => {
  const ranges = [...(CSS.highlights.get("found-words") ?? [])];
  return JSON.stringify(ranges.map((range) => range.toString())) === JSON.stringify(words);
}"""


def mark_all_that_is_counted(page: Page, locks: Conversation) -> None:
    for word, words in MARKED_WORDS.items():
        page.goto(f"/conversations/{locks.pk}?turn=0")
        page.keyboard.press("f")
        panel = page.get_by_role("complementary", name="Outline")
        expect(panel.get_by_role("searchbox")).to_be_focused()
        page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')")
        panel.get_by_role("searchbox").fill(word)
        page.keyboard.press("Enter")
        expect(panel.get_by_role("status")).to_contain_text(f"1 turn with “{word}”")
        page.wait_for_function(ARE_MARKED, arg=words)


def test_reader_finds_words_in_long_conversation(visit: Callable[..., None], long: Conversation, owner: User) -> None:
    with_word = Message.objects.filter(conversation=long, parts__icontains="currency").values("turn_number")
    assert with_word.distinct().count() == 300
    answer = "Leave deadlock_timeout, set lock_timeout. Locks end. 締め切りは明日です。"
    locks = make_conversation(owner, exchange(("lower deadlock_timeout?", answer)), title="Locks")
    index_conversation(conversation_id=locks.pk)

    def on_desk(page: Page) -> None:
        go_round_and_find_nothing(page, long)
        mark_all_that_is_counted(page, locks)

    at_every_width(visit, lambda page, _: step_from_where_one_is(page, long), widths=NARROW)
    visit(on_desk)
