"""Spaces: archives that several people read. Creates them and changes their members. Reads and writes `Archive` and
`Membership`. People join by an invitation that they accept (`space_invitations.py`), or by a group of a provider.

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
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotAllowed, NotFound
from convmemory.core.sql import load_sql

MAX_MEMBERS = 1_000
MAX_MEMBERSHIPS = 100  # of one person, to accept one more; own spaces are made beyond that
MAX_MANAGED = 50  # of one person, to make one more; without those that a provider's groups gave
logger = logging.getLogger(__name__)


def may_make_spaces(person: User) -> bool:
    """Return whether the operator lets this person make spaces."""
    return config.make_spaces == "everybody" or person.has_perm("accounts.make_spaces")


def create_space(*, person: User, name: str) -> Archive:
    """Return a new space, whose first manager is `person`. Raises: InvalidInput, NotAllowed."""
    name = _checked_name(name)
    if not may_make_spaces(person):
        raise NotAllowed(gettext("Your account may not make spaces: ask the administrator for one."))
    with acting.maintenance(), transaction.atomic():
        one_change_at_a_time(person)
        managed = Membership.objects.filter(person=person, role=Membership.Role.MANAGER, given_by="")
        if managed.count() >= MAX_MANAGED:
            raise InvalidInput(
                gettext("You manage %(most)s spaces, which is the most: leave one to another manager first.")
                % {"most": MAX_MANAGED}
            )
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.accounts", "number_of_space"))
            (number,) = cursor.fetchone()
        space = Archive.objects.create(id=number, kind=Archive.Kind.SPACE, name=name)
        Membership.objects.create(archive=space, person=person, role=Membership.Role.MANAGER)
        record(Action.MADE, what=f"space {space.pk}", person_id=person.pk, about_id=space.pk)
    return space


def get_membership(*, person: User, space_id: int) -> Membership:
    """Return the person's membership with its space. Raises: NotFound, also for a space of others."""
    membership = Membership.objects.filter(person_id=person.pk, archive_id=space_id).select_related("archive").first()
    if membership is None:
        raise _no_space(space_id)
    return membership


def members_of(*, person: User, space_id: int) -> list[Membership]:
    """Return all members of a space that `person` is a member of, by name. Raises: NotFound."""
    rows = Membership.objects.filter(archive_id=space_id).select_related("person").order_by("person__username")
    members = list(rows)
    if person.pk not in {member.person_id for member in members}:
        raise _no_space(space_id)
    return members


def rename_space(*, person: User, space_id: int, name: str) -> None:
    """Raises: NotFound, NotAllowed, InvalidInput."""
    name = _checked_name(name)
    with managing(person, space_id):
        Archive.objects.filter(pk=space_id, kind=Archive.Kind.SPACE).update(name=name)
        record(Action.CHANGED, what=f"name of space {space_id}", person_id=person.pk, about_id=space_id)


def change_role(*, person: User, space_id: int, member_id: int, role: str) -> None:
    """Give a member another role.

    A membership that a provider's group gave is a manager's from then on, and stays without the group.

    Raises: NotFound for an unknown space or member, NotAllowed, InvalidInput.
    """
    require_role(role)
    with managing(person, space_id) as members:
        member = next((member for member in members if member.person_id == member_id), None)
        if member is None:
            raise NotFound(gettext("The space has no such member."))
        if role != Membership.Role.MANAGER:
            _keep_a_manager(members, without=member)
        member.role, member.given_by = role, ""
        member.save(update_fields=["role", "given_by"])
        record(Action.CHANGED, what=f"{role} of space {space_id}", person_id=person.pk, about_id=member_id)


def remove_member(*, person: User, space_id: int, member_id: int) -> None:
    """End a membership: of `person`, or as a manager of another member. It ends with the next statement.

    Raises: NotFound, NotAllowed, InvalidInput for the last manager.
    """
    with locked_members(space_id) as members:
        _require_member(members, person, space_id)
        leaving = next((member for member in members if member.person_id == member_id), None)
        if member_id != person.pk:
            require_manager(members, person)
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
        memberships = {member.archive_id: member for member in Membership.objects.filter(person=person)}
        changed = [
            number for number, role in roles.items() if number not in memberships or memberships[number].role != role
        ]
        ended = [
            number for number, member in memberships.items() if member.given_by == provider and number not in roles
        ]
        # In one order, so that two sign-ins that lock several spaces do not wait for each other.
        for number in sorted({*changed, *ended}):
            # As when a manager changes members: the row of the space is the lock.
            if not Archive.objects.select_for_update(no_key=True).filter(pk=number, kind=Archive.Kind.SPACE).exists():
                logger.warning("The provider %s gives a role in space %s, which does not exist.", provider, number)
                continue
            membership = Membership.objects.filter(archive_id=number, person=person).first()
            if membership is not None and membership.given_by != provider:
                continue
            if number not in roles:
                action, what = Action.REVOKED, "member"
                if membership is not None:
                    membership.delete()
                if not Membership.objects.filter(archive_id=number, role=Membership.Role.MANAGER).exists():
                    logger.warning("The space %s has no manager: its last one left a group of %s.", number, provider)
            elif membership is None:
                action, what = Action.MADE, roles[number]
                if (
                    Membership.objects.filter(archive_id=number).count() >= MAX_MEMBERS
                    or len(memberships) >= MAX_MEMBERSHIPS
                ):
                    logger.warning("User %s gets no role in space %s: one of them is full.", person.pk, number)
                    continue
                Membership.objects.create(archive_id=number, person=person, role=what, given_by=provider)
            else:
                action, what = Action.CHANGED, roles[number]
                Membership.objects.filter(pk=membership.pk).update(role=what)
            text = f"{what} of space {number} by provider {provider}"
            record(action, what=text, person_id=None, about_id=person.pk)


@contextmanager
def locked_members(space_id: int) -> Iterator[list[Membership]]:
    """Yield the members of a space, as maintenance and alone in changing them. Raises: NotFound."""
    with acting.maintenance(), transaction.atomic():
        # The row of the space is the lock: two managers who leave at once would otherwise leave none.
        # Not its key, which rows that others store in the space refer to.
        if not Archive.objects.select_for_update(no_key=True).filter(pk=space_id, kind=Archive.Kind.SPACE).exists():
            raise _no_space(space_id)
        yield list(Membership.objects.filter(archive_id=space_id))


@contextmanager
def managing(person: User, space_id: int) -> Iterator[list[Membership]]:
    """Yield the locked members of a space that `person` manages. Raises: NotFound, NotAllowed."""
    with locked_members(space_id) as members:
        _require_member(members, person, space_id)
        require_manager(members, person)
        yield members


def one_change_at_a_time(person: User) -> None:
    """Wait for other changes that count against limits of this person. Lock a space before, never after."""
    list(Archive.objects.select_for_update(no_key=True).filter(pk=person.pk))


def require_role(role: str) -> None:
    """Raises: InvalidInput."""
    if role not in Membership.Role.values:
        raise InvalidInput(f"There is no role {role[:40]!r}: use {', '.join(Membership.Role.values)}.")


def _require_member(members: list[Membership], person: User, space_id: int) -> None:
    if person.pk not in {member.person_id for member in members}:
        raise _no_space(space_id)


def require_manager(members: list[Membership], person: User) -> None:
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
