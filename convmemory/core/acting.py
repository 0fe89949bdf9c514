"""Which identity the current work uses in the database: one context variable, which every connection obeys.

A request begins without an owner and takes on its caller's identity once the caller is authenticated. A task takes on
its owner's. Commands and sweeps run as maintenance. Without an owner, no row that belongs to a person is visible.
`core/postgres/base.py` applies the identity to connections. Reasons: docs/adr/0066-row-level-security.md; for owner
groups, docs/adr/0072-owner-groups.md.
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

    If owners are spread over groups, work for an owner uses the tables of that owner's group. Other work uses the
    tables of `group`, or of the group of the owner `beside`; without either it reads all groups and can insert nothing.
    """

    login: Login
    owner_id: int | None = None
    group: int | None = None
    beside: int | None = None

    @property
    def neighbour(self) -> int | None:
        """The owner whose group the work uses."""
        return self.beside if self.owner_id is None else self.owner_id


NO_GROUP = 0
"""In the place of a group's number: the shared tables alone."""
NOBODY = Identity(Login.APP)
MAINTENANCE = Identity(Login.MAINTENANCE)
SCHEMA = Identity(Login.SCHEMA)


SCHEMA_COMMANDS = frozenset({"dbshell", "flush", "migrate", "restore", "setup_roles", "sqlmigrate", "test"})
SERVING_COMMANDS = frozenset({"qcluster", "runserver"})


@dataclass(slots=True)
class _Request:
    """Shared by all threads of a request, because its caller becomes known in any of them."""

    identity: Identity = NOBODY


@dataclass(slots=True)
class _Process:
    identity: Identity = NOBODY


_process = _Process()
_acting: ContextVar[Identity | _Request | None] = ContextVar("acting", default=None)


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
    return NOBODY if name in SERVING_COMMANDS else MAINTENANCE


# --- requests -------------------------------------------------------------------------------------


def begin_request() -> Token[Identity | _Request | None]:
    """Start a request without an owner in this context; pass the token to `end_request`."""
    return _acting.set(_Request())


def end_request(token: Token[Identity | _Request | None]) -> None:
    """Restore the identity from before the request, in the context in which it began."""
    _acting.reset(token)


def authenticated(owner_id: int) -> None:
    """Record the caller of this request; outside a request this changes nothing."""
    request = _acting.get()
    if isinstance(request, _Request):
        request.identity = Identity(Login.APP, owner_id)


def admit_staff() -> None:
    """Let this request read everybody's rows: it is an administration page, opened by a member of staff."""
    request = _acting.get()
    if isinstance(request, _Request):
        request.identity = MAINTENANCE


# --- blocks ---------------------------------------------------------------------------------------


@contextmanager
def acting_for(owner_id: int) -> Iterator[None]:
    """Within the block, only this owner's rows can be read and written."""
    with _acting_as(Identity(Login.APP, owner_id)):
        yield


@contextmanager
def nobody() -> Iterator[None]:
    """Within the block, use the application's log-in without an owner."""
    with _acting_as(NOBODY):
        yield


@contextmanager
def maintenance() -> Iterator[None]:
    """Within the block, everybody's rows can be read and written. It must neither begin nor end inside a transaction.

    The block stays in the group of the surrounding work.
    """
    with _acting_as(_logged_in(Login.SCHEMA if current().login == Login.SCHEMA else Login.MAINTENANCE)):
        yield


@contextmanager
def schema_owner() -> Iterator[None]:
    """Within the block, tables and indexes can be changed. It must neither begin nor end inside a transaction.

    The block stays in the group of the surrounding work.
    """
    with _acting_as(_logged_in(Login.SCHEMA)):
        yield


@contextmanager
def in_group(number: int | None) -> Iterator[None]:
    """Within the block, use the tables of one group with the same log-in; None, with a single group, changes nothing.

    For work on behalf of no one person, which goes through `groups.every_group()`. `NO_GROUP` gives shared tables only.
    """
    with _acting_as(current() if number is None else Identity(current().login, group=number)):
        yield


@contextmanager
def beside(owner_id: int) -> Iterator[None]:
    """Within the block, maintenance uses the group of this owner; work for an owner stays in that owner's group."""
    who = current()
    with _acting_as(who if who.login == Login.APP else Identity(who.login, beside=owner_id)):
        yield


def _logged_in(login: Login) -> Identity:
    who = current()
    return Identity(login, group=who.group, beside=who.neighbour)


@contextmanager
def _acting_as(identity: Identity) -> Iterator[None]:
    token = _acting.set(identity)
    try:
        yield
    finally:
        _acting.reset(token)
