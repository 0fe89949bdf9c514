"""Detects whether a passage is a question to the other speaker. Pure.

The answer follows a question, so the question names the topic of the next message.
"""

from search.sources import Kind

MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # full-width, Arabic and Greek ones too
SHORT_CHARS, END_CHARS = 200, 60
_AFTER_MARK = " \t\r\n\"'*_)]}\u201d\u2019\u00bb"


def is_asking(kind: Kind, text: str) -> bool:
    """Return whether prose of a user or an assistant ends in a question mark, or is short and has one near its end."""
    if kind not in {"user", "assistant"}:
        return False
    if text.rstrip(_AFTER_MARK).endswith(MARKS):
        return True
    return len(text) < SHORT_CHARS and any(mark in text[-END_CHARS:] for mark in MARKS)
