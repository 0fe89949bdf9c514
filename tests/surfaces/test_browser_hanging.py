"""A browser that hangs costs one test, and not the whole run."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Error, Page, expect

from tests.surfaces import browser

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_visit_that_hangs_fails_and_next_one_gets_new_browser(
    visit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(page: Page) -> None:
        page.evaluate("new Promise(() => {})")

    def look(page: Page) -> None:
        expect(page.locator("body")).to_be_visible()

    with monkeypatch.context() as patched:
        patched.setattr(browser, "VISIT_S", 5.0)
        with pytest.raises(AssertionError, match="hung for 5 seconds") as failure:
            visit(hang)
    assert isinstance(failure.value.__cause__, Error)
    visit(look)
