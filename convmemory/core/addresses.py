"""Client network addresses, reduced to the part that tells one client from another."""

import ipaddress

MAX_CHARS = 100  # of what is no address: it is stored, and anybody may send it
IPV6_PREFIX = 64  # what one customer of a provider has at the least: single addresses there cost nothing


def network_of(address: str) -> str:
    """Return the key to count by: an IPv4 address as it is, the /64 of an IPv6 address, the beginning of any other
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
