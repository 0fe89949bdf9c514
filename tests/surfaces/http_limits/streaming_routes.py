"""The routes that stream: found in the program, and with a request for each whose answer its client need not read."""

import inspect
import json
import secrets
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import FileResponse, StreamingHttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.api import api
from convmemory.conversations import sharing
from convmemory.documents import library
from convmemory.documents.storage import document_storage, pictures_folder
from convmemory.ops.models import OwnArchive
from tests.factories import assistant_says, make_conversation, user_says
from tests.support.raw_http import head

OWN_PACKAGES = ("convmemory", "memory", "search", "summaries")
MESSAGES, MESSAGE_BYTES = 20, 500_000  # in all more than the sockets of both sides buffer
FILE_BYTES = 200 * 1024**2
CSRF_TOKEN = "c" * 32


@dataclass(frozen=True)
class Library:
    """Rows and files of an owner, and their ways to sign in. Each answer about them is larger than sockets buffer."""

    owner: User
    key: str
    session: str
    conversation_id: int
    document_id: int
    archive_id: int
    token: str

    def by_key(self, path: str, body: object = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        return _request(path, content, "application/json", f"Authorization: Bearer {self.key}")

    def by_session(self, path: str, form: str = "") -> bytes:
        cookie = f"{settings.SESSION_COOKIE_NAME}={self.session}; {settings.CSRF_COOKIE_NAME}={CSRF_TOKEN}"
        kind = "application/x-www-form-urlencoded"
        return _request(path, form.encode(), kind, f"Cookie: {cookie}", f"X-CSRFToken: {CSRF_TOKEN}")

    def empty_conversation(self) -> int:
        return make_conversation(self.owner).pk


def _request(path: str, content: bytes, kind: str, *headers: str) -> bytes:
    if not content:
        return head(path, *headers, method="GET")
    more = "Accept: text/event-stream", f"Content-Type: {kind}", f"Content-Length: {len(content)}"
    return head(path, *headers, *more) + content


Ask = Callable[[Library], bytes]

STREAMS: dict[str, Ask] = {
    "convmemory.chat.api.ask": lambda stored: stored.by_key("/api/v1/ask", {"question": "how long is the story?"}),
    "convmemory.chat.api.stream": lambda stored: stored.by_key(
        f"/api/v1/conversations/{stored.empty_conversation()}/stream", {"message": "A story"}
    ),
    "convmemory.chat.proxy.proxy": lambda stored: stored.by_key(
        "/v1/chat/completions", {"model": "m", "stream": True, "messages": [{"role": "user", "content": "A story"}]}
    ),
    "convmemory.chat.views.send": lambda stored: stored.by_session("/chat/send", "message=A+story"),
    "convmemory.conversations.api.export_conversation": lambda stored: stored.by_key(
        f"/api/v1/conversations/{stored.conversation_id}/export?format=json"
    ),
    "convmemory.conversations.api.export_conversations": lambda stored: stored.by_key("/api/v1/conversations/export"),
    "convmemory.conversations.pages.browsing_views.change": lambda stored: stored.by_session(
        "/library/change", f"action=export&chosen={stored.conversation_id}"
    ),
    "convmemory.conversations.pages.sharing_views.article": lambda stored: stored.by_session(
        f"/conversations/{stored.conversation_id}/article"
    ),
    "convmemory.conversations.pages.sharing_views.shared": lambda stored: stored.by_session(f"/shared/{stored.token}"),
    "convmemory.documents.views.download": lambda stored: stored.by_session(f"/documents/{stored.document_id}/file"),
    "convmemory.documents.views.picture": lambda stored: stored.by_session(
        f"/documents/{stored.document_id}/pages/1.webp"
    ),
    "convmemory.ops.views.fetch_archive": lambda stored: stored.by_session(
        f"/settings/data/archives/{stored.archive_id}"
    ),
}
"""A request for a stream of each view that answers with one."""


def shared_page(stored: Library) -> bytes:
    """Return the request of a client without an account."""
    return head(f"/shared/{stored.token}", method="GET")


def large_answer(stored: Library) -> bytes:
    """Return a request whose answer is large and no stream."""
    return stored.by_key(f"/api/v1/conversations/{stored.conversation_id}/messages")


def fill_library(owner: User) -> Library:
    said = [user_says("question"), *(assistant_says(secrets.token_hex(MESSAGE_BYTES // 2)) for _ in range(MESSAGES))]
    conversation = make_conversation(owner, said, title="Long")
    caller = Caller.of(owner)
    _, token = sharing.create_link(
        caller=caller, conversation_id=conversation.pk, turn=None, days=7, audience="anybody"
    )
    stored = library.StoredFile(secrets.token_hex(32), "large.txt", FILE_BYTES)
    _make_file(Path(document_storage().path(stored.place_for(owner.pk))))
    document = library.add_document(caller=caller, stored=stored).document
    _make_file(pictures_folder(archive_id=owner.pk, digest=stored.digest) / "1.webp")
    _make_file(Path(document_storage().path("archives/all.zip")))
    archive = OwnArchive.objects.create(person=owner, state=OwnArchive.State.DONE, file="archives/all.zip")
    browser = Client()
    browser.force_login(owner)
    session = browser.cookies[settings.SESSION_COOKIE_NAME].value
    return Library(owner, create_key(person=owner), session, conversation.pk, document.pk, archive.pk, token)


def _make_file(path: Path) -> None:
    """Make a large file that takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(FILE_BYTES)


def views_that_stream() -> set[str]:
    """Return the views of all routes whose code leads to a streamed response."""
    views = [pattern.callback for pattern in _patterns(get_resolver().url_patterns)]
    views += [
        operation.view_func
        for _, router in api._routers
        for view in router.path_operations.values()
        for operation in view.operations
    ]
    names = {inspect.unwrap(view) for view in views if _leads_to_stream(view, set())}
    return {f"{view.__module__}.{view.__name__}" for view in names}


def _patterns(patterns: Iterable[URLPattern | URLResolver]) -> Iterator[URLPattern]:
    for each in patterns:
        if isinstance(each, URLPattern):
            yield each
        else:
            yield from _patterns(each.url_patterns)


def _leads_to_stream(function: Any, seen: set[Any]) -> bool:
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return False
    seen.add(function)
    return any(
        used is StreamingHttpResponse or used is FileResponse or _leads_to_stream(used, seen)
        for used in _used_by(function)
        if str(getattr(used, "__module__", "")).startswith((*OWN_PACKAGES, "django.http"))
    )


def _used_by(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals that a function's code names, and the attributes that it names of modules of the program."""
    names = _names_in(function.__code__)
    for name in names & function.__globals__.keys():
        used = function.__globals__[name]
        yield used
        if isinstance(used, types.ModuleType) and used.__name__.startswith(OWN_PACKAGES):
            yield from (getattr(used, attribute) for attribute in names if hasattr(used, attribute))


def _names_in(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))
