"""Decides which endpoint addresses this server may fetch for the owner of an agent.

The operator's own settings are trusted. Each user may use the hosts that the operator lists in CHAT_ALLOWED_HOSTS.
Staff may use other public hosts too, and so may all users if the list contains `*`. Addresses in the operator's network
or on this machine are refused even to staff, unless the user is a superuser, who could grant it to themselves, or was
granted the permission `chat.use_private_address`. The address that a name resolves to is checked when it is used
(`pinned.py`).
"""

import ipaddress
import socket
from enum import Enum
from urllib.parse import urlsplit

from convmemory.accounts.callers import Caller
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput
from convmemory.core.text import masked

ANY_HOST = "*"
PERMISSION = "use_private_address"
LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reach(Enum):
    """The addresses that a request may reach."""

    PUBLIC = "public addresses only"
    ANY = "any address"


def clean_address(text: str) -> str:
    """Return the address without surrounding blanks and trailing slashes.

    Raises: InvalidInput if it is not an http(s) address.
    """
    address = text.strip().rstrip("/")
    shown = repr(masked(address[:200]))
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError if it is not a number
    # Not chained: the message quotes the port, which may be part of a password.
    except ValueError:
        raise InvalidInput(f"The endpoint {shown} is not an address: look at its host and port.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"The endpoint {shown} is not an http(s) address: give one like https://host.example/v1.")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("The endpoint's address holds a password, a query or a fragment: leave them out.")
    if not address.isascii() or "\\" in address or not address.isprintable() or " " in address:
        raise InvalidInput(
            f"The endpoint {shown} holds characters that no address has: write its host as xn--… where it needs to be."
        )
    return address


def origin_of(address: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: the server that receives a key sent to `address`."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)


def require_allowed(address: str, *, caller: Caller) -> Reach:
    """Return how far requests to `address` may go. Raises: InvalidInput if this owner may not use the address."""
    host = (urlsplit(address).hostname or "").lower()
    listed = {name.lower().strip("[]") for name in config.chat_allowed_hosts}
    if host in listed or may_use_private_addresses(caller):
        return Reach.ANY
    if ANY_HOST not in listed and not (caller.person and caller.person.is_active and caller.person.is_staff):
        raise InvalidInput(
            f"Your account may not use the endpoint at {host}: leave it empty for the server's own, or ask the "
            "administrator to add the host to CHAT_ALLOWED_HOSTS."
        )
    if _leads_inside(host):
        raise InvalidInput(private_message(host))
    return Reach.PUBLIC


def private_message(host: str) -> str:
    return (
        f"{host} is an address of this machine or of a private network, which your account may not use: the operator "
        "can add the host to CHAT_ALLOWED_HOSTS, or give your account the permission chat.use_private_address."
    )


def may_use_private_addresses(caller: Caller) -> bool:
    """Return whether the person is a superuser or was granted that; queried once for each loaded user."""
    return caller.person is not None and caller.person.has_perm(f"chat.{PERMISSION}")


def is_public(address: IpAddress) -> bool:
    """Return whether the address belongs to the public internet, in whatever form it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _leads_inside(host: str) -> bool:
    """Return whether the host is visibly a private address, without resolving the name."""
    name = host.rstrip(".")
    literal = literal_address(name)
    if literal is not None:
        return not is_public(literal)
    return name in LOCAL_NAMES or name.endswith(".localhost")


def literal_address(host: str) -> IpAddress | None:
    """Return the IP address that `host` spells, also as the C library reads it (0x7f.1, 2130706433, 0177.0.0.1)."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        # HTTP clients resolve through the C library, which accepts these forms.
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
