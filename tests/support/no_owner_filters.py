"""Switches the application's own owner filters off, so that a test sees what the database alone keeps apart."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db.backends.utils import CursorWrapper

from convmemory.core import acting
from convmemory.core.acting import Login

FILTER = re.compile(r'((?:"?\w+"?\.)?"?\bowner_id"?)\s*=\s*((?:%s|%\(\w+\)s)(?:::\w+)?)')
UPDATE = re.compile(r"\s*UPDATE\b.*?\bWHERE\b", re.DOTALL)


@cache
def without_filters(statement: str) -> str:
    """The statement with every condition on its caller fulfilled; what it sets in rows is left as it is."""
    start = found.end() if (found := UPDATE.match(statement)) else 0
    return statement[:start] + FILTER.sub(r"(\1 = \2 OR TRUE)", statement[start:])


@contextmanager
def filters_switched_off(*logins: Login) -> Iterator[Counter[str]]:
    """In the block statements of these log-ins (default: the application's) run without filters; those that had one."""
    wanted, plain, switched_off = logins or (Login.APP,), CursorWrapper.execute, Counter[str]()

    def execute(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        if isinstance(sql, str) and acting.current().login in wanted and (changed := without_filters(sql)) != sql:
            switched_off[sql] += 1
            sql = changed
        return plain(self, sql, params)

    CursorWrapper.execute = execute  # type: ignore[method-assign]
    try:
        yield switched_off
    finally:
        CursorWrapper.execute = plain  # type: ignore[method-assign]
