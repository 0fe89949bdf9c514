"""Users whose keys are their names."""

import pytest

from convmemory.core.web.callers import KnownCallers
from convmemory.core.web.middleware import StaticFilesMiddleware
from convmemory.http_limits import senders
from tests.unit.http_limits.site import STATIC, USERS


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> KnownCallers:
    """The users are known by a key that is their name."""
    callers = KnownCallers()
    for name, user_id in USERS.items():
        callers.note(name, user_id)
    monkeypatch.setattr(senders, "known", callers)
    monkeypatch.setattr(StaticFilesMiddleware, "paths", frozenset({STATIC}))
    return callers
