"""Invitations to spaces: a person becomes a member by accepting one. Reads and writes `SpaceInvitation`.

What a manager sees of an invitation does not depend on the account that it names, nor on whether there is one: it is
open for `LASTS`, unless it is accepted or withdrawn, and counts against the limits as long. A person who declined is
not shown the space's invitations for that time. A link invites the first account that accepts; it is signed over
the row, as the links of `invitations.py` are. Changes run as maintenance, like those of members (`spaces.py`).
"""

import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.mail import can_send_mail, request_notice
from convmemory.accounts.models import Membership, SpaceInvitation
from convmemory.accounts.spaces import (
    MAX_MEMBERS,
    MAX_MEMBERSHIPS,
    locked_members,
    managing,
    members_of,
    one_change_at_a_time,
    require_manager,
    require_role,
)
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.sql import PendingQuery, Query, load_sql
from convmemory.core.text import storable

LASTS = timedelta(days=30)
MAX_INVITATIONS = 50  # of one person, within the time that they last
MAX_TO_ONE_NAME = 3  # of these
MAX_SHOWN = 20  # to the invited person at once, oldest first
MAX_USERNAME_CHARS = 150


class OpenInvitation(NamedTuple):
    """An invitation as the invited person sees it; `invited_by` is the manager's user name."""

    id: int
    space_id: int
    space_name: str
    role: str
    invited_by: str
    invited_at: datetime

    @property
    def role_name(self) -> str:
        return str(Membership.Role(self.role).label)

    @property
    def notice(self) -> str:
        """Return the notice of other pages: without the name of the space, which its manager chooses."""
        return gettext("%(person)s invites you to a space") % {"person": self.invited_by}


def invite_by_link(*, person: User, space_id: int, address: str, role: str) -> None:
    """Make a link with which one person joins the space, and mail it to the address, if there is one.

    An address gets one mail within `LASTS`, however often its invitation is withdrawn and made again. Raises: as
    `invite`, and InvalidInput for an invalid address.
    """
    address = storable(address.strip())
    if address:
        try:
            validate_email(address)
        except ValidationError as error:
            raise InvalidInput(gettext("“%(text)s” is no e-mail address.") % {"text": address[:80]}) from error
    label = address or gettext("link %(number)s") % {"number": secrets.token_hex(2)}
    with acting.maintenance():
        is_first = not SpaceInvitation.objects.filter(archive_id=space_id, username=label).exists()
    invitation = invite(person=person, space_id=space_id, username=label, role=role, by_link=True)
    if address and is_first and can_send_mail():
        text = gettext(
            "You are invited to a space of convmemory at %(site)s.\n\n"
            "Sign in with your account there and accept. The link works once, for %(days)d days:\n\n%(link)s\n\n"
            "If you did not expect this, you need not do anything.\n"
        )
        values = {
            "site": config.public_url,
            "days": LASTS.days,
            "link": config.public_url.rstrip("/") + path_of(invitation),
        }
        request_notice(recipient=address, subject=gettext("Your invitation to a space"), text=text % values)


def path_of(invitation: SpaceInvitation) -> str:
    """Return the path of the page where a person joins by the link."""
    return reverse("join-space", args=[f"{invitation.pk}-{_signature(invitation)}"])


def invitation_by_link(token: str) -> SpaceInvitation:
    """Return the open invitation of a link. Raises: NotFound, with the same sentence whatever is wrong with it."""
    number, _, signature = token.partition("-")
    is_number = number.isascii() and number.isdigit() and len(number) < 19
    with acting.maintenance():
        rows = SpaceInvitation.objects.filter(pk=int(number) if is_number else 0, by_link=True)
        row = rows.select_related("archive", "invited_by").first()
        if row is None or not constant_time_compare(signature, _signature(row)):
            raise _no_invitation()
        members = list(Membership.objects.filter(archive_id=row.archive_id))
        if not _open_in_space(row.archive_id, members).filter(pk=row.pk).exists():
            raise _no_invitation()
    return row


