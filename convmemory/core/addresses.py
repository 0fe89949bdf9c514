"""Client network addresses, reduced to the part that tells one client from another."""

import ipaddress

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
