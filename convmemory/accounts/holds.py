"""Legal holds: while one is in force, nothing held is deleted, replaced or moved away.

Every function that does that to conversations, messages or documents, or puts them into the trash, calls `refuse_held`
once it has locked the row; statements that choose rows to delete have the condition `not_held`. Staff set and lift
holds in the administration. A hold on a person applies to their own archive: what they wrote in spaces is held with
these spaces, which `spaces_of` lists. Reasons: docs/adr/0105-legal-hold.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from django.db.models import Exists, F, OuterRef, Q
from django.utils.translation import gettext, gettext_noop

from convmemory.accounts.models import Archive, AuditEntry, LegalHold, Membership
from convmemory.core.errors import OnLegalHold

Act = Literal["delete", "replace", "move"]

_OF_ACCOUNT: dict[Act, str] = {
    "delete": gettext_noop("This archive is on legal hold: nothing of it can be deleted until staff lift the hold."),
    "replace": gettext_noop(
        "This archive is on legal hold: no document of it can be replaced until staff lift the hold. Add the new "
        "version as another document."
    ),
    "move": gettext_noop(
        "This archive is on legal hold: nothing can be moved out of it until staff lift the hold. Copy it instead."
    ),
}
_OF_CONVERSATION: dict[Act, str] = {
    "delete": gettext_noop("Conversation %(number)s is on legal hold: it cannot be deleted until staff lift the hold."),
    "move": gettext_noop(
        "Conversation %(number)s is on legal hold: it cannot be moved until staff lift the hold. Copy it instead."
    ),
}


def refuse_held(*, archive_id: int, conversation_ids: Iterable[int] | None = (), act: Act = "delete") -> None:
    """Refuse an act if the owner, or one of these conversations (None: any), is held. One query.

    Raises: OnLegalHold.
    """
    rows = LegalHold.objects.filter(archive_id=archive_id, lifted_at=None)
    if conversation_ids is not None:
        rows = rows.filter(Q(conversation_id=None) | Q(conversation_id__in=conversation_ids))
    account_first = rows.order_by(F("conversation_id").asc(nulls_first=True))
    for number in account_first.values_list("conversation_id", flat=True)[:1]:
        text = gettext(_OF_ACCOUNT[act] if number is None else _OF_CONVERSATION[act])
        raise OnLegalHold(text % {"number": number})


def not_held(*, conversation: str | None = None) -> Q:
    """Return the condition that neither a row's owner is held nor the conversation that the field names."""
    of_conversation = Q(conversation_id=None)
    if conversation:
        of_conversation |= Q(conversation_id=OuterRef(conversation))
    return Q(~Exists(LegalHold.objects.filter(of_conversation, archive_id=OuterRef("archive_id"), lifted_at=None)))


@dataclass(frozen=True, slots=True)
class SpaceOfPerson:
    """A space of which a person is a member, or was one: then `role` is empty."""

    space_id: int
    role: str
    is_held: bool


OF_SPACE = re.compile(r"(?:^| of )space ([0-9]+)")  # in entries about members, and about a space that the person made


def spaces_of(person_id: int) -> list[SpaceOfPerson]:
    """Return the spaces of a person's memberships, and those of ended ones that the audit log still has."""
    roles = dict(Membership.objects.filter(person_id=person_id).values_list("archive_id", "role"))
    made = Q(person_id=person_id, action=AuditEntry.Action.MADE, what__startswith="space ")
    entries = AuditEntry.objects.filter(Q(about_id=person_id) | made, what__regex=OF_SPACE.pattern)
    named = {
        int(match[1]) for what in entries.values_list("what", flat=True).distinct() if (match := OF_SPACE.search(what))
    }
    holds = LegalHold.objects.filter(conversation_id=None, lifted_at=None).values("archive_id")
    spaces = Archive.objects.filter(kind=Archive.Kind.SPACE, pk__in=named | set(roles)).order_by("pk")
    return [
        SpaceOfPerson(pk, roles.get(pk, ""), is_held)
        for pk, is_held in spaces.values_list("pk", Exists(holds.filter(archive_id=OuterRef("pk"))))
    ]