def accept_by_link(*, person: User, token: str) -> int:
    """Make the person a member by a link, which then works no more; return the space's number.

    A member keeps the link's one use for another person. Raises: as `accept`.
    """
    invitation = invitation_by_link(token)
    with locked_members(invitation.archive_id) as members:
        if person.pk not in {member.person_id for member in members}:
            rows = SpaceInvitation.objects.filter(by_link=True)
            _join(person, members, rows, invitation.pk, invitation.archive_id)
    return invitation.archive_id


def _signature(invitation: SpaceInvitation) -> str:
    value = f"{invitation.pk} {invitation.invited_at.isoformat()}"
    return salted_hmac("convmemory.accounts.space_invitation", value, algorithm="sha256").hexdigest()


def invite(*, person: User, space_id: int, username: str, role: str, by_link: bool = False) -> SpaceInvitation:
    """Invite the account with this name, if there is one. The answer is the same if there is none.

    Raises: NotFound, NotAllowed, InvalidInput beyond the limits, and for a member or a name that is invited already.
    """
    require_role(role)
    username = storable(username.strip())
    if not 1 <= len(username) <= MAX_USERNAME_CHARS:
        raise InvalidInput(gettext("Enter a user name of at most %(most)s characters.") % {"most": MAX_USERNAME_CHARS})
    with managing(person, space_id) as members:
        invited = None if by_link else User.objects.filter(username=username, is_active=True).first()
        if invited and invited.pk in {member.person_id for member in members}:
            raise InvalidInput(gettext("%(name)s is a member already.") % {"name": username})
        in_space = list(_open_in_space(space_id, members))
        if username in {invitation.username for invitation in in_space}:
            raise InvalidInput(gettext("%(name)s is invited already.") % {"name": username})
        if len(members) + len(in_space) >= MAX_MEMBERS:
            raise InvalidInput(
                gettext("The space has %(most)s members and invitations, which is the most.") % {"most": MAX_MEMBERS}
            )
        one_change_at_a_time(person)
        now = timezone.now()
        by_person = SpaceInvitation.objects.filter(invited_by=person, invited_at__gt=now - LASTS)
        for sent, most in ((by_person.filter(username=username), MAX_TO_ONE_NAME), (by_person, MAX_INVITATIONS)):
            if sent.count() >= most:
                raise InvalidInput(
                    gettext("In %(days)s days you can send %(most)s invitations, and %(to_one)s to one name.")
                    % {"days": LASTS.days, "most": MAX_INVITATIONS, "to_one": MAX_TO_ONE_NAME}
                )
        invitation, _ = SpaceInvitation.objects.update_or_create(
            archive_id=space_id,
            username=username,
            # A time of declining stays.
            defaults={
                "person": invited,
                "by_link": by_link,
                "role": role,
                "invited_by": person,
                "invited_at": now,
                "withdrawn_at": None,
            },
        )
        about_id = invited.pk if invited else None
        what = f"invitation{' by link' if by_link else ''} to space {space_id} as {role}"
        record(Action.MADE, what=what, person_id=person.pk, about_id=about_id)
        return invitation


def invitations_of_space(*, person: User, space_id: int) -> list[SpaceInvitation]:
    """Return the open invitations of a space that `person` manages, by name. Raises: NotFound, NotAllowed."""
    members = members_of(person=person, space_id=space_id)
    require_manager(members, person)
    with acting.maintenance():
        return list(_open_in_space(space_id, members).select_related("invited_by").order_by("username"))


def withdraw(*, person: User, space_id: int, invitation_id: int) -> None:
    """End an open invitation of a space that `person` manages. Raises: NotFound, NotAllowed."""
    with managing(person, space_id) as members:
        open_ones = _open_in_space(space_id, members).filter(pk=invitation_id)
        invited = open_ones.values_list("person_id", flat=True).first()
        if not open_ones.update(withdrawn_at=timezone.now()):
            raise NotFound(gettext("There is no such invitation."))
        what = f"invitation to space {space_id}, withdrawn"
        record(Action.REVOKED, what=what, person_id=person.pk, about_id=invited)


