"""The permission to read other people's content, in the admin alone, and the record of each reading.

Users may read their own content. Reading other people's requires the permission `accounts.read_content`, granted to the
reader or to one of their groups: being a superuser is not enough. Each reading is an entry of the audit log.
"""

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Permission
from django.db.models import Q

from convmemory.accounts.auditing import Action, record

CODENAME = "read_content"


def may_read_content(*, reader: AbstractBaseUser | AnonymousUser, archive_id: int) -> bool:
    """Return whether `reader` may read the content of this archive in the admin."""
    if not getattr(reader, "is_staff", False) or not reader.is_active:
        return False
    return reader.pk == archive_id or has_read_content(reader)


def has_read_content(reader: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the permission was granted explicitly; being a superuser does not count."""
    return is_granted(reader, app_label="accounts", codename=CODENAME)


def is_granted(user: AbstractBaseUser | AnonymousUser, *, app_label: str, codename: str) -> bool:
    """Return whether a permission was granted to the user or one of their groups.

    One query; being a superuser does not count, because the first account of every installation is one.
    """
    granted = Permission.objects.filter(content_type__app_label=app_label, codename=codename)
    return granted.filter(Q(user__pk=user.pk) | Q(group__user__pk=user.pk)).exists()


def record_reading(*, reader: AbstractBaseUser | AnonymousUser, archive_id: int, what: str) -> None:
    """Record that `reader` reads content of another owner; called before it is shown."""
    if reader.pk != archive_id:
        record(Action.READ, what=what, person_id=reader.pk, about_id=archive_id)
