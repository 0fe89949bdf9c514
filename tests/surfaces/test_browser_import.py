"""Importing in a real browser: from an empty account to the first found turn, drops, bars, refusals, undo."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import FilePayload, Locator, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.conversations import tasks
from convmemory.conversations.importing import queue
from convmemory.conversations.models import Conversation, Import
from search.adapters.conversations import index_conversation
from tests.factories import make_user
from tests.support.importing import run_here
from tests.surfaces.browser import NARROW, WIDE, WIDTHS, Chromium, at_every_width, held

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MOST_CLICKS = 5
QUESTION = "how do I keep a sourdough starter alive?"
ANSWER = "Feed the starter once a week."


def transcript(*turns: tuple[str, str]) -> bytes:
    said = [pair for question, answer in turns for pair in (("user", question), ("assistant", answer))]
    return "".join(json.dumps({"role": role, "content": text}) + "\n" for role, text in said).encode()


def file_of(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


BREAD = file_of("bread.jsonl", transcript((QUESTION, ANSWER)))
DAMAGED = b"PK\x03\x04 no archive"
RYE = file_of("rye.jsonl", transcript(("is rye flour sour?", "Rye is lively.")))


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> None:
    settings.IMPORT_FOLDER = tmp_path / "imports"


class Worker:
    """Does what is enqueued, in a thread of its own, as soon as `may_work` is set."""

    def __init__(self) -> None:
        self.may_work, self.has_indexed = threading.Event(), threading.Event()
        self.asked: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        while (task := self.asked.get()) is not None:
            if self.may_work.wait(60):
                task()
        connection.close()

    def import_one(self, archive_id: int, import_id: int) -> None:
        tasks.run(import_id, archive_id=archive_id)
        for conversation_id in Conversation.objects.values_list("pk", flat=True):
            index_conversation(conversation_id=conversation_id)
        self.has_indexed.set()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    worker = Worker()

    def enqueue_import(*, archive_id: int, import_id: int, started_by: int | None = None) -> None:
        worker.asked.put(lambda: worker.import_one(archive_id, import_id))

    def enqueue_undo(row: Import) -> None:
        worker.asked.put(lambda: tasks.undo_import(row.pk, archive_id=row.archive_id))

    monkeypatch.setattr(queue, "run_child", run_here)
    monkeypatch.setattr("convmemory.conversations.importing.views.enqueue_import", enqueue_import)
    monkeypatch.setattr("convmemory.conversations.tasks.enqueue_import", enqueue_import)
    monkeypatch.setattr("convmemory.conversations.importing.views.enqueue_undo", enqueue_undo)
    worker.may_work.set()
    worker.thread.start()
    yield worker
    worker.asked.put(None)
    worker.thread.join()


@pytest.fixture
def visit(visit: Callable[..., None], worker: Worker) -> Callable[..., None]:
    """Runs steps on the import page."""
    return partial(visit, at="/import")


def card(page: Page, name: str) -> Locator:
    return page.locator(".import").filter(has=page.get_by_role("heading", name=name))


@pytest.mark.essential
def test_from_empty_account_to_first_found_turn(
    chromium: Chromium, live_server: LiveServer, worker: Worker, record_property: Callable[[str, object], None]
) -> None:
    for width in WIDTHS:
        worker.has_indexed.clear()
        began = time.monotonic()
        clicks = first_time(chromium, live_server.url, make_user(f"ada-{width}"), worker, width)
        seconds = round(time.monotonic() - began, 1)
        record_property(f"seconds_to_the_first_found_turn_{width}", seconds)
        print(f"{width} px: {len(clicks)} clicks and {seconds} s from the empty account to the first found turn")
        assert len(clicks) <= MOST_CLICKS, clicks


def first_time(chromium: Chromium, address: str, newcomer: User, worker: Worker, width: int) -> list[str]:
    """Import a first file into an empty account, and return the clicks that it takes."""
    clicks: list[str] = []

    def click(what: Locator) -> None:
        clicks.append(str(what))
        what.click()

    def steps(page: Page) -> None:
        page.goto("/")
        page.get_by_label("Name").fill(newcomer.username)
        page.get_by_label("Password").fill("correct horse")
        click(page.get_by_role("button", name="Sign in"))
        expect(page.get_by_text("Drop files here, or choose them")).to_be_in_viewport()
        expect(page.locator("#list")).to_be_hidden()
        with page.expect_file_chooser() as chooser:
            click(page.locator("[data-drop-form] input#file"))
        clicks.append("the file, in the window of the system")
        chooser.value.set_files([BREAD])
        click(page.get_by_role("link", name="Search what came in"))
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert worker.has_indexed.wait(60)
        page.keyboard.type("keep a sourdough starter alive")
        click(page.locator(".hit").first)
        expect(page.locator("#turn-0")).to_contain_text(QUESTION)
        expect(page.locator("[data-conversation-page]")).to_contain_text(ANSWER)

    chromium.visit(address, steps, width=width, is_last=True)
    return clicks


def queue_follow_and_undo(page: Page, width: int, worker: Worker) -> None:
    page.goto("/import")
    worker.may_work.clear()
    bread, rye = f"bread-{width}.jsonl", f"rye-{width}.jsonl"
    with held(page, lambda url: url.endswith("/import")) as uploads:
        page.locator("input#file").set_input_files([BREAD | {"name": bread}, RYE | {"name": rye}])
        expect(page.locator(".is-uploading")).to_have_count(2)
        expect(page.get_by_role("progressbar", name="Uploaded")).to_have_count(2)
        expect(card(page, rye).locator("[data-upload-waiting]")).to_be_visible()
        expect(card(page, bread).locator("[data-upload-waiting]")).to_be_hidden()
        assert len(uploads) <= 1, "one after the other"
    expect(page.locator(".is-uploading")).to_have_count(0)
    expect(page.locator(".import.is-queued")).to_have_count(2)
    worker.may_work.set()
    for name in (bread, rye):
        expect(card(page, name).get_by_text("imported", exact=True)).to_be_visible()
    expect(page.locator("#results .item")).to_have_count(2)
    card(page, bread).get_by_role("link", name=QUESTION).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    for name in (bread, rye):
        page.goto("/import")
        undo(page, card(page, name))
        expect(card(page, name)).to_contain_text("undone")
    page.goto("/import")
    expect(page.locator(".import.is-undone")).to_have_count(2 * (1 + NARROW.index(width)))


DONE = re.compile(r"^\s*(imported|nothing new: all of it was here)\s*$")
"""At another width the same file is imported again."""


def undo(page: Page, imported: Locator) -> None:
    imported.get_by_text("Undo this import").first.click()
    imported.get_by_role("button", name="Undo this import").click()


DROP = """files => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    for (const kind of ["dragenter", "dragover", "drop"])
        document.querySelector("footer, .how, body").dispatchEvent(
            new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
}"""


def drop_anywhere(page: Page, width: int) -> None:
    page.goto("/import")
    page.evaluate(DROP, [[f"{width}-{name['name']}", name["buffer"].decode()] for name in (BREAD, RYE)])
    for name in (BREAD, RYE):
        expect(card(page, f"{width}-{name['name']}").get_by_text(DONE)).to_be_visible()
    expect(page.locator("body.is-dropping")).to_have_count(0)
    page.goto("/library")
    page.evaluate(DROP, [[f"{width}-tray.jsonl", BREAD["buffer"].decode().replace("starter", f"{width}")]])
    tray = page.get_by_role("region", name="Import", exact=True)
    expect(tray.get_by_text(f"{width}-tray.jsonl").first).to_be_visible()
    expect(tray.get_by_text("imported", exact=True)).to_be_visible()
    tray.get_by_role("button", name="Close").click()
    expect(tray).to_be_hidden()


def test_person_queues_follows_undoes_and_drops_files(visit: Callable[..., None], worker: Worker) -> None:
    at_every_width(visit, lambda page, width: queue_follow_and_undo(page, width, worker), widths=NARROW)
    assert not Conversation.objects.exists()
    at_every_width(visit, drop_anywhere, widths=WIDE)


def see_damaged_archive_refused(page: Page, width: int) -> None:
    page.goto("/import")
    page.locator("input#file").set_input_files([file_of(f"{width}.zip", DAMAGED)])
    expect(page.locator(".import.is-failed").first).to_contain_text(f"{width}.zip")
    failed = card(page, f"{width}.zip")
    expect(failed.locator(".notice.error")).to_contain_text("a damaged archive")
    expect(failed.locator(".notice:not(.error, .warning), .tag.success, .icon-check")).to_have_count(0)
    expect(page.locator("#main")).not_to_contain_text('"state"')
    expect(page).to_have_url(re.compile("/import$"))
    name = f"broken-{width}.zip"
    page.locator("input#file").set_input_files([file_of(name, DAMAGED), BREAD | {"name": f"{width}.jsonl"}])
    expect(card(page, f"{width}.jsonl").get_by_text(DONE)).to_be_visible()
    failed = card(page, name)
    expect(failed.locator(".notice.error")).to_contain_text("a damaged archive")
    expect(failed.locator(".notice:not(.error, .warning), .tag.success, .icon-check")).to_have_count(0)


def keep_large_file_here(page: Page) -> None:
    page.goto("/import")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.locator("input#file").set_input_files([file_of("all.zip", bytes(1024**2 + 1)), BREAD])
    expect(card(page, "all.zip").get_by_text("The file is larger than 1 MB")).to_be_visible()
    expect(page.locator(".import.is-done")).to_have_count(1)
    assert len(sent) == 1


def read_why_upload_is_refused(page: Page) -> None:
    page.goto("/import")
    page.locator("input#file").set_input_files([BREAD, RYE])
    expect(page.locator(".is-uploading .notice.error:visible")).to_have_count(2)
    expect(card(page, "rye.jsonl")).to_contain_text("100 imports of yours have not ended yet")


def send_again_and_cancel(page: Page) -> None:
    page.goto("/import")
    page.route("**/import", lambda route: route.abort(), times=1)
    page.locator("input#file").set_input_files([BREAD])
    expect(card(page, "bread.jsonl").get_by_text("The connection broke off")).to_be_visible()
    with held(page, lambda url: url.endswith("/import")):
        card(page, "bread.jsonl").get_by_role("button", name="Try again").click()
        page.locator("input#file").set_input_files([RYE])
        card(page, "rye.jsonl").get_by_role("button", name="Cancel").click()
        expect(card(page, "rye.jsonl")).to_have_count(0)
    expect(page.locator(".import.is-done")).to_have_count(1)


def test_person_sees_why_files_are_refused_and_sends_again(
    visit: Callable[..., None], owner: User, settings: Settings
) -> None:
    with pytest.raises(AssertionError, match="ERR_FAILED"):  # the browser itself complains of the broken connection
        visit(send_again_and_cancel)
    assert Conversation.objects.count() == 1
    settings.MAX_UPLOAD_MB = 1
    visit(keep_large_file_here)
    at_every_width(visit, see_damaged_archive_refused, widths=NARROW)
    Import.objects.bulk_create(Import(archive_id=owner.pk, name="old.zip", size=1, file="x") for _ in range(100))
    with pytest.raises(AssertionError, match="422"):  # the browser itself complains of a refusal
        visit(read_why_upload_is_refused)


def be_told_elsewhere_and_choose_format(page: Page, width: int, worker: Worker) -> None:
    page.goto("/import")
    worker.may_work.clear()
    name = f"notes-{width}.txt"
    page.locator("input#file").set_input_files(file_of(name, b"Quince wants sun.\n"))
    expect(card(page, name)).to_contain_text("It waits")
    page.goto("/library")
    worker.may_work.set()
    notice = page.locator("#toast")
    expect(notice).to_contain_text(f"{name}: 1 file refused")
    notice.get_by_role("link", name="View").click()
    expect(card(page, name)).to_contain_text("convmemory cannot read this file")
    expect(card(page, name).get_by_text("none of the formats")).to_be_hidden()
    page.get_by_label("Which program is it from?").fill("Markdown of exporters")
    page.get_by_role("button", name="Read it as that").click()
    expect(page.locator(".file-name .tag").last).to_have_text("Markdown of exporters")
    page.goto("/import")


def look_at_unknown_json_first(page: Page, width: int) -> None:
    page.goto("/import")
    question = f"How do I prune quince number {width}?"
    entries = [{"who": "me", "say": question}, {"who": "it", "say": "In late winter, to an open cup."}]
    content = json.dumps({"chats": [{"heading": "Quince", "entries": entries}]}).encode()
    page.locator("input#file").set_input_files(file_of(f"notepal-{width}.json", content))
    shown = card(page, f"notepal-{width}.json")
    expect(shown.get_by_text("1 conversation, 2 messages")).to_be_visible()
    expect(shown.locator("q")).to_have_text(question)
    shown.get_by_text("Where this was found").click()
    shown.get_by_label("Title", exact=True).fill("heading")
    shown.get_by_role("button", name="Look again").click()
    expect(page.get_by_label("Title", exact=True)).to_have_value("heading")
    expect(page.locator("q")).to_have_text(question)
    page.get_by_role("button", name="Yes, import it").click()
    expect(page.get_by_text("imported", exact=True)).to_be_visible()
    page.locator(".came-in").get_by_role("link", name="Quince").click()
    expect(page.get_by_text(question).first).to_be_visible()
    page.goto("/import")


def test_person_chooses_how_unknown_files_are_read(visit: Callable[..., None], worker: Worker) -> None:
    def steps(page: Page, width: int) -> None:
        be_told_elsewhere_and_choose_format(page, width, worker)
        look_at_unknown_json_first(page, width)

    at_every_width(visit, steps, at="/import", widths=NARROW)
    formats = list(Import.objects.order_by("pk").values_list("format", flat=True))
    assert formats[:2] == ["auto", "markdown"]
