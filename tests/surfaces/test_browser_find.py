"""Finding words in a long conversation in a real browser: from where one is, on the page, and back."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from convmemory.conversations.models import Conversation, Message
from tests.factories import exchange, make_conversation
from tests.surfaces.browser import at_every_width

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKED = 'CSS.highlights.get("found-words")?.size ?? 0'


@pytest.fixture
def long(owner: User) -> Conversation:
    pairs = [(f"which currency, {number}?", f"The currency of {number}.") for number in range(300)]
    return make_conversation(owner, exchange(*pairs), title="Budgets")


def test_find_counts_all_turns_and_steps_from_where_one_is(visit: Callable[..., None], long: Conversation) -> None:
    with_word = Message.objects.filter(conversation=long, parts__icontains="currency").values("turn_number")
    count = with_word.distinct().count()
    assert count == 300

    def steps(page: Page, _: int) -> None:
        field = page.get_by_role("searchbox", name="Find in this conversation")
        shown = page.locator("[data-find-count]")
        page.keyboard.press("f")
        expect(field).to_be_focused()
        expect(field).to_be_in_viewport()
        page.keyboard.type("currency")
        expect(shown).to_have_text(f"151 / {count}")
        expect(page.locator("#turn-150")).to_be_in_viewport()
        assert page.evaluate(MARKED) >= 40
        page.keyboard.press("Enter")
        expect(shown).to_have_text(f"152 / {count}")
        expect(page.locator("#turn-151 #passage")).to_be_in_viewport()
        expect(field).to_be_focused()
        page.keyboard.press("Shift+Enter")
        page.keyboard.press("Shift+Enter")
        expect(shown).to_have_text(f"150 / {count}")
        expect(page.locator("#turn-149 #passage")).to_be_in_viewport()
        expect(field).to_be_in_viewport()
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary", name="Outline")).to_be_hidden()
        expect(page.locator("#turn-150")).to_be_in_viewport()
        expect(page).to_have_url(f"{long.get_absolute_url()}?turn=150")
        assert page.evaluate(MARKED) == 0

    at_every_width(visit, steps, at=f"{long.get_absolute_url()}?turn=150")


def test_find_goes_round_and_says_if_nothing_has_the_words(visit: Callable[..., None], long: Conversation) -> None:
    def steps(page: Page) -> None:
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

    visit(steps, at=f"{long.get_absolute_url()}?turn=150")
