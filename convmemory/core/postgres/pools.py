"""The connection pools of this process: one for each log-in and replica; a forked child abandons its parent's."""

import os
from dataclasses import dataclass
from typing import Any

from django.db import connections

from convmemory.core import embedded
from convmemory.core.acting import Login

CLOSE_POOLS_PRIORITY = embedded.LEAVE_PRIORITY + 5  # before this process leaves the embedded server


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a connection: the log-in, and the replica, "" for the primary."""

    login: Login = Login.SCHEMA
    replica: str = ""


POOLS: dict[Place, dict[str, Any]] = {}
"""Pools by place and alias."""


def close_pools() -> None:
    """Close every pool of this process; the next query opens a new one."""
    for pools in list(POOLS.values()):
        while pools:
            pools.popitem()[1].close()


_inherited: list[object] = []


def _leave_pools_to_the_parent() -> None:
    """Abandon the pools in a forked child, which must not use its parent's sockets."""
    for pools in list(POOLS.values()):
        _inherited.extend(pools.values())  # kept: collecting a pool would wait for threads that a child does not have
        pools.clear()
    for wrapper in connections.all(initialized_only=True):
        if hasattr(wrapper.connection, "_pool"):
            _inherited.append(wrapper.connection)
            wrapper.connection = None


os.register_at_fork(after_in_child=_leave_pools_to_the_parent)
