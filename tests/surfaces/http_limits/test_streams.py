"""Clients that do not read their answers keep no connection of the database from others, by whatever route."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.conversations.messages import ingest
from tests.factories import make_user
from tests.support.chat_server import Hold, Say, Script, running_chat_server
from tests.support.patience import ANSWER_S
from tests.support.web_process import WebProcess, web_process
from tests.surfaces.http_limits.streaming_routes import (
    FILE_BYTES,
    STREAMS,
    Library,
    fill_library,
    large_answer,
    shared_page,
    views_that_stream,
)

pytestmark = pytest.mark.django_db(transaction=True)

POOL_SIZE = 2
READERS = 60


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("media")


@pytest.fixture(scope="module")
def web(django_db_setup: None, media: Path) -> Iterator[WebProcess]:
    """A web process with a pool of two connections, and a model that begins an answer and does not end it."""
    release = threading.Event()
    with running_chat_server() as endpoint:
        endpoint.otherwise = lambda _: Script((Say("Once upon"), Hold(release)))
        chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "m"}
        ours = {"SECRET_KEY": django_settings.SECRET_KEY, "MEDIA_ROOT": str(media), "SHARING": "anybody"}
        with web_process({**chat, **ours, "DATABASE_POOL_SIZE": str(POOL_SIZE)}) as web:
            yield web
        release.set()


@pytest.fixture
def stored(settings: Settings, media: Path) -> Library:
    settings.SHARING, settings.MEDIA_ROOT = "anybody", media
    return fill_library(make_user("ada"))


@pytest.fixture
def others_key(db: None) -> str:
    return create_key(person=make_user("bob"))


def unread(web: WebProcess, request: bytes) -> socket.socket:
    """Send a request, and leave its answer to the little that a socket buffers."""
    parts = urlsplit(web.address)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(ANSWER_S)
    made.connect((parts.hostname, parts.port))
    made.sendall(request)
    return made


def status_of(connection: socket.socket) -> int:
    return int(connection.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL)[9:])


def answer_to(web: WebProcess, key: str, path: str = "/api/v1/conversations") -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.get(web.address + path, headers=headers, trust_env=False, timeout=ANSWER_S).status_code


def test_table_names_every_view_that_streams() -> None:
    assert views_that_stream() == set(STREAMS)


@pytest.mark.slow
def test_unread_answers_keep_no_connection_from_others(web: WebProcess, stored: Library, others_key: str) -> None:
    process = psutil.Process(web.process.pid)
    for name, request in {**STREAMS, "a large answer": large_answer}.items():
        before = process.memory_info().rss
        with ExitStack() as stack:
            readers = [stack.enter_context(unread(web, request(stored))) for _ in range(POOL_SIZE + 1)]
            assert [status_of(reader) for reader in readers] == [200] * len(readers), name
            assert answer_to(web, others_key) == 200, name
            assert process.memory_info().rss - before < FILE_BYTES // 2, f"{name} is read into memory"


@pytest.mark.slow
def test_many_readers_without_account_that_leave_stop_nothing(
    web: WebProcess, stored: Library, others_key: str
) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(unread(web, shared_page(stored))) for _ in range(READERS)]
        first, *_ = select.select(readers, [], [], ANSWER_S)[0]
        assert status_of(first) == 200
        assert answer_to(web, others_key) == 200
    assert [answer_to(web, others_key, path) for path in ("/api/v1/conversations", "/ready")] == [200, 200]


@pytest.mark.slow
def test_stream_that_breaks_off_is_no_whole_answer_and_keeps_no_connection(
    web: WebProcess, stored: Library, others_key: str
) -> None:
    with ExitStack() as stack:
        request = STREAMS["convmemory.conversations.api.export_conversation"](stored)
        readers = [stack.enter_context(unread(web, request)) for _ in range(POOL_SIZE + 1)]
        assert [status_of(reader) for reader in readers] == [200] * len(readers)
        ingest.delete_for_good(caller=Caller.of(stored.owner), conversation_id=stored.conversation_id)
        for reader in readers:
            received = b"".join(iter(lambda: reader.recv(65536), b""))  # noqa: B023
            assert not received.endswith(b"0\r\n\r\n"), "the last chunk would say that it is complete"
    assert [answer_to(web, others_key, path) for path in ("/api/v1/conversations", "/ready")] == [200, 200]
