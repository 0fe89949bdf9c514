"""Creates, revokes and checks API keys. Routes and tools refuse a read-only key unless they are declared as reading.

A key has 256 random bits, so a plain SHA-256 is enough to store it: it cannot be guessed.
"""

import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser, User
from django.db import transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.models import ApiKey
from convmemory.accounts.spaces import get_membership
from convmemory.core.errors import InvalidInput, NotFound, ReadOnlyKey
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash
from convmemory.core.web import callers

KEY_PREFIX = "cvm_"
USE_RECORDED_EVERY = timedelta(minutes=1)  # so that a busy key costs one write a minute
KEYS_ONLY_READ = "This key only reads spaces: use one that also writes to them, or make this change on the pages."
MAX_DAYS = 36_500  # a hundred years


@transaction.atomic
def create_key(
    *,
    owner: AbstractBaseUser,
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
        get_membership(person=owner, space_id=space_id)
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"A key cannot hold for {days} days: use 1 to {MAX_DAYS:,}, or none for ever.")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    row = ApiKey.objects.create(
        owner_id=owner.pk,
        name=name[:100],
        prefix=key[:10],
        key_hash=content_hash(key),
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
        read_only=read_only,
        space_ids=None if space_ids is None else sorted(set(space_ids)),
        writes_spaces=writes_spaces,
    )
    record(Action.MADE, what=f"key {row.pk}", person_id=owner.pk, about_id=owner.pk)
    return key


def row_of_key(*, owner: AbstractBaseUser, key: str) -> ApiKey:
    """Return the row of a key of `owner`. Raises: ApiKey.DoesNotExist."""
    return ApiKey.objects.get(owner_id=owner.pk, key_hash=content_hash(key))


def active_keys(*, owner: AbstractBaseUser) -> list[ApiKey]:
    """Return the owner's keys that were not revoked, newest first."""
    return list(ApiKey.objects.filter(owner_id=owner.pk, revoked_at=None).order_by("-created_at"))


def active_key(*, owner: AbstractBaseUser, key_id: int) -> ApiKey:
    """Return a key of `owner` that was not revoked. Raises: NotFound."""
    found = ApiKey.objects.filter(owner_id=owner.pk, pk=key_id, revoked_at=None).first()
    if found is None:
        raise NotFound(f"There is no active API key {key_id}.")
    return found


@transaction.atomic
def revoke_key(*, owner: AbstractBaseUser, key_id: int) -> None:
    """Revoke a key of `owner`. Raises: NotFound."""
    keys = ApiKey.objects.filter(owner_id=owner.pk, pk=key_id, revoked_at=None)
    if not keys.update(revoked_at=timezone.now()):
        raise NotFound(f"There is no active API key {key_id}.")
    record(Action.REVOKED, what=f"key {key_id}", person_id=owner.pk, about_id=owner.pk)


@transaction.atomic
def revoke_all_keys(*, owner: AbstractBaseUser) -> int:
    """Revoke every key of `owner`; returns how many there were."""
    ended = ApiKey.objects.filter(owner_id=owner.pk, revoked_at=None).update(revoked_at=timezone.now())
    record(Action.REVOKED, what=f"all {ended} keys", person_id=owner.pk, about_id=owner.pk)
    return ended


def user_of_key(key: str, *, writes: bool = True) -> User | None:
    """Return the active user to whom the key belongs, or None if it is wrong, revoked or expired.

    Its attribute `key_spaces` has the ids of the spaces that the key reads. Records the key's use. One query.

    Raises: ReadOnlyKey if the key is read-only and the request `writes`.
    """
    parameters = {"key_hash": content_hash(key), "recorded_every": USE_RECORDED_EVERY}
    found: Any = next(iter(User.objects.raw(load_sql("convmemory.accounts", "user_of_key"), parameters)), None)
    if found is None:
        return None
    # The edge then counts requests with this key for its user, without a query.
    callers.known.note(key, found.pk)
    if writes and found.key_is_read_only:
        raise ReadOnlyKey
    return cast("User | None", found)


def caller_of_header(authorization: str, *, writes: bool) -> User | None:
    """Return the user of `Authorization: Bearer KEY`; None for another scheme too. Raises: ReadOnlyKey."""
    scheme, _, key = authorization.partition(" ")
    return user_of_key(key.strip(), writes=writes) if scheme.lower() == "bearer" else None
