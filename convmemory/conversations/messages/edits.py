"""The edits of files in the tool calls of agents: the exact text that each removes and adds. Pure.

Edits are recognised by their parameters, not by the tool's name: an old and a new text, several of these, blocks of
both, a patch, or a whole file. `write_outcomes` in `messages/numbering.py` stores which part edits which file; the
texts stay in the messages.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from convmemory.conversations.messages.parts import Part, ToolCallPart, ToolResultPart
from convmemory.core.text import one_line
from convmemory.push.repositories import folder_key, parted

PATH_CHARS = 400
_PATHS = (
    "file_path", "path", "filePath", "target_file", "filename", "notebook_path", "absolute_path", "relative_path",
    "file",
)  # fmt: skip
_OLD_AND_NEW = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("oldText", "newText"),
)
_EVERYWHERE = ("replace_all", "replaceAll", "allow_multiple")
_PATCHES = ("patch", "diff", "input", "command", "cmd", "patchText")
_WHOLE_FILES = ("content", "file_text", "contents")
_WRITING_TOOLS = frozenset(
    {
        "write", "write_file", "create_file", "write_to_file", "str_replace_editor", "create", "fs_write",
        "text_editor", "developer__text_editor",
    }
)  # fmt: skip
# Tools that change files in ways that their calls do not say.
_EDITS = re.compile(r"(?:^|[_.])(?:edit|multiedit|write|create|patch|replace|notebookedit)|str_replace", re.IGNORECASE)
_PATCH_STARTS = ("*** Begin Patch", "diff --git ", "--- a/", "--- /dev/null")
_BEGIN_PATCH, _END_PATCH = "*** Begin Patch", "*** End Patch"
_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n]{1,400})")
_MOVED = "*** Move to: "
_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
# Blocks of a text to search for and its replacement, as Cline and Aider write them.
_SEARCH, _BETWEEN, _REPLACE = (
    frozenset({"<<<<<<< SEARCH", "------- SEARCH"}), "=======", frozenset({">>>>>>> REPLACE", "+++++++ REPLACE"}),
)  # fmt: skip
_REFUSED = re.compile(
    r"\s{0,20}(?:<tool_use_error>|error:|error executing|failed to |file has not been read|string to replace not found"
    r"|no changes (?:to make|were made)|could not find|the user (?:doesn't want|rejected)|verification failed)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text in a file and what came in its place, once or everywhere. An empty `removed` is the end of the file."""

    removed: str
    added: str
    is_everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What one call does to one file. `content` is the whole file, None if only parts are replaced.

    With neither, the call does not say what it changed.
    """

    path: str
    replaced: tuple[Replacement, ...] = ()
    content: str | None = None
    is_deleted: bool = False

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that are removed and added."""
        if self.content is not None:
            yield "", self.content
        yield from ((each.removed, each.added) for each in self.replaced)


def edits_of(call: ToolCallPart) -> list[Edit]:
    """Return what a call does to files, in its order."""
    if patch := patch_in(call.input):
        return list(_of_patch(patch) if patch.startswith("*** ") else _of_unified_diff(patch))
    path = path_in(call.input)
    if not path or call.input.get("command") == "view":  # of an editor that edits with other commands
        return []
    edit = Edit(one_line(path, PATH_CHARS))
    replaced = tuple(replacements_in(call.input))
    if len(replaced) == 1 and not replaced[0].removed:  # agents make files so
        return [replace(edit, content=replaced[0].added)]
    if replaced:
        return [replace(edit, replaced=replaced)]
    if content := content_in(call.name, call.input):
        return [replace(edit, content=content)]
    return [edit] if _EDITS.search(call.name) else []


def edits_in(messages: Iterable[tuple[int, Sequence[Part]]]) -> Iterator[tuple[int, int, Edit]]:
    """Yield the edits in messages, each with its message and the index of its part, without those that were refused."""
    calls: dict[tuple[int, int], ToolCallPart] = {}
    refused: set[str] = set()
    for message, parts in messages:
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                calls[message, index] = part
            elif isinstance(part, ToolResultPart) and (part.is_error or _REFUSED.match(part.text)):
                refused.add(part.call_id)
    for (message, index), call in calls.items():
        if not call.id or call.id not in refused:
            yield from ((message, index, edit) for edit in edits_of(call))


def path_in(parameters: Mapping[str, Any]) -> str:
    """Return the path of the file that a call names."""
    return next((text for name in _PATHS if (text := _text(parameters.get(name)))), "")


def content_in(tool: str, parameters: Mapping[str, Any]) -> str:
    """Return the whole file that a call writes; an empty string if it writes none."""
    name = tool.lower()
    if name not in _WRITING_TOOLS and name.rpartition("__")[2] not in _WRITING_TOOLS:  # with an MCP server's name
        return ""
    return next((text for name in _WHOLE_FILES if (text := _text(parameters.get(name)))), "")


