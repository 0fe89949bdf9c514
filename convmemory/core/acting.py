"""As whom this piece of work asks the database: one context variable, which every connection obeys.

A request begins as nobody and becomes its caller's once that caller is known; a task becomes its owner's; commands and
sweeps are maintenance. Nobody sees no row that belongs to a person. How a connection obeys: `core/postgres/base.py`.
Reasons: docs/adr/0066-row-level-security.md; for the groups of owners docs/adr/0072-owner-groups.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from enum import StrEnum


class Login(StrEnum):
    """The three log-ins. Where only one is set up, all work is done with that one."""

    APP = "app"
    MAINTENANCE = "maintenance"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class Identity:
    """A log-in, and, of the application's, the one owner whose rows it sees.

    Where owners are spread over groups, an owner's work is done in the tables of their group. Others work in those of
    `group`, or of the group that the owner `beside` belongs to; without both they read all groups and insert nothing.
    """

    login: Login
    owner_id: int | None = None
    group: int | None = None
    beside: int | None = None

    @property
    def neighbour(self) -> int | None:
        """The owner in whose group the work is done."""
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
    """As whom this context acts."""
    acting = _acting.get()
    if acting is None:
        return _process.identity
    return acting if isinstance(acting, Identity) else acting.identity


def process_acts_as(identity: Identity) -> None:
    """What holds in this process, in all its threads, where nothing else is said."""
    _process.identity = identity


def of_command(name: str) -> Identity:
    """As whom a command of `manage.py` begins."""
    if name in SCHEMA_COMMANDS:
        return SCHEMA
    return NOBODY if name in SERVING_COMMANDS else MAINTENANCE


# --- requests -------------------------------------------------------------------------------------


def begin_request() -> Token[Identity | _Request | None]:
    """From now on this context is a request of nobody; the token ends that."""
    return _acting.set(_Request())


def end_request(token: Token[Identity | _Request | None]) -> None:
    """Act as before the request, in the context in which it began."""
    _acting.reset(token)


def authenticated(owner_id: int) -> None:
    """The caller of this request is known; outside a request nothing changes."""
    request = _acting.get()
    if isinstance(request, _Request):
        request.identity = Identity(Login.APP, owner_id)


def admit_staff() -> None:
    """This request is an administration page of a member of staff, which shows rows of everybody."""
    request = _acting.get()
    if isinstance(request, _Request):
        request.identity = MAINTENANCE


# --- blocks ---------------------------------------------------------------------------------------


@contextmanager
def acting_for(owner_id: int) -> Iterator[None]:
    """The block sees and writes rows of this owner alone."""
    with _acting_as(Identity(Login.APP, owner_id)):
        yield


@contextmanager
def nobody() -> Iterator[None]:
    """The block is the application's, without an owner."""
    with _acting_as(NOBODY):
        yield


@contextmanager
def maintenance() -> Iterator[None]:
    """The block sees and writes everybody's rows; it must neither begin nor end inside a transaction.

    It stays in the group in which the work around it is done.
    """
    with _acting_as(_logged_in(Login.SCHEMA if current().login == Login.SCHEMA else Login.MAINTENANCE)):
        yield


@contextmanager
def schema_owner() -> Iterator[None]:
    """The block changes tables or indexes; it must neither begin nor end inside a transaction.

    It stays in the group in which the work around it is done.
    """
    with _acting_as(_logged_in(Login.SCHEMA)):
        yield


@contextmanager
def in_group(number: int | None) -> Iterator[None]:
    """The block works in the tables of one group, as whom it worked before; None, where there is one, changes nothing.

    For work for no one person, which goes through `groups.every_group()`. In `NO_GROUP` there are shared tables alone.
    """
    with _acting_as(current() if number is None else Identity(current().login, group=number)):
        yield


@contextmanager
def beside(owner_id: int) -> Iterator[None]:
    """The block of maintenance works in the group of this owner; work for an owner stays theirs."""
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
