"""Who acts, by what right, and in which archive: the one value that use cases take instead of an owner.

The edge makes it: the authentication of the API and of pages, MCP, a command, a task. It enters another archive of the
caller by `Caller.in_`, which also tells the database (`core/acting.py`); the database itself admits members alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple, cast

from django.contrib.auth.models import User
from django.db import connection
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from convmemory.accounts.models import Membership
from convmemory.core import acting
from convmemory.core.errors import InvalidInput, NotAllowed, NotFound, ReadOnlyKey
from convmemory.core.numbers import parse_number
from convmemory.core.sql import PendingQuery, Query, load_sql

MAX_NAME_CHARS = 100
MINE = "mine"
"""Chooses the caller's own archive where the number or the name of a space chooses that space."""
WRITING_ROLES = frozenset({Membership.Role.CONTRIBUTOR, Membership.Role.MANAGER})
KEYS_ONLY_READ = "This key only reads spaces: use one that also writes to them, or make this change on the pages."


class SpaceName(NamedTuple):
    """The number and the name of a space, as hits and lists show them."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """An archive that a caller reads, and the caller's role there. `space` is None for the caller's own archive."""

    archive_id: int
    space: SpaceName | None = None
    role: Membership.Role = Membership.Role.MANAGER

    @property
    def name(self) -> str:
        """Return the name that pages show."""
        return self.space.name if self.space else gettext("Your own archive")

    @property
    def role_name(self) -> str:
        return str(self.role.label)

    @property
    def may_write(self) -> bool:
        return self.role in WRITING_ROLES

    @property
    def limits(self) -> str:
        """Return what the role does not allow, for people; "" if it allows to write."""
        if self.may_write:
            return ""
        return gettext("You search and read here. Contributors and managers import, change and delete.")


@dataclass(frozen=True, slots=True)
class KeyRights:
    """The rights of an API key, or of a program that got one by OAuth."""

    key_id: int
    is_read_only: bool = False
    writes_spaces: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """A person, or a worker without one, in one of the archives that they read.

    `spaces` are the spaces that they read, by name: those of a person who signed in, those that a key names.
    """

    person: User | None
    archive: Access
    spaces: Sequence[Access] = ()
    key: KeyRights | None = None

    @classmethod
    def of(cls, person: User) -> "Caller":
        """Return a person in their own archive, who reads all their spaces; these are queried when they are used."""
        spaces = SimpleLazyObject(lambda: spaces_of(person))
        return cls(person=person, archive=Access(person.pk), spaces=cast("Sequence[Access]", spaces))

    @classmethod
    def for_archive(cls, archive_id: int) -> "Caller":
        """Return a worker that acts in this archive for no one person."""
        return cls(person=None, archive=Access(archive_id))

    @property
    def archive_id(self) -> int:
        """Return the number of the archive that the caller acts in."""
        return self.archive.archive_id

    @property
    def space(self) -> Access | None:
        """Return the archive that the caller acts in if it is a space."""
        return self.archive if self.archive.space else None

    @property
    def user(self) -> User:
        """Return the person of a caller who has one, as all callers of pages and of the API have."""
        assert self.person is not None
        return self.person

    @property
    def person_id(self) -> int | None:
        return self.person.pk if self.person else None

    @property
    def own(self) -> Access:
        """Return the caller's own archive."""
        return self.archive if self.person is None else Access(self.person.pk)

    @property
    def archives(self) -> list[Access]:
        """Return the archives that a query reads: the caller's own and all their spaces; in a space that one alone."""
        return [self.archive] if self.space else [self.archive, *self.spaces]

    @property
    def may_write_spaces(self) -> bool:
        """Return whether the caller's key, if they use one, also writes to spaces."""
        return self.key is None or self.key.writes_spaces

    def reads(self, archive_id: int) -> Access | None:
        """Return the caller's access to an archive; None without one."""
        if archive_id == self.own.archive_id:
            return self.own  # without a look at the spaces, which may cost a query
        return next((access for access in self.spaces if access.archive_id == archive_id), None)

    def chosen(self, name: str) -> list[Access]:
        """Return the `archives`, or the one that has this number or, in upper or lower case, this name.

        Raises: NotFound for another space, InvalidInput if several have the name.
        """
        if not name:
            return self.archives
        if name == MINE:
            return [self.own]
        number, folded = parse_number(name), " ".join(name.split()).casefold()
        hits = [access for access in self.spaces if access.archive_id == number] or [
            access for access in self.spaces if access.name.casefold() == folded
        ]
        if not hits:
            raise no_space(name)
        if len(hits) > 1:
            raise InvalidInput(
                gettext("Several spaces are called %(space)s: name one by its number, %(numbers)s.")
                % {"space": hits[0].name, "numbers": ", ".join(str(access.archive_id) for access in hits)}
            )
        return hits

    def at(self, access: Access) -> "Caller":
        """Return the same caller in another archive, without a change of what the database shows."""
        return replace(self, archive=access)

    @contextmanager
    def in_(self, access: Access) -> Iterator["Caller"]:
        """Act in one of the caller's archives in the block: the database shows its rows, as far as the role allows."""
        if access == self.archive:
            yield self
            return
        with acting_as(self.at(access)) as there:
            yield there

    def alone(self) -> "Caller":
        """Return the caller without the spaces that they read."""
        return replace(self, spaces=())

    def require_writing_key(self) -> None:
        """Raises: ReadOnlyKey."""
        if self.key is not None and self.key.is_read_only:
            raise ReadOnlyKey

    def require_writing_spaces(self) -> None:
        """Raises: NotAllowed for a key that only reads spaces."""
        if not self.may_write_spaces:
            raise NotAllowed(KEYS_ONLY_READ)


