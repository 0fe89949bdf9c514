"""Spaces: archives that several people read. Creates them and changes their members. Reads and writes `SharedSpace` and
`SpaceMember`.

The database itself looks up a member's role for each statement (ADR 101), and no policy lets the application's log-in
write these tables: changes run as maintenance, after the role of the person who makes them was checked under a lock.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import transaction
from django.utils.translation import gettext

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.models import SharedSpace, SpaceMember
from convmemory.core import acting
from convmemory.core.errors import InvalidInput, NotAllowed, NotFound
from convmemory.core.numbers import parse_number

MAX_NAME_CHARS = 100
MAX_MEMBERS = 1_000
MAX_SPACES = 100  # of one person: a search of everything searches each
ACCOUNT_PREFIX = "space:"  # no name of a person can contain a colon

MINE = "mine"
"""Chooses the caller's own archive where the number or the name of a space chooses that space."""
logger = logging.getLogger(__name__)

WRITERS = frozenset({SpaceMember.Role.CONTRIBUTOR, SpaceMember.Role.MANAGER})


class SpaceName(NamedTuple):
    """The space that something was found in."""

    id: int
    name: str


def create_space(*, person: User, name: str) -> SharedSpace:
    """Return a new space, whose first manager is `person`. Raises: InvalidInput."""
    name = _checked_name(name)
    with acting.maintenance(), transaction.atomic():
        if SpaceMember.objects.filter(person=person).count() >= MAX_SPACES:
            raise InvalidInput(f"You are a member of {MAX_SPACES} spaces, which is the most: leave one first.")
        account = User(username=ACCOUNT_PREFIX + uuid.uuid4().hex, is_active=False)
        account.set_unusable_password()
        account.save()
        space = SharedSpace.objects.create(account=account, name=name)
        SpaceMember.objects.create(space=account, person=person, role=SpaceMember.Role.MANAGER)
        record(Action.MADE, what=f"space {account.pk}", person_id=person.pk, about_id=account.pk)
    return space


def spaces_of(person: AbstractBaseUser) -> list[SpaceMember]:
    """Return the person's memberships with their spaces, by name. One query."""
    rows = SpaceMember.objects.filter(person_id=person.pk).select_related("space__space")
    return list(rows.order_by("space__space__name", "pk"))


def spaces_named_by_key(caller: AbstractBaseUser | AnonymousUser | None) -> Sequence[int]:
    """Return the spaces that the key of an authenticated caller reads; none for a caller without a key."""
    named: Sequence[int] = getattr(caller, "key_spaces", ())
    return named


def spaces_of_key(caller: AbstractBaseUser | AnonymousUser | None) -> list[SpaceMember]:
    """Return the memberships that the caller's key names, with their spaces. One query, if the key names any."""
    named = spaces_named_by_key(caller)
    if not named or not isinstance(caller, AbstractBaseUser):
        return []
    return [member for member in spaces_of(caller) if member.space_id in named]


def spaces_seen_by(caller: AbstractBaseUser) -> list[SpaceMember]:
    """Return the memberships that the caller's API key names, or all of a caller with a session. At most one query."""
    return spaces_of_key(caller) if hasattr(caller, "key_spaces") else spaces_of(caller)


def chosen_archives(spaces: Sequence[SpaceMember], chosen: str) -> list[SpaceMember | None]:
    """Return the archives that a query reads: the caller's own, as None, and the spaces; or the `chosen` one alone.

    It is chosen by its number, or by its name in any case. Raises: NotFound for another space, InvalidInput if several
    have the name.
    """
    if not chosen or chosen == MINE:
        return [None] if chosen else [None, *spaces]
    number = parse_number(chosen)
    name = " ".join(chosen.split()).casefold()
    found = [member for member in spaces if member.space_id == number] or [
        member for member in spaces if member.space.space.name.casefold() == name
    ]
    if not found:
        raise NotFound(
            gettext("There is no space %(space)s that this request may read: name mine, or a space by name or number.")
            % {"space": chosen[:MAX_NAME_CHARS]}
        )
    if len(found) > 1:
        raise InvalidInput(
            gettext("Several spaces are called %(space)s: name one by its number, %(numbers)s.")
            % {"space": found[0].space.space.name, "numbers": ", ".join(str(each.space_id) for each in found)}
        )
    return [*found]


