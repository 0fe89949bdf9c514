"""The second factor of accounts with a password: codes of an authenticator app (TOTP), and recovery codes.

A person who has the app or a passkey is not signed in by the password alone. Reads and writes `SecondFactor`. A code is
accepted once: the time step of an app's code only grows, and the statement that finds a recovery code deletes it.
Source: https://www.rfc-editor.org/rfc/rfc6238
"""

import base64
import secrets
import time
from enum import Enum

import segno
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.db.models import F, Func, Value
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.core.encryption import decrypt, encrypt
from convmemory.core.errors import InvalidInput
from convmemory.core.text import content_hash
from convmemory.sign_in.attempts import Attempt, CodesPaused
from convmemory.sign_in.models import Passkey, SecondFactor

ISSUER = "convmemory"
# Six digits of SHA-1 every 30 s: apps ignore other values in the address, or refuse it.
DIGITS, STEP_S = 6, 30
SECRET_BYTES = 20  # RFC 4226 recommends the length of the hash
STEPS = (0, -1, 1)  # clocks of phones and servers differ by some seconds
RECOVERY_CODES = 10
RECOVERY_BYTES = 10  # 80 bits, so that a fast hash is enough
PREPARED_S = 3_600  # from the page with the QR code to the first code


class Step(Enum):
    """What follows a right password before the person is signed in."""

    NONE = "none"
    CODE = "code"
    SET_UP = "set up"


def step_after_password(user: User) -> Step:
    """Return what the user has to do after the right password."""
    if has_second_factor(user):
        return Step.CODE
    return Step.SET_UP if must_have_second_factor(user) else Step.NONE


def has_second_factor(user: User) -> bool:
    """Return whether the user has an app or a passkey."""
    with acting_for(user.pk):
        has_app = SecondFactor.objects.filter(person_id=user.pk).exclude(app_secret_encrypted="").exists()
        return has_app or Passkey.objects.filter(person_id=user.pk).exists()


def must_have_second_factor(user: User) -> bool:
    """Return whether `REQUIRE_SECOND_FACTOR` applies to the user."""
    required = config.require_second_factor
    return required == "all" or (required == "staff" and (user.is_staff or user.is_superuser))


def factor_of(user: User) -> SecondFactor | None:
    with acting_for(user.pk):
        return SecondFactor.objects.filter(person_id=user.pk).first()


def count_factors(user: User) -> dict[str, int]:
    """Return the numbers of the user's authenticator apps, passkeys and recovery codes."""
    factor = factor_of(user)
    with acting_for(user.pk):
        passkeys = Passkey.objects.filter(person_id=user.pk).count()
    return {
        "authenticator apps": int(factor is not None and bool(factor.app_secret_encrypted)),
        "passkeys": passkeys,
        "recovery codes": len(factor.recovery_code_hashes) if factor else 0,
    }


def prepare_app(user: User, prepared: str = "") -> tuple[str, str]:
    """Return a secret in Base32 and its signed form, by which a form brings it back; the same one if it has it."""
    salt = f"convmemory.sign_in.app.{user.pk}"
    try:
        secret = signing.loads(prepared, salt=salt, max_age=PREPARED_S)
    except signing.BadSignature:
        secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")
        prepared = signing.dumps(secret, salt=salt)
    return secret, prepared


def qr_code(user: User, secret: str) -> str:
    """Return the address that an app reads as a picture, SVG."""
    address = _totp(secret).get_provisioning_uri(user.get_username(), ISSUER)
    code = segno.make(address, error="m", micro=False)
    return str(code.svg_inline(scale=4, border=4, dark="#000", light="#fff", svgclass="qr", title=_("QR code")))


@transaction.atomic
def set_up_app(user: User, secret: str, code: str) -> list[str]:
    """Store the secret if `code` is of it; return new recovery codes if there are none. Raises: InvalidInput."""
    step = _step_of(secret, _plain(code))
    if step is None:
        raise InvalidInput(
            _("That is not the code that the app shows now. The clocks of phone and server have to be right.")
        )
    with acting_for(user.pk):
        SecondFactor.objects.update_or_create(
            person_id=user.pk, defaults={"app_secret_encrypted": encrypt(secret), "app_last_step": step}
        )
    return ensure_recovery_codes(user)


