"""Which addresses an agent's owner may have the server fetch.

The operator's own settings are trusted, and so are staff: they may name any http(s) address, also on this
machine, where Ollama and its like listen. Everybody else may name only hosts that the operator has listed in
CHAT_ALLOWED_HOSTS, so that nobody reaches the private network through this server. See docs/adr/0014-the-stream.md.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User

from convmemory.core.errors import InvalidInput

ANY_HOST = "*"


def clean_address(text: str) -> str:
    """The address without blanks and slashes at its end. Raises: InvalidInput where it is no http(s) address."""
    address = text.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port  # raises where it is no number
    except ValueError as error:
        raise InvalidInput(f"The endpoint {address[:200]!r} is not an address: {error}.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidInput(
            f"The endpoint {address[:200]!r} is not an http(s) address: give one like http://127.0.0.1:11434/v1."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("The endpoint's address holds a password, a query or a fragment: leave them out.")
    return address


def require_allowed(address: str, *, owner: User) -> None:
    """Raises: InvalidInput where this owner may not have this server fetch the address."""
    if owner.is_active and owner.is_staff:
        return
    host = (urlsplit(address).hostname or "").lower()
    allowed = {name.lower() for name in settings.CHAT_ALLOWED_HOSTS}
    if host in allowed or ANY_HOST in allowed:
        return
    raise InvalidInput(
        f"Your account may not use the endpoint at {host}: leave it empty for the server's own, or ask the "
        "administrator to add the host to CHAT_ALLOWED_HOSTS."
    )
