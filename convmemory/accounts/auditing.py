"""The audit log: who saw, exported, deleted or erased whose data, signed in, or made or revoked access to it.

Reading one's own content is not recorded. An entry costs one statement, in the transaction of what it records, and
holds numbers of objects, never texts. Reasons: docs/adr/0103-audit-log.md.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from convmemory.accounts.models import AuditEntry
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import load_sql

Action = AuditEntry.Action
DELETED_AT_ONCE = 10_000


def record(
    action: Action, *, what: str, person_id: int | None, about_id: int | None = None, username: str = ""
) -> None:
    """Add an entry: `person_id` did it, to data of `about_id`, or of the user with this name. One statement.

    In a space the member takes the place of the given person. Commands and tasks of workers name no person: the
    operator runs them. Plain SQL, because Django would read the new row's id, and the application's log-in cannot
    read this table.
    """
    surface = acting.surface()
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.accounts", "record_act"),
            {
                "action": action.value,
                "surface": surface,
                "person": None if surface == acting.COMMAND else acting.current().person_id or person_id,
                "about": about_id,
                "username": username,
                "what": what[:200],
            },
        )


def record_repeatable(action: Action, *, what: str, about_id: int | None = None, username: str = "") -> None:
    """Record an act that callers can repeat at will: one entry an hour for each person who acts, with a count.

    The database takes the person from the connection, and counts: the application's log-in can change no entry.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.accounts", "count_act"),
            {
                "lock": AdvisoryLock.COUNTED_ACT,
                "action": action.value,
                "surface": acting.surface(),
                "about": about_id,
                "username": username,
                "what": what[:200],
            },
        )


def entries(*, since: datetime | None = None, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the entries since a moment whose id is greater than `after`, oldest first, as JSON values."""
    rows = AuditEntry.objects.filter(pk__gt=after).select_related("person", "about__person").order_by("pk")
    if since is not None:
        rows = rows.filter(created_at__gte=since)
    for row in rows.iterator(chunk_size=1_000):
        yield {
            "id": row.pk,
            "at": row.created_at.isoformat(),
            "action": row.action,
            "surface": row.surface,
            "person": row.person.username if row.person else None,
            "about": str(row.about) if row.about else None,
            "what": row.what,
            "times": row.times or 1,
        }


def forget_old_entries() -> int:
    """Delete entries that are older than AUDIT_DAYS; return their number."""
    if not config.audit_days:
        return 0
    end = timezone.now() - timedelta(days=config.audit_days)
    old = AuditEntry.objects.filter(created_at__lt=end).order_by("pk").values_list("pk", flat=True)
    deleted: int = AuditEntry.objects.filter(pk__in=list(old[:DELETED_AT_ONCE])).delete()[0]
    return deleted


def on_signed_in(sender: Any, user: User, **kwargs: Any) -> None:
    """Record a sign-in, by password, invitation or identity provider."""
    record(Action.SIGNED_IN, what=f"user {user.pk}", person_id=user.pk, about_id=user.pk)


def on_sign_in_failed(sender: Any, credentials: dict[str, Any], **kwargs: Any) -> None:
    """Record a wrong password; a name that no account has is a text, and is left out."""
    record_repeatable(Action.SIGN_IN_FAILED, what="password", username=str(credentials.get("username") or ""))


OF_FLAGS = {ADDITION: Action.MADE, CHANGE: Action.CHANGED, DELETION: Action.DELETED}


def on_staff_acted(sender: Any, instance: LogEntry, created: bool, **kwargs: Any) -> None:
    """Record what the administration logs: each change that a member of staff makes there."""
    if created:
        kind = instance.content_type.model if instance.content_type else "object"
        is_account = kind == "user" and instance.action_flag != DELETION
        record(
            OF_FLAGS[instance.action_flag],
            what=f"{kind} {instance.object_id}",
            person_id=instance.user_id,
            about_id=int(instance.object_id or 0) if is_account else None,
        )
