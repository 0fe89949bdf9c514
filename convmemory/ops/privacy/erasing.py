"""Erases a user: all rows, vectors, cache entries, sessions, keys, tasks and files.

The user's rows are derived from the models (`ownership.py`). They are deleted in batches, each in its own transaction,
the user's own row last: if a run is killed, the next one finishes the work. See docs/adr/0016-erase-by-foreign-keys.md.
"""

import time
from collections.abc import Iterable, Iterator
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
from convmemory.accounts.models import LegalHold
from convmemory.accounts.users import end_sessions
from convmemory.core.acting import in_archive_of
from convmemory.core.errors import ConvMemoryError, NotFound
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres import groups, server
from convmemory.core.sql import load_sql
from convmemory.ops.models import ErasedUser, Erasure
from convmemory.ops.privacy.ownership import OwnedTable, loose_references, owned_tables
from convmemory.ops.privacy.stored_files import drop_files_of
from convmemory.ops.privacy.task_arguments import drop_finished, drop_queued

BATCH = 5_000
# A process that still writes for the user can add rows behind a pass.
PASSES = 5
ErasedAccount = tuple[int, datetime]
"""The id of an account and when it was created."""
LAST = (Erasure, OwnerGroup)
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


def user_to_erase(username: str) -> User:
    """Return the user with that name, active or half erased. Raises: NotFound, OnLegalHold."""
    try:
        user = User.objects.get(username=username)
    except User.DoesNotExist:
        raise NotFound(f"There is no user {username!r}: nothing is left to erase.") from None
    refuse_held(owner_id=user.pk, conversation_ids=None)
    return user


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
    refuse_held(owner_id=user.pk, conversation_ids=None)
    receipt, user_id = shut_out(user=user), user.pk
    try:
        with in_archive_of(user.pk):
            _erase(user, receipt, deadline)
    except _OutOfTime:
        return receipt
    receipt.finished = True
    # The number, which the ledger holds too: who erased is the operator, or the user on the page of the account.
    record(Action.ERASED, what=f"account {user_id}", person_id=None)
    return receipt


def unfinished() -> list[int]:
    """Return the users whose erasure began a while ago and is not finished, unless they are held since."""
    begun = timezone.now() - RESUME_AFTER
    held = LegalHold.objects.filter(lifted_at=None).values("owner_id")
    begun_earlier = Erasure.objects.filter(requested_at__lt=begun).exclude(user_id__in=held)
    return list(begun_earlier.values_list("user_id", flat=True))


def read_ledger() -> list[ErasedAccount]:
    """Return the accounts that were erased here, by id; none if the database has no such table yet."""
    if ErasedUser._meta.db_table not in connection.introspection.table_names():
        return []
    return list(ErasedUser.objects.order_by("account", "joined_at").values_list("account", "joined_at"))


def erase_again(accounts: Iterable[ErasedAccount]) -> list[str]:
    """Add accounts to the ledger, and erase those that a restored database has again; return their names.

    Raises: StillInUse, FilesLeft; what is left is finished by a further run.
    """
    known = list(accounts)
    rows = [ErasedUser(account=account, joined_at=joined_at) for account, joined_at in known]
    ErasedUser.objects.bulk_create(rows, ignore_conflicts=True)
    back = User.objects.filter(pk__in=[account for account, _ in known]).order_by("pk")
    found = [user for user in back if (user.pk, user.date_joined) in set(known)]
    # Holds of an old backup: they were lifted since, because no held person is erased.
    LegalHold.objects.filter(owner__in=found, lifted_at=None).update(
        lifted_at=timezone.now(), lift_reason="lifted before the person was erased; restored from a backup"
    )
    for user in found:  # all of them before the first is erased, which may take long
        shut_out(user=user)
    return [erase_user(user=user).username for user in found]