@contextmanager
def acting_as(caller: Caller) -> Iterator[Caller]:
    """Let the database show the block what the caller may see in the archive that they act in."""
    person_id = caller.person.pk if caller.person and caller.space else None
    with acting.acting_for(caller.archive_id, person_id=person_id):
        yield caller


def access_of(member: Membership) -> Access:
    """Return the access that a membership gives; its space is loaded."""
    return Access(member.archive_id, SpaceName(member.archive_id, member.archive.name), Membership.Role(member.role))


def spaces_of(person: User) -> list[Access]:
    """Return the spaces that the person is a member of, by name. One query."""
    return spaces_in(PendingQuery(*spaces_query(person), keeps_plan=True).rows())


def spaces_query(person: User) -> Query:
    """Return the query for the spaces that the person is a member of, which `spaces_in` reads."""
    return load_sql("convmemory.accounts", "spaces_of_person"), {"person": person.pk}


def spaces_in(rows: Iterable[tuple[Any, ...]]) -> list[Access]:
    """Return the spaces of the rows, in their order."""
    return [Access(number, SpaceName(number, name), Membership.Role(role)) for number, name, role in rows]


def latest_first(archives: Sequence[Access]) -> list[tuple[Access, datetime]]:
    """Return archives of the person who acts with the time of their latest change, the person's own before all spaces.

    A query, if there are several.
    """
    changes: dict[int, datetime | None] = {}
    if len(archives) > 1:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.accounts", "changes_of_spaces"))
            changes = dict(cursor.fetchall())
    never, now = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    dated = [
        (access, (changes.get(access.archive_id) or never) if access.space and changes else now) for access in archives
    ]
    return sorted(dated, key=itemgetter(1), reverse=True)


def no_space(name: str) -> NotFound:
    """Return the refusal of a space that the caller does not read, or that is none."""
    refusal = gettext(
        "There is no space %(space)s that this request may read: name mine, or a space by name or number."
    )
    return NotFound(refusal % {"space": name[:MAX_NAME_CHARS]})


def refuse_readers(access: Access) -> None:
    """Raises: NotAllowed if the role does not allow writing."""
    if not access.may_write:
        raise NotAllowed(
            gettext("You only read the space %(name)s: ask one of its managers to make you a contributor.")
            % {"name": access.name}
        )
