"""The identity that the current work has in the database: one context variable, which every connection obeys.

A request begins without an owner and takes on its caller's identity once the caller is authenticated. A task takes on
its owner's. Commands and sweeps run as maintenance. Without an owner, no row that belongs to a person is visible.

`core/postgres/base.py` applies the identity to connections. Reasons: docs/adr/0066-row-level-security.md; for owner
groups, docs/adr/0072-owner-group-per-citus-node.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from enum import StrEnum


class Login(StrEnum):
    """The three log-ins. If only one is set up, it does all work."""

    APP = "app"
    MAINTENANCE = "maintenance"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class Identity:
    """A log-in, and for the application's log-in, the one owner whose rows it sees.

    `person_id` is set if the owner is a space: the member who makes the request. The database then shows and
    accepts rows only as far as that person's role in the space allows at the time of each statement. `caused_by` is the
    member who asked a worker for a task in a space; the database does not look at it.

    On a Citus cluster, work for an owner uses the tables of that owner's group, whatever its log-in. Other work uses
    the tables of `group`; without one it reads all groups and changes none.
    """

    login: Login
    archive_id: int | None = None
    group: int | None = None
    person_id: int | None = None
    caused_by: int | None = None

    @property
    def adds_for(self) -> int | None:
        """Return the person whom the work counts for in addition to its space; None in a person's own archive."""
        return self.person_id or self.caused_by


NO_GROUP = 0
"""In the place of a group's number: the shared tables alone."""
WITHOUT_OWNER = Identity(Login.APP)
MAINTENANCE = Identity(Login.MAINTENANCE)
SCHEMA = Identity(Login.SCHEMA)


# These commands change tables, which only the owner of the schema may.
SCHEMA_COMMANDS = frozenset({"dbshell", "flush", "migrate", "restore", "setup_roles", "sqlmigrate", "test"})
SERVING_COMMANDS = frozenset({"qcluster", "runserver"})


@dataclass(slots=True)
class _Request:
    """Shared by all threads of a request, because its caller becomes known in any of them."""

    identity: Identity = WITHOUT_OWNER


@dataclass(slots=True)
class _Process:
    identity: Identity = WITHOUT_OWNER


_process = _Process()
_acting: ContextVar[Identity | _Request | None] = ContextVar("acting", default=None)
COMMAND = "command"
_surface: ContextVar[str] = ContextVar("surface", default=COMMAND)


def current() -> Identity:
    """Return the identity of this context."""
    acting = _acting.get()
    if acting is None:
        return _process.identity
    return acting if isinstance(acting, Identity) else acting.identity


def process_acts_as(identity: Identity) -> None:
    """Set the default identity of this process, for all its threads."""
    _process.identity = identity


def of_command(name: str) -> Identity:
    """Return the identity with which a command of `manage.py` begins."""
    if name in SCHEMA_COMMANDS:
        return SCHEMA
    return WITHOUT_OWNER if name in SERVING_COMMANDS else MAINTENANCE


def begin_request(surface: str) -> tuple[Token[Identity | _Request | None], Token[str]]:
    """Start a request without an owner in this context; pass the tokens to `end_request`.

    `surface` is what the request came by: a page, the API, an agent or the administration.
    """
    return _acting.set(_Request()), _surface.set(surface)


def end_request(tokens: tuple[Token[Identity | _Request | None], Token[str]]) -> None:
    """Restore the identity from before the request, in the context in which it began."""
    _acting.reset(tokens[0])
    _surface.reset(tokens[1])


def surface() -> str:
    """Return what the current work came by; "command" outside of requests, also for the tasks of workers."""
    return _surface.get()


def authenticated(archive_id: int) -> None:
    """Record the caller of this request; does nothing outside a request."""
    request = _acting.get()
    # Changed in place: Django's threads get a copy of the context, which refers to the same object.
    if isinstance(request, _Request):
        request.identity = Identity(Login.APP, archive_id)


def open_space(space_id: int) -> None:
    """Let the caller of this request use a space from now on; does nothing outside a request.

    Nothing is checked here: the database shows the space to members only.
    """
    request = _acting.get()
    if isinstance(request, _Request) and (caller := request.identity).login == Login.APP:
        request.identity = Identity(Login.APP, space_id, person_id=caller.person_id or caller.archive_id)


def admit_staff() -> None:
    """Let this request read the rows of all owners: a member of staff opened an administration page."""
    request = _acting.get()
    if isinstance(request, _Request):
        request.identity = MAINTENANCE


@contextmanager
def acting_for(archive_id: int, *, person_id: int | None = None, caused_by: int | None = None) -> Iterator[None]:
    """Restrict the block to this owner's rows, for reading and writing.

    With `person_id`, which differs from the owner only in a space, also to what this person may read and write there.
    """
    member_id, cause_id = (None if number == archive_id else number for number in (person_id, caused_by))
    with _acting_as(Identity(Login.APP, archive_id, person_id=member_id, caused_by=cause_id)):
        yield


@contextmanager
def counting_for(archive_id: int, *, as_member: bool = False) -> Iterator[None]:
    """Read and change the sums of a person or a space in the block, with the log-in of the surrounding work.

    What is added to a space counts for a person, too, whose sums are rows of their own archive. With `as_member`, only
    as far as the role of who acts in a space allows.
    """
    who = current()
    member_id = (who.person_id or who.archive_id) if as_member else None
    with _acting_as(Identity(who.login, archive_id, person_id=None if member_id == archive_id else member_id)):
        yield


@contextmanager
def without_owner() -> Iterator[None]:
    """Use the application's log-in without an owner in the block."""
    with _acting_as(WITHOUT_OWNER):
        yield


@contextmanager
def maintenance() -> Iterator[None]:
    """Allow the block to read and write the rows of all owners. It must neither begin nor end inside a transaction.

    The block stays with the owner of the surrounding work, whose rows it is about.
    """
    with _acting_as(_logged_in(Login.SCHEMA if current().login == Login.SCHEMA else Login.MAINTENANCE)):
        yield


@contextmanager
def schema_owner() -> Iterator[None]:
    """Allow the block to change tables and indexes. It must neither begin nor end inside a transaction."""
    with _acting_as(_logged_in(Login.SCHEMA)):
        yield


@contextmanager
def in_archive_of(archive_id: int) -> Iterator[None]:
    """Let maintenance work on the archive of one owner in the block; work of the application stays with its owner."""
    who = current()
    with _acting_as(who if who.login == Login.APP else Identity(who.login, archive_id)):
        yield


@contextmanager
def in_group(number: int) -> Iterator[None]:
    """Use the tables of one group in the block, with the same log-in; `NO_GROUP` gives shared tables only."""
    with _acting_as(Identity(current().login, group=number)):
        yield


def _logged_in(login: Login) -> Identity:
    who = current()
    return Identity(login, who.archive_id, who.group)


@contextmanager
def _acting_as(identity: Identity) -> Iterator[None]:
    token = _acting.set(identity)
    try:
        yield
    finally:
        _acting.reset(token)
