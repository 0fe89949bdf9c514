"""Inserts an entry into a configuration file and removes it again, as text: comments and layout stay as they are. Pure.

JSON is read with comments and trailing commas. An entry of YAML is a block of lines, which is compared as text.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_INDENT = "  "
_TOKEN = re.compile(
    r'[\s\ufeff]++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/|"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"/]++', re.DOTALL
)


class Unreadable(Exception):
    """A configuration file cannot be edited; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The place of an entry: in a file of this `form`, the keys that lead to it.

    With `is_item` the keys lead to a list, and the entry is one of its items: the one that contains `marker`, whatever
    else was changed in it; in TOML and YAML the one of the same `name`. A new file of YAML begins with `begins`.
    """

    form: str
    keys: tuple[str, ...] = ()
    is_item: bool = False
    marker: str = ""
    begins: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """An insertion: the new text of the file, the text that was inserted, and how many enclosing objects are new."""

    text: str
    inserted: str
    made: int = 0


MISSING: Any = object()
"""The value of an entry that is not in the file."""


def read(text: str, target: Target, value: Any) -> Any:
    """Return the entry's value in the text, or MISSING.

    Raises: Unreadable.
    """
    return _form(target).read(text, target, value)


def insert(text: str, target: Target, value: Any) -> Edit:
    """Insert an entry that is missing. Raises: Unreadable."""
    return _form(target).insert(text, target, value)


def remove(text: str, target: Target, value: Any, *, inserted: str, made: int) -> str | None:
    """Return the text without the entry, or None if the entry is missing or was changed. Raises: Unreadable."""
    if text.count(inserted) == 1:
        shorter = text.replace(inserted, "")
        try:
            if read(shorter, target, value) is MISSING:
                return shorter
        except Unreadable:
            pass  # something was added that depends on the inserted text
    if read(text, target, value) != value:
        return None
    return _form(target).remove(text, target, value, made)


@dataclass(slots=True)
class _Node:
    """A value in the text, from `start` to `end`; `key_start` is the place of its key in an object."""

    start: int
    end: int = 0
    value: Any = None
    key_start: int = 0
    children: dict[Any, "_Node"] = field(default_factory=dict)

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)


class _Reader:
    """Reads JSON with comments into nodes. Raises: Unreadable."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[int, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _broken(text, position)
            if not match[0][0].isspace() and not match[0].startswith(("//", "/*", "\ufeff")):
                self._tokens.append((position, match[0]))
            position = match.end()
        self._text, self._next = text, 0

    def root(self) -> _Node:
        node = self._node()
        if self._next < len(self._tokens):
            raise _broken(self._text, self._tokens[self._next][0])
        if not node.is_object:
            raise Unreadable("it holds no JSON object")
        return node

    def _take(self, expected: str = "") -> tuple[int, str]:
        position, token = self._tokens[self._next] if self._next < len(self._tokens) else (len(self._text), "")
        if not token or (expected and token != expected):
            raise _broken(self._text, position)
        self._next += 1
        return position, token

    def _is_next(self, token: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next][1] == token

    def _node(self) -> _Node:
        position, read = self._take()
        node = _Node(position)
        if read in "{[":
            close = "}" if read == "{" else "]"
            is_object = close == "}"
            while not self._is_next(close):
                key_start, key = self._take() if is_object else (0, "")
                if is_object:
                    self._take(":")
                child = self._node()
                child.key_start = key_start if is_object else child.start
                node.children[self._scalar(key_start, key) if is_object else len(node.children)] = child
                if not self._is_next(close):
                    self._take(",")
            node.end = self._take(close)[0] + 1
            values = {key: child.value for key, child in node.children.items()}
            node.value = values if is_object else list(values.values())
        else:
            node.value, node.end = self._scalar(position, read), position + len(read)
        return node

    def _scalar(self, position: int, token: str) -> Any:
        try:
            return json.loads(token, strict=False)
        except ValueError:
            raise _broken(self._text, position) from None


def _broken(text: str, position: int) -> Unreadable:
    return Unreadable(f"line {text.count(chr(10), 0, position) + 1} is not JSON")


def _parse_json(text: str) -> _Node:
    return _Reader(text if text.strip("\ufeff \t\r\n") else "{}").root()


def _walk(root: _Node, keys: Sequence[str]) -> list[_Node]:
    """Return the nodes on the way along the keys, as far as they exist."""
    nodes = [root]
    for key in keys:
        if not nodes[-1].is_object:
            raise Unreadable(f"{key} cannot be added, because what encloses it is no object")
        if key not in nodes[-1].children:
            break
        nodes.append(nodes[-1].children[key])
    return nodes


