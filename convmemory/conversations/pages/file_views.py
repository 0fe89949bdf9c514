"""Pages of the files that sessions edited: those of a project or a conversation, and one file with its versions.

A file is shown with the turn that wrote each line, or as the difference between two versions. All choices are in the
address.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.files import (
    FileTurn,
    edits_in_project,
    files_in,
    history_in,
    versions_of_history,
)
from convmemory.conversations.messages.edits import path_in_project
from convmemory.conversations.messages.file_versions import Version
from convmemory.conversations.models import Conversation, FileEdit, project_name
from convmemory.conversations.pages.diffs import Diff, difference
from convmemory.conversations.projects import projects_of
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import NotFound
from convmemory.core.numbers import parse_number

FILES_SHOWN = 100
LINES_SHOWN = 4_000
MAX_OFFSET = 100_000


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version in the list of a file, by its number from 1 on."""

    number: int
    version: Version
    turn: FileTurn


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a version. `writer` is the version that wrote it, if this is the first line of several of it."""

    number: int | None
    text: str | None
    writer: ShownVersion | None
    is_first: bool


@require_safe
@in_archive
def files(request: PageRequest, conversation_id: int | None = None) -> HttpResponse:
    """Render the files that a project, a conversation or a `turn` of it edited; without any, the projects."""
    project, conversation = _asked(request, conversation_id)
    turn = parse_number(request.GET.get("turn", "")) if conversation else None
    contains = request.GET.get("contains", "").strip()[:300]
    context: dict[str, Any] = {"project": project, "conversation": conversation, "contains": contains}
    context["project_name"] = project_name(project) or project
    if not project and conversation is None:
        projects = projects_of(caller=request.caller, with_edits=True)
        named = ((name, project_name(name) or name, count) for name, count in projects)
        return render(request, "conversations/files.html", context | {"projects": list(named)})
    offset = min(parse_number(request.GET.get("from", "")) or 0, MAX_OFFSET)
    edits = _edits(request, project, conversation)
    if turn is not None:
        edits = edits.filter(turn_number=turn)
    rows, following = files_in(edits, contains=contains, limit=FILES_SHOWN, offset=offset)
    kept: dict[str, Any] = {"project": project} if conversation is None else {"turn": turn} if turn is not None else {}
    keep = kept | {"contains": contains, "from": following}
    address = reverse("conversation-files", args=[conversation.pk]) if conversation else reverse("files")
    of_project = {} if conversation else {"project": project}
    one = reverse("conversation-file", args=[conversation.pk]) if conversation else reverse("file")
    context |= {
        "rows": rows,
        "address": address,
        "turn": turn,
        "kept": kept.items(),
        "file_address": f"{one}?{urlencode({**of_project, 'path': ''})}",
        "next": f"{address}?{urlencode({name: value for name, value in keep.items() if value != ''})}"
        if following
        else "",
    }
    return render(request, "conversations/files.html", context)


@require_safe
@in_archive
def file(request: PageRequest, conversation_id: int | None = None) -> HttpResponse:
    """Render one version of a file with the turn that wrote each line, or the difference to another version."""
    project, conversation = _asked(request, conversation_id)
    named = request.GET.get("path", "").strip()[:4000]
    folders = (conversation.worktree, conversation.project) if conversation else (project,)
    history = history_in(request.caller, _edits(request, project, conversation), path_in_project(named, *folders))
    if not history.turns:
        raise NotFound(f"No archived session edited {history.path[:300]!r}.")
    versions = versions_of_history(caller=request.caller, history=history)
    shown = [ShownVersion(version.number + 1, version, versions.turns[version.number]) for version in versions.versions]
    by_number = {each.number: each for each in shown}
    chosen = by_number.get(parse_number(request.GET.get("version", "")) or 0) or (shown[-1] if shown else None)
    against = by_number.get(parse_number(request.GET.get("against", "")) or 0)
    lines, diff = [], None
    if chosen and against:
        before, after = ([line.text for line in each.version.lines] for each in (against, chosen))
        diff, _ = Diff("", tuple(difference(before, after))).cut(LINES_SHOWN * 100)
    elif chosen:
        lines = _lines(chosen.version, by_number)
    keep = {"project": project} if conversation is None else {}
    context = {
        "history": history,
        "project": project,
        "project_name": project_name(project) or project,
        "conversation": conversation,
        "versions": shown[::-1],
        "chosen": chosen,
        "against": against,
        "lines": lines[:LINES_SHOWN],
        "left_out": max(len(lines) - LINES_SHOWN, 0),
        "diff": diff,
        "is_cut": versions.is_cut,
        "keep": [*keep.items(), ("path", history.path)],
        "address": f"?{urlencode({**keep, 'path': history.path})}",
        "others": [(path, f"?{urlencode({**keep, 'path': path})}") for path in history.others],
        "up": reverse("conversation-files", args=[conversation.pk])
        if conversation
        else f"{reverse('files')}?{urlencode({'project': project})}",
    }
    return render(request, "conversations/file.html", context)


def _asked(request: PageRequest, conversation_id: int | None) -> tuple[str, Conversation | None]:
    """Return the project that is asked for, and the conversation; its project without one of the address."""
    if conversation_id is None:
        return request.GET.get("project", "").strip()[:300], None
    conversation = get_conversation(caller=request.caller, conversation_id=conversation_id)
    return conversation.project, conversation


def _edits(request: PageRequest, project: str, conversation: Conversation | None) -> QuerySet[FileEdit]:
    """Return the edits in a project; of a conversation alone on its page, or if it has no project."""
    route = request.resolver_match.url_name if request.resolver_match else ""
    if conversation is not None and (not project or route == "conversation-files"):
        return FileEdit.objects.filter(archive_id=request.caller.archive_id, conversation=conversation)
    return edits_in_project(request.caller, project)


def _lines(version: Version, by_number: dict[int, ShownVersion]) -> list[ShownLine]:
    lines: list[ShownLine] = []
    last: int | None = -1
    for number, line in enumerate(version.lines, 1):
        writer = None if line.version is None else by_number.get(line.version + 1)
        at = number if version.is_whole else None
        lines.append(ShownLine(at, line.text, writer, line.text is not None and line.version != last))
        last = -1 if line.text is None else line.version
    return lines