def ensure_recovery_codes(user: User) -> list[str]:
    """Return new recovery codes if the user has none left, else nothing."""
    factor = factor_of(user)
    return [] if factor is not None and factor.recovery_code_hashes else renew_recovery_codes(user)


def renew_recovery_codes(user: User) -> list[str]:
    """Return new recovery codes, which replace the earlier ones. They are stored as hashes."""
    codes = [
        base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode("ascii").lower() for _ in range(RECOVERY_CODES)
    ]
    with acting_for(user.pk):
        SecondFactor.objects.update_or_create(
            person_id=user.pk, defaults={"recovery_code_hashes": [_recovery_hash(user, code) for code in codes]}
        )
    return ["-".join(code[start : start + 4] for start in range(0, len(code), 4)) for code in codes]


@transaction.atomic
def remove_app(user: User) -> None:
    """Forget the secret, and without a passkey the recovery codes. Raises: InvalidInput if it is required."""
    with acting_for(user.pk):
        if not Passkey.objects.filter(person_id=user.pk).exists():
            refuse_last_factor(user)
            SecondFactor.objects.filter(person_id=user.pk).delete()
        SecondFactor.objects.filter(person_id=user.pk).update(app_secret_encrypted="")


def refuse_last_factor(user: User) -> None:
    """Raises: InvalidInput if the user must keep a second factor."""
    if must_have_second_factor(user):
        raise InvalidInput(_("This server requires a second factor: set up another one before you remove this one."))


def remove_everything(user: User) -> bool:
    """Remove the app, the recovery codes and the passkeys of a user; return whether there were any."""
    # In this order: commands and the administration have another log-in, which a transaction cannot change.
    with acting_for(user.pk), transaction.atomic():
        rows = [model.objects.filter(person_id=user.pk).delete()[0] for model in (SecondFactor, Passkey)]
    return any(rows)


def accept_code(*, user: User, code: str, address: str) -> bool:
    """Return whether it is a code of the user's app or a recovery code, and use it up. Raises: CodesPaused."""
    with Attempt(username=user.get_username(), address=address, counted="code ", pause=CodesPaused) as attempt:
        is_right = _use_up(user, _plain(code))
        if is_right:
            attempt.succeeded(user)
    return is_right


def _use_up(user: User, code: str) -> bool:
    with acting_for(user.pk):
        rows = SecondFactor.objects.filter(person_id=user.pk)
        row = rows.first()
        if row is None:
            return False
        if len(code) == DIGITS:
            secret = decrypt(row.app_secret_encrypted)
            step = _step_of(secret, code) if secret else None
            return step is not None and rows.filter(app_last_step__lt=step).update(app_last_step=step) == 1
        code_hash = _recovery_hash(user, code)
        left = Func(F("recovery_code_hashes"), Value(code_hash), function="array_remove")
        return rows.filter(recovery_code_hashes__contains=[code_hash]).update(recovery_code_hashes=left) == 1


def _step_of(secret: str, code: str) -> int | None:
    """Return the time step that has this code, if it is near now."""
    totp, now = _totp(secret), int(time.time()) // STEP_S
    for step in (now + difference for difference in STEPS):
        if constant_time_compare(totp.generate(step * STEP_S).decode("ascii"), code):
            return step
    return None


def _totp(secret: str) -> TOTP:
    return TOTP(base64.b32decode(secret), DIGITS, SHA1(), STEP_S)  # noqa: S303


def _plain(code: str) -> str:
    """Return a code as it is compared: without spaces and hyphens, in small letters."""
    return "".join(code.split()).replace("-", "").lower()


def _recovery_hash(user: User, code: str) -> bytes:
    return content_hash(f"recovery code {user.pk} {code}")
