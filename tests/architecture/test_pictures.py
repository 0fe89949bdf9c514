"""The pictures of docs/pages.md: every page has one, and every picture is shown."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.urls import URLPattern, get_resolver

from tests.pictures.pages import shots_of

ROOT = Path(__file__).resolve().parents[2]
IDS = dict.fromkeys(
    ("coding", "reading", "edits", "document", "import", "chat", "embedding", "space", "joining", "shared"), 1
)
WITHOUT = {  # parts of pages, files, answers to forms, and pages that another's picture shows
    "space-choices",  # in the rail
    "filter-choices", "hits-in", "saved-searches", "index-progress", "preview-section", "preview-turn", "key-use",
    "document-card", "document-page", "document-picture", "document-file", "picture", "message-text", "running-reply",
    "fetch-archive", "metrics", "send", "part", "reply", "summary", "agent-documents", "start-chat", "logout",
    "check-endpoint", "check-new-endpoint", "delete-document", "hidden-keys", "events", "agent",
    "outline", "palette", "edit-question", "render-text",
    "article",  # as a shared conversation
    "client", "conversation-file",  # files
    "choose-space", "answer-invitation",  # lead to the home page, and to the spaces
    "choose-password", "invitation", "reset-password",  # as the sign-in; opened by a link
    "confirm", "set-up-app", "recovery-codes", "add-passkey",  # as the password
    "second-step", "passkey-sign-in",  # as the sign-in; after it
    "provider", "provider-done", "provider-out",  # lead elsewhere
}  # fmt: skip
ACTIONS = (
    "change-", "delete-", "drop-", "end-", "keep-", "make-", "mark-", "pin-", "regenerate-", "remove-", "rename-",
    "add-import-to-", "retry-", "revoke-", "archive-", "star-", "stop-", "tag-", "undo-",
)  # fmt: skip


def pages(found: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """Names and addresses of the product's own pages among the patterns."""
    for each in found:
        route = before + str(each.pattern)
        if not isinstance(each, URLPattern):
            if not route.startswith(("admin/", "api/", "static")):
                yield from pages(each.url_patterns, route)
        elif each.name:
            yield each.name, "/" + re.sub(r"<[^>]+>", "1", route)


def test_every_page_has_its_picture() -> None:
    shown = {shot.address.partition("?")[0] for shot in shots_of(IDS)}
    missing = {
        name
        for name, address in pages(get_resolver().url_patterns, "")
        if address not in shown and name not in WITHOUT and not name.startswith(ACTIONS)
    }
    assert missing == set()


def test_document_shows_every_picture() -> None:
    text = (ROOT / "docs/pages.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\(images/pages/([\w-]+)\.webp\)", text)
    assert shown == [shot.name for shot in shots_of(IDS)]
    assert {path.stem for path in (ROOT / "docs/images/pages").glob("*.webp")} == set(shown)
