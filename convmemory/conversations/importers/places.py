"""Finds values in foreign JSON by dotted paths, and the beginning of a document that is cut off.

A path consists of steps: a name, the number of an item, `*` for all items, a name that ends in `*` for all names with
that beginning, `name[other]` for the item whose number is under `other`, and `@json` to parse a text. `.` alone is
the value itself. Nothing raises.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from convmemory.conversations.importers.json_arrays import column_json
from convmemory.conversations.importers.values import list_of, mapping_of

MAX_VALUES_AT_PATH = 100_000  # values at one path
MAX_CACHED_PATHS = 5_000  # whose steps are kept; declarations have some hundred
MAX_NESTING = 200  # of the beginning of a document

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[\[\]{},:]', re.DOTALL)
_ESCAPE_BYTES = 6  # of the longest escape in a string
_CLOSERS = {b"{": b"}", b"[": b"]"}


def first(value: object, paths: Iterable[str]) -> Any:
    """Return the first value that is not empty at any of the paths, None without one."""
    for path in paths:
        plain = _plain_steps(path)
        for item in values_at(value, path) if plain is None else (_at_plain_steps(value, plain),):
            if item or item is False or item == 0:  # neither None nor an empty text, list or object
                return item
    return None


def values_at(value: object, path: str) -> list[Any]:
    """Return all values at the path, at most `MAX_VALUES_AT_PATH`."""
    values = [value]
    for step in _steps(path):
        values = [item for node in values for item in _at_step(node, step)][:MAX_VALUES_AT_PATH]
    return values


def _at_plain_steps(value: object, steps: tuple[str, ...]) -> Any:
    """Return the one value at steps that are names or numbers, which most paths have; None without one."""
    for step in steps:
        if type(value) is dict:
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


@lru_cache(maxsize=MAX_CACHED_PATHS)
def _plain_steps(path: str) -> tuple[str, ...] | None:
    """Return the steps of a path that leads to one value by names and numbers alone, None for any other."""
    steps = _steps(path)
    return None if any(step == "@json" or step.endswith(("*", "]")) for step in steps) else steps


@lru_cache(maxsize=MAX_CACHED_PATHS)
def _steps(path: str) -> tuple[str, ...]:
    return () if path in ("", ".") else tuple(path.split("."))


def _at_step(value: object, step: str) -> Iterable[Any]:
    if step == "*":
        return value.values() if isinstance(value, Mapping) else list_of(value)
    if step == "@json":
        return (column_json(value),)
    if isinstance(value, list):
        return value[int(step) : int(step) + 1] if step.isdigit() else ()
    fields = mapping_of(value)
    if step.endswith("*"):
        return [item for name, item in fields.items() if name.startswith(step[:-1])]
    if step.endswith("]"):
        name, _, other = step[:-1].partition("[")
        listed, chosen = fields.get(name), fields.get(other)
        number = chosen if type(chosen) is int else 0
        return listed[number : number + 1] if isinstance(listed, list) and number >= 0 else ()
    return (fields[step],) if step in fields else ()


def beginning_of(head: bytes) -> Any:
    """Return the value that the document's first bytes hold, with what is cut off closed; None if they are no JSON."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if text[:1] not in (b"{", b"["):
        return None
    whole, ending, depth = _whole_part(text)
    ending += b"".join(_CLOSERS[opened] for opened in reversed(depth))
    try:
        return json.loads((text[:whole] + ending).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def _whole_part(text: bytes) -> tuple[int, bytes, list[bytes]]:
    """Return up to where the text is whole, what closes a string there, and the brackets that are open."""
    depth: list[bytes] = []
    whole, is_name = 0, False  # whether the last string names a member
    for token in _TOKEN.finditer(text):
        mark = token[0][:1]
        if mark == b":":
            continue
        if mark == b'"':
            is_name = depth[-1:] == [b"{"] and not is_name
            if not token[1] and not is_name:  # a long text: its beginning is enough
                cut_escape = text.rfind(b"\\", len(text) - _ESCAPE_BYTES)
                return (cut_escape if cut_escape > token.start() else len(text)), b'"', depth
            if not token[1]:
                break
            if is_name:
                continue
        is_name = False
        if mark in _CLOSERS and len(depth) < MAX_NESTING:
            depth.append(mark)
        elif mark in (b"}", b"]") and depth:
            depth.pop()
        elif mark not in (b",", b'"'):
            break
        # A comma ends the value before it, which may be a number.
        whole = token.start() if mark == b"," else token.end()
        if not depth:
            break
    return whole, b"", depth
