"""Legal holds: while one is in force, no deletion passes.

Every function that deletes conversations, messages or documents, or puts them into the trash, calls `refuse_held` once
it has locked the row; statements that choose rows to delete have the condition `not_held`. Staff set and lift holds in
the administration. Reasons: docs/adr/0105-legal-hold.md.
"""

from collections.abc import Iterable

from django.db.models import Exists, F, OuterRef, Q
from django.utils.translation import gettext

from convmemory.accounts.models import LegalHold
from convmemory.core.errors import OnLegalHold


def refuse_held(*, owner_id: int, conversation_ids: Iterable[int] | None = ()) -> None:
    """Refuse a deletion if the owner, or one of these conversations (None: any), is held. One query.

    Raises: OnLegalHold.
    """
    rows = LegalHold.objects.filter(owner_id=owner_id, lifted_at=None)
    if conversation_ids is not None:
        rows = rows.filter(Q(conversation_id=None) | Q(conversation_id__in=conversation_ids))
    account_first = rows.order_by(F("conversation_id").asc(nulls_first=True))
    for number in account_first.values_list("conversation_id", flat=True)[:1]:
        if number is None:
            raise OnLegalHold(
                gettext("This account is on legal hold: nothing of it can be deleted until staff lift the hold.")
            )
        said = gettext("Conversation %(number)s is on legal hold: it cannot be deleted until staff lift the hold.")
        raise OnLegalHold(said % {"number": number})


def not_held(*, conversation: str | None = None) -> Q:
    """Return the condition that neither a row's owner is held nor the conversation that the field names."""
    held = Q(conversation_id=None)
    if conversation:
        held |= Q(conversation_id=OuterRef(conversation))
    return Q(~Exists(LegalHold.objects.filter(held, owner_id=OuterRef("owner_id"), lifted_at=None)))
