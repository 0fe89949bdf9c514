"""A real headless Chromium for tests, driven from a thread of its own.

Playwright's synchronous interface runs an event loop in the thread that uses it, and Django refuses to touch
the database in such a thread. So the browser lives in one worker thread, and a test hands it functions that
take a page; the test's own thread keeps the database.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Route,
    expect,
    sync_playwright,
)

from tests.support.patience import ANSWER_S
from tests.surfaces.requests_under_way import all_answered

if TYPE_CHECKING:
    from django.contrib.auth.models import User

T = TypeVar("T")
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is installed drives the tests; the shell has no interface and takes a third less processor time."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--font-render-hinting=none",  # as on a desktop; else the shell's letters are a little wider
    "--process-per-site",  # a page of a kept profile starts in the process of the profile's first page
)
TIMEOUT_MS = 1_000 * ANSWER_S
expect.set_options(timeout=TIMEOUT_MS)
VISIT_S = 600.0  # that a visit takes at most; the longest ones take one minute, or a few on a busy machine
ALL_WIDTHS = (1440, 1024, 768, 390)
"""The widths of windows in pixels, the widest first."""

WIDTHS = ALL_WIDTHS if "EVERY_WIDTH" in os.environ else (ALL_WIDTHS[0], ALL_WIDTHS[-1])
"""The widths at which pages are visited; all four in `make release-check`."""

WIDE = ALL_WIDTHS if "EVERY_WIDTH" in os.environ else WIDTHS[:1]
NARROW = ALL_WIDTHS if "EVERY_WIDTH" in os.environ else WIDTHS[-1:]
"""The widths of journeys whose scripts do the same at each: one of them, and all four in `make release-check`."""

ONE_PANE = 720
"""Up to this width a page shows the list or what is read, never both."""

UNFOLD = "document.querySelectorAll('#main details').forEach(fold => (fold.open = true))"
"""Opens everything on the page that can be."""

WITHOUT_HASTE = """(() => {
  const later = setTimeout;
  window.setTimeout = (work, ms, ...rest) => later(work, ms >= 2000 ? 600000 : ms, ...rest);
})()"""
"""What a page shows or offers for some seconds, it shows for ten minutes."""

QUICK_POLLS = """(() => {
  const later = setTimeout;
  const isPoll = ms => ms === 2000 && new Error().stack.includes("/htmx");
  window.setTimeout = (work, ms, ...rest) => later(work, isPoll(ms) ? 200 : ms, ...rest);
})()"""
"""What pages ask for every two seconds, the progress of work, they ask for five times a second: tests wait for it."""

SHIFT = """window.shift = 0; window.shifted = new Set(); new PerformanceObserver(list => {
  const name = ({node}) => node?.id || node?.className || node?.nodeName;
  for (const entry of list.getEntries().filter(entry => !entry.hadRecentInput)) {
    window.shift += entry.value;
    entry.sources.forEach(source => shifted.add(name(source)));
  }
}).observe({type: "layout-shift", buffered: true});"""
"""Adds up how far the page moves what is on it, while nobody uses it, and names what moved."""
MOST_SHIFT = 0.01

SETTLED = """async () => {
  const isUnderWay = (one) => one.playState === "running" && one.effect.getTiming().iterations !== Infinity;
  const until = performance.now() + 10_000;
  const isBusy = () => document.querySelector("#main[aria-busy], .htmx-request");
  const isMoving = () => document.getAnimations().some(isUnderWay) || isBusy();
  for (let still = 0; still < 2; still = isMoving() ? 0 : still + 1) {
    if (performance.now() > until) throw new Error("The page does not come to rest.");
    await Promise.race([new Promise(requestAnimationFrame), new Promise(done => setTimeout(done, 1_000))]);
  }
}"""
"""Until what htmx loads is there, also the reading pane, which is dimmed meanwhile, and no colour is on its way to
another: one that is inherited follows a frame later. A page that Chromium does not draw has no frames. To wait for an
idle network takes half a second more on each page."""

PHONE = {"width": 390, "height": 844}
Steps = Callable[[Page], None]


def chromium_path() -> str:
    """Return the path of Chromium. Without one, skip the test, or fail it if CI is set."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    reason = "no Chromium: install the package `chromium-headless-shell` or `chromium`, or name the program in CHROMIUM"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


FIRST_PAGE = "/static/img/favicon.svg"
"""Kept open in a kept profile: without a page of the site its process would end with each visit."""


