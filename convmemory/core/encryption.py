"""Secrets that have to be read again (keys of other services) are stored encrypted.

The key is derived from SECRET_KEY, so a stolen database alone opens nothing. Django's signing does not
do: what it signs stays readable. Whoever changes SECRET_KEY has to enter the secrets anew.
"""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken

from convmemory.core.options import SiteOptions

_PURPOSE = b"stored-secrets-1"  # 16 bytes at most


def encrypt(text: str) -> str:
    """The text as an ASCII token that only this installation reads; "" stays ""."""
    return _cipher().encrypt(text.encode()).decode("ascii") if text else ""


def decrypt(token: str) -> str | None:
    """The inverse of `encrypt`, or None where SECRET_KEY has changed since."""
    if not token:
        return ""
    try:
        return _cipher().decrypt(token.encode("ascii")).decode()
    except InvalidToken:
        return None


def _cipher() -> Fernet:
    derived = hashlib.blake2b(SiteOptions.from_settings().secret_key.encode(), digest_size=32, person=_PURPOSE).digest()
    return Fernet(base64.urlsafe_b64encode(derived))
