"""The user whom a trusted proxy names in a header (`REMOTE_USER_HEADER`).

Headers are read from the ASGI scope, and only if `http_limits/connections.py` has noted the address at the other end of
the connection and that address is in `FORWARDED_ALLOW_IPS`: the scope's own client may be one that a header claims.
Under another web server, and under WSGI, no user is named.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.http import HttpRequest

from convmemory.core.config import config
from convmemory.core.text import storable
from convmemory.core.web.asgi_types import Scope

PEER = "convmemory.peer"  # in the scope: the address at the other end of the connection
MOST_NAME_CHARS = 150  # of a user name
MOST_GROUPS_CHARS = 10_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class RemoteUser:
    """A person as the proxy names them; `is_staff` is None unless groups decide it."""

    name: str
    is_staff: bool | None


def remote_user_of(request: HttpRequest) -> RemoteUser | None:
    """Return the person whom a trusted proxy names, if it names one."""
    scope: Scope | None = getattr(request, "scope", None)
    if not config.remote_user_header or scope is None or not is_trusted(scope.get(PEER, "")):
        return None
    name = _only(scope, config.remote_user_header)
    if not 0 < len(name) <= MOST_NAME_CHARS:
        return None
    if not config.remote_staff_groups:
        return RemoteUser(name, None)
    group_names = _only(scope, config.remote_groups_header)[:MOST_GROUPS_CHARS]
    groups = {group.strip() for group in group_names.split(",")}
    return RemoteUser(name, not groups.isdisjoint(config.remote_staff_groups))


def is_trusted(address: str) -> bool:
    """Return whether the address is one of the proxies in `FORWARDED_ALLOW_IPS`."""
    try:
        peer = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped is not None:
        peer = peer.ipv4_mapped
    return any(peer in network for network in _networks(tuple(config.forwarded_allow_ips)))


@lru_cache(maxsize=8)
def _networks(proxies: Sequence[str]) -> list[Network]:
    return [ipaddress.ip_network(proxy) for proxy in proxies]


def _only(scope: Scope, name: str) -> str:
    """Return the value of a header; "" if there are several, of which the proxy has set one alone."""
    values = [value for header_name, value in scope["headers"] if header_name == name.lower().encode("ascii")]
    return storable(values[0].decode("utf-8", "replace")).strip() if len(values) == 1 else ""
