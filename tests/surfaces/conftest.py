"""What several surfaces are tested against."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.support.chat_server import ChatServer, running_chat_server


@pytest.fixture(scope="module")
def endpoint_process() -> Iterator[ChatServer]:
    with running_chat_server() as server:
        yield server


@pytest.fixture
def endpoint(endpoint_process: ChatServer, settings: Settings) -> ChatServer:
    """A chat endpoint that the settings name, without scripts and without memory of other tests."""
    for kept in (
        endpoint_process.scripts,
        endpoint_process.requests,
        endpoint_process.bodies,
        endpoint_process.headers,
    ):
        kept.clear()
    settings.CHAT_BASE_URL = endpoint_process.url
    settings.CHAT_API_KEY = endpoint_process.key
    settings.CHAT_MODEL = "test-model"
    return endpoint_process
