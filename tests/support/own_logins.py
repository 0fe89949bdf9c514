"""The product's own log-ins and pools in the process of a test, in the place of the one connection of other tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, connections

from convmemory.core import acting
from convmemory.core.postgres import logins
from convmemory.core.postgres.base import close_pools

POOL = {"min_size": 0, "max_size": 2, "timeout": 30}


@contextmanager
def own_logins() -> Iterator[None]:
    """Begin the block without an owner, as a request begins. For tests without a transaction around them."""
    values = connection.settings_dict
    if not values["EMBEDDED_PATH"]:
        pytest.skip("An external server has passwords for them.")
    before = values["OPTIONS"]
    connections.close_all()
    values |= {"ASSUME_ROLES": False, "LOGINS": logins.EMBEDDED, "OPTIONS": {**before, "pool": POOL}}
    acting.process_acts_as(acting.WITHOUT_OWNER)
    try:
        yield
    finally:
        connections.close_all()
        close_pools()
        acting.process_acts_as(acting.SCHEMA)
        values |= {"ASSUME_ROLES": True, "LOGINS": {}, "OPTIONS": before}