def _read_json(text: str, target: Target, value: Any) -> Any:
    nodes = _walk(_parse_json(text), target.keys)
    if len(nodes) <= len(target.keys):
        return MISSING
    present = nodes[-1].value
    if not target.is_item:
        return present
    if not isinstance(present, list):
        raise Unreadable(f"{'.'.join(target.keys)} is no list")
    if value in present:
        return value
    return next((item for item in present if target.marker and target.marker in json.dumps(item)), MISSING)


def _insert_json(text: str, target: Target, value: Any) -> Edit:
    if not text.strip("\ufeff \t\r\n"):
        whole = _insert_json("{}\n", target, value)
        return Edit(text + whole.text, whole.text, whole.made)
    nodes = _walk(_parse_json(text), target.keys)
    parent, absent = nodes[-1], target.keys[len(nodes) - 1 :]
    if target.is_item and absent:
        value = [value]
    for key in reversed(absent[1:]):
        value = {key: value}
    position = parent.start + 1
    indent = _indent_of(text, parent)
    written = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
    entry = f"{json.dumps(absent[0])}: {written}" if absent else written
    first = next(iter(parent.children.values()), None)
    inserted = f"\n{indent}{entry},"
    if first is None:
        inserted = f"\n{indent}{entry}\n{indent[: -len(_INDENT)]}"
    elif "\n" not in text[position : first.key_start]:
        inserted = f"{inserted}\n{indent}"
    return Edit(text[:position] + inserted + text[position:], inserted, max(len(absent) - (not target.is_item), 0))


def _indent_of(text: str, parent: _Node) -> str:
    """Return the indentation of the parent's members: that of the first one, if it has a line of its own."""
    first = next(iter(parent.children.values()), None)
    if first is not None:
        before = text[text.rfind("\n", 0, first.key_start) + 1 : first.key_start]
        if not before.strip():
            return before
    line = text[text.rfind("\n", 0, parent.start) + 1 : parent.start]
    return line[: len(line) - len(line.lstrip())] + _INDENT


def _remove_json(text: str, target: Target, value: Any, made: int) -> str:
    keys: tuple[Any, ...] = target.keys
    nodes = _walk(_parse_json(text), keys)
    if target.is_item:
        keys = (*keys, nodes[-1].value.index(value))
        nodes.append(nodes[-1].children[keys[-1]])
    while made and len(nodes[-2].children) == 1:
        made -= 1
        nodes.pop()
    parent, child = nodes[-2], nodes[-1]
    siblings = list(parent.children.values())
    number = siblings.index(child)
    if number + 1 < len(siblings):
        return text[: child.key_start] + text[siblings[number + 1].key_start :]
    start = siblings[number - 1].end if number else parent.start + 1
    return text[:start] + text[child.end :].lstrip(", \t\r\n" if number == 0 else ",")


_LIST = re.compile(r"^(\w{1,80})[ \t]{0,80}=[ \t]{0,80}\[", re.MULTILINE)


def _read_toml(text: str, target: Target, value: Any) -> Any:
    try:
        present: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is not TOML: {error}") from error
    for key in target.keys:
        if not isinstance(present, Mapping) or key not in present:
            return MISSING
        present = present[key]
    if not target.is_item:
        return present
    items = present if isinstance(present, list) else []
    return next((item for item in items if item == value or item.get("name") == value["name"]), MISSING)


def _insert_toml(text: str, target: Target, value: Mapping[str, Any]) -> Edit:
    lists = _LIST.finditer(text) if target.is_item else ()
    # A list in brackets, which may be empty, takes no tables.
    if inline := next((match for match in lists if match[1] == target.keys[0]), None):
        inserted = _toml(value) + ("" if text[inline.end() :].lstrip().startswith("]") else ", ")
        return _checked_toml(Edit(text[: inline.end()] + inserted + text[inline.end() :], inserted), target, value)
    inserted = ("" if text.endswith("\n") or not text else "\n") + ("\n" if text else "")
    inserted += f"{_toml_header(target)}\n"
    inserted += "".join(f"{key} = {_toml(item)}\n" for key, item in value.items())
    return _checked_toml(Edit(text + inserted, inserted), target, value)


def _checked_toml(edit: Edit, target: Target, value: Mapping[str, Any]) -> Edit:
    if _read_toml(edit.text, target, value) != value:
        raise Unreadable(f"{target.keys[0]} is an inline table")
    return edit


def _toml_header(target: Target) -> str:
    header = f"[{'.'.join(target.keys)}]"
    return f"[{header}]" if target.is_item else header