def archive_of_person(*, person: User, space: str, writes: bool = False) -> User:
    """Return the owner of the archive that a command names: the person, or their space with this name or number.

    Raises: NotFound for a space of which they are no member, NotAllowed if a reader would write, InvalidInput.
    """
    if space in ("", MINE):
        return person
    (member,) = filter(None, chosen_archives(spaces_of(person), space))
    if writes:
        refuse_readers(member)
    return member.space


def name_of(member: SpaceMember | None) -> SpaceName | None:
    """Return the name of an archive; None for the caller's own."""
    return SpaceName(member.space_id, member.space.space.name) if member else None


def reading(member: SpaceMember | None) -> AbstractContextManager[None]:
    """Let the block read a space as its member; with None it reads the archive of the surrounding work."""
    return acting.acting_for(member.space_id, person_id=member.person_id) if member else nullcontext()


def get_membership(*, person: AbstractBaseUser, space_id: int) -> SpaceMember:
    """Return the person's membership with its space. Raises: NotFound, also for a space of others."""
    found = SpaceMember.objects.filter(person_id=person.pk, space_id=space_id).select_related("space__space").first()
    if found is None:
        raise _no_space(space_id)
    return found


def members_of(*, person: User, space_id: int) -> list[SpaceMember]:
    """Return all members of a space that `person` is a member of, by name. Raises: NotFound."""
    rows = SpaceMember.objects.filter(space_id=space_id).select_related("person").order_by("person__username")
    found = list(rows)
    if person.pk not in {member.person_id for member in found}:
        raise _no_space(space_id)
    return found


def rename_space(*, person: User, space_id: int, name: str) -> None:
    """Raises: NotFound, NotAllowed, InvalidInput."""
    name = _checked_name(name)
    with _managing(person, space_id):
        SharedSpace.objects.filter(pk=space_id).update(name=name)


def set_member(*, person: User, space_id: int, username: str, role: str) -> SpaceMember:
    """Add the active user with this name to the space, or change the role of a member.

    A membership that a provider's group gave is a manager's from then on, and stays without the group.

    Raises: NotFound for an unknown space or user, NotAllowed, InvalidInput.
    """
    if role not in SpaceMember.Role.values:
        raise InvalidInput(f"There is no role {role[:40]!r}: use {', '.join(SpaceMember.Role.values)}.")
    with _managing(person, space_id) as members:
        found = User.objects.filter(username=username, is_active=True).first()
        if found is None:
            raise NotFound(gettext("There is no user %(name)s.") % {"name": repr(username[:150])})
        known = next((member for member in members if member.person_id == found.pk), None)
        if known is None:
            if len(members) >= MAX_MEMBERS:
                raise InvalidInput(f"The space has {MAX_MEMBERS:,} members, which is the most.")
            record(Action.MADE, what=f"{role} of space {space_id}", person_id=person.pk, about_id=found.pk)
            return SpaceMember.objects.create(space_id=space_id, person=found, role=role)
        if role != SpaceMember.Role.MANAGER:
            _keep_a_manager(members, without=known)
        known.role, known.given_by = role, ""
        known.save(update_fields=["role", "given_by"])
        record(Action.CHANGED, what=f"{role} of space {space_id}", person_id=person.pk, about_id=found.pk)
        return known


def remove_member(*, person: User, space_id: int, member_id: int) -> None:
    """End a membership: of `person`, or as a manager of another member. It ends with the next statement.

    Raises: NotFound, NotAllowed, InvalidInput for the last manager.
    """
    with _locked(person, space_id) as members:
        leaving = next((member for member in members if member.person_id == member_id), None)
        if member_id != person.pk:
            _require_manager(members, person)
        if leaving is None:
            raise NotFound(gettext("The space has no such member."))
        _keep_a_manager(members, without=leaving)
        leaving.delete()
        record(Action.REVOKED, what=f"member of space {space_id}", person_id=person.pk, about_id=member_id)


