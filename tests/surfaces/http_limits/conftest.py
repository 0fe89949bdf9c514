"""Fixtures of several tests of the edge."""

import pytest

from convmemory.http_limits.connections import GuardedConnection


@pytest.fixture
def heads_may_begin_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection on which nothing has come yet stays open: the machine may pause a test before it sends."""
    give_up = GuardedConnection._head_is_late

    def give_up_what_has_begun(self: GuardedConnection) -> None:
        if self._heads or self._head_bytes:
            give_up(self)
        else:
            self._head_timer = None
            self._await_head()

    monkeypatch.setattr(GuardedConnection, "_head_is_late", give_up_what_has_begun)
