"""A real headless Chromium for tests, driven from a thread of its own.

Playwright's synchronous interface runs an event loop in the thread that uses it, and Django refuses to touch
the database in such a thread. So the browser lives in one worker thread, and a test hands it functions that
take a page; the test's own thread keeps the database.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Route, sync_playwright

from tests.surfaces.requests_under_way import all_answered

T = TypeVar("T")
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
TIMEOUT_MS = 10_000
WIDTHS = (1440, 1024, 768, 390)
"""The widths of the windows that people have, in pixels."""

ONE_PANE = 720
"""Up to this width a page shows the list or what is read, never both."""

PHONE = {"width": 390, "height": 844}
Steps = Callable[[Page], None]


def chromium_path() -> str:
    """Where Chromium is. Skips the test where there is none, or fails it where CI is set."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    reason = "no Chromium: install Debian's package `chromium`, or name the program in CHROMIUM"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Chromium:
    """One running browser; every visit gets a fresh profile."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
        self._playwright: Playwright
        self._browser: Browser
        self._thread.submit(self._start, path).result()

    def _start(self, path: str) -> None:
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))

    def close(self) -> None:
        self._thread.submit(self._stop).result()
        self._thread.shutdown()

    def _stop(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def visit(
        self,
        address: str,
        steps: Callable[[Page], T],
        *,
        width: int = 1280,
        height: int = 800,
        javascript: bool = True,
    ) -> T:
        """Run `steps` on a page of the site at `address`; scripts that fail or are refused fail the test."""
        with all_answered():
            return self._thread.submit(self._visit, address, steps, width, height, javascript).result()

    def _visit(self, address: str, steps: Callable[[Page], T], width: int, height: int, javascript: bool) -> T:
        context = self._browser.new_context(
            base_url=address, viewport={"width": width, "height": height}, java_script_enabled=javascript
        )
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: _note(message, complaints))
        try:
            result = steps(page)
        except BaseException as error:
            picture = Path(tempfile.gettempdir()) / f"convmemory-browser-{os.getpid()}.png"
            page.screenshot(path=picture)
            error.add_note(f"at {page.url}, see {picture}; complaints: {complaints}")
            raise
        finally:
            context.close()
        assert not complaints, complaints
        return result


def _note(message: ConsoleMessage, complaints: list[str]) -> None:
    is_replaced_request = message.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))
    if message.type == "error" and not is_replaced_request:
        complaints.append(message.text)


def sign_in(page: Page, *, at: str = "/login", name: str = "ada") -> None:
    """Sign in and wait until the page that this leads to is there with its scripts: no step meets the one before."""
    page.goto(at)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/login" not in url)


def at_every_width(steps: Callable[[Page, int], None], *, widths: Sequence[int] = WIDTHS) -> Steps:
    """The steps in a window of each width, one after the other in one visit, from the home page on."""

    def at_all(page: Page) -> None:
        for width in widths:
            page.set_viewport_size({"width": width, "height": 844})
            page.goto("/")
            try:
                steps(page, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                    "the page is wider than its window"
                )
            except BaseException as error:
                error.add_note(f"in a window of {width} pixels")
                raise

    return at_all


def is_deferred_script(url: str) -> bool:
    return url.endswith(".js") and not url.endswith("/early.js")


@contextmanager
def held(page: Page, wanted: Callable[[str], bool]) -> Iterator[list[Route]]:
    """Requests to the addresses that are wanted wait until the block ends."""
    waiting: list[Route] = []
    page.route(wanted, lambda route: waiting.append(route))
    yield waiting
    for route in waiting:
        route.continue_()
    page.unroute(wanted)