def follow_groups(*, person: User, provider: str, roles: Mapping[int, str]) -> None:
    """Make the memberships that a provider's groups give the person these ones, with roles by space.

    Memberships that managers gave stay as they are, and so do those of other providers. A full or unknown space is
    left out; a space can lose its last manager, because a group that ended must not give access.
    """
    with acting.maintenance(), transaction.atomic():
        given = {member.space_id: member for member in SpaceMember.objects.filter(person=person)}
        changed = [number for number, role in roles.items() if number not in given or given[number].role != role]
        ended = [number for number, member in given.items() if member.given_by == provider and number not in roles]
        # In one order, so that two sign-ins that lock several spaces do not wait for each other.
        for number in sorted({*changed, *ended}):
            # As when a manager changes members: the row of the space is the lock.
            if not SharedSpace.objects.select_for_update().filter(pk=number).exists():
                logger.warning("The provider %s gives a role in space %s, which does not exist.", provider, number)
                continue
            known = SpaceMember.objects.filter(space_id=number, person=person).first()
            if known is not None and known.given_by != provider:
                continue
            if number not in roles:
                action, what = Action.REVOKED, "member"
                if known is not None:
                    known.delete()
                if not SpaceMember.objects.filter(space_id=number, role=SpaceMember.Role.MANAGER).exists():
                    logger.warning("The space %s has no manager: its last one left a group of %s.", number, provider)
            elif known is None:
                action, what = Action.MADE, roles[number]
                if SpaceMember.objects.filter(space_id=number).count() >= MAX_MEMBERS or len(given) >= MAX_SPACES:
                    logger.warning("User %s gets no role in space %s: one of them is full.", person.pk, number)
                    continue
                SpaceMember.objects.create(space_id=number, person=person, role=what, given_by=provider)
            else:
                action, what = Action.CHANGED, roles[number]
                SpaceMember.objects.filter(pk=known.pk).update(role=what)
            said = f"{what} of space {number} by provider {provider}"
            record(action, what=said, person_id=None, about_id=person.pk)


def refuse_readers(member: SpaceMember) -> None:
    """Raises: NotAllowed if the member's role does not allow writing."""
    if member.role not in WRITERS:
        raise NotAllowed(
            gettext("You only read the space %(name)s: ask one of its managers to make you a contributor.")
            % {"name": member.space.space.name}
        )


@contextmanager
def _locked(person: User, space_id: int) -> Iterator[list[SpaceMember]]:
    """Yield the locked members of a space that `person` is a member of, as maintenance. Raises: NotFound."""
    with acting.maintenance(), transaction.atomic():
        # The row of the space is the lock: two managers who leave at once would otherwise leave none.
        if not SharedSpace.objects.select_for_update().filter(pk=space_id).exists():
            raise _no_space(space_id)
        members = list(SpaceMember.objects.filter(space_id=space_id))
        if person.pk not in {member.person_id for member in members}:
            raise _no_space(space_id)
        yield members


@contextmanager
def _managing(person: User, space_id: int) -> Iterator[list[SpaceMember]]:
    with _locked(person, space_id) as members:
        _require_manager(members, person)
        yield members


def _require_manager(members: list[SpaceMember], person: User) -> None:
    if not any(member.person_id == person.pk and member.role == SpaceMember.Role.MANAGER for member in members):
        raise NotAllowed(gettext("Only managers of the space may change it and its members."))


def _keep_a_manager(members: list[SpaceMember], *, without: SpaceMember) -> None:
    if not any(m.role == SpaceMember.Role.MANAGER and m.pk != without.pk for m in members):
        raise InvalidInput(gettext("A space needs a manager: make another member a manager first."))


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME_CHARS:
        raise InvalidInput(gettext("A space needs a name of 1 to %(most)s characters.") % {"most": MAX_NAME_CHARS})
    return name


def _no_space(space_id: int) -> NotFound:
    return NotFound(gettext("You are not a member of a space %(number)s.") % {"number": space_id})
