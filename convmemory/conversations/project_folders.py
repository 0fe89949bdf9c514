"""Decides which stored folders are one project: by their repository, by their paths, and by what the owner has chosen.

Conversations of one repository are one project on any machine and in any worktree. A folder whose conversations name no
repository belongs to the only one that others of the same folder name. A path contains the folders below it, the last
part of a path alone only what the owner has joined. Nothing is stored of this but the owner's choices: merged projects
(`ProjectRename`) and folders kept apart (`SeparateFolder`).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from django.db.models import Count, Q

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters, each_name
from convmemory.conversations.models import Conversation, ProjectRename, SeparateFolder, project_name
from convmemory.conversations.projects import PROJECT_CHARS, renamed_path
from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line, storable
from convmemory.push.repositories import Repository, folder_key, identity_of, is_in, parted, spelled

MAX_FOLDERS = 20_000
MAX_SEPARATE = 500
# Folders of machines and people: not one project with what is below them.
_SHALLOW = re.compile(
    r"/?|/(?:home|users|root|tmp|mnt|srv|opt|var|workspaces)|[a-z]:(?:/users)?|(?:/home|/users|[a-z]:/users)/[^/]+"
)


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """What conversations have in common: their project's path, its repository, and the worktree in which they ran."""

    project: str
    repository: str = ""
    worktree: str = ""

    @property
    def keys(self) -> tuple[str, str]:
        """The keys of the folders, see `folder_key`."""
        return folder_key(self.project), folder_key(self.worktree) if self.worktree else ""

    @property
    def key(self) -> str:
        return self.keys[1] or self.keys[0]


@dataclass(slots=True)
class Projects:
    """The projects of one archive. Pure."""

    folders: Collection[StoredFolder]
    renames: Collection[tuple[str, str, bool]] = ()  # old and new path, and whether there was a project of the new one
    separate: Collection[tuple[str, bool]] = ()  # path, and whether it means each worktree of it
    _parents: dict[str, str] = field(default_factory=dict)
    _at: dict[str, set[str]] = field(default_factory=dict)  # the repositories of a folder

    def __post_init__(self) -> None:
        merged = {folder_key(new) for _, new, is_merged in self.renames if is_merged}
        at = self._at
        for each in self.folders:
            if not self._apart(*each.keys):
                at.setdefault(each.keys[0], set()).update(filter(None, [each.repository]))
                if each.worktree:
                    self._join(_folder(each.keys[1]), _folder(each.keys[0]))
        for key in at:
            nearest = next((each for each in _chain(key) if at.get(each) and not _is_shallow(each)), key)
            if len(at[nearest]) == 1 or nearest in merged:
                for repository in at[nearest]:
                    self._join(_folder(key), _repository(repository))

    def of(self, name: str, repository: Repository | None = None) -> set[StoredFolder]:
        """Return the folders of the project with this path, identity or name.

        A client that knows what the folder is says so with `repository`, whose identity may be empty.
        """
        key, worktree = self._keys_of(renamed_path(name, [pair[:2] for pair in self.renames]), repository)
        if apart := self._apart(key, worktree):
            return {each for each in self.folders if self._apart(*each.keys) == apart}
        together = [each for each in self.folders if not self._apart(*each.keys)]
        identity = repository.identity if repository else identity_of(name)
        if repository is None and all(each.repository != identity for each in together):
            identity = ""
        groups = {self._root(_repository(identity))} if identity else self._named(name, key, together)
        of_project = [each for each in together if self._group(each) in groups]
        # The folders of a repository are its roots on several machines.
        roots = {each.keys[0] for each in of_project} if any(each.repository for each in of_project) else set()
        roots = {root for root in {key, *roots} if repository is None or not _is_shallow(root)}
        others = {self._group(each) for each in together if each.repository} - groups
        below = (each for each in together if not roots.isdisjoint(_chain(each.keys[0])))
        return {*of_project, *(each for each in below if not identity or self._group(each) not in others)}

    def apart(self, folder: StoredFolder) -> Literal["", "folder", "worktrees"]:
        """Return how the owner keeps the folder apart from its repository."""
        apart = self._apart(*folder.keys)
        if not apart:
            return ""
        return (
            "folder"
            if any(not is_each and folder_key(path) == apart for path, is_each in self.separate)
            else "worktrees"
        )

    def _keys_of(self, path: str, repository: Repository | None) -> tuple[str, str]:
        """Return the keys of a folder and of the worktree that it is in."""
        if repository and repository.root:
            is_linked = bool(repository.main)
            return folder_key(repository.main or repository.root), folder_key(repository.root) if is_linked else ""
        main, worktree = parted(path)
        keys = folder_key(main), folder_key(worktree) if worktree else ""
        return next((each.keys for each in self.folders if each.worktree and is_in(keys[0], each.keys[1])), keys)

    def _named(self, name: str, key: str, together: Collection[StoredFolder]) -> set[str]:
        """Return the groups of the folder and of those above it, as far as its repository; or of the only namesake."""
        groups: set[str] = set()
        for each in _chain(key):
            if each == key:
                groups |= {self._group(stored) for stored in together if stored.keys[0] == key}
            elif each in self._at and not _is_shallow(each):
                groups.add(self._root(_folder(each)))
            if self._at.get(each):
                break
        if groups:
            return groups
        alike = {self._group(each) for each in together if each.keys[0].casefold() == key.casefold()}
        if not alike and "/" not in key and "\\" not in key:
            short = name.casefold()
            names = ((each, project_name(each.project), project_name(each.repository)) for each in together)
            alike = {self._group(each) for each, *labels in names if short in map(str.casefold, labels)}
        return alike if len(alike) == 1 else set()

    def _apart(self, key: str, worktree: str) -> str:
        """Return the folder kept apart that this one is in, or an empty string."""
        for path, is_each in self.separate:
            if is_each and worktree and is_in(key, folder_key(path)):
                return worktree
        inside = [
            other
            for path, is_each in self.separate
            if not is_each and any(each and is_in(each, folder_key(path)) for each in (key, worktree))
            for other in [folder_key(path)]
        ]
        return max(inside, key=len, default="")

    def _group(self, each: StoredFolder) -> str:
        return self._root(_repository(each.repository) if each.repository else _folder(each.key))

    def _root(self, node: str) -> str:
        while node in self._parents:
            node = self._parents[node]
        return node

    def _join(self, one: str, other: str) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parents[one] = other


