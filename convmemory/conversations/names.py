"""The names of agents, projects and sources as people give them: in any case, a project by its path or its name."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from convmemory.conversations.filters import EXACT, Filters, conditions_on_conversations, each_name
from convmemory.conversations.models import Conversation, FileEdit, Message, project_name
from convmemory.conversations.project_folders import with_folders
from convmemory.core.sql import load_sql

MAX_NAMES = 500
NEAREST = 3
# The least similarity, by `difflib`, of a name that is offered in place of an unknown one.
LEAST_SIMILARITY = 0.5
HAS = {kind.name.lower(): kind for kind in Message.Contents}
"""What messages of a conversation may hold, by its name in the search box."""


def with_known_names(archive_id: int, filters: Filters) -> Filters:
    """Return the filters with the full names of the owner's conversations that were meant, and all paths of a project.

    A name that a conversation has stays as it is, and so does one that is unknown or could be several. One query for
    each name, two for an unknown one, three or four for projects.
    """
    if filters.has_full_names:
        return filters
    full: dict[str, Any] = {
        name: tuple(_meant(archive_id, name, value) for value in values)
        for name in EXACT
        if name != "project" and (values := each_name(getattr(filters, name)))
    }
    if filters.tokens:
        full |= {"tokens": (), "conversations": _with_tokens(archive_id, filters.tokens)}
        full["file"] = dict(filters.tokens).get("file", "")
    return replace(with_folders(archive_id, filters), has_full_names=True, **full)


def _with_tokens(archive_id: int, tokens: Sequence[tuple[str, str]]) -> frozenset[int]:
    """Return the owner's conversations that meet all of these conditions of the search box.

    One query, and one more for each model.
    """
    rows = Conversation.objects.filter(archive_id=archive_id)
    for name, value in tokens:
        messages = Message.objects.filter(archive_id=archive_id, conversation=OuterRef("pk"))
        edits = FileEdit.objects.filter(archive_id=archive_id, conversation=OuterRef("pk"))
        kinds = HAS[value] if name == "has" else 0
        contents = [contents for contents in range(sum(Message.Contents) + 1) if contents & kinds]
        conditions = {
            "title": Q(title__icontains=value),
            "is": Q(**{f"{value}_at__isnull": False}),
            "tag": Q(tags__name__iexact=value),
            "model": Exists(messages.filter(model__in=_models(archive_id, value) if name == "model" else ())),
            "has": Exists(messages.filter(contents__in=contents)),
            "file": Exists(edits_at(edits, value)),
        }
        rows = rows.filter(conditions[name])
    return frozenset(rows.values_list("pk", flat=True))


def _models(archive_id: int, value: str) -> list[str]:
    """Return the models of the owner's messages whose names contain the value, in any case. One query."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "models_of_archive"), {"owner": archive_id})
        return [model for (model,) in cursor.fetchall() if value.casefold() in model.casefold()]


def edits_at(edits: QuerySet[FileEdit], path: str) -> QuerySet[FileEdit]:
    """Return the edits of files whose path is this one or ends with it."""
    path = posixpath.normpath(path)
    return edits.filter(Q(path=path) | Q(path__endswith=f"/{path}"), name=path.rpartition("/")[2])


def nearest_names(archive_id: int, name: str, value: str) -> list[str] | None:
    """Return the known names most similar to `value`; None if it is known itself. Two queries."""
    if _exists(archive_id, name, value):
        return None
    names = _known(archive_id, name)
    by_form: dict[str, list[str]] = {}  # several projects may have the same last part
    for full in names:
        for form in dict.fromkeys((_short(full), full.casefold())):
            by_form.setdefault(form, []).append(full)
    near = get_close_matches(_short(value), by_form, n=2 * NEAREST, cutoff=LEAST_SIMILARITY)
    return list(dict.fromkeys(full for form in near for full in by_form[form]))[:NEAREST]


def _meant(archive_id: int, name: str, value: str) -> str:
    if _exists(archive_id, name, value):
        return value
    matches = [full for full in _known(archive_id, name) if full.casefold() == value.casefold()]
    return matches[0] if len(matches) == 1 else value


def _exists(archive_id: int, name: str, value: str) -> bool:
    named: dict[str, Any] = {name: value}
    conditions = conditions_on_conversations(Filters(archived=None, **named))
    return Conversation.objects.filter(conditions, archive_id=archive_id).exists()


def _known(archive_id: int, name: str) -> list[str]:
    """Return the values that the owner's conversations have, a limited number."""
    rows = Conversation.objects.filter(archive_id=archive_id).exclude(**{name: ""}).order_by()
    return list(rows.values_list(name, flat=True).distinct()[:MAX_NAMES])


def _short(name: str) -> str:
    """Return the last part of a path, without case."""
    return project_name(name).casefold()
