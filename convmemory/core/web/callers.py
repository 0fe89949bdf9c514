"""Remembers which user each recently valid key or session belongs to, and reduces network addresses.

With both, `http_limits` names the caller of a request from its headers alone, before any database query.
"""

import ipaddress
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock

MAX_KNOWN_CALLERS = 20_000  # remembered credentials, some 150 bytes each

MAX_OTHER_ADDRESS_CHARS = 100  # of text that is no address: clients choose it, and it is stored
IPV6_PREFIX = 64  # the least that a provider gives a customer, who can use every address in it


class KnownCallers:
    """The users of recently valid credentials."""

    def __init__(self, size: int = MAX_KNOWN_CALLERS) -> None:
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


def _digest(credential: str) -> bytes:
    return blake2b(credential.encode("utf-8", "replace"), digest_size=16).digest()


def network_of(address: str) -> str:
    """Return the key to count by: an IPv4 address unchanged, the /64 of an IPv6 address, or the start of any other
    text.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:MAX_OTHER_ADDRESS_CHARS]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
