"""A server in a thread of a test takes its database connections from a pool, as the product's does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections

from convmemory.core.postgres.base import DatabaseWrapper

MAX_SIZE = 40


@contextmanager
def pooled_connections() -> Iterator[None]:
    """Keep connections in the block, and for the next one: a new one costs PostgreSQL as much as three pages."""
    options = connection.settings_dict["OPTIONS"]
    if "pool" in options or connection.in_atomic_block:
        yield
        return
    connections.close_all()
    options["pool"] = {"min_size": 0, "max_size": MAX_SIZE, "timeout": 15, "reset": _reset_role}
    try:
        yield
    finally:
        connections.close_all()
        del options["pool"]


def _reset_role(returned: Any) -> None:
    """The product's log-ins have one role each; in tests one log-in assumes all of them."""
    returned.execute("RESET ROLE")
    if not returned.autocommit:
        returned.commit()


def connections_in_use() -> int:
    """Return how many connections of the block are with a thread, apart from this one."""
    connections.close_all()
    wrapper = connections["default"]
    assert isinstance(wrapper, DatabaseWrapper)
    counts = wrapper.pool.get_stats()
    return int(counts["pool_size"] - counts["pool_available"])
