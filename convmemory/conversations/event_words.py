"""The searchable words of an event: runs of letters and digits in its type, tool, level and payload. Pure.

Words are not stemmed, because logs are searched for names. The words of a query may be prefixes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_WORD_CHARS = 64  # longer runs are hashes or base64, and a prefix finds them
MAX_QUERY_WORDS = 20

_WORD = re.compile(r"[^\W_]+")


def event_words(*names: str, payload: Mapping[str, Any]) -> list[str]:
    """Return the distinct words of an event, in order."""
    found = {word for text in (*names, *_texts(payload)) for word in words_in(text)}
    return sorted(found)


def words_in(text: str) -> Iterator[str]:
    """Yield the words of a text, in lower case, cut to `MAX_WORD_CHARS`."""
    return (match.group()[:MAX_WORD_CHARS].lower() for match in _WORD.finditer(text))


def words_query(text: str) -> str:
    """Return the full text query for every word of the text, as prefixes; "" if it has none."""
    words = list(dict.fromkeys(words_in(text)))[:MAX_QUERY_WORDS]
    # Words consist of letters and digits, so that nothing in the quotes needs escaping.
    return " & ".join(f"'{word}':*" for word in words)


def _texts(value: Any) -> Iterator[str]:
    """Yield keys and values of JSON of a bounded depth (`amplifier_events.bounded_payload`)."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)