class Chromium:
    """One running browser; every visit gets an empty profile and a new tab.

    Visits of one site share a profile that is emptied behind each, because a new one costs most of a short visit: the
    process of its pages and everything that they load, 0.6 s of 1.2.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
        self._playwright: Playwright
        self._browser: Browser
        self._kept: dict[tuple[str, bool], BrowserContext] = {}
        self._thread.submit(self._start).result()

    def _start(self) -> None:
        self._playwright = sync_playwright().start()
        self._launch()

    def _launch(self) -> None:
        self._kept.clear()
        self._browser = self._playwright.chromium.launch(executable_path=self._path, args=list(ARGUMENTS))

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
        visitor: "User | None" = None,
        at: str = "/",
        width: int = 1280,
        height: int = 800,
        javascript: bool = True,
        is_last: bool = False,
    ) -> T:
        """Run `steps` on a page of the site at `address`; scripts that fail or are refused fail the test.

        With a `visitor` the steps begin signed in on the page `at`, otherwise on an empty one. A visit that hangs fails
        after `VISIT_S`, and the next one gets a new browser: few of Playwright's calls have a timeout of their own.
        After a visit that `is_last`, no other keeps its profile: the site ends, or the steps change what no profile
        forgets, such as the clock.
        """
        session = session_of(visitor) if visitor else ""
        with all_answered():
            visited = self._thread.submit(
                self._visit, address, steps, session=session, at=at, size=(width, height), javascript=javascript,
                is_last=is_last,
            )  # fmt: skip
            if not wait([visited], VISIT_S).done:
                _kill_browsers()
                raise AssertionError(f"The visit hung for {VISIT_S:.0f} seconds.") from visited.exception(VISIT_S)
            return visited.result()

    def _visit(
        self,
        address: str,
        steps: Callable[[Page], T],
        *,
        session: str,
        at: str,
        size: tuple[int, int],
        javascript: bool,
        is_last: bool,
    ) -> T:
        if not self._browser.is_connected():
            self._launch()
        key = (address, javascript)
        context = self._kept.pop(key, None) or self._new_context(address, javascript=javascript, is_last=is_last)
        page = context.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: _note(message, complaints))
        try:
            if session:
                context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
                page.goto(at)
            result = steps(page)
        except BaseException as error:
            picture = Path(tempfile.gettempdir()) / f"convmemory-browser-{os.getpid()}.png"
            page.screenshot(path=picture)
            error.add_note(f"at {page.url}, see {picture}; complaints: {complaints}")
            context.close()
            raise
        if is_last:
            context.close()
        else:
            _empty(context, address)
            self._kept[key] = context
        assert not complaints, complaints
        return result

    def _new_context(self, address: str, *, javascript: bool, is_last: bool) -> BrowserContext:
        context = self._browser.new_context(
            base_url=address, java_script_enabled=javascript, permissions=["clipboard-read", "clipboard-write"]
        )
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(QUICK_POLLS)
        if not is_last:
            context.new_page().goto(FIRST_PAGE)
        return context


def _empty(context: BrowserContext, address: str) -> None:
    """Close all pages but the first, and delete the cookies and what pages have stored."""
    first, *others = context.pages
    for page in others:
        page.close()
    context.clear_cookies()
    deleting = context.new_cdp_session(first)
    deleting.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": "all"})
    deleting.detach()


def _kill_browsers() -> None:
    """Whatever waits for them then fails, and says where it was."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # the first one's end is that of the others
            if "chrom" in process.name():
                process.kill()


def _note(message: ConsoleMessage, complaints: list[str]) -> None:
    is_replaced_request = message.text.startswith(("htmx:sendAbort", "htmx:afterRequest"))
    if message.type == "error" and not is_replaced_request:
        complaints.append(message.text)


def session_of(user: "User") -> str:
    """Return the key of a new session of the user, as the sign-in form leaves it in a cookie."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def at_every_width(
    visit: Callable[..., None],
    steps: Callable[[Page, int], None],
    *,
    at: str = "/",
    widths: Sequence[int] = WIDTHS,
    **options: Any,
) -> None:
    """Run the steps in a window of each width, one after the other in one visit, each time from the page `at` on.

    What they change is still so in the next window. `options` are those of `Chromium.visit`.
    """

    def walk(page: Page) -> None:
        for width in widths:
            if width != widths[0]:
                page.set_viewport_size({"width": width, "height": PHONE["height"]})
                page.goto(at)
            try:
                steps(page, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                    "the page is wider than its window"
                )
            except BaseException as error:
                error.add_note(f"in a window of {width} pixels")
                raise

    visit(walk, at=at, width=widths[0], height=PHONE["height"], **options)


def expect_to_fit(page: Page, where: str, widths: Sequence[int] = ALL_WIDTHS) -> None:
    """The page as it is, in windows of these widths, is nowhere wider than its window, nor scrolled to a side."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": PHONE["height"]})
        page.wait_for_function("width => innerWidth === width", arg=width)
        wide, left = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollLeft]")
        assert (wide <= width, left) == (True, 0), f"{where}: {wide} pixels wide in a window of {width}"


def without_haste(page: Page) -> None:
    """Opens the page again, with time for a test that the machine pauses: nothing goes by before it was looked at."""
    page.add_init_script(WITHOUT_HASTE)
    page.reload()


def is_deferred_script(url: str) -> bool:
    return url.endswith(".js") and not url.endswith("/early.js")


@contextmanager
def held(page: Page, wanted: Callable[[str], bool]) -> Iterator[list[Route]]:
    """Requests to the addresses that are wanted wait until the block ends. One that comes as it ends does not."""
    waiting: list[Route] = []
    take: Callable[[Route], None] = waiting.append
    page.route(wanted, lambda route: take(route))
    yield waiting
    take = Route.continue_
    for route in waiting:
        route.continue_()
    page.unroute(wanted)
