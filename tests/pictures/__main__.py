"""Takes the pictures: starts the product on a scratch folder, fills it, drives Chromium over it.

`--only NAME ...` takes some pages alone (`readme`: those of README.md), `--whole FOLDER` also keeps each picture by
itself, in full size. `--archive FOLDER` keeps the filled and indexed archive there, and the next run starts from it.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.pictures.pages import QUESTION, Shot, ask, shots_of
from tests.pictures.sheets import SIZES, save_sheet, save_small, write_index
from tests.pictures.visitors import EDITS, GUIDE, NEWCOMER, OWNER, PASSWORD, SESSION, WELL
from tests.support.chat_server import Script, running_chat_server, says
from tests.support.installation import ROOT, Installation, running_installation
from tests.support.patience import wait_until
from tests.surfaces.browser import ARGUMENTS, SETTLED, chromium_path

IMAGES, PAGES = ROOT / "docs/images", ROOT / "docs/images/pages"
SAMPLES = ROOT / "convmemory/conversations/samples"
STANDSTILL_S = 300  # without one more conversation imported or one more item embedded
CALLBACK = "http://localhost:9999/callback"
README_SIZE: ViewportSize = {"width": 1280, "height": 800}
README = "readme"
CITED = (
    ("Both jobs took the same locks in opposite order", "a classic lock-order inversion between two transactions"),
    ("Since then each locks accounts first, by id, and then invoices", "`closeBatch` now locks every account"),
)
ANSWER = """Two things, from what you worked out in *Deadlock in billing-service*:

1. Both jobs take the row locks of `payments` in the **same order**, by id.
2. `lock_timeout` is set for the job alone, not for the whole role.

