"""Creates, revokes and checks API keys. Routes and tools refuse a read-only key unless they are declared as reading.

A key has 256 random bits, so a plain SHA-256 is enough to store it: it cannot be guessed.
"""

import json
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Access, Caller, KeyRights, SpaceName
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.models import ApiKey, Membership
from convmemory.accounts.spaces import get_membership
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash
from convmemory.core.web import callers

KEY_PREFIX = "cvm_"
USE_RECORDED_EVERY = timedelta(minutes=1)  # so that a busy key costs one write a minute
MAX_DAYS = 36_500  # a hundred years


@transaction.atomic
def create_key(
    *,
    person: User,
    name: str = "",
    days: int | None = None,
    read_only: bool = False,
    space_ids: Collection[int] | None = (),
    writes_spaces: bool = False,
) -> str:
    """Return a new key of `owner`, valid for `days` days (None: without end); only its hash is stored.

    It reads the spaces `space_ids`, or with None all of which the owner is a member at the time. With `writes_spaces`
    it also writes there, as far as the owner's role allows. Raises: InvalidInput, NotFound for a space of which the
    owner is no member.
    """
    if read_only and writes_spaces:
        raise InvalidInput("A key that is read-only writes to no space: leave one of the two out.")
    for space_id in space_ids or ():
        get_membership(person=person, space_id=space_id)
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"A key cannot hold for {days} days: use 1 to {MAX_DAYS:,}, or none for ever.")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    row = ApiKey.objects.create(
        person_id=person.pk,
        name=name[:100],
        prefix=key[:10],
        key_hash=content_hash(key),
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
        read_only=read_only,
        space_ids=None if space_ids is None else sorted(set(space_ids)),
        writes_spaces=writes_spaces,
    )
    record(Action.MADE, what=f"key {row.pk}", person_id=person.pk, about_id=person.pk)
    warn(person, Change.KEY)
    return key


def active_keys(*, person: User) -> list[ApiKey]:
    """Return the owner's keys that were not revoked, newest first."""
    return list(ApiKey.objects.filter(person_id=person.pk, revoked_at=None).order_by("-created_at"))


def active_key(*, person: User, key_id: int) -> ApiKey:
    """Return a key of `owner` that was not revoked. Raises: NotFound."""
    key = ApiKey.objects.filter(person_id=person.pk, pk=key_id, revoked_at=None).first()
    if key is None:
        raise NotFound(f"There is no active API key {key_id}.")
    return key


@transaction.atomic
def revoke_key(*, person: User, key_id: int) -> None:
    """Revoke a key of `owner`. Raises: NotFound."""
    keys = ApiKey.objects.filter(person_id=person.pk, pk=key_id, revoked_at=None)
    if not keys.update(revoked_at=timezone.now()):
        raise NotFound(f"There is no active API key {key_id}.")
    record(Action.REVOKED, what=f"key {key_id}", person_id=person.pk, about_id=person.pk)


@transaction.atomic
def revoke_all_keys(*, person: User) -> int:
    """Revoke every key of `owner`; returns how many there were."""
    ended = ApiKey.objects.filter(person_id=person.pk, revoked_at=None).update(revoked_at=timezone.now())
    record(Action.REVOKED, what=f"all {ended} keys", person_id=person.pk, about_id=person.pk)
    return ended


def caller_of_key(key: str, *, writes: bool = True) -> Caller | None:
    """Return the active user of the key with its rights and spaces; None if it is wrong, revoked or expired.

    Records the key's use. One query.

    Raises: ReadOnlyKey if the key is read-only and the request `writes`.
    """
    parameters: dict[str, Any] = {"key_hash": content_hash(key), "recorded_every": USE_RECORDED_EVERY}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "caller_of_key"), parameters)
        values = cursor.fetchone()
        if values is None:
            return None
        row = dict(zip([column.name for column in cursor.description], values, strict=True))
    fields = User._meta.concrete_fields
    user = User.from_db(connection.alias, [field.attname for field in fields], [row[field.column] for field in fields])
    # The edge then counts requests with this key for its user, without a query.
    callers.known.note(key, user.pk)
    spaces = [
        Access(number, SpaceName(number, name), Membership.Role(role))
        for number, name, role in json.loads(row["spaces"])
    ]
    rights = KeyRights(row["key_id"], is_read_only=row["is_read_only"], writes_spaces=row["writes_spaces"])
    caller = Caller(person=user, archive=Access(user.pk), spaces=tuple(spaces), key=rights)
    if writes:
        caller.require_writing_key()
    return caller


def caller_of_header(authorization: str, *, writes: bool) -> Caller | None:
    """Return the caller of `Authorization: Bearer KEY`; None for another scheme too. Raises: ReadOnlyKey."""
    scheme, _, key = authorization.partition(" ")
    return caller_of_key(key.strip(), writes=writes) if scheme.lower() == "bearer" else None
