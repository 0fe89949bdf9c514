"""Erases a user: all rows, vectors, cache entries, sessions, keys, tasks and files.

The user's rows are derived from the models (`ownership.py`). They are deleted in batches, each in its own transaction,
the user's own row last: if a run is killed, the next one finishes the work. See docs/adr/0016-erase-by-foreign-keys.md.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AbstractBaseUser, User
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.holds import refuse_held
from convmemory.accounts.models import Archive, LegalHold, Membership
from convmemory.accounts.sessions import end_sessions
from convmemory.accounts.users import archive_named
from convmemory.core.acting import in_archive_of
from convmemory.core.errors import ConvMemoryError, NotFound
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres import groups, server
from convmemory.core.sql import load_sql
from convmemory.ops.models import ErasedUser, Erasure
from convmemory.ops.privacy.ownership import OwnedTable, loose_references, owned_tables
from convmemory.ops.privacy.storage_sums import forget_person, reconcile_added
from convmemory.ops.privacy.stored_files import drop_files_of
from convmemory.ops.privacy.task_arguments import drop_finished, drop_queued

BATCH = 5_000
# A process that still writes for the user can add rows behind a pass.
PASSES = 5
ErasedAccount = tuple[int, datetime]
"""The id of an account and when it was created."""
LAST = (Archive, Erasure, OwnerGroup)
"""Rows that a further run needs are deleted with the user's own row."""
# An erasure that began later may still be running.
RESUME_AFTER = timedelta(minutes=10)


class StillInUse(ConvMemoryError):
    """New rows of the user keep arriving: a process still writes for the user. Stop it and erase again."""


@dataclass(slots=True)
class Receipt:
    """The numbers of rows and files that one run deleted. `finished` is False if its time ran out before the end."""

    username: str
    deleted: dict[str, int] = field(default_factory=dict)
    finished: bool = False

    def add(self, name: str, count: int) -> None:
        if count:
            self.deleted[name] = self.deleted.get(name, 0) + count

    @property
    def total(self) -> int:
        return sum(self.deleted.values())


class _OutOfTime(Exception):
    pass


def archive_to_erase(name: str) -> Archive:
    """Return the archive of a user, active or half erased, or a space such as "space 7".

    Raises: NotFound, OnLegalHold.
    """
    try:
        archive = archive_named(name)
    except NotFound as error:
        raise NotFound(f"{error} Nothing is left to erase.") from None
    refuse_held(archive_id=archive.pk, conversation_ids=None)
    return archive


def erase_space(*, space: Archive) -> Receipt:
    """Delete a space with all that it holds; its members lose it first. Run again to finish a run that was killed.

    Raises: OnLegalHold, StillInUse, FilesLeft.
    """
    refuse_held(archive_id=space.pk, conversation_ids=None)
    receipt = Receipt(str(space))
    receipt.add(Membership._meta.db_table, Membership.objects.filter(archive_id=space.pk).delete()[0])
    with in_archive_of(space.pk):
        _erase(space.pk, space.created_at, receipt, float("inf"))
    reconcile_added()
    receipt.finished = True
    record(Action.ERASED, what=receipt.username, person_id=None)
    return receipt


def shut_out(*, user: AbstractBaseUser) -> Receipt:
    """Block the user's access by password, key and session, and record that the erasure has begun."""
    receipt = Receipt(user.get_username())
    Erasure.objects.get_or_create(user_id=user.pk)
    User.objects.filter(pk=user.pk).update(is_active=False)
    receipt.add("django_session", end_sessions(user_id=user.pk))
    return receipt


def erase_user(*, user: User, deadline: float = float("inf")) -> Receipt:
    """Delete all data of the user, until `time.monotonic()` passes `deadline`; note the end in the ledger.

    Raises: OnLegalHold if the user or one of their conversations is held; StillInUse if rows keep arriving, FilesLeft
    if files cannot be deleted; the user stays shut out then.
    """
    refuse_held(archive_id=user.pk, conversation_ids=None)
    receipt, user_id = shut_out(user=user), user.pk
    forget_person(user_id)
    try:
        with in_archive_of(user.pk):
            _erase(user.pk, user.date_joined, receipt, deadline)
    except _OutOfTime:
        return receipt
    receipt.finished = True
    # The number, which the ledger holds too: who erased is the operator, or the user on the page of the account.
    record(Action.ERASED, what=f"account {user_id}", person_id=None)
    return receipt


