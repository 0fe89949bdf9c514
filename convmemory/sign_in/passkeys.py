"""Passkeys: the options that a browser gets, and the checks of what it answers. Reads and writes `Passkey`.

A passkey alone signs in: it names its owner, and the authenticator has verified the person. Challenges are signed
instead of stored, because visitors store nothing; each passkey accepts only challenges newer than its last one, so that
an answer works once. Source: https://www.w3.org/TR/webauthn-3/
"""

import json
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.core import signing
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from fido2 import cbor
from fido2.cose import CoseKey, UnsupportedKey
from fido2.server import Fido2Server
from fido2.utils import websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from convmemory.core.acting import acting_for
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import MAX_INTEGER
from convmemory.sign_in import second_factor
from convmemory.sign_in.models import Passkey, SecondFactor

SITE = "convmemory"
CHALLENGE_S = 3_600  # a log-in page may be open for a while
MOST_CHARS = 16_000  # of an answer: a post-quantum key and its signature have some 8,000 characters
MOST_PASSKEYS = 20
VERIFIED = UserVerificationRequirement.REQUIRED
SIGN_IN = "sign-in"
NO_AAGUID = bytes(16)  # the maker of an authenticator is not asked for
# What the parsers of the library and of JSON raise for an answer that is none; the last is for deep nesting.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, AssertionError, struct.error, RecursionError)


class PasskeyRefused(InvalidInput):
    """A passkey is not accepted; the message says why, and what to do. `archive_id` is its owner, if it is known."""

    def __init__(self, message: str, person_id: int | None = None) -> None:
        self.person_id = person_id
        super().__init__(message)


def creation_options(user: User, host: str) -> str:
    """Return the options with which a browser makes a passkey of the user for this host, as JSON."""
    options, _state = _server(host).register_begin(
        PublicKeyCredentialUserEntity(
            name=user.get_username(), id=user.pk.to_bytes(8), display_name=user.get_username()
        ),
        [
            PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=bytes(passkey.credential_id))
            for passkey in passkeys_of(user)
        ],
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=VERIFIED,
        challenge=_challenge(f"add {user.pk}"),
    )
    return json.dumps(dict(options.public_key))


def request_options(host: str, purpose: str = SIGN_IN) -> str:
    """Return the options with which a browser uses any passkey for this host, as JSON."""
    options, _state = _server(host).authenticate_begin(user_verification=VERIFIED, challenge=_challenge(purpose))
    return json.dumps(dict(options.public_key))


def passkeys_of(user: User) -> Sequence[Passkey]:
    with acting_for(user.pk):
        return list(Passkey.objects.filter(person_id=user.pk).order_by("pk"))


def add_passkey(user: User, *, name: str, answer: str, host: str) -> list[str]:
    """Store a passkey that a browser has made; return recovery codes if there were none. Raises: PasskeyRefused."""
    try:
        response = RegistrationResponse.from_dict(_read(answer))
        state = _state_of(response.response.client_data.challenge, f"add {user.pk}")
        made = _server(host).register_complete(state, response).credential_data
        if made is None or isinstance(made.public_key, UnsupportedKey):
            raise ValueError("no key of a kind that was asked for")
        credential = {"credential_id": made.credential_id, "public_key": cbor.encode(dict(made.public_key))}
    except UNREADABLE as error:
        raise PasskeyRefused(_("The browser has made no passkey that this server can use. Try again.")) from error
    with acting_for(user.pk):
        if Passkey.objects.filter(person_id=user.pk).count() >= MOST_PASSKEYS:
            raise PasskeyRefused(_("You have %(count)s passkeys: remove one first.") % {"count": MOST_PASSKEYS})
        try:
            with transaction.atomic():
                Passkey.objects.create(person_id=user.pk, name=name, **credential)
                return second_factor.ensure_recovery_codes(user)
        except IntegrityError as error:
            raise PasskeyRefused(_("This passkey is known already.")) from error


