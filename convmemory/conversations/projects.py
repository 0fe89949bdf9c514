"""Renaming and merging projects, and taking that back.

A project is a path in the column of each conversation; folders below it go with it. What was renamed stays so for
conversations that are imported later (`current_name`).
"""

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat, Left, Substr

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, FileEdit, ProjectRename
from convmemory.conversations.signals import projects_renamed
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.text import one_line, storable
from convmemory.push.repositories import spelled

PROJECT_CHARS = 300
LISTED = 500
SEPARATORS = ("/", "\\")


def projects_of(*, caller: Caller, with_edits: bool = False) -> list[tuple[str, int]]:
    """Return the caller's projects with the number of their conversations, or of those that edited files, in
    alphabetical order.
    """
    rows = Conversation.objects.filter(archive_id=caller.archive_id).exclude(project="")
    if with_edits:
        rows = rows.filter(Exists(FileEdit.objects.filter(archive_id=caller.archive_id, conversation=OuterRef("pk"))))
    return list(rows.values_list("project").annotate(count=Count("pk")).order_by("project")[:LISTED])


def rename_project(*, caller: Caller, project: str, name: str) -> ProjectRename:
    """Give a project of the caller, with the folders below it, another name; that of an existing project merges both.

    A name without a separator replaces the last part of the path. Raises: NotFound, InvalidInput.
    """
    project, name = project.rstrip("/\\"), one_line(storable(name).strip().rstrip("/\\"), PROJECT_CHARS)
    if not name:
        raise InvalidInput("A project's name cannot be empty: write at least one character.")
    if not any(sign in name for sign in SEPARATORS):
        folder = project[: max(project.rfind(sign) for sign in SEPARATORS) + 1]
        name = one_line(folder + name, PROJECT_CHARS)
    if name == project:
        raise InvalidInput("The project has this name already: write another one.")
    with transaction.atomic():
        rows = _in_project(caller, project)
        if not rows.exists():
            project = spelled(project)
            rows = _in_project(caller, project)
        ids = list(rows.values_list("pk", flat=True)) if project else []
        if not ids:
            raise NotFound(f"There is no project {project[:100]!r}.")
        merged = Conversation.objects.filter(archive_id=caller.archive_id, project=name).exists()
        _move(rows.filter(pk__in=ids), project, name)
        renamed = ProjectRename.objects.create(
            archive_id=caller.archive_id, old=project, new=name, merged=merged, conversation_ids=ids
        )
        projects_renamed.send(ProjectRename, archive_id=caller.archive_id, conversation_ids=ids)
    return renamed


def undo_rename(*, caller: Caller, rename_id: int) -> ProjectRename:
    """Give the conversations of a renaming their project back, unless it was changed since. Raises: NotFound."""
    with transaction.atomic():
        renamed = ProjectRename.objects.filter(archive_id=caller.archive_id, pk=rename_id).select_for_update().first()
        if renamed is None:
            raise NotFound(f"There is no renaming {rename_id} to undo.")
        _move(_in_project(caller, renamed.new).filter(pk__in=renamed.conversation_ids), renamed.new, renamed.old)
        projects_renamed.send(ProjectRename, archive_id=caller.archive_id, conversation_ids=renamed.conversation_ids)
        renamed.delete()
    return renamed


def renaming_of(*, caller: Caller, rename_id: int) -> ProjectRename | None:
    """Return a renaming of the caller."""
    return ProjectRename.objects.filter(archive_id=caller.archive_id, pk=rename_id).defer("conversation_ids").first()


def current_name(archive_id: int, project: str) -> str:
    """Return what the owner calls a project now that a source names. One query."""
    renames = ProjectRename.objects.filter(archive_id=archive_id).order_by("pk").values_list("old", "new")
    return renamed_path(project, renames)


def renamed_path(project: str, renames: Iterable[tuple[str, str]]) -> str:
    """Return what a project is called after these renamings, old and new name each, in order."""
    project = spelled(project)
    for old, new in ((spelled(old), new) for old, new in renames):
        if project == old or (project.startswith(old) and project[len(old)] in SEPARATORS):
            project = f"{new}{project[len(old) :]}"[:PROJECT_CHARS]
    return project


def _in_project(caller: Caller, project: str) -> QuerySet[Conversation]:
    below = (Q(project__startswith=f"{project}{sign}") for sign in SEPARATORS)
    condition = Q(project=project)
    for each in below:
        condition |= each
    return Conversation.objects.filter(condition, archive_id=caller.archive_id)


def _move(rows: QuerySet[Conversation], old: str, new: str) -> None:
    rows.update(project=Left(Concat(Value(new), Substr("project", len(old) + 1)), PROJECT_CHARS))