def erase(*, archive: Archive) -> Receipt:
    """Delete a person or a space with all their data. Raises: as `erase_user` and `erase_space`."""
    return erase_user(user=archive.person) if archive.person else erase_space(space=archive)


def unfinished() -> list[int]:
    """Return the users whose erasure began a while ago and is not finished, unless they are held since."""
    begun = timezone.now() - RESUME_AFTER
    holds = LegalHold.objects.filter(lifted_at=None).values("archive_id")
    begun_earlier = Erasure.objects.filter(requested_at__lt=begun).exclude(user_id__in=holds)
    return list(begun_earlier.values_list("user_id", flat=True))


def read_ledger() -> list[ErasedAccount]:
    """Return the accounts that were erased here, by id; none if the database has no such table yet."""
    if ErasedUser._meta.db_table not in connection.introspection.table_names():
        return []
    return list(ErasedUser.objects.order_by("account", "joined_at").values_list("account", "joined_at"))


def erased_before(accounts: Iterable[ErasedAccount]) -> list[Archive]:
    """Return the archives of a ledger's accounts and spaces that a restored database has again, by number."""
    ledger = set(accounts)
    archives = Archive.objects.filter(pk__in=[account for account, _ in ledger]).select_related("person").order_by("pk")
    return [row for row in archives if (row.pk, row.person.date_joined if row.person else row.created_at) in ledger]


def erase_again(accounts: Iterable[ErasedAccount]) -> list[str]:
    """Add accounts to the ledger, and erase those that a restored database has again; return their names.

    Raises: StillInUse, FilesLeft; what is left is finished by a further run.
    """
    ledger = list(accounts)
    rows = [ErasedUser(account=account, joined_at=joined_at) for account, joined_at in ledger]
    ErasedUser.objects.bulk_create(rows, ignore_conflicts=True)
    archives = erased_before(ledger)
    # Holds of an old backup: they were lifted since, because no held person is erased.
    LegalHold.objects.filter(archive__in=archives, lifted_at=None).update(
        lifted_at=timezone.now(), lift_reason="lifted before the person was erased; restored from a backup"
    )
    for archive in archives:  # all people before the first is erased, which may take long
        if archive.person:
            shut_out(user=archive.person)
    return [erase(archive=archive).username for archive in sorted(archives, key=lambda archive: archive.kind)]