def replacements_in(parameters: Mapping[str, Any]) -> Iterator[Replacement]:
    """Yield the texts that a call replaces: old and new ones, or else blocks of both."""
    many = parameters.get("edits")
    is_any = False
    for edit in [parameters, *(many if isinstance(many, list) else [])]:
        if not isinstance(edit, Mapping):
            continue
        for old, new in _OLD_AND_NEW:
            if isinstance(edit.get(old), str) and isinstance(edit.get(new), str):
                is_any = True
                yield Replacement(edit[old], edit[new], any(edit.get(name) is True for name in _EVERYWHERE))
                break
    if not is_any:
        searched: list[str] = []
        replacing: list[str] | None = None
        is_inside = False
        for line in (_text(parameters.get("diff")) or _text(parameters.get("content"))).splitlines():
            if line.rstrip() in _SEARCH:
                searched, replacing, is_inside = [], None, True
            elif is_inside and line.rstrip() == _BETWEEN:
                replacing = []
            elif is_inside and line.rstrip() in _REPLACE:
                yield Replacement("\n".join(searched), "\n".join(replacing or []))
                is_inside = False
            elif is_inside:
                (searched if replacing is None else replacing).append(line)


def patch_in(parameters: Mapping[str, Any]) -> str:
    """Return the patch among the parameters, under any of the names that tools use."""
    for name in _PATCHES:
        value = parameters.get(name)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text.lstrip().startswith(_PATCH_STARTS):
                return text.strip()
            if isinstance(text, str) and "apply_patch" in text:  # a shell's here-document
                match = _PATCHED.search(text)
                start = text.find(_BEGIN_PATCH)
                if match and start < 0:
                    start = match.start()
                if start >= 0:
                    patch, end, _ = text[start:].partition(_END_PATCH)
                    return patch + end
    return ""


def path_in_project(path: str, *folders: str) -> str:
    """Return a file's path as seen from the first of the folders that it is in, or from a worktree in one; else as is.

    The folders are those of a session: its worktree and its project. Only the texts are used.
    """
    path = path.strip()
    for folder in filter(None, folders):
        main, worktree = parted(path)
        root = worktree if worktree and folder_key(main) == folder_key(folder) else folder
        key, root_key = folder_key(path), folder_key(root)
        if key.startswith(f"{root_key}/"):
            path = path[len(path) - len(key) + len(root_key) + 1 :].replace("\\", "/")
            break
    return posixpath.normpath(path) if path and not path.startswith("~") else path


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class _Hunks:
    """Collects the lines of a file in a patch."""

    def __init__(self) -> None:
        self.edit: Edit | None = None
        self._old: list[str] = []
        self._new: list[str] = []
        self._replaced: list[Replacement] = []

    def take(self, line: str) -> None:
        if not line.startswith("+"):
            self._old.append(line[1:])
        if not line.startswith("-"):
            self._new.append(line[1:])

    def end_hunk(self) -> None:
        if self._old != self._new:
            self._replaced.append(Replacement("\n".join(self._old), "\n".join(self._new)))
        self._old, self._new = [], []

    def end_file(self) -> Iterator[Edit]:
        """Yield the edit of the file whose lines are complete; a new file has one hunk without old lines."""
        self.end_hunk()
        edit, replaced, self.edit, self._replaced = self.edit, tuple(self._replaced), None, []
        if edit and edit.content is not None and not edit.is_deleted:
            yield replace(edit, content="\n".join(each.added for each in replaced))
        elif edit:
            yield replace(edit, replaced=() if edit.is_deleted else replaced)


def _of_patch(patch: str) -> Iterator[Edit]:
    """Yield the edits of a patch as Codex writes it."""
    hunks = _Hunks()
    for line in patch.splitlines():
        if match := _PATCHED.match(line):
            yield from hunks.end_file()
            kind, path = match[1], match[2].strip()[:PATH_CHARS]
            hunks.edit = Edit(path, content="" if kind == "Add" else None, is_deleted=kind == "Delete")
        elif line.startswith(_MOVED) and hunks.edit:
            yield Edit(hunks.edit.path, is_deleted=True)
            hunks.edit = replace(hunks.edit, path=line.removeprefix(_MOVED).strip()[:PATH_CHARS])
        elif line.startswith("@@"):
            hunks.end_hunk()
        elif line[:1] in ("+", "-", " ", ""):
            hunks.take(line or " ")
    yield from hunks.end_file()


def _of_unified_diff(patch: str) -> Iterator[Edit]:
    """Yield the edits of a unified diff. Lines are counted, as "--- a" can be a removed line, too."""
    hunks, old_path, removed, added = _Hunks(), "", 0, 0
    for line in patch.splitlines():
        if removed > 0 or added > 0:
            if not line.startswith("\\"):
                hunks.take(line or " ")
            removed -= not line.startswith(("+", "\\"))
            added -= not line.startswith(("-", "\\"))
        elif line.startswith("--- "):
            old_path = line[4:].partition("\t")[0].strip()
        elif line.startswith("+++ "):
            yield from hunks.end_file()
            path = line[4:].partition("\t")[0].strip()
            is_deleted = path == "/dev/null"
            named = (old_path if is_deleted else path).removeprefix("a/" if is_deleted else "b/")
            is_new = old_path == "/dev/null"
            hunks.edit = Edit(named[:PATH_CHARS], content="" if is_new else None, is_deleted=is_deleted)
        elif match := _HUNK.match(line):
            hunks.end_hunk()
            removed, added = (int(count or 1) for count in match.groups())
    yield from hunks.end_file()
