"""The pages that pictures are taken of: their addresses, and the steps before a picture is taken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.pictures.visitors import NEWCOMER, OWNER, WELL
from tests.support.installation import ROOT
from tests.surfaces.browser import SETTLED

Steps = Callable[[Page], None]
QUERY = "why+did+payments+deadlock"
QUESTION = "why did closing invoices deadlock with payments?"
SEARCH = f"/search?q={QUERY}"


def _nothing(page: Page) -> None:
    """The page as it is loaded."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One page: `name` is its file, `visitor` the signed-in user, "" none; `steps` run once it is loaded."""

    name: str
    title: str
    address: str
    visitor: str = OWNER
    steps: Steps = _nothing


def _select_result(page: Page) -> None:
    page.locator(".hit").first.wait_for()
    if page.viewport_size and page.viewport_size["width"] >= 768:
        page.keyboard.press("ArrowDown")
        page.locator("[data-preview]").first.wait_for()


def ask(page: Page) -> None:
    """Let the model answer, and select the first turn that it cites where there is room for it."""
    page.locator("[data-ask-button]").click()
    page.locator(".answer-cited li").first.wait_for()
    if page.viewport_size and page.viewport_size["width"] >= 768:
        page.locator("[data-preview]").first.wait_for()
    page.evaluate(SETTLED)


def _open_chip(page: Page) -> None:
    page.locator(".chip-menu summary").first.click()
    page.locator(".chip-menu[open] .choice-row").first.wait_for()


def _choose_rows(page: Page) -> None:
    boxes = page.locator("[data-choose]:visible")
    for number in range(3):
        boxes.nth(number).check()


def _open_outline(page: Page) -> None:
    page.locator("[data-outline-link]").click()
    page.locator(".outline-panel .outline-rows").wait_for()


def _open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("deadlock")
    page.locator(".palette-entry", has_text="Search for “deadlock”").wait_for()
    page.locator(".palette-entry.is-chosen").wait_for()


def _open_keys(page: Page) -> None:
    page.keyboard.press("?")
    page.locator("#keys-dialog dl").wait_for()


def _see_table(page: Page) -> None:
    page.locator("#swagger-ui .opblock").first.wait_for()


def _name_no_folder(page: Page) -> None:
    """The page as it is where the program is installed, not where the pictures are taken."""
    page.evaluate(
        """(folder) => {
          const walker = document.createTreeWalker(document.querySelector("#main"), NodeFilter.SHOW_TEXT);
          const shown = (text) => text.replaceAll(folder, "/srv/convmemory");
          while (walker.nextNode()) walker.currentNode.data = shown(walker.currentNode.data);
        }""",
        str(ROOT),
    )


def shots_of(ids: Mapping[str, int | str], consent: str = "/authorize") -> list[Shot]:
    """Every page, for an archive with these ids, and the address at which a program asks for access."""
    coding, reading = f"/conversations/{ids['coding']}", f"/conversations/{ids['reading']}"
    document, imported = f"/documents/{ids['document']}", f"/import/{ids['import']}"
    rows = "/admin/conversations/conversation", "/admin/search/itemembedding"
    return [
        Shot("first-time", "The first time", "/", visitor=NEWCOMER),
        Shot("home", "Home", "/"),
        Shot("month", "A month", "/search?after=2026-05-01&before=2026-05-31"),
        Shot("search", "Search", SEARCH, steps=_select_result),
        Shot("answer", "An answer and its evidence", f"/search?{urlencode({'q': QUESTION})}", steps=ask),
        Shot("search-filters", "Filters", f"{SEARCH}&agent=claude-code", steps=_open_chip),
        Shot("search-nothing", "Nothing found", "/search?q=zzqqxx+blorf"),
        Shot("palette", "Go anywhere", "/", steps=_open_palette),
        Shot("keys", "Keys", "/", steps=_open_keys),
        Shot("library", "Library", "/library"),
        Shot("library-chosen", "Library, some chosen", "/library", steps=_choose_rows),
        Shot("conversation", "A conversation", f"{reading}?turn=0"),
        Shot(
            "conversation-turn",
            "A turn of a coding agent, found by a search",
            f"{coding}?turn=3&q={QUERY}",
        ),
        Shot("files", "Files of a project", f"/files?project={WELL}"),
        Shot("file", "A file and the turns that wrote its lines", f"/files/one?project={WELL}&path=src/pump.py"),
        Shot("conversation-files", "Files of a conversation", f"/conversations/{ids['edits']}/files"),
        Shot("summaries", "Summaries", f"{coding}/summaries"),
        Shot("context", "What a model would get", f"{coding}/context"),
        Shot("delete", "Deleting a conversation", f"{coding}/delete"),
        Shot("trash", "Trash", "/trash"),
        Shot("retention-rules", "Rules for old conversations", "/trash/rules"),
        Shot("share", "Sharing a conversation", f"{reading}/share"),
        Shot("shared", "A shared conversation", f"/shared/{ids['shared']}"),
        Shot("move", "Moving a conversation to a space", f"/move?conversation={ids['reading']}"),
        Shot("new-chat", "A new chat", "/chat"),
        Shot("chat", "A chat", f"/conversations/{ids['chat']}"),
        Shot("outline", "Outline of a conversation", f"{coding}?turn=3", steps=_open_outline),
        Shot("documents", "Documents", "/documents"),
        Shot("document", "A document", f"{document}?section=1"),
        Shot("attached", "Documents of a conversation", f"{reading}/documents"),
        Shot("recall", "Recall", f"/recall?query={QUERY}&max_tokens=600"),
        Shot("import", "Import", "/import"),
        Shot("one-import", "One import", imported),
        Shot("statistics", "Statistics", "/statistics"),
        Shot("account", "Account", "/settings/account"),
        Shot("appearance", "Appearance", "/settings/appearance"),
        Shot("agents", "Agents", "/agents"),
        Shot("agent", "An agent", "/agents/new"),
        Shot("connect", "Connect an agent", "/settings/connect", steps=_name_no_folder),
        Shot("api-keys", "API keys", "/settings/keys"),
        Shot("share-links", "Shared links", "/settings/links"),
        Shot("spaces", "Spaces", "/spaces"),
        Shot("space", "A space", f"/spaces/{ids['space']}"),
        Shot("join-space", "Joining a space by a link", f"/spaces/join/{ids['joining']}"),
        Shot("consent", "A program asks for access", consent),
        Shot("data", "Your data", "/settings/data"),
        Shot("password", "Password", "/settings/password"),
        Shot("second-factor", "Second factor and passkeys", "/settings/second-factor"),
        Shot("sessions", "Where you are signed in", "/settings/sessions"),
        Shot("delete-account", "Deleting an account", "/settings/account/delete"),
        Shot("sign-in", "Sign in", "/login", visitor=""),
        Shot("not-found", "Nothing here", "/conversations/999999"),
        Shot("api-docs", "API documentation", "/api/v1/docs", steps=_see_table),
        Shot("components", "Components", "/design"),
        Shot("admin", "Administration", "/admin/"),
        Shot("admin-dashboard", "Dashboard", "/admin/dashboard/"),
        Shot("admin-map", "Map of turns", f"/admin/dashboard/map?owner={OWNER}"),
        Shot("admin-list", "A list of the administration", f"{rows[0]}/"),
        Shot("admin-row", "A row of the administration", f"{rows[0]}/{ids['coding']}/change/"),
        Shot("admin-embeddings", "Embeddings", f"{rows[1]}/"),
        Shot(
            "admin-embedding",
            "An embedding with its neighbours",
            f"{rows[1]}/{ids['embedding']}/change/",
        ),
    ]