def count_rows(owner: AbstractBaseUser | Archive) -> dict[str, int]:
    """Return the number of a user's, or of an archive's, rows in each table."""
    counts = {}
    with in_archive_of(owner.pk), connection.cursor() as cursor:
        for table in owned_tables():
            statement = load_sql("convmemory.ops.privacy", "count_owned").format(
                table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": owner.pk})
            (counts[table.name],) = cursor.fetchone()
    return {name: count for name, count in counts.items() if count}


def _erase(archive_id: int, joined_at: datetime, receipt: Receipt, deadline: float) -> None:
    receipt.add("queued tasks", drop_queued(archive_id))
    receipt.add("finished tasks", drop_finished(archive_id))
    # Delete entries of the admin's log about rows of the user, whose text names the row.
    dropped = 0
    for table in owned_tables():
        kind = ContentType.objects.filter(app_label=table.model._meta.app_label, model=table.model._meta.model_name)
        entries = LogEntry.objects.filter(content_type__in=kind)
        if not entries.exists():
            continue
        statement = load_sql("convmemory.ops.privacy", "drop_log_entries").format(
            table=table.name, condition=table.condition, pk=table.model._meta.pk.column
        )
        with connection.cursor() as cursor:
            cursor.execute(statement, {"owner": archive_id, "kind": kind.get().pk})
            dropped += cursor.rowcount
    receipt.add("django_admin_log", dropped)
    receipt.add("files", sum(_drop_stored_files(table, archive_id) for table in owned_tables()))
    receipt.add("files", drop_files_of(archive_id))
    # Older versions let the embedded server log texts, and an administrator can still turn that on.
    folder = connection.settings_dict.get("EMBEDDED_PATH")
    receipt.add("logs of the embedded server", server.clear_log(Path(folder)) if folder else 0)
    *tables, person = owned_tables()
    last = [*(table for table in tables if table.model is Archive), person]
    tables = [table for table in tables if table.model not in LAST]
    for _ in range(PASSES):
        try:
            _drop_rows(tables, last, archive_id, receipt, deadline)
            receipt.add("queued tasks", drop_queued(archive_id))
            receipt.add("finished tasks", drop_finished(archive_id))
            with transaction.atomic():  # together: an erasure without its mark would never be finished
                Erasure.objects.filter(user_id=archive_id).delete()
                OwnerGroup.objects.filter(archive_id=archive_id).delete()
                with connection.cursor() as cursor:
                    for table in last:
                        statement = load_sql("convmemory.ops.privacy", "drop_person").format(
                            table=table.name, condition=table.condition
                        )
                        cursor.execute(statement, {"owner": archive_id})
                        receipt.add(table.name, cursor.rowcount)
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                # The ledger: a backup that is restored later must not bring the user back.
                ErasedUser.objects.get_or_create(account=archive_id, joined_at=joined_at)
                if groups.layout().groups:
                    _refuse_rows_left(tables, archive_id)
                receipt.add("files", drop_files_of(archive_id))  # files written meanwhile
            return
        except IntegrityError:
            continue  # a worker has just written for this user
    raise StillInUse("Rows of this person keep arriving: stop what writes them, then erase again.")


def _drop_rows(
    tables: list[OwnedTable], last: list[OwnedTable], archive_id: int, receipt: Receipt, deadline: float
) -> None:
    for model, key, rows in loose_references([*tables, *last]):
        # Set a nullable reference to the user's rows to null, in the given rows of the model.
        target = next(table for table in owned_tables() if table.model is key.related_model)
        statement = load_sql("convmemory.ops.privacy", "clear_references").format(
            table=model._meta.db_table, column=key.column, rows=rows,
            pk=target.model._meta.pk.column, target=target.name, condition=target.condition,
        )  # fmt: skip
        with connection.cursor() as cursor:
            cursor.execute(statement, {"owner": archive_id})
    for table in tables:
        statement = load_sql("convmemory.ops.privacy", "drop_owned").format(table=table.name, condition=table.condition)
        count = BATCH
        while count >= BATCH:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement, {"owner": archive_id, "batch": BATCH})
                count = cursor.rowcount
            receipt.add(table.name, count)
            if count and time.monotonic() > deadline:  # each run deletes at least one batch
                raise _OutOfTime


def _refuse_rows_left(tables: list[OwnedTable], archive_id: int) -> None:
    """Refuse to finish while tables on nodes have rows of the user: their foreign keys to accounts are dropped.

    Raises: IntegrityError, as a foreign key does elsewhere.
    """
    with connection.cursor() as cursor:
        for table in tables:
            statement = load_sql("convmemory.ops.privacy", "count_owned").format(
                table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": archive_id})
            if cursor.fetchone() != (0,):
                raise IntegrityError(f"{table.name} still has rows of the person.")


def _drop_stored_files(table: OwnedTable, archive_id: int) -> int:
    """Delete the files that rows name, wherever they are; return their number."""
    dropped = 0
    for file_field in (f for f in table.model._meta.concrete_fields if isinstance(f, models.FileField)):
        with connection.cursor() as cursor:
            statement = load_sql("convmemory.ops.privacy", "owned_files").format(
                column=file_field.column, table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": archive_id})
            names = [name for (name,) in cursor.fetchall() if name]
        for name in filter(file_field.storage.exists, names):
            file_field.storage.delete(name)
            dropped += 1
    return dropped