def owner_of_answer(answer: str, *, host: str, purpose: str = SIGN_IN) -> User:
    """Return the active user who has answered the challenge with a passkey. Raises: PasskeyRefused."""
    try:
        response = AuthenticationResponse.from_dict(_read(answer))
        challenge = response.response.client_data.challenge
        person_id = min(int.from_bytes(response.response.user_handle or b""), MAX_INTEGER)
    except UNREADABLE as error:
        raise PasskeyRefused(_("The browser has used no passkey. Try again.")) from error
    state = _state_of(challenge, purpose)
    with acting_for(person_id):
        passkeys = Passkey.objects.filter(person_id=person_id, credential_id=response.raw_id)
        passkey = passkeys.select_related("person").first()
        if passkey is None:
            raise PasskeyRefused(_("This server does not know that passkey, or no longer. Sign in another way."))
        public_key = CoseKey.parse(cast("Mapping[int, Any]", cbor.decode(bytes(passkey.public_key))))
        key = AttestedCredentialData.create(NO_AAGUID, bytes(passkey.credential_id), public_key)
        try:
            _server(host).authenticate_complete(state, [key], response)
        except UNREADABLE as error:
            raise PasskeyRefused(_("The passkey is not valid here. Try again."), passkey.person_id) from error
        # One statement, so that of two requests with the same answer one is refused.
        rows = Passkey.objects.filter(pk=passkey.pk, last_challenge_us__lt=state["made_us"])
        if not rows.update(last_challenge_us=state["made_us"], last_used_at=timezone.now()):
            raise PasskeyRefused(_("This answer was used before. Try again."), passkey.person_id)
    if not passkey.person.is_active or not passkey.person.has_usable_password():
        raise PasskeyRefused(_("Your account is deactivated, or does not sign in here."), passkey.person_id)
    return passkey.person


def passkey_of(user: User, passkey_id: int) -> Passkey:
    """Return a passkey of the user. Raises: NotFound."""
    with acting_for(user.pk):
        passkey = Passkey.objects.filter(person_id=user.pk, pk=passkey_id).first()
    if passkey is None:
        raise NotFound(f"There is no passkey {passkey_id}.")
    return passkey


def rename_passkey(user: User, passkey_id: int, name: str) -> None:
    """Raises: NotFound."""
    with acting_for(user.pk):
        if not Passkey.objects.filter(person_id=user.pk, pk=passkey_id).update(name=name):
            raise NotFound(f"There is no passkey {passkey_id}.")


@transaction.atomic
def remove_passkey(user: User, passkey_id: int) -> None:
    """Delete a passkey; without another and an app, the recovery codes, too. Raises: NotFound, InvalidInput."""
    passkey = passkey_of(user, passkey_id)
    with acting_for(user.pk):
        passkey.delete()
        if not second_factor.has_second_factor(user):
            second_factor.refuse_last_factor(user)
            SecondFactor.objects.filter(person_id=user.pk).delete()


def _server(host: str) -> Fido2Server:
    name = urlsplit(f"//{host}").hostname or ""
    party = PublicKeyCredentialRpEntity(name=SITE, id=name)
    # Not a subdomain's page either, which the library would accept.
    return Fido2Server(party, verify_origin=lambda origin: urlsplit(origin).netloc == host)


def _read(answer: str) -> Mapping[str, Any]:
    if len(answer) > MOST_CHARS:
        raise ValueError("too long")
    fields = json.loads(answer)
    if not isinstance(fields, dict):
        raise TypeError("no object")
    return fields


def _challenge(purpose: str) -> bytes:
    made = [time.time_ns() // 1_000, secrets.token_urlsafe(16)]
    return signing.dumps(made, salt=_salt(purpose)).encode("ascii")


def _state_of(challenge: bytes, purpose: str) -> dict[str, Any]:
    """Return what the library compares an answer with. Raises: PasskeyRefused for a challenge that is not ours."""
    try:
        made_us, _random = signing.loads(challenge.decode("latin-1"), salt=_salt(purpose), max_age=CHALLENGE_S)
    except signing.BadSignature as error:
        raise PasskeyRefused(_("The page was open for too long. Try again.")) from error
    return {"challenge": websafe_encode(challenge), "user_verification": VERIFIED, "made_us": made_us}


def _salt(purpose: str) -> str:
    return f"convmemory.sign_in.passkey.{purpose}"
