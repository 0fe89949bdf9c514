"""Browsing the archive without a search: conversations by day and month, pinned ones first, and the filters.

Every function takes the caller. A page costs the same few queries, however large the archive is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import groupby

from django.db.models import Case, Count, F, Q, QuerySet, When
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, gettext_lazy

from convmemory.accounts.callers import Caller
from convmemory.conversations import curating
from convmemory.conversations.filters import Filters, conditions_on_conversations
from convmemory.conversations.models import Conversation, Figures, Tag
from convmemory.conversations.project_folders import with_folders
from convmemory.conversations.reading import visible_conversations
from convmemory.core.cursors import decode_moment, decode_numbers, encode_cursor

PAGE_ROWS = 60
MAX_ROWS = 600  # on a page that is opened again with all rows that were loaded
ORDERS: Mapping[str, tuple[str | Lower, str]] = {
    "": ("-updated_at", "-id"),
    "oldest": ("updated_at", "id"),
    "title": (Lower("title"), "id"),
    "turns": ("-turn_count", "-id"),
}
"""The order of the list, by the name in its address; "" is the newest first."""
PINNED_SHOWN = 30
CHILDREN_SHOWN = 300
CHOICES_SHOWN = 300
PINNED = gettext_lazy("Pinned")


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """Filters of the list, and its order; "" and False mean any. `project` includes all that is below its path."""

    agent: str = ""
    project: str = ""
    tag: str = ""
    model: str = ""
    tool: str = ""
    starred: bool = False
    archived: bool = False
    title: str = ""
    sort: str = ""

    @property
    def is_everything(self) -> bool:
        return self == LibraryChoice()


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """A conversation in the list, with the conversations that it started."""

    conversation: Conversation
    tags: tuple[str, ...] = ()
    children: tuple["LibraryRow", ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """Rows under one heading: "Pinned", "Today", "Yesterday" or a month; none in an order other than by time."""

    label: str
    rows: tuple[LibraryRow, ...]


def page_of_shelves(
    *,
    caller: Caller,
    choice: LibraryChoice,
    cursor: str = "",
    count: int = PAGE_ROWS,
    today: date | None = None,
) -> tuple[list[Shelf], str | None]:
    """Return `count` conversations under their headings, and the cursor of the next page. Raises: InvalidInput."""
    query = {"list": "library", "choice": repr(choice)}
    rows = _chosen(caller, choice).order_by(*ORDERS[choice.sort])
    shelves: list[Shelf] = []
    if choice.is_everything:
        pinned = [] if cursor else list(_chosen(caller, choice, is_pinned=True).order_by("-pinned_at")[:PINNED_SHOWN])
        shelves = [Shelf(str(PINNED), tuple(_rows(caller, pinned, has_children=True)))] if pinned else []
        rows = rows.filter(pinned_at__isnull=True)
    start = 0
    if cursor and choice.sort:
        (start,) = decode_numbers(query, cursor, count=1)
    elif cursor:
        at, pk = decode_moment(query, cursor)
        rows = rows.filter(Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=pk))
    # One more row than shown tells whether there is a next page.
    page = list(rows[start : start + count + 1])
    shown = _rows(caller, page[:count], has_children=choice.is_everything)
    if choice.sort in ("", "oldest"):
        now = today or timezone.localdate()
        days = groupby(shown, key=lambda row: shelf_label(timezone.localtime(row.conversation.updated_at).date(), now))
        shelves += [Shelf(label, tuple(group)) for label, group in days]
    elif shown:
        shelves.append(Shelf("", tuple(shown)))
    if len(page) <= count:
        return shelves, None
    last = page[count - 1]
    return shelves, encode_cursor(query, [start + count] if choice.sort else [last.updated_at.isoformat(), last.pk])


def matching(*, caller: Caller, choice: LibraryChoice, limit: int) -> tuple[list[int], int]:
    """Return the ids of the first `limit` conversations that the list shows for this choice, and how many there are.

    Two queries.
    """
    rows = _chosen(caller, choice)
    return list(rows.order_by(*ORDERS[choice.sort]).values_list("pk", flat=True)[:limit]), rows.count()


def _chosen(caller: Caller, choice: LibraryChoice, *, is_pinned: bool = False) -> QuerySet[Conversation]:
    """Return the chosen conversations.

    Without a filter, a conversation that was started by another appears only in the row of that one.
    """
    rows = visible_conversations(caller, Filters(agent=choice.agent, archived=choice.archived))
    if is_pinned:
        return rows.filter(pinned_at__isnull=False)
    if choice.is_everything:
        return rows.filter(Q(parent__isnull=True) | Q(parent__archived_at__isnull=False))
    if choice.project:
        of_project = conditions_on_conversations(
            with_folders(caller.archive_id, Filters(project=choice.project, archived=None))
        )
        rows = rows.filter(of_project | Q(project__startswith=f"{choice.project.rstrip('/')}/"))
    if choice.tag:
        tags = Tag.objects.filter(archive_id=caller.archive_id, name=choice.tag)
        rows = rows.filter(pk__in=tags.values("conversation_id"))
    for counts, name in (("spoken_by", choice.model), ("tools", choice.tool)):
        if name:
            counted = Figures.objects.filter(archive_id=caller.archive_id, **{f"{counts}__has_key": name})
            rows = rows.filter(pk__in=counted.values("conversation_id"))
    if choice.title:
        rows = rows.filter(title__folded_contains=choice.title)
    return rows.filter(starred_at__isnull=False) if choice.starred else rows


def _rows(caller: Caller, page: list[Conversation], *, has_children: bool) -> list[LibraryRow]:
    """Return the conversations with their tags and with the conversations that they started; two queries."""
    children: dict[int, list[Conversation]] = {}
    if has_children and page:
        of_rows = visible_conversations(caller).filter(parent_id__in=[row.pk for row in page], pinned_at__isnull=True)
        for child in of_rows.order_by("created_at", "pk")[:CHILDREN_SHOWN]:
            children.setdefault(child.parent_id or 0, []).append(child)
    # Tags of parents and children in one query.
    everyone = [row.pk for row in page] + [child.pk for group in children.values() for child in group]
    tags = curating.tags_of(caller=caller, conversation_ids=everyone) if everyone else {}

    def row_of(conversation: Conversation) -> LibraryRow:
        return LibraryRow(conversation, tuple(tags.get(conversation.pk, ())))

    return [replace(row_of(row), children=tuple(map(row_of, children.get(row.pk, ())))) for row in page]


def shelf_label(day: date, today: date) -> str:
    """Return the heading for conversations of this day."""
    if day >= today:
        return gettext("Today")
    return gettext("Yesterday") if day == today - timedelta(days=1) else date_format(day, "YEAR_MONTH_FORMAT")


@dataclass(slots=True)
class ProjectFolder:
    """A folder of the project tree: `path` selects it, `count` includes its subfolders."""

    name: str
    path: str
    count: int = 0
    folders: list["ProjectFolder"] = field(default_factory=list)


def agent_counts(*, caller: Caller) -> list[tuple[str, int]]:
    """Return the agents of the caller's conversations with their numbers, the most frequent first.

    A conversation that names no agent counts for its source, as in the filter.
    """
    by = Case(When(agent="", then=F("source")), default=F("agent"))
    rows = visible_conversations(caller).annotate(by=by).exclude(by="").values_list("by").annotate(count=Count("pk"))
    return list(rows.order_by("-count", "by")[:CHOICES_SHOWN])


def project_tree(*, caller: Caller) -> list[ProjectFolder]:
    """Return the caller's projects as nested folders; a folder that contains only one other is merged with it."""
    rows = visible_conversations(caller).exclude(project="").values_list("project").annotate(count=Count("pk"))
    root = ProjectFolder("", "")
    for project, count in rows.order_by("-count", "project")[:CHOICES_SHOWN]:
        # Add the project to the tree; a prefix before its first folder becomes part of that folder's name.
        at, path = root, ""
        names = project.replace("\\", "/").rstrip("/").split("/")
        for number, name in enumerate(names):
            path = f"{path}/{name}" if number else name
            if not name:
                continue
            inner = next((folder for folder in at.folders if folder.path == path), None)
            if inner is None:
                inner = ProjectFolder(name, path)
                at.folders.append(inner)
            inner.count += count
            at = inner
    joined = [_joined(folder) for folder in root.folders]
    return sorted(joined, key=lambda folder: folder.name.lower())


def _joined(folder: ProjectFolder) -> ProjectFolder:
    """Return the folder, or its subfolder if that contains everything in it, with subfolders joined in the same way."""
    while len(folder.folders) == 1 and folder.folders[0].count == folder.count:
        folder = folder.folders[0]
    inside = sorted((_joined(below) for below in folder.folders), key=lambda below: below.name.lower())
    return ProjectFolder(folder.name, folder.path, folder.count, inside)
