"""Spaces: archives that several people read. Creates them and changes their members. Reads and writes `Archive` and
`Membership`.

The database itself looks up a member's role for each statement (ADR 101), and no policy lets the application's log-in
write these tables: changes run as maintenance, after the role of the person who makes them was checked under a lock.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils.translation import gettext

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import MAX_NAME_CHARS
from convmemory.accounts.models import Archive, Membership
from convmemory.core import acting
from convmemory.core.errors import InvalidInput, NotAllowed, NotFound
from convmemory.core.sql import load_sql

MAX_MEMBERS = 1_000
MAX_SPACES = 100  # of one person: a search of everything searches each
logger = logging.getLogger(__name__)


def create_space(*, person: User, name: str) -> Archive:
    """Return a new space, whose first manager is `person`. Raises: InvalidInput."""
    name = _checked_name(name)
    with acting.maintenance(), transaction.atomic():
        if Membership.objects.filter(person=person).count() >= MAX_SPACES:
            raise InvalidInput(f"You are a member of {MAX_SPACES} spaces, which is the most: leave one first.")
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.accounts", "number_of_space"))
            (number,) = cursor.fetchone()
        space = Archive.objects.create(id=number, kind=Archive.Kind.SPACE, name=name)
        Membership.objects.create(archive=space, person=person, role=Membership.Role.MANAGER)
        record(Action.MADE, what=f"space {space.pk}", person_id=person.pk, about_id=space.pk)
    return space


def get_membership(*, person: User, space_id: int) -> Membership:
    """Return the person's membership with its space. Raises: NotFound, also for a space of others."""
    found = Membership.objects.filter(person_id=person.pk, archive_id=space_id).select_related("archive").first()
    if found is None:
        raise _no_space(space_id)
    return found


def members_of(*, person: User, space_id: int) -> list[Membership]:
    """Return all members of a space that `person` is a member of, by name. Raises: NotFound."""
    rows = Membership.objects.filter(archive_id=space_id).select_related("person").order_by("person__username")
    found = list(rows)
    if person.pk not in {member.person_id for member in found}:
        raise _no_space(space_id)
    return found


def rename_space(*, person: User, space_id: int, name: str) -> None:
    """Raises: NotFound, NotAllowed, InvalidInput."""
    name = _checked_name(name)
    with _managing(person, space_id):
        Archive.objects.filter(pk=space_id, kind=Archive.Kind.SPACE).update(name=name)


def set_member(*, person: User, space_id: int, username: str, role: str) -> Membership:
    """Add the active user with this name to the space, or change the role of a member.

    A membership that a provider's group gave is a manager's from then on, and stays without the group.

    Raises: NotFound for an unknown space or user, NotAllowed, InvalidInput.
    """
    if role not in Membership.Role.values:
        raise InvalidInput(f"There is no role {role[:40]!r}: use {', '.join(Membership.Role.values)}.")
    with _managing(person, space_id) as members:
        found = User.objects.filter(username=username, is_active=True).first()
        if found is None:
            raise NotFound(gettext("There is no user %(name)s.") % {"name": repr(username[:150])})
        known = next((member for member in members if member.person_id == found.pk), None)
        if known is None:
            if len(members) >= MAX_MEMBERS:
                raise InvalidInput(f"The space has {MAX_MEMBERS:,} members, which is the most.")
            record(Action.MADE, what=f"{role} of space {space_id}", person_id=person.pk, about_id=found.pk)
            return Membership.objects.create(archive_id=space_id, person=found, role=role)
        if role != Membership.Role.MANAGER:
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
        given = {member.archive_id: member for member in Membership.objects.filter(person=person)}
        changed = [number for number, role in roles.items() if number not in given or given[number].role != role]
        ended = [number for number, member in given.items() if member.given_by == provider and number not in roles]
        # In one order, so that two sign-ins that lock several spaces do not wait for each other.
        for number in sorted({*changed, *ended}):
            # As when a manager changes members: the row of the space is the lock.
            if not Archive.objects.select_for_update().filter(pk=number, kind=Archive.Kind.SPACE).exists():
                logger.warning("The provider %s gives a role in space %s, which does not exist.", provider, number)
                continue
            known = Membership.objects.filter(archive_id=number, person=person).first()
            if known is not None and known.given_by != provider:
                continue
            if number not in roles:
                action, what = Action.REVOKED, "member"
                if known is not None:
                    known.delete()
                if not Membership.objects.filter(archive_id=number, role=Membership.Role.MANAGER).exists():
                    logger.warning("The space %s has no manager: its last one left a group of %s.", number, provider)
            elif known is None:
                action, what = Action.MADE, roles[number]
                if Membership.objects.filter(archive_id=number).count() >= MAX_MEMBERS or len(given) >= MAX_SPACES:
                    logger.warning("User %s gets no role in space %s: one of them is full.", person.pk, number)
                    continue
                Membership.objects.create(archive_id=number, person=person, role=what, given_by=provider)
            else:
                action, what = Action.CHANGED, roles[number]
                Membership.objects.filter(pk=known.pk).update(role=what)
            said = f"{what} of space {number} by provider {provider}"
            record(action, what=said, person_id=None, about_id=person.pk)


@contextmanager
def _locked(person: User, space_id: int) -> Iterator[list[Membership]]:
    """Yield the locked members of a space that `person` is a member of, as maintenance. Raises: NotFound."""
    with acting.maintenance(), transaction.atomic():
        # The row of the space is the lock: two managers who leave at once would otherwise leave none.
        if not Archive.objects.select_for_update().filter(pk=space_id, kind=Archive.Kind.SPACE).exists():
            raise _no_space(space_id)
        members = list(Membership.objects.filter(archive_id=space_id))
        if person.pk not in {member.person_id for member in members}:
            raise _no_space(space_id)
        yield members


@contextmanager
def _managing(person: User, space_id: int) -> Iterator[list[Membership]]:
    with _locked(person, space_id) as members:
        _require_manager(members, person)
        yield members


def _require_manager(members: list[Membership], person: User) -> None:
    if not any(member.person_id == person.pk and member.role == Membership.Role.MANAGER for member in members):
        raise NotAllowed(gettext("Only managers of the space may change it and its members."))


def _keep_a_manager(members: list[Membership], *, without: Membership) -> None:
    if not any(m.role == Membership.Role.MANAGER and m.pk != without.pk for m in members):
        raise InvalidInput(gettext("A space needs a manager: make another member a manager first."))


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME_CHARS:
        raise InvalidInput(gettext("A space needs a name of 1 to %(most)s characters.") % {"most": MAX_NAME_CHARS})
    return name


def _no_space(space_id: int) -> NotFound:
    return NotFound(gettext("You are not a member of a space %(number)s.") % {"number": space_id})
