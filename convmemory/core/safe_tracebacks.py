"""Errors as text for logs and for the history of tasks: their place and class, without text that people wrote.

Messages of foreign errors quote values: a text that is not a number, a row that violates a constraint. Only messages
that this program writes itself are kept, except those that explain a caller's own input, and those of errors about
code; of a PostgreSQL error its class, its code, and the names of constraint, table and column.
"""

import re
import traceback
from collections.abc import Iterator
from types import TracebackType

import psycopg

from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound

STACK = "Traceback (most recent call last):\n"
LEFT_OUT = "(message left out)"
SPEAK_OF_CODE = (AttributeError, ImportError, MemoryError, NameError, NotImplementedError, RecursionError, TypeError)
QUOTE_CALLERS = (InvalidInput, NotFound)
_QUOTED = re.compile("“.*”", re.DOTALL)
CHAINED = 5
"""The most errors in a chain of causes that are shown."""


def safe_message(error: BaseException) -> str:
    """Return the error's class and the parts of its message that quote no text of people."""
    name = type(error).__name__
    if facts := _of_postgres(error):
        return f"{name}: {facts}"
    if isinstance(error, (ConvMemoryError, *SPEAK_OF_CODE)) and not isinstance(error, QUOTE_CALLERS):
        return f"{name}: {without_quotes(str(error))}" if str(error) else name
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return f"{name}: {LEFT_OUT}" if str(error) else name


def quoted(text: str) -> str:
    """Mark foreign words inside a message of this program, so that `without_quotes` can remove them."""
    return f"“{text}”"


def without_quotes(message: str) -> str:
    """Return the message without foreign words."""
    return _QUOTED.sub("“…”", message)


def safe_traceback(error: BaseException, stack: TracebackType | None = None) -> str:
    """Return the stack of the error and of its causes, oldest first, with `safe_message` for each."""
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
    """Return SQLSTATE and names from a PostgreSQL error, wrapped by Django or not; empty for any other error."""
    found = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(found, psycopg.Error) or not found.sqlstate:
        return ""
    diagnostic = found.diag
    names = (diagnostic.constraint_name, diagnostic.table_name, diagnostic.column_name)
    return " ".join([f"SQLSTATE {found.sqlstate}", *(name for name in names if name)])