def count_rows(user: AbstractBaseUser) -> dict[str, int]:
    """Return the number of the user's rows in each table."""
    counts = {}
    with in_archive_of(user.pk), connection.cursor() as cursor:
        for table in owned_tables():
            statement = load_sql("convmemory.ops.privacy", "count_owned").format(
                table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": user.pk})
            (counts[table.name],) = cursor.fetchone()
    return {name: count for name, count in counts.items() if count}


def _erase(user: User, receipt: Receipt, deadline: float) -> None:
    owner_id: int = user.pk
    receipt.add("queued tasks", drop_queued(owner_id))
    receipt.add("finished tasks", drop_finished(owner_id))
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
            cursor.execute(statement, {"owner": owner_id, "kind": kind.get().pk})
            dropped += cursor.rowcount
    receipt.add("django_admin_log", dropped)
    receipt.add("files", sum(_drop_stored_files(table, owner_id) for table in owned_tables()))
    receipt.add("files", drop_files_of(owner_id))
    # Older versions let the embedded server log texts, and an administrator can still turn that on.
    folder = connection.settings_dict.get("EMBEDDED_PATH")
    receipt.add("logs of the embedded server", server.clear_log(Path(folder)) if folder else 0)
    *tables, person = owned_tables()
    tables = [table for table in tables if table.model not in LAST]
    for _ in range(PASSES):
        try:
            _drop_rows(tables, owner_id, receipt, deadline)
            receipt.add("queued tasks", drop_queued(owner_id))
            receipt.add("finished tasks", drop_finished(owner_id))
            with transaction.atomic():  # together: an erasure without its mark would never be finished
                Erasure.objects.filter(user_id=owner_id).delete()
                OwnerGroup.objects.filter(owner_id=owner_id).delete()
                with connection.cursor() as cursor:
                    statement = load_sql("convmemory.ops.privacy", "drop_person").format(
                        table=person.name, condition=person.condition
                    )
                    cursor.execute(statement, {"owner": owner_id})
                    count: int = cursor.rowcount
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                receipt.add(person.name, count)
                # The ledger: a backup that is restored later must not bring the user back.
                ErasedUser.objects.get_or_create(account=owner_id, joined_at=user.date_joined)
                if groups.layout().groups:
                    _refuse_rows_left(tables, owner_id)
                receipt.add("files", drop_files_of(owner_id))  # files written meanwhile
            return
        except IntegrityError:
            continue  # a worker has just written for this user
    raise StillInUse("Rows of this person keep arriving: stop what writes them, then erase again.")


def _drop_rows(tables: list[OwnedTable], owner_id: int, receipt: Receipt, deadline: float) -> None:
    for model, key, rows in loose_references([*tables, owned_tables()[-1]]):
        # Set a nullable reference to the user's rows to null, in the given rows of the model.
        target = next(table for table in owned_tables() if table.model is key.related_model)
        statement = load_sql("convmemory.ops.privacy", "clear_references").format(
            table=model._meta.db_table, column=key.column, rows=rows,
            pk=target.model._meta.pk.column, target=target.name, condition=target.condition,
        )  # fmt: skip
        with connection.cursor() as cursor:
            cursor.execute(statement, {"owner": owner_id})
    for table in tables:
        for count in _in_batches("drop_owned", table, owner_id):
            receipt.add(table.name, count)
            if count and time.monotonic() > deadline:  # each run deletes at least one batch
                raise _OutOfTime


def _refuse_rows_left(tables: list[OwnedTable], owner_id: int) -> None:
    """Refuse to finish while tables on nodes have rows of the user: their foreign keys to accounts are dropped.

    Raises: IntegrityError, as a foreign key does elsewhere.
    """
    with connection.cursor() as cursor:
        for table in tables:
            statement = load_sql("convmemory.ops.privacy", "count_owned").format(
                table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": owner_id})
            if cursor.fetchone() != (0,):
                raise IntegrityError(f"{table.name} still has rows of the person.")


def _in_batches(name: str, table: OwnedTable, owner_id: int) -> Iterator[int]:
    statement = load_sql("convmemory.ops.privacy", name).format(table=table.name, condition=table.condition)
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, {"owner": owner_id, "batch": BATCH})
            count = cursor.rowcount
        yield count
        if count < BATCH:
            return


def _drop_stored_files(table: OwnedTable, owner_id: int) -> int:
    """Delete the files that rows name, wherever they are; return their number."""
    dropped = 0
    for file_field in (f for f in table.model._meta.concrete_fields if isinstance(f, models.FileField)):
        with connection.cursor() as cursor:
            statement = load_sql("convmemory.ops.privacy", "owned_files").format(
                column=file_field.column, table=table.name, condition=table.condition
            )
            cursor.execute(statement, {"owner": owner_id})
            names = [name for (name,) in cursor.fetchall() if name]
        for name in filter(file_field.storage.exists, names):
            file_field.storage.delete(name)
            dropped += 1
    return dropped
