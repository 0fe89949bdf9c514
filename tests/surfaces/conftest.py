"""What several surfaces are tested against."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from tests.support.api import Api
from tests.support.chat_server import ChatServer, running_chat_server
from tests.support.site import running_site
from tests.surfaces.browser import Chromium, chromium_path


@pytest.fixture(scope="module")
def endpoint_process() -> Iterator[ChatServer]:
    with running_chat_server() as server:
        yield server


@pytest.fixture
def endpoint(endpoint_process: ChatServer, settings: Settings) -> ChatServer:
    """A chat endpoint that the settings name, without scripts and without memory of other tests."""
    for kept in (
        endpoint_process.scripts,
        endpoint_process.titles,
        endpoint_process.requests,
        endpoint_process.bodies,
        endpoint_process.headers,
    ):
        kept.clear()
    settings.CHAT_BASE_URL = endpoint_process.url
    settings.CHAT_API_KEY = endpoint_process.key
    settings.CHAT_MODEL = "test-model"
    return endpoint_process


@pytest.fixture
def site(endpoint: ChatServer) -> Iterator[str]:
    """The address of a server whose chats `endpoint` answers."""
    with running_site() as address:
        yield address


@pytest.fixture
def api(owner: User) -> Api:
    return Api(owner)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    browser = Chromium(chromium_path())
    yield browser
    browser.close()