def _folder(key: str) -> str:
    return f"folder {key}"


def _repository(identity: str) -> str:
    return f"repository {identity}"


def _chain(key: str) -> Iterator[str]:
    """Yield the key of a folder and those of the folders above it."""
    while key:
        yield key
        key = key.rpartition("/")[0]
    yield "/"


def _is_shallow(key: str) -> bool:
    return _SHALLOW.fullmatch(key.casefold()) is not None


def projects_of_archive(archive_id: int) -> Projects:
    """Return the projects of an archive. Three queries."""
    rows = Conversation.objects.filter(archive_id=archive_id).exclude(project="").order_by()
    stored = rows.values_list("project", "repository", "worktree").distinct()[:MAX_FOLDERS]
    renames = ProjectRename.objects.filter(archive_id=archive_id).order_by("pk").values_list("old", "new", "merged")
    separate = SeparateFolder.objects.filter(archive_id=archive_id).values_list("folder", "each_worktree")
    return Projects([StoredFolder(*row) for row in stored], list(renames), list(separate))


@dataclass(frozen=True, slots=True)
class FolderOfProject:
    """A folder of a project, with the number of its conversations. `main` is the folder that a worktree is of.

    `apart` says whether it is kept apart: as a folder, as one of the worktrees that all are, or not at all.
    """

    folder: str
    main: str
    repository: str
    conversations: int
    apart: Literal["", "folder", "worktrees"]

    @property
    def is_worktree(self) -> bool:
        return self.folder != self.main


def folders_of_project(*, caller: Caller, project: str) -> list[FolderOfProject]:
    """Return the folders of a project of the caller, and those of its repository that are kept apart. Three queries."""
    rows = Conversation.objects.filter(archive_id=caller.archive_id).exclude(project="").order_by()
    counted = rows.values_list("project", "repository", "worktree").annotate(count=Count("pk"))[:MAX_FOLDERS]
    counts = {StoredFolder(*row): count for *row, count in counted}
    kept = projects_of_archive(caller.archive_id)
    together = Projects(list(counts), kept.renames)
    return [
        FolderOfProject(each.worktree or each.project, each.project, each.repository, counts[each], kept.apart(each))
        for each in sorted(together.of(project), key=lambda each: (each.worktree or each.project, each.repository))
    ]


def keep_apart(*, caller: Caller, folder: str, each_worktree: bool = False, is_apart: bool = True) -> None:
    """Keep a folder, or each worktree of it, apart from its repository, or join it again. Raises: InvalidInput."""
    folder = one_line(spelled(storable(folder).strip()), PROJECT_CHARS)
    if not folder:
        raise InvalidInput("Name the folder to keep apart.")
    rows = SeparateFolder.objects.filter(archive_id=caller.archive_id, each_worktree=each_worktree)
    same = [row.pk for row in rows if folder_key(row.folder) == folder_key(folder)]
    if is_apart and not same:
        if rows.count() >= MAX_SEPARATE:
            raise InvalidInput(f"{MAX_SEPARATE} folders are kept apart already: join some again.")
        SeparateFolder.objects.create(archive_id=caller.archive_id, folder=folder, each_worktree=each_worktree)
    elif not is_apart:
        rows.filter(pk__in=same).delete()


def with_folders(archive_id: int, filters: Filters) -> Filters:
    """Return the filters with the stored paths of the projects that were meant; unknown ones stay as they are.

    Conversations that have such a path and are of another project are excluded one by one.
    """
    names = each_name(filters.project)
    if not names:
        return filters
    projects = projects_of_archive(archive_id)
    meant: set[StoredFolder] = set()
    paths: list[str] = []
    for name in names:
        folders = projects.of(name, filters.repository)
        meant |= folders
        paths += sorted({each.project for each in folders}) or [name]
    others = [each for each in projects.folders if each.project in set(paths) and each not in meant]
    of_others = Q(pk__in=[])
    for each in others:
        of_others |= Q(project=each.project, repository=each.repository, worktree=each.worktree)
    excluded = Conversation.objects.filter(of_others, archive_id=archive_id).values_list("pk", flat=True)
    return replace(
        filters,
        project=tuple(dict.fromkeys(paths)),
        except_conversations=(*filters.except_conversations, *excluded),
    )
