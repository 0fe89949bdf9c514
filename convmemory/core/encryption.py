"""Encrypts stored secrets that must be readable later, such as keys of other services.

The key is derived from SECRET_KEY, so that a stolen database alone reveals nothing. Django's signing is no substitute,
because signed values stay readable. After a change of SECRET_KEY the secrets must be entered again.
"""

import base64
import hashlib
import zlib
from typing import IO

from cryptography.fernet import Fernet, InvalidToken

from convmemory.core.config import config
from convmemory.core.errors import InvalidInput

CHUNK_BYTES = 1024 * 1024
_PURPOSE = b"stored-secrets-1"  # 16 bytes at most


def encrypt(text: str) -> str:
    """Return the text as an ASCII token that only this installation can read; "" stays ""."""
    return _cipher().encrypt(text.encode()).decode("ascii") if text else ""


def decrypt(token: str) -> str | None:
    """Return the inverse of `encrypt`, or None if SECRET_KEY has changed since."""
    if not token:
        return ""
    try:
        return _cipher().decrypt(token.encode("ascii")).decode()
    except InvalidToken:
        return None


def encrypt_file(source: IO[bytes], target: IO[bytes]) -> None:
    """Write the rest of `source` to `target`: compressed, in lines that only this installation can read."""
    cipher = _cipher()
    # In chunks, because Fernet encrypts only whole texts in memory.
    while chunk := source.read(CHUNK_BYTES):
        target.write(cipher.encrypt(zlib.compress(chunk, 1)) + b"\n")


def decrypt_file(source: IO[bytes], target: IO[bytes]) -> None:
    """Write the inverse of `encrypt_file`.

    Raises: InvalidInput if SECRET_KEY has changed since, or the file was altered.
    """
    cipher = _cipher()
    for line in source:
        try:
            target.write(zlib.decompress(cipher.decrypt(line.rstrip(b"\n"))))
        except (InvalidToken, zlib.error) as error:
            raise InvalidInput("It cannot be decrypted: SECRET_KEY has changed, or the file is damaged.") from error


def key_fingerprint() -> str:
    """Return a short digest of SECRET_KEY, by which two installations can compare theirs without revealing it."""
    return hashlib.blake2b(config.secret_key.encode(), digest_size=8, person=b"key-fingerprint").hexdigest()


def _cipher() -> Fernet:
    derived = hashlib.blake2b(config.secret_key.encode(), digest_size=32, person=_PURPOSE).digest()
    return Fernet(base64.urlsafe_b64encode(derived))
