"""Fixtures of several surfaces."""

import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.support import asgi_server
from tests.support.admin_house import house  # noqa: F401  # a fixture of several files
from tests.support.api import Api, signed_in
from tests.support.chat_server import ChatServer, running_chat_server
from tests.support.site import running_site
from tests.surfaces.browser import Chromium, chromium_path


@pytest.fixture(scope="module")
def endpoint_process() -> Iterator[ChatServer]:
    with running_chat_server() as server:
        yield server


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server in this process, whose requests the tests of a file share."""
    with asgi_server.serve() as address:
        yield address


@pytest.fixture
def endpoint(endpoint_process: ChatServer, settings: Settings) -> ChatServer:
    """A chat endpoint that the settings name, without scripts and without memory of other tests."""
    for kept in (
        endpoint_process.scripts,
        endpoint_process.titles,
        endpoint_process.requests,
        endpoint_process.bodies,
        endpoint_process.addresses,
        endpoint_process.headers,
    ):
        kept.clear()
    settings.CHAT_BASE_URL = endpoint_process.url
    settings.CHAT_API_KEY = endpoint_process.key
    settings.CHAT_MODEL = "test-model"
    return endpoint_process


@pytest.fixture(scope="session")
def listener() -> Iterator[socket.socket]:
    """The one address of all sites of the run, of which the browser keeps the profile."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        yield listener


@pytest.fixture
def site(endpoint: ChatServer, listener: socket.socket) -> Iterator[str]:
    """The address of a server whose chats `endpoint` answers."""
    with running_site(at=listener) as address:
        yield address


@pytest.fixture
def api(owner: User) -> Api:
    return Api(owner)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The one browser of the run."""
    browser = Chromium(chromium_path())
    yield browser
    browser.close()


@pytest.fixture
def visit(chromium: Chromium, live_server: LiveServer, owner: User) -> Callable[..., None]:
    """Runs steps on a page where the owner is signed in: the home page, or that `at` another address."""
    return partial(chromium.visit, live_server.url, visitor=owner)


@pytest.fixture
def browser(owner: User) -> Client:
    """A client that is logged in as the owner."""
    return signed_in(owner)


@pytest.fixture
def page(browser: Client) -> Callable[..., str]:
    """The text of a page that the owner gets."""

    def get(path: str, status: int = 200, **headers: str) -> str:
        response = browser.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        assert response.status_code == status, response.content
        return str(response.content.decode())

    return get
