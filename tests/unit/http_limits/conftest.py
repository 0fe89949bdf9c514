"""Users whose keys are their names."""

import pytest

from convmemory.core.web.callers import KnownCallers
from convmemory.core.web.middleware import StaticFilesMiddleware
from convmemory.http_limits import senders, used_time
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


@pytest.fixture
def endless_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause passes in real time, whatever a site's clock says: here none ends, however slow the machine is."""
    for name in ("LONGEST_PAUSE_S", "PAUSE_BY_REQUEST"):
        monkeypatch.setattr(used_time, name, 3_600.0)
