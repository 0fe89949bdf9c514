"""Making, revoking and checking API keys.

A key has 256 random bits, so a plain SHA-256 is enough to store it by: there is nothing to guess.
"""

import secrets
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser, User
from django.utils import timezone

from convmemory.accounts.models import ApiKey
from convmemory.core import callers
from convmemory.core.errors import NotFound
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash

KEY_PREFIX = "cvm_"
USE_RECORDED_EVERY = timedelta(minutes=1)


def create_key(*, owner: AbstractBaseUser, name: str = "") -> str:
    """A new key of `owner`; this is the only time that it can be read."""
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    ApiKey.objects.create(owner_id=owner.pk, name=name[:100], prefix=key[:10], key_hash=content_hash(key))
    return key


def revoke_key(*, owner: AbstractBaseUser, key_id: int) -> None:
    """Raises: NotFound."""
    keys = ApiKey.objects.filter(owner_id=owner.pk, pk=key_id, revoked_at=None)
    if not keys.update(revoked_at=timezone.now()):
        raise NotFound(f"There is no active API key {key_id}.")


def user_of_key(key: str) -> User | None:
    """The active user whose unrevoked key this is, or None. Notes the use of the key. One query."""
    parameters = {"key_hash": content_hash(key), "recorded_every": USE_RECORDED_EVERY}
    user = next(iter(User.objects.raw(load_sql("convmemory.accounts", "user_of_key"), parameters)), None)
    if user is not None:
        callers.known.note(key, user.pk)
    return user
