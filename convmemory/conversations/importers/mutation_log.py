"""Replays VS Code's log of changes to one JSON value: `{"kind": 0, "v": …}` sets it, then changes come at paths `k`.

Kind 1 sets a place, 2 cuts a list at `i` and appends to it, 3 deletes a place. Changes at unknown paths are skipped.

Source: microsoft/vscode `src/vs/workbench/contrib/chat/common/model/objectMutationLog.ts`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.core.errors import TooLarge

MAX_LOG_BYTES = 128 * 1024**2
MAX_STEPS = 64  # the longest path of a change
INITIAL, SET, PUSH, DELETE = range(4)


def replayed(path: Path, report: FileReport) -> Any:
    """Return the final value of the log; None for an empty one. Raises: TooLarge, InvalidInput."""
    if path.stat().st_size > MAX_LOG_BYTES:
        raise TooLarge(f"A chat's log is read only up to {MAX_LOG_BYTES // 1024**2} MB: export the chat instead.")
    root: dict[str, Any] = {}
    for item in read_objects(path, on_issue=report.line_issue):
        if item.value.get("kind") == INITIAL:
            root["value"] = item.value.get("v")
        elif "value" not in root:
            report.skip(item.number, "a change without a beginning")
        elif not _changed(root, item):
            report.skip(item.number, "a change that leads nowhere")
    return root.get("value")


def _changed(root: dict[str, Any], item: JsonObject) -> bool:
    kind, keys = item.value.get("kind"), item.value.get("k")
    if not isinstance(keys, list) or len(keys) > MAX_STEPS or kind not in (SET, PUSH, DELETE):
        return False
    *above, last = ["value", *keys]
    parent: Any = root
    for key in above:
        if not _contains(parent, key):
            return False
        parent = parent[key]
    if kind == PUSH:
        return _push(parent, last, item.value)
    return _put(parent, last, item.value) if kind == SET else _delete(parent, last)


def _contains(parent: Any, key: object) -> bool:
    if isinstance(parent, list):
        return isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(parent)
    return isinstance(parent, dict) and isinstance(key, str) and key in parent


def _put(parent: Any, key: Any, change: Mapping[str, Any]) -> bool:
    if isinstance(parent, list) and key == len(parent) and not isinstance(key, bool):
        parent.append(change.get("v"))
        return True
    if not (_contains(parent, key) or (isinstance(parent, dict) and isinstance(key, str))):
        return False
    parent[key] = change.get("v")
    return True


def _push(parent: Any, key: Any, change: Mapping[str, Any]) -> bool:
    if not _contains(parent, key) and isinstance(parent, dict) and isinstance(key, str):
        parent[key] = []
    target = parent[key] if _contains(parent, key) else None
    values, start = change.get("v", []), change.get("i")
    if not isinstance(target, list) or not isinstance(values, list):
        return False
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        del target[start:]
    target.extend(values)
    return True


def _delete(parent: Any, key: Any) -> bool:
    if not _contains(parent, key):
        return False
    if isinstance(parent, list):
        parent[key] = None  # as in VS Code: the other places keep their numbers
    else:
        del parent[key]
    return True
