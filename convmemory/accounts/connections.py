"""Keys that programs get by OAuth: they only read, for an hour, and are renewed until their owner revokes them.

A connection is one row of API keys. Its authorization code and its refresh tokens are signed and name their owner, so
that a request without a session can act for that owner alone; only hashes of them are stored. Each works once: a second
use revokes the key, because it means that the code or the token was stolen.
"""

import secrets
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core import signing
from django.db import IntegrityError, transaction
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.keys import KEY_PREFIX, caller_of_key
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.models import ApiKey
from convmemory.core.acting import acting_for
from convmemory.core.text import content_hash, one_line, storable

ACCESS_S = 3_600
CODE_S = 120  # programs exchange a code at once
UNUSED_DAYS = 90  # after which a connection that was not renewed ends
CODE_SALT, REFRESH_SALT = "convmemory.accounts.code", "convmemory.accounts.refresh"


@dataclass(frozen=True, slots=True)
class Consent:
    """The agreement of an owner that a program may read, and what the program has to prove to use it."""

    person_id: int
    client_id: str
    client_name: str
    redirect_uri: str
    names_redirect_uri: bool
    code_challenge: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """A key for an hour, and the token that renews it."""

    access: str
    refresh: str


def code_for(consent: Consent) -> str:
    """Return an authorization code, which `consent_of` reads for two minutes."""
    return signing.dumps([*astuple(consent), secrets.token_urlsafe(16)], salt=CODE_SALT, compress=True)


def consent_of(code: str) -> Consent | None:
    """Return the consent in a code; None if this server did not sign it, or it is too old."""
    try:
        *values, _ = signing.loads(code, salt=CODE_SALT, max_age=CODE_S)
    except signing.BadSignature:
        return None
    return Consent(*values)


def open_connection(consent: Consent, code: str) -> Tokens | None:
    """Make the key of a consent; None if its code was used before, which revokes that key, or its owner is gone."""
    with acting_for(consent.person_id):
        person = User.objects.filter(pk=consent.person_id, is_active=True).first()
        if person is None:
            return None
        row = ApiKey(
            person_id=person.pk,
            name=one_line(storable(consent.client_name), 100),
            read_only=True,
            client_id=consent.client_id,
            code_token_hash=content_hash(code),
        )
        try:
            with transaction.atomic():
                row.key_hash = content_hash(secrets.token_urlsafe(32))  # until `_renewed` stores the real one
                row.save()
                record(Action.MADE, what=f"key {row.pk}", person_id=row.person_id, about_id=row.person_id)
                warn(person, Change.PROGRAM)
                return _renewed(row)
        except IntegrityError:
            _revoke(consent.person_id, by="second use of its code", code_token_hash=content_hash(code))
            return None


def renew_connection(refresh: str, *, client_id: str) -> Tokens | None:
    """Replace the key and the token of a connection; None if it ended.

    A token that was used before revokes the key.
    """
    if (person_and_key := _place_of(refresh)) is None:
        return None
    person_id, key_id = person_and_key
    with acting_for(person_id), transaction.atomic():
        rows = ApiKey.objects.select_for_update().filter(
            person_id=person_id, pk=key_id, client_id=client_id, revoked_at=None, renewable_until__gt=timezone.now()
        )
        row = rows.first()
        if row is None or not User.objects.filter(pk=person_id, is_active=True).exists():
            return None
        if bytes(row.refresh_token_hash or b"") != content_hash(refresh):
            _revoke(person_id, by="second use of its token", pk=key_id)
            return None
        return _renewed(row)


def _renewed(row: ApiKey) -> Tokens:
    """Store a new key and a new token in the row."""
    access = KEY_PREFIX + secrets.token_urlsafe(32)
    refresh = signing.dumps([row.person_id, row.pk, secrets.token_urlsafe(32)], salt=REFRESH_SALT)
    row.prefix, row.key_hash, row.refresh_token_hash = access[:10], content_hash(access), content_hash(refresh)
    row.expires_at = timezone.now() + timedelta(seconds=ACCESS_S)
    row.renewable_until = timezone.now() + timedelta(days=UNUSED_DAYS)
    row.save()
    return Tokens(access, refresh)


def end_connection(token: str, *, client_id: str) -> None:
    """Revoke the connection of a key or a refresh token of this program; does nothing for any other token."""
    if (person_and_key := _place_of(token)) is not None:
        person_id, column = person_and_key[0], "refresh_token_hash"
    elif (caller := caller_of_key(token, writes=False)) is not None:
        person_id, column = caller.user.pk, "key_hash"
    else:
        return
    with acting_for(person_id):
        _revoke(person_id, by="its program", client_id=client_id, **{column: content_hash(token)})


@transaction.atomic
def _revoke(person_id: int, *, by: str, **of: Any) -> None:
    """Revoke a key for which no person asks; the audit log says what did. Call it while acting for its owner."""
    row = ApiKey.objects.select_for_update().filter(person_id=person_id, revoked_at=None, **of).first()
    if row is not None:
        ApiKey.objects.filter(pk=row.pk).update(revoked_at=timezone.now())
        record(Action.REVOKED, what=f"key {row.pk} by {by}", person_id=None, about_id=person_id)


def is_refresh_token(token: str) -> bool:
    return _place_of(token) is not None


def _place_of(refresh: str) -> tuple[int, int] | None:
    """Return the owner and the row that a refresh token names; None if this server did not sign it."""
    try:
        person_id, key_id, _ = signing.loads(refresh, salt=REFRESH_SALT)
    except signing.BadSignature:
        return None
    return person_id, key_id


CLIENT_SALT, SECRET_SALT = "convmemory.accounts.client", "convmemory.accounts.client_secret"
MAX_CLIENT_CHARS = 4_000


# Programs register themselves without an account; their ids contain what they registered, so that nothing is stored.
def client_id_for(values: dict[str, Any]) -> str:
    """Return an id that contains these values."""
    return signing.dumps([values, secrets.token_urlsafe(6)], salt=CLIENT_SALT, compress=True)


def client_values(client_id: str) -> dict[str, Any] | None:
    """Return the values in a client's id; None if this server did not sign it."""
    if len(client_id) > MAX_CLIENT_CHARS:
        return None
    try:
        values, _ = signing.loads(client_id, salt=CLIENT_SALT)
    except signing.BadSignature:
        return None
    values_of_client: dict[str, Any] = values
    return values_of_client


def client_secret(client_id: str) -> str:
    return signing.Signer(salt=SECRET_SALT).signature(client_id)