def invitations_of_caller() -> list[OpenInvitation]:
    """Return the open invitations of the person who acts, oldest first. One query."""
    return [OpenInvitation(*row) for row in PendingQuery(*invitations_query()).rows()]


def invitations_query() -> Query:
    """Return the query for the open invitations of the person who acts."""
    return load_sql("convmemory.accounts", "invitations"), {"since": timezone.now() - LASTS, "most": MAX_SHOWN}


def accept(*, person: User, invitation_id: int) -> Membership:
    """Make the person who acts a member. Raises: NotFound, InvalidInput if the space or the person is full."""
    invitation = _invitation_to_caller(invitation_id)
    with locked_members(invitation.space_id) as members:
        return _join(person, members, SpaceInvitation.objects.filter(person=person), invitation_id, invitation.space_id)


def _join(
    person: User, members: list[Membership], rows: QuerySet[SpaceInvitation], invitation_id: int, space_id: int
) -> Membership:
    """Make the person a member by an invitation among `rows`, under the lock of the space. Raises: as `accept`."""
    # Again under the lock: its manager may have withdrawn it, or may be none any more.
    row = _open_in_space(space_id, members).filter(pk__in=rows.filter(pk=invitation_id)).first()
    if row is None:
        raise _no_invitation()
    one_change_at_a_time(person)
    if len(members) >= MAX_MEMBERS:
        raise InvalidInput(gettext("The space is full."))
    if Membership.objects.filter(person=person).count() >= MAX_MEMBERSHIPS:
        raise InvalidInput(
            gettext("You are a member of %(most)s spaces, which is the most: leave one first.")
            % {"most": MAX_MEMBERSHIPS}
        )
    member, _ = Membership.objects.update_or_create(
        archive_id=row.archive_id, person=person, defaults={"role": row.role, "given_by": ""}
    )
    row.delete()
    what = f"{row.role} of space {row.archive_id}, by invitation"
    record(Action.MADE, what=what, person_id=person.pk, about_id=person.pk)
    return member


def decline(*, person: User, invitation_id: int) -> None:
    """Decline an invitation of the person who acts: the space reaches them again after `LASTS`. Raises: NotFound."""
    invitation = _invitation_to_caller(invitation_id)
    with locked_members(invitation.space_id):
        if not SpaceInvitation.objects.filter(pk=invitation_id, person=person).update(declined_at=timezone.now()):
            raise _no_invitation()
        what = f"invitation to space {invitation.space_id}, declined"
        record(Action.REVOKED, what=what, person_id=person.pk, about_id=person.pk)


def forget_old_invitations() -> int:
    """Delete invitations that no longer hold anything back, with the names in them; return their number."""
    end = timezone.now() - LASTS
    over = Q(declined_at=None) | Q(declined_at__lte=end)
    return SpaceInvitation.objects.filter(over, invited_at__lte=end).delete()[0]


def _open_in_space(space_id: int, members: list[Membership]) -> QuerySet[SpaceInvitation]:
    """Return what managers see as open: also the declined ones, and those that name no account."""
    managers = [member.person_id for member in members if member.role == Membership.Role.MANAGER]
    return SpaceInvitation.objects.filter(
        archive_id=space_id,
        withdrawn_at=None,
        invited_at__gt=timezone.now() - LASTS,
        invited_by_id__in=managers,
        invited_by__is_active=True,
    )


def _invitation_to_caller(invitation_id: int) -> OpenInvitation:
    invitation = next((each for each in invitations_of_caller() if each.id == invitation_id), None)
    if invitation is None:
        raise _no_invitation()
    return invitation


def _no_invitation() -> NotFound:
    return NotFound(gettext("This invitation was withdrawn, or has expired."))