def _toml(value: Any) -> str:
    """Return a value in TOML, whose strings, lists and numbers are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _remove_toml(text: str, target: Target, value: Any, made: int) -> str:
    lines = text.splitlines(keepends=True)
    header = _toml_header(target)
    for first in (number for number, line in enumerate(lines) if line.strip() == header):
        last = next((n for n in range(first + 1, len(lines)) if lines[n].startswith("[")), len(lines))
        left = "".join(lines[:first] + lines[last:])
        if _read_toml(left, target, value) is MISSING:
            return left
    raise Unreadable(f"{header} is written in another way")


def _yaml_block(text: str, target: Target) -> tuple[list[str], int, int, str]:
    """Return the lines, the entry's first line and its end (equal if it is missing), and the entries' indentation.

    The first line is -1 if there is no block for the entries. An item of a list is the one of this name.
    """
    lines = text.splitlines(keepends=True)
    parent, key = target.keys[0], target.keys[-1]
    start = next((number + 1 for number, line in enumerate(lines) if line.startswith(f"{parent}:")), 0)
    if not start:
        return lines, -1, -1, _INDENT
    if lines[start - 1].partition(":")[2].partition("#")[0].strip():
        raise Unreadable(f"{parent} is written in one line")
    inner = next((line for line in lines[start:] if line.strip() and not line.lstrip().startswith("#")), "")
    indent = inner[: len(inner) - len(inner.lstrip(" "))]
    indent = indent if indent or (target.is_item and inner.startswith("- ")) else _INDENT
    for first in range(start, len(lines)):
        is_item = target.is_item and lines[first].startswith(f"{indent}- ")
        if lines[first].strip() and not lines[first].startswith((" ", "#")) and not is_item:
            break
        if is_item:
            deeper = f"{indent} "
            end = next((n for n in range(first + 1, len(lines)) if not lines[n].startswith(deeper)), len(lines))
            if any(_NAMED.search(line) for line in lines[first:end]):
                return lines, first, end, indent
        elif not target.is_item and lines[first].startswith(f"{indent}{key}:"):
            deeper = f"{indent} "
            end = next((n for n in range(first + 1, len(lines)) if not lines[n].startswith(deeper)), len(lines))
            return lines, first, end, indent
    return lines, start, start, indent


_NAMED = re.compile(r"""^ *(?:- +)?name: *["']?convmemory["']? *(?:#.*)?$""")


def _read_yaml(text: str, target: Target, value: Any) -> Any:
    lines, first, end, indent = _yaml_block(text, target)
    if first == end:
        return MISSING
    block = "".join(lines[first:end])
    return value if block.rstrip() == _yaml(target, value, indent).rstrip() else block


def _insert_yaml(text: str, target: Target, value: Mapping[str, Any]) -> Edit:
    lines, first, _, indent = _yaml_block(text, target)
    block = _yaml(target, value, indent)
    if first < 0:
        inserted = ("" if text.endswith("\n") or not text else "\n") + f"{target.keys[0]}:\n{block}"
        inserted = inserted if text else target.begins + inserted
        return Edit(text + inserted, inserted)
    before = "".join(lines[:first])
    inserted = block if before.endswith("\n") else f"\n{block}"
    return Edit(before + inserted + "".join(lines[first:]), inserted)


def _yaml(target: Target, value: Mapping[str, Any], indent: str) -> str:
    """Return the entry in YAML, whose flow values are written as in JSON."""
    entries = [f"{key}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()]
    first = f"{indent}- {entries.pop(0)}" if target.is_item else f"{indent}{target.keys[1]}:"
    lines = [first, *(f"{indent}{_INDENT}{entry}" for entry in entries)]
    return "\n".join(lines) + "\n"


def _remove_yaml(text: str, target: Target, value: Any, made: int) -> str:
    lines, first, end, _ = _yaml_block(text, target)
    return "".join(lines[:first] + lines[end:])


def _read_file(text: str, target: Target, value: str) -> Any:
    return text or MISSING


def _insert_file(text: str, target: Target, value: str) -> Edit:
    return Edit(value, value)


def _remove_file(text: str, target: Target, value: str, made: int) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class _Form:
    read: Callable[[str, Target, Any], Any]
    insert: Callable[[str, Target, Any], Edit]
    remove: Callable[[str, Target, Any, int], str]


_FORMS = {
    "json": _Form(_read_json, _insert_json, _remove_json),
    "toml": _Form(_read_toml, _insert_toml, _remove_toml),
    "yaml": _Form(_read_yaml, _insert_yaml, _remove_yaml),
    "file": _Form(_read_file, _insert_file, _remove_file),
}


def _form(target: Target) -> _Form:
    if target.form not in _FORMS:
        raise Unreadable("another version of the client wrote the entry: use that one")
    return _FORMS[target.form]
