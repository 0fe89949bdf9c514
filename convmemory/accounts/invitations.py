"""Invitations: links with which people make their own accounts. Reads and writes `Invitation`.

A link is the row's number with a signature over the number and the time of creation. The database contains no link, so
that a copy of it invites no person; administrators can look a link up again for as long as it is valid.
"""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.models import Invitation
from convmemory.core.acting import acting_for
from convmemory.core.errors import NotFound

VALID = timedelta(days=7)
KEPT_AFTER_END = timedelta(days=30)

GONE = "The invitation was used, was revoked, or has expired."


def path_of(invitation: Invitation) -> str:
    """Return the path of the page where the invited person makes an account."""
    return reverse("invitation", args=[f"{invitation.pk}-{_signature(invitation)}"])


def invitation_of(token: str) -> Invitation:
    """Return the invitation with this token, if it is still valid. Raises: NotFound."""
    number, _, signature = token.partition("-")
    is_number = number.isascii() and number.isdigit() and len(number) < 19
    row = Invitation.objects.filter(pk=int(number)).first() if is_number else None
    if row is None or row.is_expired or not constant_time_compare(signature, _signature(row)):
        raise NotFound(GONE)
    return row


@transaction.atomic
def accept(invitation: Invitation, user: User) -> None:
    """Store the account that the invited person makes. Raises: NotFound if the invitation was used meanwhile."""
    # A second request waits here for the row, and then finds none.
    if not Invitation.objects.filter(pk=invitation.pk, expires_at__gt=timezone.now()).delete()[0]:
        raise NotFound(GONE)
    user.email = invitation.email
    user.save()
    with acting_for(user.pk):
        record(Action.MADE, what=f"account by invitation {invitation.pk}", person_id=user.pk, about_id=user.pk)


def forget_old_invitations() -> int:
    """Delete invitations that expired long ago, with the addresses in them; return their number."""
    return Invitation.objects.filter(expires_at__lt=timezone.now() - KEPT_AFTER_END).delete()[0]


def _signature(invitation: Invitation) -> str:
    value = f"{invitation.pk} {invitation.created_at.isoformat()}"
    return salted_hmac("convmemory.accounts.invitation", value, algorithm="sha256").hexdigest()
