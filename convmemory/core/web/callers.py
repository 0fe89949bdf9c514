"""Identifies a request's caller from its headers alone, at the edge, before any database query.

A key or session that was valid before is recognised by its hash and counts as its user, so that all keys and sessions
of one person are one caller. Every other caller is identified by network address. This decides which request waits for
which, never what a caller may read.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from http.cookies import CookieError, SimpleCookie
from threading import Lock

KNOWN = 20_000  # remembered credentials, some 150 bytes each
USER = "user:"  # the prefix of a caller's name if the credential is known

Headers = Iterable[tuple[bytes, bytes]]


class KnownCallers:
    """The users of recently valid credentials."""

    def __init__(self, size: int = KNOWN) -> None:
        self._users: OrderedDict[bytes, int] = OrderedDict()
        self._size = size
        self._lock = Lock()  # requests end in threads

    def note(self, credential: str, user_id: int) -> None:
        """Remember that this key or session cookie belongs to this user."""
        # Only hashes are kept, so that a dump of this process's memory contains no list of valid credentials.
        digest = _digest(credential)
        with self._lock:
            self._users[digest] = user_id
            self._users.move_to_end(digest)
            if len(self._users) > self._size:
                self._users.popitem(last=False)

    def user_of(self, credential: str) -> int | None:
        """Return the user that the credential belonged to when it was last seen, if any."""
        return self._users.get(_digest(credential))


known = KnownCallers()


def caller_of_request(headers: Headers, address: str, *, session_cookie: str, callers: KnownCallers = known) -> str:
    """Return `user:7`, or `address:192.0.2.1` for a request without a known credential."""
    # The request's key, or its session cookie if it has no key.
    values = {name.lower(): value.decode("latin-1") for name, value in headers}
    if b"authorization" in values:
        scheme, _, key = values[b"authorization"].partition(" ")
        credentials = [key.strip()] if scheme.lower() == "bearer" else []
    else:
        cookie = _cookie(values.get(b"cookie", ""), session_cookie)
        credentials = [cookie] if cookie else []
    for credential in credentials:
        if (user_id := callers.user_of(credential)) is not None:
            return f"{USER}{user_id}"
    return f"address:{network_of(address)}"


def _cookie(header: str, name: str) -> str:
    if name not in header:
        return ""
    for part in header.split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            try:
                return SimpleCookie(f"v={value}")["v"].value
            except (CookieError, KeyError):
                return value
    return ""


def _digest(credential: str) -> bytes:
    return blake2b(credential.encode("utf-8", "replace"), digest_size=16).digest()


# --- addresses ------------------------------------------------------------------------------------
# Client network addresses, reduced to the part that tells one client from another.


MAX_CHARS = 100  # of text that is no address: clients choose it, and it is stored
IPV6_PREFIX = 64  # the least that a provider gives a customer, who can use every address in it


def network_of(address: str) -> str:
    """Return the key to count by: an IPv4 address unchanged, the /64 of an IPv6 address, or the start of any other
    text.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:MAX_CHARS]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
