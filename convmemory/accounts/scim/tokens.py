"""Bearer tokens of directories. They have 256 random bits, so that a plain SHA-256 is enough to store them."""

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.models import ScimToken
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.text import content_hash

PREFIX = "cvm_scim_"
USE_RECORDED_EVERY = timedelta(minutes=1)


@transaction.atomic
def create_token(*, name: str, reaches_staff: bool = False) -> str:
    """Return a new token; only its hash is stored. Raises: InvalidInput."""
    if not 1 <= len(name) <= 100:
        raise InvalidInput("Give the token a name of 1 to 100 characters, such as that of the directory.")
    token = PREFIX + secrets.token_urlsafe(32)
    row = ScimToken.objects.create(name=name, token_hash=content_hash(token), reaches_staff=reaches_staff)
    record(Action.MADE, what=f"SCIM token {row.pk}", person_id=None)
    return token


def active_token(*, token_id: int) -> ScimToken:
    """Return a token that was not revoked. Raises: NotFound."""
    row = ScimToken.objects.filter(pk=token_id, revoked_at=None).first()
    if row is None:
        raise NotFound(f"There is no active SCIM token {token_id}: `manage.py scim_token list` shows them.")
    return row


@transaction.atomic
def revoke_token(*, token_id: int) -> None:
    """Revoke a token. Raises: NotFound."""
    row = active_token(token_id=token_id)
    ScimToken.objects.filter(pk=row.pk).update(revoked_at=timezone.now())
    record(Action.REVOKED, what=f"SCIM token {token_id}", person_id=None)


def active_tokens() -> list[ScimToken]:
    """Return the tokens that were not revoked, oldest first."""
    return list(ScimToken.objects.filter(revoked_at=None).order_by("pk"))


def find_token(authorization: str) -> ScimToken | None:
    """Return the active token of `Authorization: Bearer TOKEN`, and note its use; None for any other value."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    row = ScimToken.objects.filter(token_hash=content_hash(token.strip()), revoked_at=None).first()
    now = timezone.now()
    if row is not None and (row.last_used_at is None or row.last_used_at < now - USE_RECORDED_EVERY):
        ScimToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row
