"""Errors as text for logs and for the history of tasks: where and of what kind, without what people wrote.

The messages of foreign errors quote values: a text that is no number, a row that breaks a constraint. So only those
are kept that this program writes itself and those of errors that speak of code; of an error of PostgreSQL its class,
code, and the names of constraint, table and column.
"""

import re
import traceback
from collections.abc import Iterator
from types import TracebackType

import psycopg

from convmemory.core.errors import ConvMemoryError

STACK = "Traceback (most recent call last):\n"
LEFT_OUT = "(message left out)"
SPEAK_OF_CODE = (AttributeError, ImportError, MemoryError, NameError, NotImplementedError, RecursionError, TypeError)
_QUOTED = re.compile("“.*”", re.DOTALL)
CHAINED = 5
"""Errors that led to one another, at most."""


def safe_message(error: BaseException) -> str:
    """The error's class and what of its message quotes nobody."""
    name = type(error).__name__
    if facts := _of_postgres(error):
        return f"{name}: {facts}"
    if isinstance(error, (ConvMemoryError, *SPEAK_OF_CODE)):
        return f"{name}: {without_quotes(str(error))}" if str(error) else name
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return f"{name}: {LEFT_OUT}" if str(error) else name


def quoted(text: str) -> str:
    """Somebody else's words inside a message of this program; `without_quotes` finds them."""
    return f"“{text}”"


def without_quotes(message: str) -> str:
    """The message without somebody else's words."""
    return _QUOTED.sub("“…”", message)


def safe_traceback(error: BaseException, stack: TracebackType | None = None) -> str:
    """The stack of the error and of those that it came from, oldest first, with `safe_message` for each."""
    texts = []
    for number, link in enumerate(_chain(error)):
        frames = traceback.format_tb(link.__traceback__ or (stack if number == 0 else None))
        texts.append(f"{STACK}{''.join(frames)}{safe_message(link)}")
    return "\n\n".join(reversed(texts))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < CHAINED:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _of_postgres(error: BaseException) -> str:
    """SQLSTATE and names of an error of PostgreSQL, also where Django has wrapped it; empty for any other."""
    found = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(found, psycopg.Error) or not found.sqlstate:
        return ""
    diagnostic = found.diag
    names = (diagnostic.constraint_name, diagnostic.table_name, diagnostic.column_name)
    return " ".join([f"SQLSTATE {found.sqlstate}", *(name for name in names if name)])
