"""Streams that say that they are a terminal, for commands that ask on one."""

from io import StringIO


class Terminal(StringIO):
    """A terminal with lines to read, or one that keeps what is written to it."""

    def isatty(self) -> bool:
        return True