```sql
SET LOCAL lock_timeout = '2s';
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--whole", type=Path, metavar="FOLDER")
    parser.add_argument("--archive", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="convmemory-pictures-") as name, running_chat_server() as endpoint:
        folder = given.archive or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        model = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "llama3.1:8b"}
        with running_installation(folder, {**model, "SAMPLES": "1", "LOG_LEVEL": "WARNING"}) as installation:
            filled = folder / "ids.json"
            ids = json.loads(filled.read_text()) if filled.exists() else fill(installation)
            with chromium() as browser:
                visitors = {who: signed_in(browser, installation, who) for who in (OWNER, NEWCOMER)}
                visitors[""] = browser.new_context(base_url=installation.address)
                if "chat" not in ids:
                    endpoint.scripts.append(says(ANSWER))
                    ids["chat"] = chat(visitors[OWNER].new_page())
                    filled.write_text(json.dumps(ids))
                    wait_for_index(visitors[OWNER].new_page())  # of the chat, too
                endpoint.otherwise = cited_answer
                shots = [
                    shot
                    for shot in shots_of(ids, consent_address(installation))
                    if not given.only or shot.name in given.only
                ]
                with ThreadPoolExecutor(1) as packing:  # a sheet is packed while the next page is looked at
                    saved = [
                        packing.submit(save_sheet, PAGES / f"{shot.name}.webp", taken)
                        for shot, taken in pictures(shots, visitors, given.whole)
                    ]
                    for sheet in saved:
                        sheet.result()
                if not given.only or README in given.only:
                    pictures_of_the_readme(visitors[OWNER].new_page())
                if not given.only:
                    write_index(ROOT / "docs/pages.md", shots)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(ARGUMENTS))
        yield browser
        browser.close()


def fill(installation: Installation) -> dict[str, int | str]:
    """The archive that the pictures show, indexed; the ids of what pages are asked by."""
    key = installation.manage("create_api_key", OWNER).split()[-1]
    with httpx2.Client(
        base_url=f"{installation.address}/api/v1",
        headers={"Authorization": f"Bearer {key}"},
        trust_env=False,
        timeout=90,  # the route of imports waits for 60
    ) as api:
        wait_for_all(lambda: samples_left(api), "another sample conversation")
        ids: dict[str, int | str] = json.loads(in_django(installation, "prepare").splitlines()[-1])
        ids["document"] = api.post("/documents", files={"file": ("bike-counters.md", GUIDE.encode())}).json()["id"]
        lines = "\n".join(json.dumps(message) for message in SESSION).encode()
        api.post("/imports", files={"file": ("bike-export.jsonl", lines)}).raise_for_status()
        session = {"title": "The pump of the well", "agent": "claude-code", "project": WELL, "messages": EDITS}
        ids["edits"] = api.post("/conversations", json=session).raise_for_status().json()["id"]
        for title in ("Seating plan of the choir", "Draft of a cover letter"):
            said = [{"role": "user", "content": title}, {"role": "assistant", "content": "Here it is."}]
            gone = api.post("/conversations", json={"title": title, "messages": said}).json()["id"]
            api.delete(f"/conversations/{gone}").raise_for_status()
        api.post(f"/conversations/{ids['coding']}/summaries", json={"method": "extractive"}).raise_for_status()
        link = api.post(f"/conversations/{ids['reading']}/share_links", json={"audience": "people"}).json()
        ids["shared"] = link["url"].rpartition("/")[2]
        wait_for_all(lambda: api.get("/index/status").json()["pending"], "another embedded item")
    ids |= json.loads(in_django(installation, "complete").splitlines()[-1])
    return ids


def consent_address(installation: Installation) -> str:
    """Register a program, and return the address at which it asks a user for access."""
    program = {"client_name": "Gardener", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    registered = (
        httpx2.post(f"{installation.address}/register", json=program, trust_env=False).raise_for_status().json()
    )
    asked = {
        "response_type": "code", "client_id": registered["client_id"], "redirect_uri": CALLBACK, "state": "1",
        "code_challenge": "A" * 43, "code_challenge_method": "S256", "resource": f"{installation.address}/mcp",
    }  # fmt: skip
    return f"/authorize?{urlencode(asked)}"


def samples_left(api: httpx2.Client) -> int:
    """Return how many of the sample conversations the worker still has to import."""
    imported = api.get("/conversations", params={"limit": 100}).json()["results"]
    return len(list(SAMPLES.glob("*.json"))) - len(imported)


def wait_for_all(left: Callable[[], int], what: str) -> None:
    """Wait until nothing is left, as long as it becomes less: how fast it does depends on what else runs."""
    while (before := left()) > 0:
        wait_until(lambda: left() < before, what, STANDSTILL_S)


def in_django(installation: Installation, function: str) -> str:
    code = f"from tests.pictures import archive; archive.{function}()"
    return installation.manage("shell", "--verbosity", "0", "-c", code)


def signed_in(browser: Browser, installation: Installation, name: str) -> BrowserContext:
    context = browser.new_context(base_url=installation.address)
    page = context.new_page()
    page.goto("/login")
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".rail").wait_for()
    page.close()
    return context


def chat(page: Page) -> int:
    """The id of a chat with one answer."""
    page.goto("/chat")
    page.locator("#message").fill("What did we change so that the payments job does not deadlock again?")
    page.locator("[data-send]").click()
    page.wait_for_url("**/conversations/*")
    page.locator(".message.is-assistant pre").first.wait_for()
    number = int(page.url.partition("/conversations/")[2].partition("?")[0].partition("#")[0])
    page.close()
    return number


def wait_for_index(page: Page) -> None:
    """Return once the progress bar of the index, which names what waits, is gone."""
    progress = "<progress"
    wait_until(lambda: progress not in page.request.get("/index/progress").text(), "the index", STANDSTILL_S)
    page.close()


def pictures(
    shots: Sequence[Shot], visitors: Mapping[str, BrowserContext], whole: Path | None
) -> Iterator[tuple[Shot, dict[tuple[str, int], bytes]]]:
    """Yield each page with its pictures, by scheme and width."""
    for shot in shots:
        page = visitors[shot.visitor].new_page()
        taken: dict[tuple[str, int], bytes] = {}
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme="light", reduced_motion="reduce")
            answer = page.goto(shot.address)
            if answer and "sandbox" not in answer.headers.get("content-security-policy", ""):
                page.evaluate(SETTLED)  # where a policy allows no script, no timer that it waits for would fire
            shot.steps(page)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                taken[scheme, width] = page.screenshot(animations="disabled", caret="hide")
                if whole:
                    whole.mkdir(parents=True, exist_ok=True)
                    (whole / f"{shot.name}-{width}-{scheme}.png").write_bytes(taken[scheme, width])
        page.close()
        print(shot.name, flush=True)
        yield shot, taken


def cited_answer(asked: dict[str, Any]) -> Script:
    """Return the sentences whose quotations are in the evidence that the model is asked with, each with its number."""
    evidence = asked["messages"][1]["content"]
    sentences = []
    for sentence, quote in CITED:
        number = evidence.split(quote)[0].rpartition("\n[")[2].partition("]")[0]
        sentences.append(f'{sentence}. [{number} "{quote}"]')
    return says("\n".join(sentences))


def pictures_of_the_readme(page: Page) -> None:
    """Two pages in a size to read them in."""
    page.set_viewport_size(README_SIZE)
    for name, address in (
        ("search", f"/search?{urlencode({'q': QUESTION})}"),
        ("recall", "/recall?query=payments+deadlock"),
    ):
        page.goto(address)
        page.evaluate(SETTLED)
        if name == "search":
            ask(page)
        save_small(IMAGES / f"{name}.png", page.screenshot(animations="disabled", caret="hide"))
    page.close()


if __name__ == "__main__":
    main()
